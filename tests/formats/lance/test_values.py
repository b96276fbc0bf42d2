"""Partition values as names: the examples of the Lance partition spec, and distinct names for distinct values."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.arrow.schema import to_arrow_type, to_schema
from partita.errors import PartitionValueError
from partita.formats.lance.values import (
    LEAF_SUFFIX,
    MAX_NAME_BYTES,
    directory_segment,
    partition_texts,
    values_from_names,
)

AT = datetime(2025, 12, 10, 7, 30, tzinfo=UTC)
STAMP = pa.timestamp("us", "UTC")


def partition_field(function: PartitionFunction, type_: pa.DataType) -> PartitionField:
    schema = to_schema(pa.schema([(function.source, type_)]))
    return PartitionSpec.of([function], schema, "lance").fields[0]


def segment_of(function: PartitionFunction, value: Any, type_: pa.DataType) -> str:
    field = partition_field(function, type_)
    made = pt.arrow.apply(function, pa.array([value], type_), family="lance")
    return directory_segment(field.name, partition_texts(made, field)[0].as_py())


@pytest.mark.parametrize(
    ("function", "value", "type_", "name"),
    [
        (pt.identity("event_date"), date(2025, 12, 10), pa.date32(), "event_date=2025-12-10"),
        (pt.identity("country"), "US", pa.string(), "country=US"),
        (pt.year("ts"), AT, STAMP, "ts_year=2025"),
        (pt.month("ts"), AT, STAMP, "ts_month=12"),
        (pt.month("ts"), datetime(2025, 1, 2, tzinfo=UTC), STAMP, "ts_month=01"),
        (pt.day("ts"), AT, STAMP, "ts_day=10"),
        (pt.hour("ts"), AT, STAMP, "ts_hour=07"),
        (pt.bucket("user_id", 16), 34, pa.int64(), "user_id_bucket=3"),
        (pt.truncate("s", 3), "abcdef", pa.string(), "s_trunc=abc"),
        (pt.truncate("i", 10), 123, pa.int64(), "i_trunc=120"),
        (pt.truncate("i", 10), -5, pa.int64(), "i_trunc=-10"),
        (pt.hash("x"), 34, pa.int64(), "x_hash=783ca153"),
        (pt.identity("b"), True, pa.bool_(), "b=true"),
        (pt.identity("d"), Decimal("-0.50"), pa.decimal128(5, 2), "d=-0.50"),
        (pt.identity("t"), time(7, 30), pa.time64("us"), "t=07%3A30%3A00.000000"),
        (pt.identity("ts"), AT, STAMP, "ts=2025-12-10T07%3A30%3A00.000000Z"),
        (pt.identity("ts"), AT.replace(tzinfo=None), pa.timestamp("us"), "ts=2025-12-10T07%3A30%3A00.000000"),
        (pt.identity("o"), b"\x00\xff", pa.binary(), "o=AP8"),
    ],
)  # fmt: skip
def test_the_seeds_names_and_one_of_each_type(function: PartitionFunction, value: Any, type_: Any, name: str) -> None:
    assert segment_of(function, value, type_) == name


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "s=__HIVE_DEFAULT_PARTITION__"),
        ("", "s="),
        ("__HIVE_DEFAULT_PARTITION__", "s=%5F_HIVE_DEFAULT_PARTITION__"),
        ("%5F_HIVE_DEFAULT_PARTITION__", "s=%255F_HIVE_DEFAULT_PARTITION__"),
        ("a/b", "s=a%2Fb"),
        ("a$b", "s=a%24b"),
        ("50%", "s=50%25"),
        ("a b", "s=a b"),
        ("\U0001f600", "s=\U0001f600"),
        ("..", "s=%2E%2E"),
        ("x.lance", "s=x%2Elance"),
        ("1.5", "s=1.5"),
        ("\0\n", "s=%00%0A"),
    ],
)
def test_escaped_characters(value: str | None, name: str) -> None:
    field = partition_field(pt.identity("s"), pa.string())
    assert directory_segment("s", value) == name
    assert values_from_names(pa.array([name]), field).to_pylist() == [value]


def test_names_of_200_characters_fit_and_longer_ones_are_refused() -> None:
    assert directory_segment("s", "x" * 200) == "s=" + "x" * 200
    with pytest.raises(PartitionValueError, match="up to 255 bytes"):
        directory_segment("s", "\U0001f600" * 200)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["", "__HIVE_DEFAULT_PARTITION__", "%5F_HIVE_DEFAULT_PARTITION__", "a=b", "$", "..", ".", "a.", "a.lance", "%24"]
)


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=8))
def test_no_two_texts_have_one_name_and_each_comes_back(values: list[str | None]) -> None:
    field = partition_field(pt.identity("s"), pa.string())
    names = [directory_segment("s", value) for value in values]
    assert values_from_names(pa.array(names), field).to_pylist() == values
    assert len(set(names)) == len(set(values))
    assert not any("/" in name or "$" in name or ".." in name + LEAF_SUFFIX or "\0" in name for name in names)


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.decimal128(38, 10): st.decimals(-(10**27), 10**27, places=10),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    STAMP: st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.binary(): st.binary(max_size=12),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.uuid(): st.uuids(),
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@given(st.data())
def test_every_type_comes_back(type_: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type_], min_size=1, max_size=5))
    given_values = [v.bytes if isinstance(v, UUID) else v for v in values]
    array = pa.array(given_values, type_.storage_type if isinstance(type_, pa.UuidType) else type_)
    if isinstance(type_, pa.UuidType):
        array = pa.ExtensionArray.from_storage(type_, array)
    field = partition_field(pt.identity("c"), type_)
    names = [directory_segment("c", text) for text in partition_texts(array, field).to_pylist()]
    back = values_from_names(pa.array(names), field)
    assert back.type == to_arrow_type(field.result_type)
    assert back.to_pylist() == array.to_pylist()
    assert all(len(name.encode()) <= MAX_NAME_BYTES for name in names)


@pytest.mark.parametrize(
    ("function", "type_", "name"),
    [
        (pt.identity("s"), pa.string(), "t=x"),
        (pt.identity("s"), pa.string(), "s"),
        (pt.identity("i"), pa.int64(), "i=x"),
        (pt.identity("i"), pa.int8(), "i=300"),
        (pt.identity("d"), pa.date32(), "d=2025-02-30"),
        (pt.identity("b"), pa.bool_(), "b=yes"),
        (pt.identity("o"), pa.binary(), "o=a+b"),
        (pt.month("ts"), STAMP, "ts_month=May"),
    ],
)
def test_a_name_without_a_value_is_refused(function: PartitionFunction, type_: Any, name: str) -> None:
    with pytest.raises(PartitionValueError):
        values_from_names(pa.array([name]), partition_field(function, type_))
