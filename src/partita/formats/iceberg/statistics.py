"""Column statistics of files, from the bounds and counts of manifests (specification, "Data File Fields").

Columns are found by their ids. Bounds are bytes of the type that the column had when the file was written
(specification, appendix D), which may be narrower than its current type. Bytes that don't fit the type are ignored.

| column | bytes |
|---|---|
| boolean | one, 0 is false |
| int, long | four or eight, little-endian |
| float, double | four or eight |
| date; time, timestamps | four; eight, or the four of a date |
| decimal | the unscaled value, big-endian, as few bytes as hold it |
| string, binary | the bytes; a truncated bound is still a bound |
| fixed | the bytes; a truncated bound is padded with zeros, and still a bound |
| uuid | sixteen |

Bounds never contain NaN, which Spark sorts above all numbers: so `partita.arrow.prune` ignores the upper bound of
floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import MICROS_PER_DAY
from partita.algebra.schema import Schema
from partita.algebra.types import (
    INTEGER_BITS,
    NESTED_KINDS,
    DecimalType,
    Field,
    FixedType,
    LogicalType,
    StructType,
    TypeKind,
)
from partita.arrow.buffers import Array, BinaryBuffers, Bools, Ints, Octets, null_mask
from partita.arrow.prune import ColumnStatistics
from partita.arrow.schema import to_arrow_type


def file_statistics(
    entries: pa.Table,
    schema: Schema,
    field_ids: Mapping[str, int],
    columns: Sequence[str],
    file_indices: Ints | None = None,
) -> dict[str, ColumnStatistics]:
    """Return the statistics of those columns, and of fields of structs among them.

    `entries` have columns of `MANIFEST_ENTRY_SCHEMA`, `field_ids` are keyed by column path, and `file_indices` selects
    rows in ascending order; None selects all.
    """
    names = frozenset(columns)
    fields = [leaf for field in schema if field.name in names for leaf in _leaf_fields(field)]
    return {
        field.name: _column_statistics(entries, field_ids[field.name], field.type, file_indices)
        for field in fields
        if field.name in field_ids
    }


def _leaf_fields(field: Field) -> Iterator[Field]:
    if isinstance(field.type, StructType):
        for inner in field.type.fields:
            yield from _leaf_fields(Field(f"{field.name}.{inner.name}", inner.type))
    elif field.type.kind not in NESTED_KINDS | {TypeKind.OTHER}:
        yield field


def _column_statistics(
    entries: pa.Table, field_id: int, type_: LogicalType, file_indices: Ints | None
) -> ColumnStatistics:
    null_counts = column_metric(entries["null_value_counts"], field_id, file_indices)
    # A column outside of lists and maps has one value per row, null included.
    row_counts = (
        entries["record_count"] if file_indices is None else entries["record_count"].take(pa.array(file_indices))
    )
    lower, upper = (
        decode_bounds(column_metric(entries[name], field_id, file_indices), type_)
        for name in ("lower_bounds", "upper_bounds")
    )
    if type_.kind is TypeKind.UUID:
        lower, upper = _drop_unordered_bounds(lower, upper)
    return ColumnStatistics(lower, upper, null_counts, row_counts)


def _drop_unordered_bounds(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Drop bounds of UUIDs where lower is above upper: some writers used another order than that of the bytes."""
    is_ordered = pc.less_equal(lower.cast(pa.binary()), upper.cast(pa.binary()))
    null = pa.scalar(None, lower.type)
    return pc.if_else(is_ordered, lower, null), pc.if_else(is_ordered, upper, null)


def column_metric(maps: pa.ChunkedArray, field_id: int, file_indices: Ints | None = None) -> Array:
    """Return the value of a column id in each map, or in the maps of some files; null where a map lacks it."""
    values, start = [], 0
    for chunk in maps.chunks:
        end = start + len(chunk)
        rows = (
            slice(None)
            if file_indices is None
            else file_indices[slice(*np.searchsorted(file_indices, (start, end)))] - start
        )
        values.append(_map_values_by_key(chunk, field_id, rows))
        start = end
    return pa.concat_arrays(values) if values else pa.array([], maps.type.item_type)


def _map_values_by_key(maps: pa.MapArray, key: int, rows: Ints | slice) -> Array:
    """Return the value of a key in each of those rows; only their items are copied, since copying all maps is slow."""
    offsets = maps.offsets.to_numpy()
    starts = offsets[:-1][rows]
    if not len(starts) or offsets[0] == offsets[-1]:
        return pa.nulls(len(starts), maps.type.item_type)
    keys = maps.keys.to_numpy()
    width = int(offsets[1] - offsets[0])
    if width and maps.null_count == 0 and bool((np.diff(offsets) == width).all()):
        # Writers usually put the same columns into every file, so a key has the same position in each map.
        first = int(offsets[0])
        (matches,) = np.nonzero(keys[first : first + width] == key)
        position = first + int(matches[0]) if len(matches) else None
        if position is not None and bool((keys[position : int(offsets[-1]) : width] == key).all()):
            return maps.items.take(pa.array(starts + (position - first)))
    first = int(offsets[0])
    positions = np.flatnonzero(keys[first : int(offsets[-1])] == key) + first
    owner_rows = np.searchsorted(offsets, positions, side="right") - 1
    position_by_row = np.full(len(maps), -1, np.int64)
    position_by_row[owner_rows[::-1]] = positions[::-1]
    missing = (position_by_row < 0) | null_mask(maps)
    return maps.items.take(pa.array(position_by_row[rows], mask=missing[rows]))


# --- decoding bounds by type


def decode_bounds(octets: Array, type_: LogicalType) -> Array:
    """Decode binary bounds into an Arrow array of the type; null where the bytes don't fit the type."""
    return _DECODERS.get(type_.kind, _null_bounds)(octets, type_)


def _null_bounds(octets: Array, type_: LogicalType) -> Array:
    return pa.nulls(len(octets), to_arrow_type(type_) if type_.kind is not TypeKind.OTHER else pa.null())


def _decode_booleans(octets: Array, _: LogicalType) -> Array:
    values, is_valid = _decode_numbers(octets, {1: np.dtype(np.uint8)})
    return pa.array(values != 0, mask=~is_valid)


def _decode_integers(octets: Array, type_: LogicalType) -> Array:
    values, is_valid = _decode_numbers(octets, {4: np.dtype("<i4"), 8: np.dtype("<i8")})
    half = 1 << (INTEGER_BITS[type_.kind] - 1)
    is_in_range = is_valid & (values >= -half) & (values <= half - 1)
    return pa.array(np.where(is_in_range, values, 0), pa.int64(), mask=~is_in_range).cast(to_arrow_type(type_))


def _decode_floats(octets: Array, type_: LogicalType) -> Array:
    widths: dict[int, np.dtype[Any]] = {4: np.dtype("<f4")}
    if type_.kind is TypeKind.DOUBLE:
        widths[8] = np.dtype("<f8")
    values, is_valid = _decode_numbers(octets, widths, np.float64)
    return pa.array(values, pa.float64(), mask=~is_valid).cast(to_arrow_type(type_))


def _decode_dates(octets: Array, _: LogicalType) -> Array:
    values, is_valid = _decode_numbers(octets, {4: np.dtype("<i4")})
    return pa.array(values.astype(np.int32), pa.int32(), mask=None if is_valid.all() else ~is_valid).view(pa.date32())


def _decode_micros(octets: Array, type_: LogicalType) -> Array:
    values, is_valid = _decode_numbers(octets, {8: np.dtype("<i8")})
    if type_.kind is not TypeKind.TIME:
        days, is_date = _decode_numbers(octets, {4: np.dtype("<i4")})
        is_date &= np.abs(days) < _MAX_DAY
        values, is_valid = np.where(is_date, days * MICROS_PER_DAY, values), is_valid | is_date
    return pa.array(values, pa.int64(), mask=~is_valid).cast(to_arrow_type(type_))


_MAX_DAY = 2**63 // MICROS_PER_DAY - 1


def _decode_decimals(octets: Array, type_: LogicalType) -> Array:
    """Decode decimals via sixteen little-endian bytes each, filled up with the sign."""
    buffers = BinaryBuffers.from_array(octets)
    is_valid = (buffers.lengths >= 1) & (buffers.lengths <= 16) & ~null_mask(octets)
    ends = buffers.offsets[1:]
    padded_octets = np.zeros((len(buffers), 16), np.uint8)
    if len(buffers.octets):
        sign = buffers.octets[np.where(is_valid, buffers.offsets[:-1], 0)] >= 0x80
        for byte in range(16):
            has_byte = is_valid & (buffers.lengths > byte)
            padded_octets[:, byte] = np.where(
                has_byte, buffers.octets[np.where(has_byte, ends - 1 - byte, 0)], np.where(sign, 255, 0)
            )
    decimals = pa.Array.from_buffers(
        to_arrow_type(type_), len(buffers), [_validity_bitmap(is_valid), pa.py_buffer(padded_octets.tobytes())]
    )
    return _drop_excess_digits(decimals, cast("DecimalType", type_))


def _drop_excess_digits(decimals: Array, type_: DecimalType) -> Array:
    """Drop values with more digits than the type has."""
    if type_.precision == _MAX_PRECISION:
        return decimals
    unscaled_values = decimals.view(pa.decimal128(_MAX_PRECISION, 0))
    limit = pa.scalar(Decimal(10**type_.precision), unscaled_values.type)
    is_in_range = pc.and_(pc.less(unscaled_values, limit), pc.greater(unscaled_values, pc.negate(limit)))
    return pc.if_else(is_in_range, decimals, pa.scalar(None, decimals.type))


_MAX_PRECISION = 38


def _decode_strings(octets: Array, _: LogicalType) -> Array:
    try:
        return octets.cast(pa.string())
    except pa.ArrowException:
        return pa.array([_decode_text(value) for value in octets.to_pylist()], pa.string())


def _decode_text(octets: bytes | None) -> str | None:
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return None


def _decode_binaries(octets: Array, _: LogicalType) -> Array:
    return octets


def _decode_fixed(octets: Array, type_: LogicalType) -> Array:
    length = cast("FixedType", type_).length
    buffers = BinaryBuffers.from_array(octets)
    is_valid = (buffers.lengths <= length) & ~null_mask(octets)
    padded_octets = np.zeros((len(buffers), length), np.uint8)
    if len(buffers.octets):
        for byte in range(length):
            has_byte = is_valid & (buffers.lengths > byte)
            padded_octets[:, byte] = np.where(
                has_byte, buffers.octets[np.where(has_byte, buffers.offsets[:-1] + byte, 0)], 0
            )
    return pa.Array.from_buffers(
        pa.binary(length), len(buffers), [_validity_bitmap(is_valid), pa.py_buffer(padded_octets.tobytes())]
    )


def _decode_uuids(octets: Array, _: LogicalType) -> Array:
    has_length = pc.equal(pc.binary_length(octets), 16)
    return pc.if_else(has_length, octets, pa.scalar(None, octets.type)).cast(pa.binary(16))


_DECODERS: dict[TypeKind, Callable[[Array, LogicalType], Array]] = {
    TypeKind.BOOLEAN: _decode_booleans,
    TypeKind.INT: _decode_integers,
    TypeKind.LONG: _decode_integers,
    TypeKind.FLOAT: _decode_floats,
    TypeKind.DOUBLE: _decode_floats,
    TypeKind.DATE: _decode_dates,
    TypeKind.TIME: _decode_micros,
    TypeKind.TIMESTAMP: _decode_micros,
    TypeKind.TIMESTAMP_NTZ: _decode_micros,
    TypeKind.DECIMAL: _decode_decimals,
    TypeKind.STRING: _decode_strings,
    TypeKind.BINARY: _decode_binaries,
    TypeKind.FIXED: _decode_fixed,
    TypeKind.UUID: _decode_uuids,
}


def _decode_numbers(
    octets: Array, widths: Mapping[int, np.dtype[Any]], result_dtype: Any = np.int64
) -> tuple[Any, Bools]:
    """Return the numbers of binaries that have one of the widths, and a mask of where there is one."""
    for width, dtype in widths.items():
        packed_octets = _fixed_width_bytes(octets, width)
        if packed_octets is not None:
            return packed_octets.view(dtype).astype(result_dtype, copy=False), np.ones(len(octets), bool)
    buffers = BinaryBuffers.from_array(octets)
    lengths, is_valid = buffers.lengths, ~null_mask(octets)
    values = np.zeros(len(buffers), result_dtype)
    is_decoded = np.zeros(len(buffers), bool)
    for width, dtype in widths.items():
        of_width = is_valid & (lengths == width)
        if of_width.any():
            values[of_width] = _gather_bytes(buffers.octets, buffers.offsets[:-1][of_width], width).view(dtype).ravel()
            is_decoded |= of_width
    return values, is_decoded


def _fixed_width_bytes(octets: Array, width: int) -> Octets | None:
    """Return the bytes of an array as one run if no value is null and all have that width, else None."""
    if octets.null_count or octets.type != pa.binary() or not len(octets):
        return None
    _, offsets, content = octets.buffers()
    value_offsets = np.frombuffer(offsets, np.int32, len(octets) + 1, octets.offset * 4)
    if int(value_offsets[-1] - value_offsets[0]) != width * len(octets) or not bool(
        (np.diff(value_offsets) == width).all()
    ):
        return None
    return np.frombuffer(content, np.uint8)[value_offsets[0] : value_offsets[-1]]


def _gather_bytes(octets: Octets, starts: Ints, width: int) -> Any:
    """Return `width` bytes from each start, one row per start."""
    if len(starts) * width == len(octets):
        return np.ascontiguousarray(octets).reshape(-1, width)
    return np.ascontiguousarray(octets[starts[:, None] + np.arange(width)])


def _validity_bitmap(is_valid: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(is_valid, bitorder="little").tobytes())
