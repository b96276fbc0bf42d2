"""Partition texts of Spark Columns are the same as those of Python values, in every mode of the session."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.algebra.physical_values import decimal_to_unscaled, round_to_float32
from partita.algebra.type_text import parse_type
from partita.algebra.types import FLOAT_KINDS, DecimalType, Field, LogicalType, TypeKind
from partita.errors import PartitionValueError
from partita.formats.delta import encode_partition
from partita.formats.partition_texts.java_floats import java_float_text
from partita.formats.partition_texts.serialization import partition_text as scalar_partition_text
from partita.formats.partition_texts.spark import partition_text
from tests.spark.frames import (
    DRAWN_MODES,
    SESSION_MODES,
    few_examples,
    physical_plan_text,
    session_mode,
    typed_frame,
    typed_value,
)
from tests.value_strategies import values_of_type
from tests.vectors import load_vectors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

TABLE = load_vectors("delta_partition_values")
ZONE = TABLE["session_timezone"]
WRITTEN = [row for row in TABLE["rows"] if not row.get("write_fails")]
REFUSED = [pytest.param(row, id=f"row {row['row']}") for row in TABLE["rows"] if row.get("write_fails")]


def vector_value(row: dict[str, Any]) -> Any:
    type_ = parse_type(row["type"])
    if row["value"] is not None and type_.kind in FLOAT_KINDS:
        return float(row["value"])
    value = typed_value(row["value"], type_)
    return value.replace(tzinfo=ZoneInfo(ZONE)) if isinstance(value, datetime) and row["type"] == "timestamp" else value


def texts(df: DataFrame) -> list[Any]:
    columns = [partition_text(F.col(f"`{name}`"), df.schema[name].dataType, name) for name in df.columns]
    return df.select(*columns).collect()


def log_text(text: str | None, type_: LogicalType) -> str | None:
    """Return the text that goes into the log for a text of Spark: floats have the shortest digits."""
    if text is None or type_.kind not in FLOAT_KINDS:
        return text
    number = float(text) if type_.kind is TypeKind.DOUBLE else round_to_float32(float(text))
    assert number is not None
    return java_float_text(number, type_.kind)


@pytest.mark.parametrize(
    "mode",
    [mode if mode in SESSION_MODES[::4] else pytest.param(mode, marks=pytest.mark.long) for mode in SESSION_MODES],
)
def test_rows_of_the_numbered_table(spark: SparkSession, mode: tuple[str, str]) -> None:
    types = {f"row {row['row']}": parse_type(row["type"]) for row in WRITTEN}
    columns = {name: (types[name], [vector_value(row)]) for name, row in zip(types, WRITTEN, strict=True)}
    with session_mode(spark, mode):
        [text_row] = texts(typed_frame(spark, columns))
    expected = {f"row {row['row']}": row["partition_value"] for row in WRITTEN}
    assert {name: log_text(text, types[name]) for name, text in text_row.asDict().items()} == expected
    longer = {name: text for name, text in text_row.asDict().items() if text != expected[name]}
    # Java 19 writes this number with two digits as well.
    assert longer == {"row 18": "4.9E-324"}


@pytest.mark.parametrize("mode", SESSION_MODES[::5])
@pytest.mark.parametrize("row", REFUSED)
def test_rows_whose_write_fails_fail_the_query(spark: SparkSession, mode: tuple[str, str], row: dict[str, Any]) -> None:
    value = vector_value(row)
    with pytest.raises(PartitionValueError) as scalar:
        encode_partition({"p": value}, {"p": row["type"]})
    with session_mode(spark, mode), pytest.raises(PySparkException) as failed:
        texts(typed_frame(spark, {"p": (parse_type(row["type"]), [value])}))
    error = scalar.value
    message = (
        str(error) if "U+0000" in error.found else f"'p': expected {error.expected}, found X'{value.hex().upper()}'"
    )
    assert message in str(failed.value)
    assert "\0" not in str(failed.value)


def test_refusals_show_text_escaped_and_bytes_shortened(spark: SparkSession) -> None:
    text = "a\\é\u200b日🎵\t\n\r\x01\x7f\0'~"
    with pytest.raises(PartitionValueError) as scalar:
        encode_partition({"it's": text}, {"it's": "string"})
    with pytest.raises(PySparkException) as failed:
        texts(typed_frame(spark, {"it's": (parse_type("string"), [text])}))
    assert str(scalar.value) in str(failed.value)
    with pytest.raises(PySparkException, match=rf"'s': expected text that is UTF-8, found X'{'FF' * 40}…'"):
        texts(spark.sql("select cast(unhex(repeat('FF', 41)) as string) as s"))


paths = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
longs = values_of_type(parse_type("long"))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{
        name: values_of_type(parse_type(name))
        for name in ("boolean", "byte", "short", "int", "long", "float", "double", "decimal(4,2)", "decimal(18,0)")
    },
    "decimal(19,19)": values_of_type(parse_type("decimal(19,19)")),
    "decimal(38,10)": values_of_type(parse_type("decimal(38,10)")),
    "date": values_of_type(parse_type("int")),
    "timestamp": longs,
    "timestamp_ntz": longs,
    "string": paths,
    "binary": paths.map(str.encode),
}
"""Values of each type; dates and timestamps are days and microseconds since 1970, since Python can't hold all."""
MADE = {
    "date": ("int", F.date_from_unix_date),
    "timestamp": ("long", F.timestamp_micros),
    "timestamp_ntz": (
        "long", lambda c: F.timestamp_add("MICROSECOND", c, F.lit("1970-01-01").cast("timestamp_ntz")),
    ),
}  # fmt: skip
ROWS = st.lists(st.fixed_dictionaries({n: st.none() | v for n, v in VALUES.items()}), min_size=1, max_size=40)


def dataframe_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    stored = {name: parse_type(MADE[name][0] if name in MADE else name) for name in VALUES}
    df = typed_frame(spark, {name: (type_, [row[name] for row in rows]) for name, type_ in stored.items()})
    return df.select(*(MADE[n][1](F.col(n)).alias(n) if n in MADE else F.col(f"`{n}`") for n in df.columns))


def scalar_text(value: Any, name: str) -> str | None:
    type_ = parse_type(name)
    if isinstance(type_, DecimalType) and value is not None:
        value = decimal_to_unscaled(value, type_.scale)
    return scalar_partition_text(value.decode() if isinstance(value, bytes) else value, Field(name, type_))


def test_equal_the_scalar_texts(spark: SparkSession) -> None:
    @few_examples
    @given(ROWS, st.sampled_from(DRAWN_MODES))
    def equal(rows: list[dict[str, Any]], mode: tuple[str, str]) -> None:
        with session_mode(spark, mode):
            found = texts(dataframe_of(spark, rows))
        for row, text in zip(rows, found, strict=True):
            for name, value in row.items():
                assert log_text(text[name], parse_type(name)) == scalar_text(value, name), (name, value, mode)

    equal()


MOMENTS = (
    -(2**63), -62_135_596_800_000_001, -12_219_379_200_000_000, -1, 0, 253_402_300_800_000_000, 2**63 - 1,
)  # fmt: skip
EXTREMES: dict[str, tuple[Any, ...]] = {
    "decimal(4,2)": (Decimal(0), Decimal("-0.01"), Decimal("99.99")),
    "decimal(19,19)": (Decimal(0), Decimal("-1E-19"), Decimal("1.2E-7"), Decimal("-0.9")),
    "decimal(38,10)": (Decimal(0), Decimal("1E-10"), Decimal("-1E-7"), Decimal("1E-6"), Decimal("-1E27")),
    "date": (-(2**31), -719_529, -719_163, -719_162, -141_428, -141_427, -1, 0, 2_932_896, 2_932_897, 2**31 - 1),
    "timestamp": MOMENTS,
    "timestamp_ntz": MOMENTS,
    "double": (-0.0, 1e-3, 9.999e-4, 9999999.0, 1e7, 1e23, 2.2250738585072014e-308, float("-inf"), float("nan")),
    "float": (-0.0, 1e-3, 1e7, 16777216.0, 2.0**-149, float("inf"), float("nan")),
}


@pytest.mark.parametrize("policy", ["CORRECTED", "LEGACY"])
@pytest.mark.parametrize("mode", SESSION_MODES[::5])
def test_the_ends_of_types(spark: SparkSession, mode: tuple[str, str], policy: str) -> None:
    count = max(map(len, EXTREMES.values()))
    ends = {name: [*values, *[None] * (count - len(values))] for name, values in EXTREMES.items()}
    ends["float"] = [None if v is None else round_to_float32(v) for v in ends["float"]]
    rows = [{**dict.fromkeys(VALUES), **{n: v[i] for n, v in ends.items()}} for i in range(count)]
    setting = "spark.sql.legacy.timeParserPolicy"
    spark.conf.set(setting, policy)
    try:
        with session_mode(spark, mode):
            found = texts(dataframe_of(spark, rows))
    finally:
        spark.conf.unset(setting)
    for name, values in ends.items():
        got = [log_text(row[name], parse_type(name)) for row in found]
        assert got == [scalar_text(value, name) for value in values]


NOT_PARTITIONED_BY: list[tuple[DataType, str]] = [
    (spark_types.ArrayType(spark_types.IntegerType()), "list<int>"),
    (spark_types.MapType(spark_types.StringType(), spark_types.DateType()), "map<string,date>"),
    (spark_types.StructType([spark_types.StructField("a", spark_types.LongType())]), "struct<a:long>"),
    (spark_types.NullType(), "void"),
    (spark_types.TimeType(), "time"),
    (spark_types.VariantType(), "variant"),
    (spark_types.StringType("UNICODE_CI"), "string collate UNICODE_CI"),
    (spark_types.DayTimeIntervalType(), "interval day to second"),
]


@pytest.mark.parametrize(("data_type", "shown"), NOT_PARTITIONED_BY)
def test_other_types_are_refused_at_once(spark: SparkSession, data_type: DataType, shown: str) -> None:
    with pytest.raises(PartitionValueError) as caught:
        partition_text(F.col("x"), data_type, "p")
    assert (caught.value.column, caught.value.found) == ("p", shown)


def test_no_python_worker(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    df = spark.range(3).select(*(F.lit(None).cast(name).alias(name) for name in VALUES))
    columns = [partition_text(F.col(f"`{name}`"), df.schema[name].dataType, name) for name in VALUES]
    assert df.select(*columns).columns == list(VALUES)
    plan = physical_plan_text(df.select(*columns), capsys)
    assert "Project" in plan
    assert "Python" not in plan
    assert "Pandas" not in plan
