"""Bounds and counts of manifests as statistics: every type, every width, and bytes that say nothing."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes

from partita.algebra.schema import Schema
from partita.algebra.type_text import parse_type
from partita.arrow.prune import prune
from partita.arrow.schema import to_arrow_type
from partita.formats.iceberg.columns import schema_to_iceberg
from partita.formats.iceberg.manifests import MANIFEST_ENTRY_SCHEMA
from partita.formats.iceberg.statistics import column_metric, decode_bounds, file_statistics

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

MICRO = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of no zone

BY_TYPE: dict[str, SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "decimal(9,2)": st.decimals(-9999999, 9999999, places=2, allow_nan=False),
    "decimal(38,0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "date": st.dates(),
    "time": st.times(),
    "timestamp_ntz": st.datetimes(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "binary": st.binary(max_size=20),
    "fixed(5)": st.binary(min_size=5, max_size=5),
    "uuid": st.uuids(),
}


@given(data=st.data())
def test_bounds_are_read_as_pyiceberg_writes_them(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(list(BY_TYPE)))
    values = data.draw(st.lists(st.none() | BY_TYPE[type_], max_size=5))
    theirs: Any = schema_to_iceberg(Schema.of({"x": type_})).fields[0].field_type
    octets = [None if v is None else to_bytes(theirs, _stored_value(v)) for v in values]
    bounds = decode_bounds(pa.array(octets, pa.binary()), parse_type(type_))
    assert bounds.to_pylist() == [v.bytes if type_ == "uuid" and v is not None else v for v in values]
    assert len(bounds) == len(values)


def _stored_value(value: Any) -> Any:
    """A value as pyiceberg keeps it."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // MICRO
    if isinstance(value, time):
        return (datetime.combine(EPOCH, value) - EPOCH) // MICRO
    return (value - EPOCH.date()).days if isinstance(value, date) else value


@pytest.mark.parametrize(
    ("type_", "octets", "value"),
    [
        ("long", struct.pack("<i", -7), -7),
        ("double", struct.pack("<f", 1.5), 1.5),
        ("timestamp_ntz", struct.pack("<i", 1), datetime(1970, 1, 2)),  # noqa: DTZ001 - of no zone
        ("timestamp", struct.pack("<i", -1), datetime(1969, 12, 31, tzinfo=UTC)),
        ("decimal(18,2)", b"\xff\x83", Decimal("-1.25")),
        ("decimal(18,2)", b"\x00" * 10 + b"\x7d", Decimal("1.25")),
        ("fixed(5)", b"abc", b"abc\x00\x00"),
        ("string", "é".encode() * 8, "é" * 8),
    ],
)
def test_bounds_of_what_the_column_was_before(type_: str, octets: bytes, value: object) -> None:
    assert decode_bounds(pa.array([octets]), parse_type(type_)).to_pylist() == [value]


@pytest.mark.parametrize(
    ("type_", "octets"),
    [
        ("boolean", b""),
        ("int", b"\x01"),
        ("int", struct.pack("<q", 2**40)),
        ("long", b"\x01\x02\x03"),
        ("float", struct.pack("<d", 1.5)),
        ("double", b""),
        ("date", struct.pack("<q", 1)),
        ("time", struct.pack("<i", 1)),
        ("timestamp", struct.pack("<i", 2**31 - 1)),
        ("timestamp", b"12345"),
        ("decimal(9,2)", b""),
        ("decimal(9,2)", b"\x01" * 17),
        ("decimal(9,2)", b"\x7f" * 16),
        ("decimal(9,2)", (10**9).to_bytes(5, "big")),
        ("string", b"\xff\xfe"),
        ("fixed(5)", b"abcdef"),
        ("uuid", b"short"),
    ],
)
def test_bytes_that_are_no_value_say_nothing(type_: str, octets: bytes) -> None:
    good = {"string": b"x", "uuid": b"0" * 16}.get(type_)
    bounds = decode_bounds(pa.array([octets, None, good]), parse_type(type_))
    assert bounds[:2].null_count == 2
    assert bounds[2].is_valid == (good is not None)


def test_types_without_an_order_have_no_ends() -> None:
    assert decode_bounds(pa.array([b"x"]), parse_type("list<int>")).null_count == 1


# --- maps


MAPS = pa.map_(pa.int32(), pa.int64())


@given(
    st.lists(st.lists(st.none() | st.dictionaries(st.integers(1, 4), st.integers(0, 9), max_size=4), max_size=6)),
    st.integers(0, 3),
)
def test_a_key_of_many_maps(chunks: list[list[dict[int, int] | None]], skipped: int) -> None:
    arrays = [pa.array([None if m is None else list(m.items()) for m in chunk], MAPS) for chunk in chunks]
    column = pa.chunked_array(arrays, MAPS).slice(skipped)
    every = [m for chunk in chunks for m in chunk][skipped:]
    values = [None if m is None else m.get(2) for m in every]
    assert column_metric(column, 2).to_pylist() == values
    some = np.flatnonzero(np.arange(len(every)) % 3 != 1)
    assert column_metric(column, 2, some).to_pylist() == [values[index] for index in some]


# --- statistics, and what is pruned by them


def entries(**columns: Any) -> pa.Table:
    """Rows of entries, all else null."""
    size = len(next(iter(columns.values())))
    nulls = {f.name: pa.nulls(size, f.type) for f in MANIFEST_ENTRY_SCHEMA}
    arrays = {
        name: pa.array([None if v is None else list(v.items()) if isinstance(v, dict) else v for v in values],
                       MANIFEST_ENTRY_SCHEMA.field(name).type)
        for name, values in columns.items()
    }  # fmt: skip
    return pa.table({**nulls, **arrays})


def pruned_files(table: pa.Table, schema: Schema, ids: dict[str, int], where: str) -> tuple[list[bool], list[bool]]:
    """Which files may match, and which must."""
    pruning = prune(
        where,
        schema=schema,
        spec=_no_spec(),
        partitions=pa.RecordBatch.from_struct_array(pa.array([{}] * table.num_rows, pa.struct([]))),
        statistics=file_statistics(table, schema, ids, schema.names),
    )
    return pruning.may_match.to_pylist(), pruning.must_match.to_pylist()


def _no_spec() -> Any:
    from partita.algebra.spec import PartitionSpec

    return PartitionSpec.of([], Schema(()), "iceberg")


def test_columns_are_found_by_their_ids() -> None:
    table = entries(
        lower_bounds=[{1: struct.pack("<i", 1), 2: b"a"}, {7: struct.pack("<i", 5)}, None],
        upper_bounds=[{1: struct.pack("<i", 3), 2: b"c"}, {7: struct.pack("<i", 6)}, None],
        null_value_counts=[{1: 0, 2: 2}, {7: 4}, None],
        value_counts=[{1: 4, 2: 4}, {7: 4}, None],
        record_count=[4, 4, 4],
    )
    schema = Schema.of({"b": "int", "a": "string", "c": "int"})
    statistics = file_statistics(table, schema, {"b": 7, "a": 2, "c": 9}, ["b", "a"])
    assert set(statistics) == {"b", "a"}
    assert statistics["b"].lower.to_pylist() == [None, 5, None]  # type: ignore[union-attr] # it is there
    assert statistics["a"].upper.to_pylist() == ["c", None, None]  # type: ignore[union-attr] # the same
    assert statistics["a"].null_count.to_pylist() == [2, None, None]  # type: ignore[union-attr] # the same
    assert statistics["a"].row_count.to_pylist() == [4, 4, 4]  # type: ignore[union-attr] # the same
    assert pruned_files(table, schema, {"b": 7, "a": 2, "c": 9}, "b = 2")[0] == [True, False, True]
    assert pruned_files(table, schema, {"b": 7, "a": 2, "c": 9}, "a = 'b'")[0] == [True, True, True]
    assert pruned_files(table, schema, {"b": 1, "a": 2, "c": 9}, "a > 'c'")[0] == [False, True, True]


def test_fields_of_structs_have_statistics() -> None:
    table = entries(
        lower_bounds=[{3: struct.pack("<i", 1)}, {3: struct.pack("<i", 5)}],
        upper_bounds=[{3: struct.pack("<i", 3)}, {3: struct.pack("<i", 6)}],
        null_value_counts=[{3: 0}, {3: 0}],
        record_count=[4, 4],
    )
    schema = Schema.of({"s": "struct<x:int,l:list<int>>"})
    assert set(file_statistics(table, schema, {"s": 1, "s.x": 3, "s.l": 4}, ["s"])) == {"s.x"}
    assert pruned_files(table, schema, {"s": 1, "s.x": 3}, "s.x <= 3") == ([True, False], [True, False])


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("nans", [None, {1: 0}, {1: 2}])
def test_nan_is_above_every_bound(type_: str, nans: dict[int, int] | None) -> None:
    code = "<f" if type_ == "float" else "<d"
    table = entries(
        lower_bounds=[{1: struct.pack(code, 1.0)}],
        upper_bounds=[{1: struct.pack(code, 2.0)}],
        null_value_counts=[{1: 0}],
        nan_value_counts=[nans],
        record_count=[4],
    )
    schema = Schema.of({"x": type_})
    assert pruned_files(table, schema, {"x": 1}, "x > 100") == ([True], [False])
    assert pruned_files(table, schema, {"x": 1}, f"x = CAST('NaN' AS {type_})") == ([True], [False])
    assert pruned_files(table, schema, {"x": 1}, "x < 1") == ([False], [False])


def test_zeros_are_equal_and_a_bound_of_nan_is_unknown() -> None:
    ends = [(-0.0, -0.0), (0.0, 0.0), (math.nan, math.nan), (1.0, 2.0)]
    table = entries(
        lower_bounds=[{1: struct.pack("<d", low)} for low, _ in ends],
        upper_bounds=[{1: struct.pack("<d", high)} for _, high in ends],
        null_value_counts=[{1: 0}] * 4,
        record_count=[4] * 4,
    )
    assert pruned_files(table, Schema.of({"x": "double"}), {"x": 1}, "x = 0.0")[0] == [True, True, True, False]
    assert pruned_files(table, Schema.of({"x": "double"}), {"x": 1}, "x = -0.0")[0] == [True, True, True, False]


def test_cut_texts_are_ends_still() -> None:
    """Sixteen characters of "aaaaaaaaaaaaaaaab" and of what is above "zzzzzzzzzzzzzzzzz", as Iceberg cuts them."""
    table = entries(
        lower_bounds=[{1: b"a" * 16}],
        upper_bounds=[{1: b"z" * 15 + b"{"}],
        null_value_counts=[{1: 0}],
        record_count=[4],
    )
    schema = Schema.of({"x": "string"})
    assert pruned_files(table, schema, {"x": 1}, f"x = '{'z' * 17}'")[0] == [True]
    assert pruned_files(table, schema, {"x": 1}, f"x = '{'a' * 15}'")[0] == [False]
    assert pruned_files(table, schema, {"x": 1}, "x > '|'")[0] == [False]


def test_bounds_of_uuids_in_another_order_are_unknown() -> None:
    low, high = b"\x80" + b"\x00" * 15, b"\x7f" + b"\x00" * 15
    table = entries(lower_bounds=[{1: low}, {1: high}], upper_bounds=[{1: high}, {1: low}], record_count=[4, 4])
    statistics = file_statistics(table, Schema.of({"x": "uuid"}), {"x": 1}, ["x"])["x"]
    assert statistics.lower.to_pylist() == [None, high]  # type: ignore[union-attr] # it is there
    assert statistics.upper.to_pylist() == [None, low]  # type: ignore[union-attr] # the same


@pytest.mark.parametrize("type_", BY_TYPE)
def test_every_type_can_be_pruned_with(type_: str) -> None:
    table = entries(lower_bounds=[None, None], null_value_counts=[{1: 4}, {1: 0}], record_count=[4, 4])
    assert pruned_files(table, Schema.of({"x": type_}), {"x": 1}, "x IS NULL") == ([True, False], [True, False])
    statistics = file_statistics(table, Schema.of({"x": type_}), {"x": 1}, ["x"])
    lower = statistics["x"].lower
    assert lower is not None
    expected = to_arrow_type(parse_type(type_))
    assert lower.type == (pa.binary(16) if type_ == "uuid" else expected)
