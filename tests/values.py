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
    BITS,
    DecimalType,
    Field,
    FixedType,
    Kind,
    ListType,
    LogicalType,
    MapType,
    StructType,
    list_of,
    map_of,
    struct_of,
)
from partita.arrow.schema import to_arrow

ATOM_NAMES = (
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
ATOMS = tuple(parse_type(name) for name in ATOM_NAMES)

texts = st.text(st.characters(codec="utf-8"))
"""Unicode of all planes, with what JSON escapes."""

offsets = st.timedeltas(timedelta(hours=-14), timedelta(hours=14)).map(
    lambda offset: timezone(timedelta(minutes=offset // timedelta(minutes=1)))
)
naive_datetimes = st.datetimes()
utc_datetimes = naive_datetimes.map(lambda at: at.replace(tzinfo=UTC))
zoned_datetimes = st.builds(
    lambda at, zone: at.astimezone(zone),
    utc_datetimes.filter(lambda at: 1 < at.year < 9999),
    offsets,
)
int64s = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-100, 100), st.sampled_from((-(2**63), 2**63 - 1)))
key_values = st.one_of(st.none(), st.booleans(), int64s, texts, st.dates(), utc_datetimes, zoned_datetimes)
key_names = st.from_regex("[a-z][a-z0-9_]{0,5}", fullmatch=True)
keys = st.dictionaries(key_names, key_values, max_size=5)


def of_type(type_: LogicalType) -> st.SearchStrategy[Any]:
    """Values of that type, without null at the top."""
    if isinstance(type_, StructType):
        return st.fixed_dictionaries({f.name: st.none() | of_type(f.type) for f in type_.fields})
    if isinstance(type_, ListType):
        return st.lists(st.none() | of_type(type_.element), max_size=4)
    if isinstance(type_, MapType):
        return _maps(type_)
    return _atoms(type_)


def arrays(type_: LogicalType) -> st.SearchStrategy[Any]:
    """Arrow arrays of that type with nulls: whole, sliced or in chunks."""
    made = st.lists(st.none() | of_type(type_), max_size=6).map(lambda values: pa.array(values, to_arrow(type_)))
    return st.one_of(
        made,
        st.builds(lambda array, start: array[start:], made, st.integers(0, 3)),
        st.builds(lambda a, b, start: pa.chunked_array([a, b[start:]], a.type), made, made, st.integers(0, 3)),
    )


INNER_ATOMS = tuple(atom for atom in ATOMS if atom.kind is not Kind.UUID)
"""Arrow can't make nested UUIDs from Python's."""
nested_types = st.deferred(lambda: _nested(st.recursive(st.sampled_from(INNER_ATOMS), _nested, max_leaves=4)))


def _nested(inner: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    fields = st.lists(st.tuples(texts.filter(bool), inner), max_size=3, unique_by=lambda field: field[0])
    return st.one_of(
        fields.map(lambda named: struct_of(*(Field(name, type_) for name, type_ in named))),
        inner.map(list_of),
        st.builds(map_of, st.sampled_from(INNER_ATOMS), inner),
    )


def _maps(type_: MapType) -> st.SearchStrategy[Any]:
    entries = st.tuples(of_type(type_.key), st.none() | of_type(type_.value))
    return st.lists(entries, max_size=4, unique_by=lambda entry: scalar_text(entry[0], type_.key))


def _atoms(type_: LogicalType) -> st.SearchStrategy[Any]:
    if isinstance(type_, DecimalType):
        largest = 10**type_.precision - 1
        return st.integers(-largest, largest).map(lambda number: scaled(number, type_.scale))
    if isinstance(type_, FixedType):
        return st.binary(min_size=type_.length, max_size=type_.length)
    if type_.kind in BITS:
        half = 2 ** (BITS[type_.kind] - 1)
        return st.one_of(st.integers(-half, half - 1), st.sampled_from((-half, half - 1, 0, -1)))
    return _SIMPLE[type_.kind]


def scaled(number: int, scale: int) -> Decimal:
    """The decimal with that unscaled value, whatever the context's precision."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


_SIMPLE: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.FLOAT: st.floats(width=32),
    Kind.DOUBLE: st.floats(),
    Kind.DATE: st.dates(date.min, date.max),
    Kind.TIME: st.times(),
    Kind.TIMESTAMP: utc_datetimes,
    Kind.TIMESTAMP_NTZ: naive_datetimes,
    Kind.STRING: texts,
    Kind.BINARY: st.binary(max_size=40),
    Kind.UUID: st.uuids(),
}

TIME_ZONES = {
    "UTC": 0, "Z": 0, "GMT": 0, "UT": 0, "Etc/UTC": 0, "Zulu": 0, "GMT0": 0, "+00:00": 0, "-0": 0, "GMT+2": 120,
    "GMT+2:00": 120, "GMT+0200": 120, "UTC+01:00": 60, "UTC+1:3": 63, "UT+3": 180, "UTC-8": -480, "+5": 300, "+05": 300,
    "+5:30": 330, "+05:30": 330, "+0530": 330, "+05:3": 303, "+18:00": 1080, "-18:00": -1080, "-08:00": -480,
    "Europe/Berlin": 60, "America/Los_Angeles": -480, "Asia/Kolkata": 330, "EST": -300, "PST": -480, "JST": 540,
    "EST5EDT": -300, "Etc/GMT+5": -300, "CET": 60,
}  # fmt: skip
"""Names of time zones that Spark takes, and the minutes that each is ahead of UTC on 2025-01-15."""
NO_TIME_ZONES = [
    "", " UTC", "utc", "z", "05:30", "+530", "+18:01", "+19", "+1:", "+12:5:7", "UTC0", "UTC+", "utc+1", "Z+1",
    "UTC+18:30", "europe/berlin", "Europe/Berlin ", "Etc/GMT+14", "posix/Europe/Berlin", "localtime", "Factory",
]  # fmt: skip
"""Names that Spark refuses."""
