"""Partition functions on Spark are the scalar ones, in every mode of the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.types import DecimalType as IcebergDecimal
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from partita.algebra import partition_functions
from partita.algebra.physical_values import EPOCH_ORDINAL, is_in_range, to_physical_value
from partita.algebra.transforms import TRANSFORMS, PartitionFunction, TransformFamily
from partita.algebra.type_text import parse_type
from partita.algebra.types import INTEGER_BITS, TIMESTAMP_KINDS, DecimalType, LogicalType, TypeKind
from partita.errors import SpecError, TransformError
from partita.spark import apply, with_partitions
from tests.spark.frames import SESSION_MODES, draw_by_mode, physical_plan_text, session_mode, spark_type, typed_frame
from tests.value_strategies import ATOMIC_TYPES, decimal_from_unscaled, values_of_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_ATOMS = [type_ for type_ in ATOMIC_TYPES if type_.kind not in (TypeKind.FIXED, TypeKind.UUID)]
WIDTHS = (1, 3, 10, 2**31 - 1)


def functions_of(type_: LogicalType) -> Iterator[tuple[PartitionFunction, TransformFamily]]:
    """Every function that takes the type, but identity."""
    every = [
        *(
            partition_functions.partition_function(transform, "c")
            for transform in TRANSFORMS
            if transform.parameter_name is None and not transform.is_identity
        ),
        partition_functions.bucket("c", 2**31 - 1),
        *(partition_functions.truncate("c", width) for width in WIDTHS),
    ]
    for f in every:
        for family in TransformFamily:
            try:
                f.transform.check_type(type_, family)
            except TransformError:
                continue
            yield f, family


def assert_equal_scalar(spark: SparkSession, values_by_type: Mapping[LogicalType, Sequence[object]]) -> None:
    """Compare every function of the types with its scalar definition, in one job."""
    every = [(type_, f, family) for type_ in values_by_type for f, family in functions_of(type_)]
    names = {type_: f"c{number}" for number, type_ in enumerate(values_by_type)}
    columns = [
        apply(f, names[type_], spark_type(type_), family=family).alias(f"_{number}")
        for number, (type_, f, family) in enumerate(every)
    ]
    df = typed_frame(spark, {names[type_]: (type_, values) for type_, values in values_by_type.items()})
    rows = df.select(*columns).collect()
    assert len(rows) == max(map(len, values_by_type.values()))
    for number, (type_, f, family) in enumerate(every):
        for value, row in zip(values_by_type[type_], rows, strict=False):
            result = row[number]
            expected = f.apply(value, family=family, type=type_)
            got = bytes(result) if isinstance(result, bytearray) else result
            assert got == expected, f"{f} of {value!r}, a {type_}, in {family}"
            assert type(got) is type(expected), f"{f} of {value!r}, a {type_}, in {family}"


def fits_truncated(type_: LogicalType, value: Any) -> bool:
    """Whether the type can hold all the truncated values."""
    if value is None or (type_.kind not in INTEGER_BITS and not isinstance(type_, DecimalType)):
        return True
    plain = to_physical_value(value, type_)
    assert isinstance(plain, int)
    return all(is_in_range(plain - plain % width, type_) for width in WIDTHS)


def test_equal_the_scalar_functions(spark: SparkSession) -> None:
    values: dict[tuple[str, str], dict[LogicalType, list[object]]] = {}
    for number, type_ in enumerate(SPARK_ATOMS):
        typed = values_of_type(type_).filter(partial(fits_truncated, type_))
        for mode, examples in draw_by_mode(st.lists(st.none() | typed, min_size=1, max_size=60), number).items():
            values.setdefault(mode, {})[type_] = [value for example in examples for value in example]
    assert {type_ for values_by_type in values.values() for type_ in values_by_type} == set(SPARK_ATOMS)
    for mode, values_by_type in values.items():
        with session_mode(spark, mode):
            assert_equal_scalar(spark, values_by_type)


LOWEST = [("byte", -128, 10), ("short", -32_768, 10), ("int", -(2**31), 10), ("long", -(2**63), 10), ("byte", -1, 1000)]


@pytest.mark.parametrize("mode", SESSION_MODES[::3])
@pytest.mark.parametrize(("text", "value", "width"), LOWEST)
def test_a_truncated_integer_below_its_type(
    spark: SparkSession, mode: tuple[str, str], text: str, value: int, width: int
) -> None:
    f = partition_functions.truncate("c", width)
    type_ = parse_type(text)
    with session_mode(spark, mode):
        df = typed_frame(spark, {"c": (type_, [value])})
        with pytest.raises(PySparkException, match="below the range"):
            df.select(apply(f, "c", spark_type(type_), family="iceberg")).collect()


@pytest.mark.parametrize("mode", [pytest.param(SESSION_MODES[0], marks=pytest.mark.long), SESSION_MODES[3]])
def test_a_truncated_decimal_below_its_type(spark: SparkSession, mode: tuple[str, str]) -> None:
    smallest: dict[str, tuple[LogicalType, Sequence[object]]] = {}
    others: dict[LogicalType, Sequence[object]] = {}
    for precision, scale in ((2, 0), (4, 2), (18, 18), (38, 0), (38, 20), (38, 38)):
        type_ = parse_type(f"decimal({precision},{scale})")
        lowest, highest, zero = (decimal_from_unscaled(n, scale) for n in (-(10**precision) + 1, 10**precision - 1, 0))
        smallest[f"c_{precision}_{scale}"] = (type_, [lowest])
        others[type_] = [highest, zero, None]
    with session_mode(spark, mode):
        df = typed_frame(spark, smallest)
        for name, (type_, _) in smallest.items():
            truncated = apply(partition_functions.truncate(name, 10), name, spark_type(type_), family="iceberg")
            with pytest.raises(PySparkException):
                df.select(truncated).collect()
        assert_equal_scalar(spark, others)


@pytest.mark.parametrize("mode", SESSION_MODES)
def test_gaps_and_overlaps_of_the_zone(spark: SparkSession, mode: tuple[str, str]) -> None:
    # New York skips 02:00 to 03:00 on 2025-03-09, has 01:00 to 02:00 twice on 2025-11-02; the rest are early offsets.
    naive = [datetime.fromisoformat(text) for text in EDGES]
    with session_mode(spark, mode):
        utc = [at.replace(tzinfo=UTC) for at in naive]
        assert_equal_scalar(spark, {parse_type("timestamp_ntz"): naive, parse_type("timestamp"): utc})


EDGES = (
    "2025-03-09T02:30:00", "2025-03-09T07:00:00", "2025-11-02T01:30:00", "2025-11-02T05:30:00", "1883-11-18T12:01:00",
    "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "1582-10-10T00:00:00", "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.999999", "1900-02-28T23:59:59.999999", "2000-02-29T00:00:00",
)  # fmt: skip


PYICEBERG: dict[str, tuple[IcebergType, list[Any]]] = {
    "int": (IntegerType(), [0, 1, -1, 34, 2**31 - 1, -(2**30)]),
    "long": (LongType(), [0, -1, 34, 2**63 - 1, -(2**62)]),
    "date": (DateType(), [0, -1, 17_486, -719_162, 2_932_896]),
    "timestamp": (TimestamptzType(), [0, -1, 1_510_871_468_000_000, -62_135_596_800_000_000]),
    "timestamp_ntz": (TimestampType(), [0, -1, 1_510_871_468_000_000, 253_402_300_799_999_999]),
    "string": (StringType(), ["", "iceberg", "日本語", "🎉🎉🎉🎉"]),
    "binary": (BinaryType(), [b"", b"\x00\x01\x02\x03", b"\xff" * 7]),
    "decimal(38,10)": (IcebergDecimal(38, 10), [Decimal("14.2000000000"), Decimal("-1E-10"), Decimal("0E-10")]),
}
TRANSFORM_PAIRS: dict[str, tuple[PartitionFunction, Transform[Any, Any]]] = {
    "bucket": (partition_functions.bucket("c", 100), BucketTransform(100)),
    "truncate": (partition_functions.truncate("c", 3), TruncateTransform(3)),
    "year": (partition_functions.year("c"), YearTransform()),
    "month": (partition_functions.month("c"), MonthTransform()),
    "day": (partition_functions.day("c"), DayTransform()),
    "hour": (partition_functions.hour("c"), HourTransform()),
}


SHARED = [
    (text, name)
    for text in PYICEBERG
    for name in TRANSFORM_PAIRS
    if TRANSFORM_PAIRS[name][1].can_transform(PYICEBERG[text][0])
]


def test_pyiceberg_agrees(spark: SparkSession) -> None:
    types = {text: parse_type(text) for text in PYICEBERG}
    frame_columns = {
        f"c {text}": (types[text], [_typed_plain(value, types[text]) for value in values])
        for text, (_, values) in PYICEBERG.items()
    }
    functions = [
        apply(TRANSFORM_PAIRS[name][0], F.col(f"`c {text}`"), spark_type(types[text]), family="iceberg")
        for text, name in SHARED
    ]
    rows = typed_frame(spark, frame_columns).select(*functions).collect()
    for number, (text, name) in enumerate(SHARED):
        iceberg_type, values = PYICEBERG[text]
        theirs = TRANSFORM_PAIRS[name][1].transform(iceberg_type)
        results = [row[number] for row in rows][: len(values)]
        assert results == [theirs(value) for value in values], (text, name)


def _typed_plain(value: Any, type_: LogicalType) -> object:
    if type_.kind is TypeKind.DATE:
        return date.fromordinal(value + EPOCH_ORDINAL)
    if type_.kind in TIMESTAMP_KINDS:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        return at if type_.kind is TypeKind.TIMESTAMP else at.replace(tzinfo=None)
    return value


def test_with_partitions(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    df = spark.sql("select 34L as user_id, 'FR' as country, named_struct('At', timestamp_micros(-1)) as info")
    added = {
        "shard": partition_functions.bucket("USER_ID", 16), "country": partition_functions.identity("country"),
        "when": partition_functions.day("info.at"),
    }  # fmt: skip
    rows = with_partitions(df, added, family="iceberg")
    assert rows.columns == ["user_id", "country", "info", "shard", "when"]
    assert rows.select("shard", "when").first() == (3, -1)
    plan = physical_plan_text(rows, capsys)
    assert "Python" not in plan
    assert "Pandas" not in plan
    with pytest.raises(SpecError, match="'country'"):
        with_partitions(df, {"country": partition_functions.hash("country")}, family="lance")


def test_refused_types(spark: SparkSession) -> None:
    df = spark.sql("select 'a' collate UNICODE_CI as c, 1.5d as d, parse_json('1') as v")
    for name in df.columns:
        with pytest.raises(TransformError, match=name):
            apply(partition_functions.bucket(name, 16), name, df.schema[name].dataType, family="iceberg")
    with pytest.raises(TransformError, match="no such function"):
        apply(partition_functions.hash("d"), "d", df.schema["d"].dataType, family="iceberg")


def test_identity_and_void(spark: SparkSession) -> None:
    df = spark.sql("select 1 as c, null as d")
    columns = (
        apply(partition_functions.identity("c"), "c", df.schema["c"].dataType, family="iceberg"),
        apply(partition_functions.void("c"), "c", df.schema["c"].dataType, family="iceberg"),
    )
    found = df.select(*columns)
    assert found.first() == (1, None)
    assert [f.dataType for f in found.schema] == [df.schema["c"].dataType] * 2


def test_hours_that_fit_no_int(spark: SparkSession) -> None:
    df = spark.sql("select timestamp_micros(9000000000000000000) as c")
    for mode in SESSION_MODES[::3]:
        with session_mode(spark, mode), pytest.raises(PySparkException, match="245,000 years"):
            df.select(apply(partition_functions.hour("c"), "c", df.schema["c"].dataType, family="iceberg")).collect()
