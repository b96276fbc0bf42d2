"""Physical values (see `partita.algebra.physical_values`) of Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.physical_values import NAN_RANK
from partita.algebra.types import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    NESTED_KINDS,
    TIMESTAMP_KINDS,
    CharType,
    DecimalType,
    FixedType,
    LogicalType,
    TypeKind,
)
from partita.arrow.buffers import (
    Array,
    Bools,
    Floats,
    Ints,
    decimal_words,
    dense_array,
    float64_values,
    int64_values,
    null_mask,
)
from partita.arrow.schema import to_arrow_type, to_logical_type
from partita.errors import PartitionsError

INT64_DIGITS = 18
"""The unscaled value of a decimal with up to this many digits fits an int64."""


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalArray:
    """The physical values of an array.

    `values` is a numpy int64 array; for decimals of more than 18 digits a numpy array of Python ints; for strings and
    bytes an Arrow array of `large_string` or `large_binary`. Values are undefined where `nulls` is true.
    """

    values: Any
    nulls: Bools

    def __len__(self) -> int:
        return len(self.nulls)

    def __getitem__(self, rows: slice) -> PhysicalArray:
        return PhysicalArray(self.values[rows], self.nulls[rows])


def pad_char_values(texts: Array, type_: CharType) -> Array:
    """Pad strings with spaces to the length of a CHAR type."""
    return pc.utf8_rpad(pc.cast(dense_array(texts), pa.large_string()), width=type_.length, padding=" ")


def pad_char_bounds(lower: Array | None, upper: Array | None, type_: CharType) -> tuple[Array | None, Array | None]:
    """Return bounds of padded CHAR values, given bounds of the values in files, which may not be padded.

    Padding never makes a value less. A padded value can exceed the padded upper bound only if the bound contains a
    character below the space; such a bound is dropped.
    """
    if upper is None:
        return lower, None
    texts = pc.cast(dense_array(upper), pa.large_string())
    is_safe = pc.invert(pc.match_substring_regex(texts, "[\\x00-\\x1f]"))
    return lower, pc.if_else(is_safe, pad_char_values(texts, type_), pa.scalar(None, texts.type))


def to_physical_array(array: Array, type_: LogicalType) -> PhysicalArray:
    """Return the physical values of an array of the type, in any Arrow type that `cast_to_logical` accepts."""
    values = cast_to_logical(array, type_)
    return PhysicalArray(_CONVERTERS.get(type_.kind, int64_values)(values), null_mask(values))


def cast_to_logical(array: Array, type_: LogicalType) -> Array:
    """Return the values as one `pa.Array` of the type's Arrow type; strings and bytes as large ones, floats as doubles.

    Integers may have another width, decimals another scale, timestamps another unit, strings may be
    dictionary-encoded, and UUIDs be 16 bytes. Raises `PartitionsError` for a value that the type can't hold exactly,
    or for an array of another kind.
    """
    values = dense_array(array)
    if type_.kind in NESTED_KINDS or type_.kind is TypeKind.OTHER:
        raise PartitionsError(f"values of type {type_} have no order, so partitions can't be compared by them")
    castable_kinds = _CASTABLE_KINDS.get(type_.kind, {type_.kind})
    if not pa.types.is_null(values.type) and _array_kind(values.type) not in castable_kinds:
        raise PartitionsError(f"an Arrow array of {array.type} does not hold values of type {type_}")
    try:
        return _cast_values(values, type_)
    except pa.ArrowException as error:
        raise PartitionsError(f"an Arrow array of {array.type} has a value that is not a {type_}: {error}") from None


def float_ranks(values: Floats) -> Ints:
    """Return `partita.algebra.physical_values.float_rank` of every double."""
    bits = (values + 0.0).view(np.int64)
    ranks = np.where(bits >= 0, bits, -(bits & 0x7FFF_FFFF_FFFF_FFFF))
    return cast("Ints", np.where(np.isnan(values), NAN_RANK, ranks))


def _array_kind(type_: pa.DataType) -> TypeKind:
    """Return the kind of values in an array, also for types that are too precise for a logical type."""
    if pa.types.is_timestamp(type_):
        return TypeKind.TIMESTAMP_NTZ if type_.tz is None else TypeKind.TIMESTAMP
    if pa.types.is_time(type_):
        return TypeKind.TIME
    return TypeKind.DECIMAL if pa.types.is_decimal(type_) else to_logical_type(type_).kind


def _cast_values(array: Array, type_: LogicalType) -> Array:
    if isinstance(type_, DecimalType) and pa.types.is_integer(array.type):
        array = pc.cast(array, pa.decimal128(20, 0))  # Arrow requires room for all digits of the integer type
    if type_.kind in TIMESTAMP_KINDS and pa.types.is_timestamp(array.type):
        return pc.cast(array, pa.timestamp("us", array.type.tz))
    if type_.kind in BINARY_KINDS or type_.kind is TypeKind.UUID:
        return _check_length(pc.cast(array, pa.large_binary()), type_)
    if type_.kind is TypeKind.STRING:
        array = pc.cast(array, pa.large_string())
        array.validate(full=True)
        return array
    arrow_type = pa.float64() if type_.kind in FLOAT_KINDS else to_arrow_type(type_)
    return array if array.type == arrow_type else pc.cast(array, arrow_type)


def _check_length(array: Array, type_: LogicalType) -> Array:
    length = 16 if type_.kind is TypeKind.UUID else type_.length if isinstance(type_, FixedType) else None
    if length is not None and pc.any(pc.not_equal(pc.binary_length(array), length)).as_py():
        raise PartitionsError(f"every value of type {type_} must have {length} bytes")
    return array


def _unscaled_values(array: Array) -> np.ndarray[Any, Any]:
    low, high = decimal_words(array)
    if array.type.precision <= INT64_DIGITS:
        return low.view(np.int64)
    return cast("np.ndarray[Any, Any]", high.astype(object) * 2**64 + low.astype(object))


def _same_array(array: Array) -> Array:
    return array


_CONVERTERS: dict[TypeKind, Callable[[Array], Any]] = {
    TypeKind.BOOLEAN: lambda array: int64_values(pc.cast(array, pa.int8())),
    **dict.fromkeys(FLOAT_KINDS, lambda array: float_ranks(float64_values(array))),
    TypeKind.DECIMAL: _unscaled_values,
    **dict.fromkeys(BINARY_KINDS | {TypeKind.STRING, TypeKind.UUID}, _same_array),
    TypeKind.NULL: lambda array: np.zeros(len(array), np.int64),
}

_CASTABLE_KINDS: dict[TypeKind, frozenset[TypeKind]] = {
    **dict.fromkeys(INTEGER_KINDS, INTEGER_KINDS | {TypeKind.DECIMAL}),
    **dict.fromkeys(FLOAT_KINDS, FLOAT_KINDS | INTEGER_KINDS),
    TypeKind.DECIMAL: INTEGER_KINDS | {TypeKind.DECIMAL},
    TypeKind.BINARY: BINARY_KINDS,
    TypeKind.FIXED: BINARY_KINDS,
    TypeKind.UUID: BINARY_KINDS | {TypeKind.UUID},
}
