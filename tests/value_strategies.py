"""Random values of every logical type, as Python has them and as Arrow's `to_pylist` gives them back."""

from __future__ import annotations

from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from partita.algebra.hashing import scalar_text
from partita.algebra.type_text import parse_type
from partita.algebra.types import (
    INTEGER_BITS,
    DecimalType,
    Field,
    FixedType,
    ListType,
    LogicalType,
    MapType,
    StructType,
    TypeKind,
    list_type,
    map_type,
    struct_type,
)
from partita.arrow.schema import to_arrow_type

ATOMIC_TYPE_NAMES = (
    "boolean",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "decimal(4,2)",
    "decimal(18,0)",
    "decimal(19,19)",
    "decimal(38,10)",
    "date",
    "time",
    "timestamp",
    "timestamp_ntz",
    "string",
    "binary",
    "fixed(3)",
    "uuid",
)
ATOMIC_TYPES = tuple(parse_type(name) for name in ATOMIC_TYPE_NAMES)

texts = st.text(st.characters(codec="utf-8"))
"""Unicode of all planes, with what JSON escapes."""

utc_offsets = st.timedeltas(timedelta(hours=-14), timedelta(hours=14)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
naive_datetimes = st.datetimes()
utc_datetimes = naive_datetimes.map(lambda at: at.replace(tzinfo=UTC))
zoned_datetimes = st.builds(
    lambda at, zone: at.astimezone(zone),
    utc_datetimes.filter(lambda at: 1 < at.year < 9999),
    utc_offsets,
)
int64s = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-100, 100), st.sampled_from((-(2**63), 2**63 - 1)))
key_values = st.one_of(st.none(), st.booleans(), int64s, texts, st.dates(), utc_datetimes, zoned_datetimes)
key_names = st.from_regex("[a-z][a-z0-9_]{0,5}", fullmatch=True)
key_dicts = st.dictionaries(key_names, key_values, max_size=5)


def values_of_type(type_: LogicalType) -> st.SearchStrategy[Any]:
    """Values of that type, without null at the top."""
    if isinstance(type_, StructType):
        return st.fixed_dictionaries({f.name: st.none() | values_of_type(f.type) for f in type_.fields})
    if isinstance(type_, ListType):
        return st.lists(st.none() | values_of_type(type_.element), max_size=4)
    if isinstance(type_, MapType):
        return _map_values(type_)
    return _atomic_values(type_)


def arrow_arrays(type_: LogicalType) -> st.SearchStrategy[Any]:
    """Arrow arrays of that type with nulls: whole, sliced or in chunks."""
    made = st.lists(st.none() | values_of_type(type_), max_size=6).map(
        lambda values: pa.array(values, to_arrow_type(type_))
    )
    return st.one_of(
        made,
        st.builds(lambda array, start: array[start:], made, st.integers(0, 3)),
        st.builds(lambda a, b, start: pa.chunked_array([a, b[start:]], a.type), made, made, st.integers(0, 3)),
    )


NESTABLE_ATOMIC_TYPES = tuple(atom for atom in ATOMIC_TYPES if atom.kind is not TypeKind.UUID)
"""Arrow can't make nested UUIDs from Python's."""
nested_types = st.deferred(
    lambda: _nested_types_of(st.recursive(st.sampled_from(NESTABLE_ATOMIC_TYPES), _nested_types_of, max_leaves=4))
)


def _nested_types_of(inner: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    fields = st.lists(st.tuples(texts.filter(bool), inner), max_size=3, unique_by=lambda field: field[0])
    return st.one_of(
        fields.map(lambda named: struct_type(*(Field(name, type_) for name, type_ in named))),
        inner.map(list_type),
        st.builds(map_type, st.sampled_from(NESTABLE_ATOMIC_TYPES), inner),
    )


def _map_values(type_: MapType) -> st.SearchStrategy[Any]:
    entries = st.tuples(values_of_type(type_.key), st.none() | values_of_type(type_.value))
    return st.lists(entries, max_size=4, unique_by=lambda entry: scalar_text(entry[0], type_.key))


def _atomic_values(type_: LogicalType) -> st.SearchStrategy[Any]:
    if isinstance(type_, DecimalType):
        largest = 10**type_.precision - 1
        return st.integers(-largest, largest).map(lambda number: decimal_from_unscaled(number, type_.scale))
    if isinstance(type_, FixedType):
        return st.binary(min_size=type_.length, max_size=type_.length)
    if type_.kind in INTEGER_BITS:
        half = 2 ** (INTEGER_BITS[type_.kind] - 1)
        return st.one_of(st.integers(-half, half - 1), st.sampled_from((-half, half - 1, 0, -1)))
    return _VALUES_BY_KIND[type_.kind]


def decimal_from_unscaled(number: int, scale: int) -> Decimal:
    """The decimal with that unscaled value, whatever the context's precision."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


_VALUES_BY_KIND: dict[TypeKind, st.SearchStrategy[Any]] = {
    TypeKind.BOOLEAN: st.booleans(),
    TypeKind.FLOAT: st.floats(width=32),
    TypeKind.DOUBLE: st.floats(),
    TypeKind.DATE: st.dates(date.min, date.max),
    TypeKind.TIME: st.times(),
    TypeKind.TIMESTAMP: utc_datetimes,
    TypeKind.TIMESTAMP_NTZ: naive_datetimes,
    TypeKind.STRING: texts,
    TypeKind.BINARY: st.binary(max_size=40),
    TypeKind.UUID: st.uuids(),
}

TIME_ZONES = {
    "UTC": 0, "Z": 0, "GMT": 0, "UT": 0, "Etc/UTC": 0, "Zulu": 0, "GMT0": 0, "+00:00": 0, "-0": 0, "GMT+2": 120,
    "GMT+2:00": 120, "GMT+0200": 120, "UTC+01:00": 60, "UTC+1:3": 63, "UT+3": 180, "UTC-8": -480, "+5": 300, "+05": 300,
    "+5:30": 330, "+05:30": 330, "+0530": 330, "+05:3": 303, "+18:00": 1080, "-18:00": -1080, "-08:00": -480,
    "Europe/Berlin": 60, "America/Los_Angeles": -480, "Asia/Kolkata": 330, "EST": -300, "PST": -480, "JST": 540,
    "EST5EDT": -300, "Etc/GMT+5": -300, "CET": 60,
}  # fmt: skip
"""Names of time zones that Spark takes, and the minutes that each is ahead of UTC on 2025-01-15."""
INVALID_TIME_ZONES = [
    "", " UTC", "utc", "z", "05:30", "+530", "+18:01", "+19", "+1:", "+12:5:7", "UTC0", "UTC+", "utc+1", "Z+1",
    "UTC+18:30", "europe/berlin", "Europe/Berlin ", "Etc/GMT+14", "posix/Europe/Berlin", "localtime", "Factory",
]  # fmt: skip
"""Names that Spark refuses."""
