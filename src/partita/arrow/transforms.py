"""The partition functions over whole Arrow arrays: `partita.algebra.transforms`, forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import DAY
from partita.algebra.plain import in_range
from partita.algebra.transforms import Family, PartitionFunction, time_part
from partita.algebra.type_text import parse_type
from partita.algebra.types import DATE, DecimalType, Kind, LogicalType
from partita.arrow.buffers import Array, Bools, Ints, Runs, UInts, limbs, narrow_text, null_mask, one_array
from partita.arrow.hashing import hashes
from partita.arrow.plain import exact, ranks
from partita.arrow.scalar_text import hex_texts
from partita.arrow.schema import to_arrow, to_logical
from partita.errors import PartitionsError, SchemaError, SpecError, value_repr


def apply(
    f: PartitionFunction,
    array: Array,
    *,
    family: str,
    type: LogicalType | str | None = None,  # noqa: A002 - as PartitionFunction.apply has it
) -> Array:
    """The function of every value, as one `pa.Array`; null stays null.

    The type of the values is told from the array unless `type` gives it, which also allows nanoseconds without a
    remainder, or 16 bytes for a UUID. The results are `int32` for parts, ordinals and buckets, `string` for `hash`, and
    else of the array's type, or of the one that `type` means. A type that the function doesn't take is a
    `TransformError`; a value that the type can't hold, or a result that its type can't, a `PartitionsError`.
    """
    of = Family.of(family)
    if not isinstance(f, PartitionFunction):
        raise SpecError(f"a partition function is made by bucket, day and the like, not {value_repr(f)}")
    if not isinstance(array, pa.Array | pa.ChunkedArray):
        raise PartitionsError(f"{f} is applied to an Arrow array, not to a {array.__class__.__name__}")
    known = to_logical(array.type) if type is None else parse_type(type) if isinstance(type, str) else type
    if not isinstance(known, LogicalType):
        raise SchemaError(f"a type is one of Partita's or its name, not {value_repr(known)}")
    unknown_nulls = type is None and known.kind is Kind.NULL and f.transform.known
    if not unknown_nulls:
        f.transform.check(known, of, f.source)
    whole = one_array(array)
    result = _result_type(f, array, known, given=type is not None)
    if unknown_nulls or f.transform.name == "void" or pa.types.is_null(whole.type):
        return pa.nulls(len(whole), result)
    return _RULES.get(f.transform.name, _time_parts)(f, whole, known, result, of)


def _result_type(f: PartitionFunction, array: Array, type_: LogicalType, *, given: bool) -> pa.DataType:
    result = f.transform.result_type(type_)
    if given or f.transform.name not in ("identity", "truncate", "void"):
        return to_arrow(result)
    return array.type.value_type if pa.types.is_dictionary(array.type) else array.type


def _identity(_: PartitionFunction, array: Array, type_: LogicalType, result: pa.DataType, __: Family) -> Array:
    return _cast(exact(array, type_), result)


def _bucket(f: PartitionFunction, array: Array, type_: LogicalType, *_: Any) -> Array:
    hashed = hashes(array, type_) & np.uint32(0x7FFF_FFFF)
    return _int32s(hashed % np.uint32(cast("int", f.transform.width)), null_mask(array))


def _hash(_: PartitionFunction, array: Array, type_: LogicalType, *__: Any) -> Array:
    octets = hashes(array, type_).astype(">u4").view(np.uint8)
    runs = Runs(hex_texts(octets), np.arange(len(array) + 1, dtype=np.int64) * 8)
    return narrow_text(runs.to_array(pa.large_string(), null_mask(array)))


def _time_parts(f: PartitionFunction, array: Array, type_: LogicalType, _: pa.DataType, family: Family) -> Array:
    plains = ranks(array, type_)
    if f.transform.name == "hour":
        return _int32s(time_part("hour", plains.values, type_, family), plains.null)
    days = plains.values if type_.kind is Kind.DATE else plains.values // DAY
    if len(days) and abs(days).max() < _SAFE_DAYS:
        days = days.astype(np.int32)  # numpy divides them many times faster
    return _int32s(time_part(f.transform.name, days, DATE, family), plains.null)


_SAFE_DAYS = 2**30
"""So many days from 1970 stay within 32 bits in every step of the calendar's arithmetic."""


def _truncate(f: PartitionFunction, array: Array, type_: LogicalType, result: pa.DataType, _: Family) -> Array:
    width = cast("int", f.transform.width)
    if isinstance(type_, DecimalType):
        return _cast(_truncated_decimals(exact(array, type_), width), result)
    plains = ranks(array, type_)
    if type_.kind is Kind.STRING:
        return _cast(pc.utf8_slice_codeunits(plains.values, 0, width), result)
    if type_.kind is Kind.BINARY:
        return _cast(pc.binary_slice(plains.values, 0, width), result)
    floored = plains.values - plains.values % width
    _refuse_overflow(plains.values, floored, width, type_)
    return _cast(pa.array(floored, mask=plains.null), result)


_Rule: TypeAlias = Callable[[PartitionFunction, Array, LogicalType, pa.DataType, Family], Array]
_RULES: dict[str, _Rule] = {"identity": _identity, "bucket": _bucket, "hash": _hash, "truncate": _truncate}


def _refuse_overflow(values: Ints, floored: Ints, width: int, type_: LogicalType) -> None:
    """A number near the smallest of its type, whose multiple below is out of the type's range."""
    if len(values) and ((floored > values).any() or not in_range(int(floored.min()), type_)):
        raise PartitionsError(f"truncate[{width}] of {values.min()} is less than type {type_} holds")


def _truncated_decimals(array: Array, width: int) -> Array:
    low, high = limbs(array)
    rest = _remainder(low, high, width)
    words = np.stack((low - rest, (high - (low < rest)).view(np.uint64)), axis=1)
    floored = pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(words)])
    try:
        floored.validate(full=True)
    except pa.ArrowInvalid:
        raise PartitionsError(f"truncate[{width}] has a result that {array.type} can't hold") from None
    return pc.if_else(pc.is_valid(array), floored, pa.scalar(None, array.type))


def _remainder(low: UInts, high: Ints, width: int) -> UInts:
    """Numbers of 128 bits modulo a positive one of 31, never negative: 32 bits at a time, from the highest."""
    divisor = np.uint64(width)
    half = np.uint64(32)
    upper = high.view(np.uint64)
    rest: UInts = np.zeros(len(low), np.uint64)
    for word in (upper >> half, upper, low >> half, low):
        rest = (rest << half | word & np.uint64(0xFFFF_FFFF)) % divisor
    unsigned_excess = np.uint64(2**128 % width)
    return np.where(high < 0, (rest + divisor - unsigned_excess) % divisor, rest)


def _int32s(numbers: Any, null: Bools) -> Array:
    if len(numbers) and not (int(numbers.min()) >= -(2**31) and int(numbers.max()) < 2**31):
        raise PartitionsError("a timestamp lies so far out that 32 bits can't hold its ordinal")
    return pa.array(numbers.astype(np.int32), mask=null)


def _cast(array: Array, type_: pa.DataType) -> Array:
    """The same values under another Arrow type that holds them."""
    if isinstance(type_, pa.UuidType):
        return pa.ExtensionArray.from_storage(type_, pc.cast(array, type_.storage_type))
    return pc.cast(array, type_)
