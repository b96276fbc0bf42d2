"""Partition functions over whole Arrow arrays: the Arrow rendering of `partita.algebra.transforms`.

Each function registers up to three renderings by its class: `_apply_array` (forward), `preimage_bounds` (from results
to bounds of the source values) and `possible_results` (which values the function can return at all).
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import MICROS_PER_DAY
from partita.algebra.physical_values import is_in_range
from partita.algebra.transforms import (
    BucketTransform,
    CalendarTransform,
    HashTransform,
    HourTransform,
    IdentityTransform,
    PartitionFunction,
    Transform,
    TransformFamily,
    TruncateTransform,
    VoidTransform,
)
from partita.algebra.type_text import parse_type
from partita.algebra.types import DATE, DecimalType, LogicalType, TypeKind
from partita.arrow.buffers import (
    Array,
    BinaryBuffers,
    Bools,
    Ints,
    UInts,
    decimal_words,
    dense_array,
    narrow_string_array,
    null_mask,
)
from partita.arrow.hashing import murmur3_hashes
from partita.arrow.physical_values import PhysicalArray, cast_to_logical, to_physical_array
from partita.arrow.scalar_text import hex_digits
from partita.arrow.schema import to_arrow_type, to_logical_type
from partita.errors import PartitionsError, SchemaError, SpecError, value_repr

# --- forward


def apply(
    f: PartitionFunction,
    array: Array,
    *,
    family: str,
    type: LogicalType | str | None = None,  # noqa: A002 - as PartitionFunction.apply has it
) -> Array:
    """Apply a partition function to every value and return one `pa.Array`; null stays null.

    The type of the values is inferred from the array unless `type` is given, which also allows nanoseconds without a
    remainder, or 16 bytes for a UUID. The results are `int32` for calendar functions and buckets, `string` for `hash`,
    and else of the array's type, or of the Arrow type of `type`.

    Raises `TransformError` if the function does not take the type, and `PartitionsError` if a value or a result is out
    of the range of its type.
    """
    transform_family = TransformFamily.of(family)
    if not isinstance(f, PartitionFunction):
        raise SpecError(f"a partition function is made by bucket, day and the like, not {value_repr(f)}")
    if not isinstance(array, pa.Array | pa.ChunkedArray):
        raise PartitionsError(f"{f} must be applied to an Arrow array, not to a {array.__class__.__name__}")
    value_type = to_logical_type(array.type) if type is None else parse_type(type) if isinstance(type, str) else type
    if not isinstance(value_type, LogicalType):
        raise SchemaError(f"a type is a LogicalType or the name of one, not {value_repr(value_type)}")
    # An array of type null holds no values, so any function takes it.
    is_untyped = type is None and value_type.kind is TypeKind.NULL and f.transform.is_known
    if not is_untyped:
        f.transform.check_type(value_type, transform_family, f.source)
    values = dense_array(array)
    result_type = _result_arrow_type(f.transform, array, value_type, is_given=type is not None)
    if is_untyped or f.transform.is_void or pa.types.is_null(values.type):
        return pa.nulls(len(values), result_type)
    results = _apply_array(f.transform, values, value_type, transform_family)
    return _cast_to_arrow(results, result_type) if f.transform.keeps_source_type else results


def _result_arrow_type(transform: Transform, array: Array, type_: LogicalType, *, is_given: bool) -> pa.DataType:
    if is_given or not transform.keeps_source_type:
        return to_arrow_type(transform.result_type(type_))
    return array.type.value_type if pa.types.is_dictionary(array.type) else array.type


@singledispatch
def _apply_array(transform: Transform, array: Array, type_: LogicalType, family: TransformFamily) -> Array:
    raise NotImplementedError(f"{transform} has no Arrow rendering")


@_apply_array.register
def _apply_identity(_: IdentityTransform, array: Array, type_: LogicalType, __: TransformFamily) -> Array:
    return cast_to_logical(array, type_)


@_apply_array.register
def _apply_bucket(transform: BucketTransform, array: Array, type_: LogicalType, _: TransformFamily) -> Array:
    hashes = murmur3_hashes(array, type_) & np.uint32(0x7FFF_FFFF)
    return _int32_array(hashes % np.uint32(transform.num_buckets), null_mask(array))


@_apply_array.register
def _apply_hash(_: HashTransform, array: Array, type_: LogicalType, __: TransformFamily) -> Array:
    octets = murmur3_hashes(array, type_).astype(">u4").view(np.uint8)
    digits = BinaryBuffers(hex_digits(octets), np.arange(len(array) + 1, dtype=np.int64) * 8)
    return narrow_string_array(digits.to_array(pa.large_string(), null_mask(array)))


@_apply_array.register
def _apply_calendar(transform: CalendarTransform, array: Array, type_: LogicalType, family: TransformFamily) -> Array:
    physical = to_physical_array(array, type_)
    days = physical.values if type_.kind is TypeKind.DATE else physical.values // MICROS_PER_DAY
    if len(days) and abs(days).max() < _MAX_INT32_DAYS:
        days = days.astype(np.int32)  # numpy divides 32-bit integers many times faster
    return _int32_array(transform.compute(days, DATE, family), physical.nulls)


_MAX_INT32_DAYS = 2**30
"""Days nearer to 1970 than this stay within 32 bits in every step of the calendar arithmetic."""


@_apply_array.register
def _apply_hour(transform: HourTransform, array: Array, type_: LogicalType, family: TransformFamily) -> Array:
    physical = to_physical_array(array, type_)
    return _int32_array(transform.compute(physical.values, type_, family), physical.nulls)


@_apply_array.register
def _apply_truncate(transform: TruncateTransform, array: Array, type_: LogicalType, _: TransformFamily) -> Array:
    width = transform.width
    if isinstance(type_, DecimalType):
        return _truncate_decimals(cast_to_logical(array, type_), width)
    physical = to_physical_array(array, type_)
    if type_.kind is TypeKind.STRING:
        return pc.utf8_slice_codeunits(physical.values, 0, width)
    if type_.kind is TypeKind.BINARY:
        return pc.binary_slice(physical.values, 0, width)
    lower_multiples = physical.values - physical.values % width
    _check_overflow(physical.values, lower_multiples, transform, type_)
    return pa.array(lower_multiples, mask=physical.nulls)


def _check_overflow(values: Ints, lower_multiples: Ints, transform: TruncateTransform, type_: LogicalType) -> None:
    """Raise `PartitionsError` if the multiple of the width below a number is out of the range of the type."""
    if len(values) and ((lower_multiples > values).any() or not is_in_range(int(lower_multiples.min()), type_)):
        raise PartitionsError(f"{transform} of {values.min()} is below the range of type {type_}")


def _truncate_decimals(array: Array, width: int) -> Array:
    low, high = decimal_words(array)
    remainder = _decimal_remainder(low, high, width)
    words = np.stack((low - remainder, (high - (low < remainder)).view(np.uint64)), axis=1)
    unscaled_array = pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(words)])
    try:
        unscaled_array.validate(full=True)
    except pa.ArrowInvalid:
        raise PartitionsError(f"truncate[{width}] has a result that is out of the range of {array.type}") from None
    return pc.if_else(pc.is_valid(array), unscaled_array, pa.scalar(None, array.type))


def _decimal_remainder(low: UInts, high: Ints, width: int) -> UInts:
    """Return 128-bit numbers modulo a positive 31-bit number, never negative: 32 bits at a time, from the highest."""
    divisor = np.uint64(width)
    half = np.uint64(32)
    upper = high.view(np.uint64)
    remainder: UInts = np.zeros(len(low), np.uint64)
    for word in (upper >> half, upper, low >> half, low):
        remainder = (remainder << half | word & np.uint64(0xFFFF_FFFF)) % divisor
    unsigned_excess = np.uint64(2**128 % width)
    return np.where(high < 0, (remainder + divisor - unsigned_excess) % divisor, remainder)


def _int32_array(numbers: Any, nulls: Bools) -> Array:
    if len(numbers) and not (int(numbers.min()) >= -(2**31) and int(numbers.max()) < 2**31):
        raise PartitionsError("a timestamp is so far from 1970 that its ordinal exceeds 32 bits")
    return pa.array(numbers.astype(np.int32), mask=nulls)


def _cast_to_arrow(array: Array, type_: pa.DataType) -> Array:
    """Cast an array to another Arrow type for the same values."""
    if isinstance(type_, pa.UuidType):
        return pa.ExtensionArray.from_storage(type_, pc.cast(array, type_.storage_type))
    return pc.cast(array, type_)


# --- backward


@singledispatch
def preimage_bounds(transform: Transform, results: PhysicalArray, type_: LogicalType) -> tuple[Any, Any]:
    """Return the least and greatest source value for each result of the Iceberg family, as physical values.

    This is `Transform.preimage` over numeric arrays, for functions that keep the order of values.
    """
    raise NotImplementedError(f"{transform} has no preimage over arrays")


@preimage_bounds.register
def _identity_bounds(_: IdentityTransform, results: PhysicalArray, __: LogicalType) -> tuple[Any, Any]:
    return results.values, results.values


@preimage_bounds.register
def _truncate_bounds(transform: TruncateTransform, results: PhysicalArray, _: LogicalType) -> tuple[Any, Any]:
    values, distance = results.values, transform.width - 1
    if values.dtype == object:
        return values, values + distance
    # The sum must not overflow.
    return values, np.where(values > _INT64_MAX - distance, _INT64_MAX, values + distance)


@preimage_bounds.register
def _calendar_bounds(transform: CalendarTransform, results: PhysicalArray, type_: LogicalType) -> tuple[Any, Any]:
    return calendar_bounds(transform, results.values, type_)


_INT64_MAX = 2**63 - 1


def calendar_bounds(transform: CalendarTransform, ordinals: Ints, type_: LogicalType) -> tuple[Ints, Ints]:
    """Return the least and greatest date or timestamp of each year, month, day or hour, given by Iceberg's ordinal."""
    first, after = transform.period_start(ordinals), transform.period_start(ordinals + 1)
    if type_.kind is TypeKind.DATE:
        return first, after - 1
    # Periods beyond the limit have no microseconds in an int64, and so no rows. numpy's `clip` is several times slower.
    limit = _INT64_MAX // transform.unit_micros
    first, after = (np.minimum(np.maximum(start, -limit), limit) for start in (first, after))
    return first * transform.unit_micros, after * transform.unit_micros - 1


# --- possible results


def impossible_results(transform: Transform, results: Array, type_: LogicalType, family: TransformFamily) -> Array:
    """Return those of the values that the function returns for no value of the source type."""
    possible_results = _possible_results(transform, results, type_, family)
    return results.filter(pc.invert(possible_results)) if possible_results is not None else results.slice(0, 0)


@singledispatch
def _possible_results(transform: Transform, results: Array, _: LogicalType, family: TransformFamily) -> Array | None:
    limits = transform.result_range(family)
    if limits is None:
        return None
    return pc.and_(pc.greater_equal(results, limits.start), pc.less_equal(results, limits.stop - 1))


@_possible_results.register
def _possible_hashes(_: HashTransform, results: Array, __: LogicalType, ___: TransformFamily) -> Array:
    return pc.match_substring_regex(results, "^[0-9a-f]{8}$")


@_possible_results.register
def _possible_truncated(
    transform: TruncateTransform, results: Array, type_: LogicalType, family: TransformFamily
) -> Array:
    truncated_results = apply(PartitionFunction("", transform, ""), results, family=family, type=type_)
    return pc.equal(truncated_results, results)


@_possible_results.register
def _possible_nulls(_: VoidTransform, results: Array, __: LogicalType, ___: TransformFamily) -> Array:
    return pc.is_null(results)
