"""What files say of their columns: `add.stats`, JSON texts, as typed Arrow columns (Per-file Statistics).

All texts are read at once. A text, or a value in it, that can't be read makes that value unknown and nothing else.

| column | ends |
|---|---|
| integers, floats, strings | as they are; a string's maximum may be cut and raised by its writer, and is an end still |
| decimal | to 15 digits as they are; above, wider by what a writer that went over a double has lost |
| date | days |
| timestamp, timestamp_ntz | a maximum without six digits stands for all of its millisecond |
| boolean, binary, others | none, just the count of nulls |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from partita.algebra.schema import Schema
from partita.algebra.types import (
    BITS,
    DATE,
    FLOATS,
    INSTANTS,
    INTEGERS,
    NESTED,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    Field,
    Kind,
    LogicalType,
)
from partita.arrow.buffers import Array, int64_values, narrow_text, null_mask, one_array
from partita.arrow.prune import Statistics
from partita.arrow.schema import to_arrow
from partita.errors import PartitionValueError
from partita.formats.delta.values.parsing import parse_partition


def row_counts(files: pa.Table) -> pa.Array:
    """How many rows each file has, as int64; null where it doesn't say."""
    return _counts(_read(files["stats"], ())["numRecords"])


def file_statistics(
    files: pa.Table, schema: Schema, physical: Mapping[str, str], columns: Iterable[str] | None = None
) -> dict[str, Statistics]:
    """What the files say of their top-level columns, by the schema's names; of those in `columns`, if it is given.

    `physical` are the names that statistics know the columns by. A column that no file says anything of is left out.
    """
    wanted = None if columns is None else frozenset(columns)
    fields = [f for f in schema if f.type.kind not in _SILENT and (wanted is None or f.name in wanted)]
    read = _read(files["stats"], [(physical.get(f.name, f.name), f.type) for f in fields])
    rows = _counts(read["numRecords"])
    found = {f.name: _statistics(read, physical.get(f.name, f.name), f, rows) for f in fields}
    return {name: said for name, said in found.items() if _says_something(said)}


_SILENT = NESTED | {Kind.OTHER, Kind.NULL}
_NUMBERS = INTEGERS | FLOATS
_TEXTS = INSTANTS | {Kind.DATE, Kind.STRING}

_End = Literal["minValues", "maxValues"]
_Column = tuple[str, LogicalType]


def _statistics(read: pa.Table, name: str, field: Field, rows: pa.Array) -> Statistics:
    lower, upper = _end(read, name, field, "minValues"), _end(read, name, field, "maxValues")
    nulls = _counts(pc.struct_field(read["nullCount"], name))
    return Statistics(_unless_unknown(lower), _unless_unknown(upper), _unless_unknown(nulls), rows)


def _says_something(said: Statistics) -> bool:
    return any(known is not None for known in (said.lower, said.upper, said.null_count))


def _unless_unknown(array: pa.Array | None) -> pa.Array | None:
    return None if array is None or array.null_count == len(array) else array


def _counts(array: pa.ChunkedArray) -> pa.Array:
    """Counts; a negative one is none."""
    counts = one_array(array)
    return pc.if_else(pc.less(counts, 0), pa.scalar(None, pa.int64()), counts)


# --- the texts


def _read(texts: pa.ChunkedArray, columns: Sequence[_Column]) -> pa.Table:
    """A row for each text, with `numRecords`, `minValues`, `maxValues` and `nullCount` of those columns."""
    schema = _schema(columns)
    lines = pc.fill_null(texts, "{}")
    whole = _read_lines(lines, schema)
    if whole is not None:
        return whole
    lines = pc.replace_substring_regex(lines, _NO_NUMBER, ":null")
    return pa.concat_tables(_read_part(part, schema, columns) for part in _parts(lines))


_NO_NUMBER = r':\s*"(NaN|-?Infinity)"'
"""How Spark puts a double that JSON has no number for; Arrow takes it for a text, and no end is as good."""

_PART = 1024
"""Rows that are read one by one, where there is a value among them that Arrow doesn't read."""


def _parts(rows: Array) -> Iterator[Array]:
    return (rows.slice(start, _PART) for start in range(0, len(rows), _PART))


def _read_part(lines: pa.ChunkedArray, schema: pa.Schema, columns: Sequence[_Column]) -> pa.Table:
    read = _read_lines(lines, schema)
    return _read_each(lines, schema, columns) if read is None else read


def _schema(columns: Sequence[_Column]) -> pa.Schema:
    ends = pa.struct([(name, _raw_type(type_)) for name, type_ in columns if _has_ends(type_)])
    counts = pa.struct([(name, pa.int64()) for name, _ in columns])
    nested = [("minValues", ends), ("maxValues", ends), ("nullCount", counts)]
    return pa.schema([("numRecords", pa.int64()), *((name, type_) for name, type_ in nested if type_.num_fields)])


def _has_ends(type_: LogicalType) -> bool:
    return type_.kind in _NUMBERS | _TEXTS or isinstance(type_, DecimalType)


def _raw_type(type_: LogicalType) -> pa.DataType:
    return pa.string() if type_.kind in _TEXTS else to_arrow(type_)


def _read_lines(lines: pa.ChunkedArray, schema: pa.Schema) -> pa.Table | None:
    """None where Arrow can't read a value, or finds another number of objects."""
    if not len(lines):
        return schema.empty_table()
    data = "\n".join(lines.to_pylist()).encode()
    longest = pc.max(pc.binary_length(lines)).as_py()
    parse = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    options = pa_json.ReadOptions(block_size=max(1 << 22, 2 * longest))
    try:
        read = pa_json.read_json(pa.BufferReader(data), options, parse)
    except pa.ArrowException:
        return None
    return read if read.num_rows == len(lines) else None


def _read_each(lines: pa.ChunkedArray, schema: pa.Schema, columns: Sequence[_Column]) -> pa.Table:
    said = [_object(line) for line in lines.to_pylist()]
    types = dict(columns)
    rows = [
        {
            "numRecords": _count(each.get("numRecords")),
            "nullCount": {name: _count(_inner(each, "nullCount").get(name)) for name in types},
            **{end: dict(_raw_ends(_inner(each, end), types, end)) for end in ("minValues", "maxValues")},
        }
        for each in said
    ]
    return pa.Table.from_pylist(rows, schema)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_float=Decimal)
    except (ValueError, InvalidOperation, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _inner(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _raw_ends(said: Mapping[str, Any], types: Mapping[str, LogicalType], end: str) -> Iterator[tuple[str, object]]:
    for name, type_ in types.items():
        if _has_ends(type_):
            yield name, _raw(said.get(name), type_, end)


def _raw(value: object, type_: LogicalType, end: str) -> object:
    """The value as Arrow's reader gives it; None where it is of another kind, or out of range."""
    if type_.kind in _TEXTS:
        return value if isinstance(value, str) and _is_unicode(value) else None
    if isinstance(type_, DecimalType):
        return _decimal(value, type_, end)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if type_.kind in FLOATS:
        return float(value) if -_LARGEST <= value <= _LARGEST else None
    limit = 2 ** (BITS[type_.kind] - 1)
    return int(value) if -limit <= value < limit and value == int(value) else None


_LARGEST = Decimal(np.finfo(np.float64).max)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _decimal(value: object, type_: DecimalType, end: str) -> Decimal | None:
    """The value to the type's scale, rounded away from what it encloses."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > 38:
        return None
    rounding = ROUND_FLOOR if end == "minValues" else ROUND_CEILING
    unscaled = int(number.scaleb(type_.scale, _EXACT).to_integral_value(rounding, _EXACT))
    return _scaled(unscaled, type_) if abs(unscaled) < 10**type_.precision else None


_EXACT = Context(prec=2000)


def _scaled(unscaled: int, type_: DecimalType) -> Decimal:
    return Decimal(unscaled).scaleb(-type_.scale, _EXACT)


# --- the ends


def _end(read: pa.Table, name: str, field: Field, end: _End) -> pa.Array | None:
    if not _has_ends(field.type):
        return None
    raw = one_array(pc.struct_field(read[end], name))
    if isinstance(field.type, DecimalType):
        return raw if field.type.precision <= _EXACT_IN_DOUBLES else _widened(raw, field.type, end)
    if field.type.kind is Kind.DATE:
        return _read_texts(raw, pa.date32(), _days)
    if field.type.kind in INSTANTS:
        return _instants(raw, field.type.kind, end)
    return narrow_text(raw) if field.type.kind is Kind.STRING else raw


_EXACT_IN_DOUBLES = 15
"""Digits that a double always gives back."""


def _widened(decimals: pa.Array, type_: DecimalType, end: _End) -> pa.Array:
    """Ends that hold even if a writer rounded them to doubles, as delta-rs does."""
    largest = 10**type_.precision - 1
    sign = -1 if end == "minValues" else 1

    def wider(value: Decimal) -> Decimal:
        unscaled = int(value.scaleb(type_.scale, _EXACT))
        moved = unscaled + sign * ((abs(unscaled) >> 50) + 1)
        return _scaled(max(-largest, min(largest, moved)), type_)

    return pa.array([None if value is None else wider(value) for value in decimals.to_pylist()], to_arrow(type_))


def _instants(texts: pa.Array, kind: Kind, end: _End) -> pa.Array:
    type_ = pa.timestamp("us", "UTC" if kind is Kind.TIMESTAMP else None)
    instants = _read_texts(texts, type_, _micros if kind is Kind.TIMESTAMP else _local_micros)
    if end == "minValues":
        return instants
    micros = int64_values(instants)
    exact = pc.fill_null(pc.match_substring_regex(texts, r"\.[0-9]{6}"), fill_value=True)
    rest = np.where(exact.to_numpy(zero_copy_only=False), 0, np.minimum(999, _MAX - micros))
    return pa.array(micros + rest, pa.int64(), mask=null_mask(instants)).cast(type_)


_MAX = np.iinfo(np.int64).max


def _read_texts(texts: pa.Array, type_: pa.DataType, read: Callable[[str], int | None]) -> pa.Array:
    """What the texts say: by Arrow where it reads them all, else part by part, and by `read` where it doesn't."""
    try:
        return pc.cast(texts, type_)
    except pa.ArrowException:
        if len(texts) > _PART:
            return pa.concat_arrays([_read_texts(part, type_, read) for part in _parts(texts)])
        return pa.array([None if text is None else read(text) for text in texts.to_pylist()], type_)


def _days(text: str) -> int | None:
    return _ordinal(text, DATE, 31)


def _micros(text: str) -> int | None:
    """An instant; without a zone, it could be any."""
    return _ordinal(text, TIMESTAMP, 63) if re.search(r":.*(Z|[+-]\d\d:?\d\d)$", text) else None


def _local_micros(text: str) -> int | None:
    """A local time, which some writers put a Z behind."""
    return _ordinal(text.removesuffix("Z"), TIMESTAMP_NTZ, 63)


def _ordinal(text: str, type_: LogicalType, bits: int) -> int | None:
    try:
        found = parse_partition({"end": text}, Schema((Field("end", type_),)))["end"]
    except PartitionValueError:
        return None
    return found if isinstance(found, int) and -(2**bits) <= found < 2**bits else None
