"""Partition functions on Python values: examples, properties, and a comparison with pyiceberg."""

from __future__ import annotations

import contextlib
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyiceberg.transforms as theirs
import pyiceberg.types as their_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra import partition_functions as f
from partita.algebra.interval import prefix_interval
from partita.algebra.physical_values import to_physical_value
from partita.algebra.transforms import PartitionFunction, TransformFamily, UnknownTransform
from partita.algebra.type_text import parse_type
from partita.algebra.types import LogicalType
from partita.errors import PartitaError, SchemaError, SpecError, TransformError
from tests.value_strategies import texts, values_of_type

AT = datetime(2025, 12, 10, 7, 59, 59, 999_999, tzinfo=UTC)
BEFORE = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("function", "value", "iceberg", "lance"),
    [
        (f.year("x"), AT, 55, 2025),
        (f.month("x"), AT, 671, 12),
        (f.day("x"), AT, 20_432, 10),
        (f.hour("x"), AT, 490_375, 7),
        (f.year("x"), BEFORE, -1, 1969),
        (f.month("x"), BEFORE, -1, 12),
        (f.day("x"), BEFORE, -1, 31),
        (f.hour("x"), BEFORE, -1, 23),
        (f.year("x"), date(1, 1, 1), -1969, 1),
        (f.month("x"), date(2000, 2, 29), 361, 2),
        (f.day("x"), date(1970, 1, 1), 0, 1),
        (f.day("x"), datetime(1970, 1, 2, 0, 0), 1, 2),  # noqa: DTZ001 - naive on purpose
        (f.bucket("x", 16), 34, 3, 3),
        (f.truncate("x", 10), -5, -10, -10),
        (f.truncate("x", 10), 5, 0, 0),
        (f.truncate("x", 10), 0, 0, 0),
        (f.truncate("x", 50), Decimal("10.65"), Decimal("10.50"), Decimal("10.50")),
        (f.truncate("x", 10), Decimal("-0.05"), Decimal("-0.10"), Decimal("-0.10")),
        (f.truncate("x", 2), "日本語", "日本", "日本"),
        (f.truncate("x", 1), "\U0001f389x", "\U0001f389", "\U0001f389"),
        (f.truncate("x", 3), "", "", ""),
        (f.truncate("x", 3), b"\x01\x02\x03\x04", b"\x01\x02\x03", b"\x01\x02\x03"),
        (f.identity("x"), "v", "v", "v"),
        (f.identity("x"), False, False, False),
    ],
)
def test_results(function: PartitionFunction, value: object, iceberg: object, lance: object) -> None:
    assert function.apply(value, family="iceberg") == iceberg
    assert function.apply(value, family="lance") == lance


def test_functions_of_one_family() -> None:
    assert f.hash("x").apply("iceberg", family="lance") == "481f22d9"
    assert f.hash("x").apply({"a": 1}, family="lance") == f.hash("x").apply(
        {"a": 1}, family="lance", type="struct<a:int>"
    )
    assert f.hour("x").apply(time(23, 59), family="lance") == 23
    assert f.void("x").apply(3, family="iceberg") is None


@pytest.mark.parametrize(
    ("function", "type_", "family"),
    [
        (f.hash("x"), "int", "iceberg"),
        (f.void("x"), "int", "lance"),
        (f.hour("x"), "time", "iceberg"),
        (f.hour("x"), "date", "lance"),
        (f.year("x"), "string", "iceberg"),
        (f.year("x"), "time", "lance"),
        (f.bucket("x", 4), "double", "iceberg"),
        (f.bucket("x", 4), "boolean", "lance"),
        (f.truncate("x", 4), "double", "iceberg"),
        (f.truncate("x", 4), "uuid", "lance"),
        (f.truncate("x", 4), "fixed(9)", "iceberg"),
        (f.identity("x"), "double", "lance"),
        (f.identity("x"), "list<int>", "iceberg"),
        (f.hash("x"), "void", "lance"),
        (PartitionFunction("x", UnknownTransform("zorder"), "x_z"), "int", "iceberg"),
    ],
)
def test_types_that_a_function_does_not_take(function: PartitionFunction, type_: str, family: str) -> None:
    with pytest.raises(TransformError) as caught:
        function.transform.check_type(parse_type(type_), TransformFamily.of(family), "x")
    assert (caught.value.column, caught.value.data_type) == ("x", type_)
    with pytest.raises(TransformError):
        function.apply(None, family=family, type=type_)
    back = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert str(back) == str(caught.value)


def test_families_are_given_by_name() -> None:
    with pytest.raises(SpecError, match="use 'iceberg' or 'lance'"):
        f.year("x").apply(None, family="hive")


@pytest.mark.parametrize("number", [0, -1, 2**31, 1.5, True, None, "16"])
def test_widths_are_positive_32_bit_integers(number: Any) -> None:
    for make in (f.bucket, f.truncate):
        with pytest.raises(SpecError, match="positive 32-bit integer"):
            make("x", number)


@pytest.mark.parametrize(
    ("function", "text", "name"),
    [
        (f.identity("ts"), "ts", "ts"),
        (f.day("ts"), "day(ts)", "ts_day"),
        (f.bucket("id", 16), "bucket(16, id)", "id_bucket"),
        (f.truncate("s", 3), "truncate(3, s)", "s_trunc"),
        (f.hash("s"), "hash(s)", "s_hash"),
        (f.void("s"), "void(s)", "s_null"),
        (f.day("ts").alias("d"), "day(ts) AS d", "d"),
    ],
)
def test_functions_have_texts_and_names(function: PartitionFunction, text: str, name: str) -> None:
    assert (str(function), function.name) == (text, name)


@pytest.mark.parametrize("column", ["", None, 3])
def test_a_column_is_a_name(column: Any) -> None:
    with pytest.raises(SpecError, match="the column must be a name"):
        f.year(column)


@pytest.mark.parametrize(
    ("value", "type_"), [(-128, "byte"), (-(2**31), "int"), (-(2**63), "long"), (Decimal("-99.99"), "decimal(4,2)")]
)
def test_a_multiple_below_the_smallest_number_is_refused(value: object, type_: str) -> None:
    with pytest.raises(SchemaError, match="below the range of type"):
        f.truncate("x", 1000).apply(value, family="iceberg", type=type_)


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(SchemaError):
        f.identity("x").apply("1", family="iceberg", type="int")


FUNCTIONS = (
    *(make("x") for make in (f.identity, f.year, f.month, f.day, f.hour, f.hash, f.void)),
    f.bucket("x", 7),
    f.truncate("x", 3),
)


INVERTIBLE = tuple(function for function in FUNCTIONS if function.transform.name not in ("hash", "void", "bucket"))


def takes(function: PartitionFunction, type_: LogicalType, family: TransformFamily) -> bool:
    try:
        function.transform.check_type(type_, family)
    except TransformError:
        return False
    return True


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
@pytest.mark.parametrize("type_", ["int", "date", "timestamp", "string", "decimal(9,2)", "binary"])
def test_null_stays_null(function: PartitionFunction, type_: str) -> None:
    for family in TransformFamily:
        if takes(function, parse_type(type_), family):
            assert function.apply(None, family=family, type=type_) is None


@pytest.mark.parametrize("family", TransformFamily)
@pytest.mark.parametrize(
    "type_", ["int", "long", "decimal(9,2)", "date", "timestamp", "timestamp_ntz", "string", "binary"]
)
@given(data=st.data())
def test_a_value_lies_in_the_preimage_of_its_result(family: TransformFamily, type_: str, data: st.DataObject) -> None:
    logical_type = parse_type(type_)
    value = data.draw(values_of_type(logical_type))
    physical: Any = to_physical_value(value, logical_type)
    for function in INVERTIBLE:
        if takes(function, logical_type, family):
            with contextlib.suppress(SchemaError):  # a multiple below the smallest number of the type
                result = function.apply(value, family=family, type=logical_type)
                physical_result = to_physical_value(result, function.transform.result_type(logical_type))
                interval: Any = function.transform.preimage(physical_result, logical_type, family)
                assert interval is None or interval.lower is None or interval.lower <= physical
                assert (
                    interval is None
                    or interval.upper is None
                    or (physical < interval.upper if interval.upper_open else physical <= interval.upper)
                )


@given(st.one_of(texts, st.binary()), st.one_of(texts, st.binary()))
def test_a_prefix_range_holds_what_starts_with_it(prefix: str | bytes, other: str | bytes) -> None:
    if type(prefix) is not type(other):
        return
    interval: Any = prefix_interval(prefix)
    inside = interval.lower <= other and (interval.upper is None or other < interval.upper)
    assert inside == other.startswith(prefix)  # type: ignore[arg-type]


ICEBERG_TYPES = {
    "int": their_types.IntegerType(),
    "long": their_types.LongType(),
    "date": their_types.DateType(),
    "time": their_types.TimeType(),
    "timestamp": their_types.TimestamptzType(),
    "timestamp_ntz": their_types.TimestampType(),
    "string": their_types.StringType(),
    "binary": their_types.BinaryType(),
    "fixed(3)": their_types.FixedType(3),
    "uuid": their_types.UUIDType(),
    "decimal(4,2)": their_types.DecimalType(4, 2),
    "decimal(38,10)": their_types.DecimalType(38, 10),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def for_pyiceberg(value: Any, type_: str) -> Any:
    """Return timestamps, dates and times as the integers that pyiceberg's transforms take."""
    return (
        to_physical_value(value, parse_type(type_))
        if type_ in ("date", "time", "timestamp", "timestamp_ntz")
        else value
    )


@pytest.mark.parametrize("type_", ICEBERG_TYPES)
@given(data=st.data(), count=st.integers(1, 2**31 - 1))
def test_buckets_are_pyicebergs(type_: str, data: st.DataObject, count: int) -> None:
    value = data.draw(values_of_type(parse_type(type_)))
    expected = theirs.BucketTransform(count).transform(ICEBERG_TYPES[type_])(for_pyiceberg(value, type_))
    assert f.bucket("x", count).apply(value, family="iceberg", type=type_) == expected


@pytest.mark.parametrize("type_", ["int", "long", "string", "binary", "decimal(4,2)"])
@given(data=st.data(), width=st.integers(1, 1000))
def test_truncation_is_pyicebergs(type_: str, data: st.DataObject, width: int) -> None:
    value = data.draw(values_of_type(parse_type(type_)))
    expected = theirs.TruncateTransform(width).transform(ICEBERG_TYPES[type_])(value)
    try:
        assert f.truncate("x", width).apply(value, family="iceberg", type=type_) == expected
    except SchemaError:
        with pytest.raises(SchemaError):
            to_physical_value(expected, parse_type(type_))


ORDINALS: tuple[tuple[PartitionFunction, theirs.Transform[Any, Any]], ...] = (
    (f.year("x"), theirs.YearTransform()),
    (f.month("x"), theirs.MonthTransform()),
    (f.day("x"), theirs.DayTransform()),
    (f.hour("x"), theirs.HourTransform()),
)


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamp_ntz"])
@given(data=st.data())
def test_ordinals_are_pyicebergs(type_: str, data: st.DataObject) -> None:
    value = data.draw(values_of_type(parse_type(type_)))
    for ours, other in ORDINALS:
        if takes(ours, parse_type(type_), TransformFamily.ICEBERG):
            expected = other.transform(ICEBERG_TYPES[type_])(for_pyiceberg(value, type_))
            assert ours.apply(value, family="iceberg", type=type_) == expected


@given(st.datetimes(timezones=st.just(UTC)))
def test_ordinals_count_from_1970(at: datetime) -> None:
    assert f.day("x").apply(at, family="iceberg") == (at - EPOCH).days
    assert f.hour("x").apply(at, family="iceberg") == (at - EPOCH) // timedelta(hours=1)
    assert f.year("x").apply(at, family="iceberg") == at.year - 1970
    assert f.month("x").apply(at, family="iceberg") == (at.year - 1970) * 12 + at.month - 1
    assert [make("x").apply(at, family="lance") for make in (f.year, f.month, f.day, f.hour)] == [
        at.year,
        at.month,
        at.day,
        at.hour,
    ]


@pytest.mark.parametrize(
    ("function", "value", "type_"),
    [
        (f.bucket("u", 4), "\ud800", None),
        (f.bucket("u", 4), pd.NaT, "timestamp"),
        (f.bucket("u", 4), pd.Timestamp("2025-01-01T00:00:00.000000001Z"), None),
        (f.bucket("u", 4), time(1, tzinfo=UTC), None),
        (f.hash("u"), (1, "x"), "struct<a:int,b:string>"),
        (f.hash("u"), 5, "list<int>"),
        (f.hash("u"), "ab", "list<string>"),
        (f.hash("u"), [1], "map<string,int>"),
        (f.hash("u"), {"a": object()}, None),
    ],
)
def test_values_that_do_not_fit_are_refused(function: PartitionFunction, value: Any, type_: str | None) -> None:
    with pytest.raises(PartitaError):
        function.apply(value, family="lance", type=type_)


def test_numpy_values_and_errors_with_the_column() -> None:
    assert f.bucket("u", int(np.int64(16))).apply(np.int64(34), family="iceberg") == 3
    assert f.bucket("u", np.int64(16)) == f.bucket("u", 16)  # type: ignore[arg-type] # an int to all who use it
    with pytest.raises(TransformError, match="column 'u' of type double"):
        f.bucket("u", 4).apply(1.5, family="iceberg")
    with pytest.raises(TransformError, match="no canonical JSON"):
        f.hash("u").apply({}, family="lance", type="map<list<int>,int>")
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    assert f.year("ts").apply(early, family="lance") == 0
