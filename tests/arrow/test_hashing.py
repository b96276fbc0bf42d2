"""Hashes of Arrow arrays equal the hashes of their values."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.hashing import canonical_json, murmur3_hash, twos_complement_bytes
from partita.algebra.type_text import parse_type
from partita.algebra.types import LogicalType
from partita.arrow.buffers import BinaryBuffers
from partita.arrow.canonical_json import json_texts
from partita.arrow.hashing import murmur3_hashes, twos_complement_buffers
from partita.arrow.murmur3 import murmur3_binary, murmur3_longs
from partita.arrow.schema import to_arrow_type, to_logical_type
from partita.errors import PartitionsError, SchemaError
from tests.algebra.test_hashing import ROWS, value_from_row
from tests.value_strategies import ATOMIC_TYPES, arrow_arrays, int64s, nested_types


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['type']} {row['value']}")
def test_a_row_of_the_vectors(row: dict[str, Any]) -> None:
    type_ = parse_type(row["type"])
    assert murmur3_hashes(pa.array([value_from_row(row)], to_arrow_type(type_)), type_).view(np.int32).tolist() == [
        row["hash"]
    ]


def assert_hashes_alike(array: Any, type_: LogicalType) -> None:
    found = murmur3_hashes(array, type_).view(np.int32).tolist()
    values = array.to_pylist()
    assert len(found) == len(values)
    for code, value in zip(found, values, strict=True):
        assert value is None or code == murmur3_hash(value, type_)


@pytest.mark.parametrize("type_", ATOMIC_TYPES, ids=str)
@given(data=st.data())
def test_hashes_are_the_scalar_ones(type_: LogicalType, data: st.DataObject) -> None:
    assert_hashes_alike(data.draw(arrow_arrays(type_)), type_)


@given(nested_types.flatmap(lambda type_: st.tuples(st.just(type_), arrow_arrays(type_))))
def test_nested_values_have_the_scalar_texts_and_hashes(pair: tuple[LogicalType, Any]) -> None:
    type_, array = pair
    assert json_texts(array, type_).to_pylist() == [canonical_json(value, type_) for value in array.to_pylist()]
    assert_hashes_alike(array, type_)


VARIANTS = [
    pa.array([[1, 2], None, [], [None, 3]], pa.list_view(pa.int8())),
    pa.array([[1, 2], None, [], [None, 3]], pa.large_list_view(pa.int8())),
    pa.array([[1, 2], None, [None, 3]], pa.list_(pa.int8(), 2)),
    pa.array([["a", None, "a\n"], None], pa.large_list(pa.string_view())),
    pa.array([["a", None, "a"], None, ["b"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    pa.array([{"x": 1}, None, {"x": None}], pa.struct({"x": pa.uint64()})),
    pa.array([{"x": None}, None], pa.struct({"x": pa.null()})),
    pa.array([[("b", 1), ("a", None)], None, []], pa.map_(pa.large_string(), pa.uint8())),
    pa.array([[(2, "x"), (10, None)]], pa.map_(pa.int16(), pa.string())),
    pa.array([[5], [None]], pa.list_(pa.timestamp("s", "Asia/Tokyo"))),
    pa.array([[5], [None]], pa.list_(pa.timestamp("ms"))),
    pa.array([[5], [None]], pa.list_(pa.time32("ms"))),
    pa.array([[b"x"], [None]], pa.list_(pa.binary_view())),
    pa.StructArray.from_arrays([pa.array([UUID(int=7), None], pa.uuid())], names=["id"]),
    pa.ListArray.from_arrays([0, 2], pa.array([UUID(int=7), None], pa.uuid())),
]


@pytest.mark.parametrize("array", VARIANTS, ids=lambda array: str(array.type))
def test_nested_values_of_every_arrow_type(array: Any) -> None:
    type_ = to_logical_type(array.type)
    for part in (array, array[1:], array[:0], pa.chunked_array([array[1:], array])):
        assert json_texts(part, type_).to_pylist() == [canonical_json(_exact(v), type_) for v in part.to_pylist()]


def _exact(value: Any) -> Any:
    """Return the values of a `uint64` array as decimals, its logical type."""
    if isinstance(value, dict) and isinstance(value.get("x"), int):
        return {"x": parse_decimal(value["x"])}
    return value


def parse_decimal(number: int) -> Any:
    return pa.scalar(number, pa.decimal128(20, 0)).as_py()


def test_a_null_parent_hides_its_children() -> None:
    child = pa.array([1, 2])
    hidden = pa.StructArray.from_arrays([child], names=["a"], mask=pa.array([False, True]))
    assert json_texts(hidden, to_logical_type(hidden.type)).to_pylist() == ['{"a":1}', "null"]
    lists = pa.ListArray.from_arrays([0, 1, 2], child, mask=pa.array([True, False]))
    assert json_texts(lists, to_logical_type(lists.type)).to_pylist() == ["null", "[2]"]
    maps = pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), child, mask=pa.array([True, False]))
    assert json_texts(maps, to_logical_type(maps.type)).to_pylist() == ["null", '{"k":2}']


def test_maps_and_structs_without_a_canonical_text() -> None:
    twice = pa.array([[("a", 1)], [("a", 1), ("b", 2), ("a", 3)]], pa.map_(pa.string(), pa.int8()))
    with pytest.raises(SchemaError, match="a duplicate key"):
        json_texts(twice, to_logical_type(twice.type))
    assert json_texts(twice[:1], to_logical_type(twice.type)).to_pylist() == ['{"a":1}']
    same_names = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaError, match="a duplicate name"):
        json_texts(same_names, to_logical_type(same_names.type))
    durations = pa.array([[1]], pa.list_(pa.duration("s")))
    with pytest.raises(SchemaError, match="no text in canonical JSON"):
        json_texts(durations, to_logical_type(durations.type))


def test_a_struct_is_read_by_the_names_of_its_type() -> None:
    array = pa.array([{"a": 1, "b": "x"}], pa.struct({"a": pa.int64(), "b": pa.string()}))
    type_ = parse_type("struct<b:string,c:date,a:int>")
    assert json_texts(array, type_).to_pylist() == [canonical_json(array[0].as_py(), type_)]


@pytest.mark.parametrize("type_", ["struct<a:int>", "list<int>", "map<string,int>", "string"])
def test_an_array_of_another_sort_is_refused(type_: str) -> None:
    with pytest.raises(PartitionsError, match="does not hold"):
        json_texts(pa.array([1]), parse_type(type_))


@pytest.mark.parametrize("days", [-719_163, 2_932_897])
def test_years_outside_the_calendar_have_no_text(days: int) -> None:
    dates = pa.ListArray.from_arrays([0, 1], pa.array([days], pa.int32()).view(pa.date32()))
    with pytest.raises(PartitionsError, match="years 0001 to 9999"):
        json_texts(dates, to_logical_type(dates.type))
    assert len(murmur3_hashes(dates.values, to_logical_type(pa.date32()))) == 1


@given(st.lists(st.binary(max_size=70), max_size=60), st.integers(0, 5))
def test_hashes_of_bytes_equal_those_of_mmh3(values: list[bytes], start: int) -> None:
    runs = BinaryBuffers.from_array(pa.array(values, pa.binary())[start:])
    assert murmur3_binary(runs).tolist() == [mmh3.hash(value, 0, signed=False) for value in values[start:]]


def test_few_long_runs_among_many_short_ones() -> None:
    values = [bytes([n % 251]) * (n % 13 if n % 100 else 5_000 + n) for n in range(1, 1001)]
    assert murmur3_binary(BinaryBuffers.from_array(pa.array(values))).tolist() == [
        mmh3.hash(value, 0, signed=False) for value in values
    ]


@given(st.lists(int64s))
def test_hashes_of_longs_equal_those_of_mmh3(values: list[int]) -> None:
    expected = [mmh3.hash(value.to_bytes(8, "little", signed=True), 0, signed=False) for value in values]
    assert murmur3_longs(np.array(values, np.int64)).tolist() == expected


@given(st.lists(st.integers(-(2**127), 2**127 - 1)))
def test_shortest_bytes_are_the_scalar_ones(numbers: list[int]) -> None:
    low = np.array([number & (2**64 - 1) for number in numbers], np.uint64)
    high = np.array([number >> 64 for number in numbers], np.int64)
    found = twos_complement_buffers(low, high).to_array(pa.large_binary()).to_pylist()
    assert found == [twos_complement_bytes(number) for number in numbers]
