"""What files say of their columns, from the bounds and counts of manifests (specification, "Data File Fields").

Columns are found by their ids. Bounds are bytes of the type that the column had when the file was written
(specification, appendix D), which may be narrower than the type that it has now. Bytes that are none of the type say
nothing.

| column | bytes |
|---|---|
| boolean | one, 0 is false |
| int, long | four or eight, the least significant first |
| float, double | four or eight |
| date; time, timestamps | four; eight, or the four of a date |
| decimal | the unscaled value, the most significant first, as few as hold it |
| string, binary | the bytes; a cut one is an end still |
| fixed | the bytes; one that was cut is filled up with zeros, and an end still |
| uuid | sixteen |

NaN is in no bounds, and above all to Spark: `partita.arrow.prune` takes no upper bound of a float for that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import DAY
from partita.algebra.schema import Schema
from partita.algebra.types import BITS, NESTED, DecimalType, Field, FixedType, Kind, LogicalType, StructType
from partita.arrow.buffers import Array, Bools, Ints, Octets, Runs, null_mask
from partita.arrow.prune import Statistics
from partita.arrow.schema import to_arrow


def file_statistics(
    entries: pa.Table, schema: Schema, ids: Mapping[str, int], columns: Sequence[str], places: Ints | None = None
) -> dict[str, Statistics]:
    """What the files say of the columns of those names, and of what is inside of structs among them.

    `entries` are rows of `partita.formats.iceberg.manifests.ENTRIES`, `ids` those of the columns, and `places` the
    rows that are asked for, in ascending order; None is all.
    """
    wanted = frozenset(columns)
    fields = [leaf for f in schema if f.name in wanted for leaf in _leaves(f)]
    return {f.name: _statistics(entries, ids[f.name], f.type, places) for f in fields if f.name in ids}


def _leaves(field: Field) -> Iterator[Field]:
    if isinstance(field.type, StructType):
        for inner in field.type.fields:
            yield from _leaves(Field(f"{field.name}.{inner.name}", inner.type))
    elif field.type.kind not in NESTED | {Kind.OTHER}:
        yield field


def _statistics(entries: pa.Table, number: int, type_: LogicalType, places: Ints | None) -> Statistics:
    nulls = of_column(entries["null_value_counts"], number, places)
    # A column outside of lists and maps has one value a row, null or not.
    rows = entries["record_count"] if places is None else entries["record_count"].take(pa.array(places))
    lower, upper = (
        decoded(of_column(entries[name], number, places), type_) for name in ("lower_bounds", "upper_bounds")
    )
    if type_.kind is Kind.UUID:
        lower, upper = _in_order(lower, upper)
    return Statistics(lower, upper, nulls, rows)


def _in_order(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Ends that some writers took by another order than that of bytes are none."""
    good = pc.less_equal(lower.cast(pa.binary()), upper.cast(pa.binary()))
    nothing = pa.scalar(None, lower.type)
    return pc.if_else(good, lower, nothing), pc.if_else(good, upper, nothing)


def of_column(maps: pa.ChunkedArray, number: int, places: Ints | None = None) -> Array:
    """The value of that key in each of many maps, or in those at some places; null where one hasn't it."""
    found, start = [], 0
    for chunk in maps.chunks:
        end = start + len(chunk)
        rows = slice(None) if places is None else places[slice(*np.searchsorted(places, (start, end)))] - start
        found.append(_looked_up(chunk, number, rows))
        start = end
    return pa.concat_arrays(found) if found else pa.array([], maps.type.item_type)


def _looked_up(maps: pa.MapArray, number: int, rows: Ints | slice) -> Array:
    """Only items of `rows` are copied, for a copy of all maps takes longer than all else."""
    offsets = maps.offsets.to_numpy()
    starts = offsets[:-1][rows]
    if not len(starts) or offsets[0] == offsets[-1]:
        return pa.nulls(len(starts), maps.type.item_type)
    keys = maps.keys.to_numpy()
    width = int(offsets[1] - offsets[0])
    if width and maps.null_count == 0 and bool((np.diff(offsets) == width).all()):
        # Writers put the same columns into every file, so that a key has the same place in each map.
        first = int(offsets[0])
        (found,) = np.nonzero(keys[first : first + width] == number)
        place = first + int(found[0]) if len(found) else None
        if place is not None and bool((keys[place : int(offsets[-1]) : width] == number).all()):
            return maps.items.take(pa.array(starts + (place - first)))
    first = int(offsets[0])
    places = np.flatnonzero(keys[first : int(offsets[-1])] == number) + first
    owners = np.searchsorted(offsets, places, side="right") - 1
    at = np.full(len(maps), -1, np.int64)
    at[owners[::-1]] = places[::-1]
    missing = (at < 0) | null_mask(maps)
    return maps.items.take(pa.array(at[rows], mask=missing[rows]))


# --- bytes, by type


def decoded(octets: Array, type_: LogicalType) -> Array:
    """The values that bytes stand for, as an Arrow array of the type's own; null where they stand for none."""
    return _DECODERS.get(type_.kind, _nothing)(octets, type_)


def _nothing(octets: Array, type_: LogicalType) -> Array:
    return pa.nulls(len(octets), to_arrow(type_) if type_.kind is not Kind.OTHER else pa.null())


def _booleans(octets: Array, _: LogicalType) -> Array:
    values, known = _numbers(octets, {1: np.dtype(np.uint8)})
    return pa.array(values != 0, mask=~known)


def _integers(octets: Array, type_: LogicalType) -> Array:
    values, known = _numbers(octets, {4: np.dtype("<i4"), 8: np.dtype("<i8")})
    half = 1 << (BITS[type_.kind] - 1)
    fits = known & (values >= -half) & (values <= half - 1)
    return pa.array(np.where(fits, values, 0), pa.int64(), mask=~fits).cast(to_arrow(type_))


def _floats(octets: Array, type_: LogicalType) -> Array:
    widths: dict[int, np.dtype[Any]] = {4: np.dtype("<f4")}
    if type_.kind is Kind.DOUBLE:
        widths[8] = np.dtype("<f8")
    values, known = _numbers(octets, widths, np.float64)
    return pa.array(values, pa.float64(), mask=~known).cast(to_arrow(type_))


def _dates(octets: Array, _: LogicalType) -> Array:
    values, known = _numbers(octets, {4: np.dtype("<i4")})
    return pa.array(values.astype(np.int32), pa.int32(), mask=None if known.all() else ~known).view(pa.date32())


def _micros(octets: Array, type_: LogicalType) -> Array:
    values, known = _numbers(octets, {8: np.dtype("<i8")})
    if type_.kind is not Kind.TIME:
        days, dates = _numbers(octets, {4: np.dtype("<i4")})
        dates &= np.abs(days) < _LAST_DAY
        values, known = np.where(dates, days * DAY, values), known | dates
    return pa.array(values, pa.int64(), mask=~known).cast(to_arrow(type_))


_LAST_DAY = 2**63 // DAY - 1


def _decimals(octets: Array, type_: LogicalType) -> Array:
    """Sixteen bytes each, the least significant first, filled up with the sign."""
    runs = Runs.of(octets)
    known = (runs.lengths >= 1) & (runs.lengths <= 16) & ~null_mask(octets)
    ends = runs.offsets[1:]
    wide = np.zeros((len(runs), 16), np.uint8)
    if len(runs.octets):
        sign = runs.octets[np.where(known, runs.offsets[:-1], 0)] >= 0x80
        for byte in range(16):
            here = known & (runs.lengths > byte)
            wide[:, byte] = np.where(here, runs.octets[np.where(here, ends - 1 - byte, 0)], np.where(sign, 255, 0))
    made = pa.Array.from_buffers(to_arrow(type_), len(runs), [_bits(known), pa.py_buffer(wide.tobytes())])
    return _within_digits(made, cast("DecimalType", type_))


def _within_digits(decimals: Array, type_: DecimalType) -> Array:
    """Values of more digits than the type has say nothing."""
    if type_.precision == _MOST_DIGITS:
        return decimals
    unscaled = decimals.view(pa.decimal128(_MOST_DIGITS, 0))
    limit = pa.scalar(Decimal(10**type_.precision), unscaled.type)
    fits = pc.and_(pc.less(unscaled, limit), pc.greater(unscaled, pc.negate(limit)))
    return pc.if_else(fits, decimals, pa.scalar(None, decimals.type))


_MOST_DIGITS = 38


def _strings(octets: Array, _: LogicalType) -> Array:
    try:
        return octets.cast(pa.string())
    except pa.ArrowException:
        return pa.array([_text(value) for value in octets.to_pylist()], pa.string())


def _text(octets: bytes | None) -> str | None:
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return None


def _binaries(octets: Array, _: LogicalType) -> Array:
    return octets


def _fixed(octets: Array, type_: LogicalType) -> Array:
    length = cast("FixedType", type_).length
    runs = Runs.of(octets)
    known = (runs.lengths <= length) & ~null_mask(octets)
    filled = np.zeros((len(runs), length), np.uint8)
    if len(runs.octets):
        for byte in range(length):
            here = known & (runs.lengths > byte)
            filled[:, byte] = np.where(here, runs.octets[np.where(here, runs.offsets[:-1] + byte, 0)], 0)
    return pa.Array.from_buffers(pa.binary(length), len(runs), [_bits(known), pa.py_buffer(filled.tobytes())])


def _uuids(octets: Array, _: LogicalType) -> Array:
    whole = pc.equal(pc.binary_length(octets), 16)
    return pc.if_else(whole, octets, pa.scalar(None, octets.type)).cast(pa.binary(16))


_DECODERS: dict[Kind, Callable[[Array, LogicalType], Array]] = {
    Kind.BOOLEAN: _booleans,
    Kind.INT: _integers,
    Kind.LONG: _integers,
    Kind.FLOAT: _floats,
    Kind.DOUBLE: _floats,
    Kind.DATE: _dates,
    Kind.TIME: _micros,
    Kind.TIMESTAMP: _micros,
    Kind.TIMESTAMP_NTZ: _micros,
    Kind.DECIMAL: _decimals,
    Kind.STRING: _strings,
    Kind.BINARY: _binaries,
    Kind.FIXED: _fixed,
    Kind.UUID: _uuids,
}


def _numbers(octets: Array, widths: Mapping[int, np.dtype[Any]], into: Any = np.int64) -> tuple[Any, Bools]:
    """The numbers that runs of those widths are, and where there is one."""
    for width, kind in widths.items():
        whole = _of_width(octets, width)
        if whole is not None:
            return whole.view(kind).astype(into, copy=False), np.ones(len(octets), bool)
    runs = Runs.of(octets)
    lengths, valid = runs.lengths, ~null_mask(octets)
    values = np.zeros(len(runs), into)
    known = np.zeros(len(runs), bool)
    for width, kind in widths.items():
        of_width = valid & (lengths == width)
        if of_width.any():
            values[of_width] = _gathered(runs.octets, runs.offsets[:-1][of_width], width).view(kind).ravel()
            known |= of_width
    return values, known


def _of_width(octets: Array, width: int) -> Octets | None:
    """The bytes of an array whose every value is there and has that width, as one run; None of any other."""
    if octets.null_count or octets.type != pa.binary() or not len(octets):
        return None
    _, offsets, content = octets.buffers()
    ends = np.frombuffer(offsets, np.int32, len(octets) + 1, octets.offset * 4)
    if int(ends[-1] - ends[0]) != width * len(octets) or not bool((np.diff(ends) == width).all()):
        return None
    return np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]


def _gathered(octets: Octets, starts: Ints, width: int) -> Any:
    """So many bytes from each start, one row each."""
    if len(starts) * width == len(octets):
        return np.ascontiguousarray(octets).reshape(-1, width)
    return np.ascontiguousarray(octets[starts[:, None] + np.arange(width)])


def _bits(known: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
