"""Parse `add.stats`, the JSON statistics of files, into typed Arrow columns (Per-file Statistics).

The texts of all files are parsed at once. A text or a value that can't be parsed makes only that value unknown.

| column | bounds |
|---|---|
| integers, floats, strings | as written; a string's maximum may be truncated and raised, and is still an upper bound |
| decimal | up to 15 digits as written; above, widened by what a writer loses that goes through a double |
| date | days |
| timestamp, timestamp_ntz | a maximum with fewer than six fraction digits covers its whole millisecond |
| boolean, binary, others | none, only the null count |
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
    DATE,
    FLOAT_KINDS,
    INTEGER_BITS,
    INTEGER_KINDS,
    NESTED_KINDS,
    TIMESTAMP,
    TIMESTAMP_KINDS,
    TIMESTAMP_NTZ,
    DecimalType,
    Field,
    LogicalType,
    TypeKind,
)
from partita.arrow.buffers import Array, dense_array, int64_values, narrow_string_array, null_mask
from partita.arrow.prune import ColumnStatistics
from partita.arrow.schema import to_arrow_type
from partita.errors import PartitionValueError
from partita.formats.partition_texts.deserialization import parse_partition


def row_counts(files: pa.Table) -> pa.Array:
    """Return the number of rows of each file as int64; null if its statistics don't have it."""
    return _valid_counts(_parse_stats(files["stats"], ())["numRecords"])


def file_statistics(
    files: pa.Table, schema: Schema, physical: Mapping[str, str], columns: Iterable[str] | None = None
) -> dict[str, ColumnStatistics]:
    """Return the statistics of top-level columns by their names in the schema, of those in `columns` if given.

    `physical` maps the names of the schema to those in the statistics. Columns without statistics in any file are left
    out.
    """
    names = None if columns is None else frozenset(columns)
    fields = [f for f in schema if f.type.kind not in _KINDS_WITHOUT_STATISTICS and (names is None or f.name in names)]
    stats = _parse_stats(files["stats"], [(physical.get(f.name, f.name), f.type) for f in fields])
    row_count = _valid_counts(stats["numRecords"])
    statistics = {f.name: _column_statistics(stats, physical.get(f.name, f.name), f, row_count) for f in fields}
    return {name: column for name, column in statistics.items() if _has_statistics(column)}


_KINDS_WITHOUT_STATISTICS = NESTED_KINDS | {TypeKind.OTHER, TypeKind.NULL}
_NUMBER_KINDS = INTEGER_KINDS | FLOAT_KINDS
_TEXT_KINDS = TIMESTAMP_KINDS | {TypeKind.DATE, TypeKind.STRING}

_BoundName = Literal["minValues", "maxValues"]
_StatisticsColumn = tuple[str, LogicalType]


def _column_statistics(stats: pa.Table, name: str, field: Field, row_count: pa.Array) -> ColumnStatistics:
    lower, upper = _typed_bound(stats, name, field, "minValues"), _typed_bound(stats, name, field, "maxValues")
    null_count = _valid_counts(pc.struct_field(stats["nullCount"], name))
    return ColumnStatistics(
        _none_if_all_null(lower), _none_if_all_null(upper), _none_if_all_null(null_count), row_count
    )


def _has_statistics(column: ColumnStatistics) -> bool:
    return any(array is not None for array in (column.lower, column.upper, column.null_count))


def _none_if_all_null(array: pa.Array | None) -> pa.Array | None:
    return None if array is None or array.null_count == len(array) else array


def _valid_counts(array: pa.ChunkedArray) -> pa.Array:
    """Return counts with negative ones as null."""
    counts = dense_array(array)
    return pc.if_else(pc.less(counts, 0), pa.scalar(None, pa.int64()), counts)


# --- parse the JSON texts


def _parse_stats(texts: pa.ChunkedArray, columns: Sequence[_StatisticsColumn]) -> pa.Table:
    """Parse each text into a row: `numRecords`, and `minValues`, `maxValues` and `nullCount` of some columns."""
    schema = _stats_schema(columns)
    lines = pc.fill_null(texts, "{}")
    stats = _parse_lines(lines, schema)
    if stats is not None:
        return stats
    lines = pc.replace_substring_regex(lines, _NON_FINITE_NUMBER, ":null")
    return pa.concat_tables(_parse_chunk(chunk, schema, columns) for chunk in _row_chunks(lines))


_NON_FINITE_NUMBER = r':\s*"(NaN|-?Infinity)"'
"""How Spark writes a double that JSON has no number for; as a bound it is replaced by null."""

_CHUNK_ROWS = 1024
"""Rows that are parsed one by one in Python if Arrow can't parse a value among them."""


def _row_chunks(rows: Array) -> Iterator[Array]:
    return (rows.slice(start, _CHUNK_ROWS) for start in range(0, len(rows), _CHUNK_ROWS))


def _parse_chunk(lines: pa.ChunkedArray, schema: pa.Schema, columns: Sequence[_StatisticsColumn]) -> pa.Table:
    stats = _parse_lines(lines, schema)
    return _parse_each_line(lines, schema, columns) if stats is None else stats


def _stats_schema(columns: Sequence[_StatisticsColumn]) -> pa.Schema:
    bounds = pa.struct([(name, _raw_bound_type(type_)) for name, type_ in columns if _has_bounds(type_)])
    counts = pa.struct([(name, pa.int64()) for name, _ in columns])
    statistics_types = [("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)]
    return pa.schema(
        [("numRecords", pa.int64()), *((name, type_) for name, type_ in statistics_types if type_.num_fields)]
    )


def _has_bounds(type_: LogicalType) -> bool:
    return type_.kind in _NUMBER_KINDS | _TEXT_KINDS or isinstance(type_, DecimalType)


def _raw_bound_type(type_: LogicalType) -> pa.DataType:
    return pa.string() if type_.kind in _TEXT_KINDS else to_arrow_type(type_)


def _parse_lines(lines: pa.ChunkedArray, schema: pa.Schema) -> pa.Table | None:
    """Parse one JSON object per line; None if Arrow can't parse a value or finds another number of objects."""
    if not len(lines):
        return schema.empty_table()
    data = "\n".join(lines.to_pylist()).encode()
    longest = pc.max(pc.binary_length(lines)).as_py()
    parse = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    options = pa_json.ReadOptions(block_size=max(1 << 22, 2 * longest))
    try:
        stats = pa_json.read_json(pa.BufferReader(data), options, parse)
    except pa.ArrowException:
        return None
    return stats if stats.num_rows == len(lines) else None


def _parse_each_line(lines: pa.ChunkedArray, schema: pa.Schema, columns: Sequence[_StatisticsColumn]) -> pa.Table:
    types = dict(columns)
    rows = [
        {
            "numRecords": _valid_count(stats.get("numRecords")),
            "nullCount": {name: _valid_count(_nested_object(stats, "nullCount").get(name)) for name in types},
            **{
                bound_name: dict(_raw_bounds(_nested_object(stats, bound_name), types, bound_name))
                for bound_name in ("minValues", "maxValues")
            },
        }
        for stats in map(_json_object, lines.to_pylist())
    ]
    return pa.Table.from_pylist(rows, schema)


def _json_object(line: str) -> dict[str, Any]:
    try:
        document = json.loads(line, parse_float=Decimal)
    except (ValueError, InvalidOperation, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _nested_object(stats: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    document = stats.get(name)
    return document if isinstance(document, dict) else {}


def _valid_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _raw_bounds(
    stats: Mapping[str, Any], types: Mapping[str, LogicalType], bound_name: str
) -> Iterator[tuple[str, object]]:
    for name, type_ in types.items():
        if _has_bounds(type_):
            yield name, _raw_bound(stats.get(name), type_, bound_name)


def _raw_bound(value: object, type_: LogicalType, bound_name: str) -> object:
    """Return a bound as Arrow's JSON reader would; None if it has another type or is out of range."""
    if type_.kind in _TEXT_KINDS:
        return value if isinstance(value, str) and _is_unicode(value) else None
    if isinstance(type_, DecimalType):
        return _decimal_bound(value, type_, bound_name)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if type_.kind in FLOAT_KINDS:
        return float(value) if -_MAX_DOUBLE <= value <= _MAX_DOUBLE else None
    limit = 2 ** (INTEGER_BITS[type_.kind] - 1)
    return int(value) if -limit <= value < limit and value == int(value) else None


_MAX_DOUBLE = Decimal(np.finfo(np.float64).max)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _decimal_bound(value: object, type_: DecimalType, bound_name: str) -> Decimal | None:
    """Round a bound to the type's scale, a minimum down and a maximum up; None if it is no decimal of the type."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > 38:
        return None
    rounding = ROUND_FLOOR if bound_name == "minValues" else ROUND_CEILING
    unscaled_value = int(number.scaleb(type_.scale, _DECIMAL_CONTEXT).to_integral_value(rounding, _DECIMAL_CONTEXT))
    return _decimal_from_unscaled(unscaled_value, type_) if abs(unscaled_value) < 10**type_.precision else None


_DECIMAL_CONTEXT = Context(prec=2000)


def _decimal_from_unscaled(unscaled_value: int, type_: DecimalType) -> Decimal:
    return Decimal(unscaled_value).scaleb(-type_.scale, _DECIMAL_CONTEXT)


# --- cast the bounds


def _typed_bound(stats: pa.Table, name: str, field: Field, bound_name: _BoundName) -> pa.Array | None:
    if not _has_bounds(field.type):
        return None
    raw = dense_array(pc.struct_field(stats[bound_name], name))
    if isinstance(field.type, DecimalType):
        return raw if field.type.precision <= _EXACT_DOUBLE_DIGITS else _widen_decimals(raw, field.type, bound_name)
    if field.type.kind is TypeKind.DATE:
        return _parse_texts(raw, pa.date32(), _days_from_text)
    if field.type.kind in TIMESTAMP_KINDS:
        return _timestamp_bounds(raw, field.type.kind, bound_name)
    return narrow_string_array(raw) if field.type.kind is TypeKind.STRING else raw


_EXACT_DOUBLE_DIGITS = 15
"""Decimal digits that a double always preserves."""


def _widen_decimals(decimals: pa.Array, type_: DecimalType, bound_name: _BoundName) -> pa.Array:
    """Widen bounds so that they hold even if the writer rounded them to doubles, as delta-rs does."""
    max_unscaled = 10**type_.precision - 1
    sign = -1 if bound_name == "minValues" else 1

    def widen(value: Decimal) -> Decimal:
        unscaled_value = int(value.scaleb(type_.scale, _DECIMAL_CONTEXT))
        wide_unscaled = unscaled_value + sign * ((abs(unscaled_value) >> 50) + 1)
        return _decimal_from_unscaled(max(-max_unscaled, min(max_unscaled, wide_unscaled)), type_)

    return pa.array([None if value is None else widen(value) for value in decimals.to_pylist()], to_arrow_type(type_))


def _timestamp_bounds(texts: pa.Array, kind: TypeKind, bound_name: _BoundName) -> pa.Array:
    type_ = pa.timestamp("us", "UTC" if kind is TypeKind.TIMESTAMP else None)
    instants = _parse_texts(texts, type_, _micros_from_text if kind is TypeKind.TIMESTAMP else _local_micros_from_text)
    if bound_name == "minValues":
        return instants
    micros = int64_values(instants)
    exact = pc.fill_null(pc.match_substring_regex(texts, r"\.[0-9]{6}"), fill_value=True)
    rounding = np.where(exact.to_numpy(zero_copy_only=False), 0, np.minimum(999, _MAX_INT64 - micros))
    return pa.array(micros + rounding, pa.int64(), mask=null_mask(instants)).cast(type_)


_MAX_INT64 = np.iinfo(np.int64).max


def _parse_texts(texts: pa.Array, type_: pa.DataType, parse_text: Callable[[str], int | None]) -> pa.Array:
    """Cast texts with Arrow; chunks with a text that Arrow can't cast are parsed by `parse_text`."""
    try:
        return pc.cast(texts, type_)
    except pa.ArrowException:
        if len(texts) > _CHUNK_ROWS:
            return pa.concat_arrays([_parse_texts(chunk, type_, parse_text) for chunk in _row_chunks(texts)])
        return pa.array([None if text is None else parse_text(text) for text in texts.to_pylist()], type_)


def _days_from_text(text: str) -> int | None:
    return _ordinal_from_text(text, DATE, 31)


def _micros_from_text(text: str) -> int | None:
    """Parse a timestamp with a zone; None without one, since the instant is then unknown."""
    return _ordinal_from_text(text, TIMESTAMP, 63) if re.search(r":.*(Z|[+-]\d\d:?\d\d)$", text) else None


def _local_micros_from_text(text: str) -> int | None:
    """Parse a timestamp without a zone; some writers append a Z."""
    return _ordinal_from_text(text.removesuffix("Z"), TIMESTAMP_NTZ, 63)


def _ordinal_from_text(text: str, type_: LogicalType, bits: int) -> int | None:
    try:
        ordinal = parse_partition({"bound": text}, Schema((Field("bound", type_),)))["bound"]
    except PartitionValueError:
        return None
    return ordinal if isinstance(ordinal, int) and -(2**bits) <= ordinal < 2**bits else None
