"""Plain values (`partita.algebra.plain`) of whole Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.plain import NAN_RANK
from partita.algebra.types import (
    BYTES,
    FLOATS,
    INSTANTS,
    INTEGERS,
    NESTED,
    CharType,
    DecimalType,
    FixedType,
    Kind,
    LogicalType,
)
from partita.arrow.buffers import Array, Bools, Floats, Ints, float64_values, int64_values, limbs, null_mask, one_array
from partita.arrow.schema import to_arrow, to_logical
from partita.errors import PartitionsError

INT64_DIGITS = 18
"""A decimal of so many digits has an unscaled value that an int64 holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Plains:
    """The plain values of an array.

    `values` is a numpy int64 array; for decimals of over 18 digits a numpy array of Python's ints; for text and bytes
    an Arrow array of `large_string` or `large_binary`. What stands where `null` is true means nothing.
    """

    values: Any
    null: Bools

    def __len__(self) -> int:
        return len(self.null)

    def __getitem__(self, rows: slice) -> Plains:
        return Plains(self.values[rows], self.null[rows])


def padded(texts: Array, type_: CharType) -> Array:
    """Texts as CHAR values read: with spaces behind them, up to the length of the type."""
    return pc.utf8_rpad(pc.cast(one_array(texts), pa.large_string()), width=type_.length, padding=" ")


def padded_ends(lower: Array | None, upper: Array | None, type_: CharType) -> tuple[Array | None, Array | None]:
    """Bounds of padded values, given the bounds of the same values as files hold them, perhaps not padded.

    A padded value is not less than the value. It may be greater than the padded upper bound only where that has a
    character below the space in it; then there is no bound.
    """
    if upper is None:
        return lower, None
    texts = pc.cast(one_array(upper), pa.large_string())
    known = pc.invert(pc.match_substring_regex(texts, "[\\x00-\\x1f]"))
    return lower, pc.if_else(known, padded(texts, type_), pa.scalar(None, texts.type))


def ranks(array: Array, type_: LogicalType) -> Plains:
    """The plain values of an array that holds values of that type, under whatever Arrow type (see `exact`)."""
    whole = exact(array, type_)
    return Plains(_RANKS.get(type_.kind, int64_values)(whole), null_mask(whole))


def exact(array: Array, type_: LogicalType) -> Array:
    """The same values as one `pa.Array` of the type's own Arrow type; text and bytes as large ones, floats as doubles.

    An integer may be of another width, a decimal of another scale, a timestamp of another unit, text a dictionary, and
    a UUID 16 bytes. A value that the type can't hold exactly, or an array of another sort, is a `PartitionsError`.
    """
    whole = one_array(array)
    if type_.kind in NESTED or type_.kind is Kind.OTHER:
        raise PartitionsError(f"values of type {type_} have no order that partitions could be compared by")
    if not pa.types.is_null(whole.type) and _kind(whole.type) not in _SOURCES.get(type_.kind, {type_.kind}):
        raise PartitionsError(f"an Arrow array of {array.type} does not hold values of type {type_}")
    try:
        return _cast(whole, type_)
    except pa.ArrowException as error:
        raise PartitionsError(f"an Arrow array of {array.type} holds what is no {type_}: {error}") from None


def float_ranks(values: Floats) -> Ints:
    """`partita.algebra.plain.float_rank` of every double."""
    bits = (values + 0.0).view(np.int64)
    ranked = np.where(bits >= 0, bits, -(bits & 0x7FFF_FFFF_FFFF_FFFF))
    return cast("Ints", np.where(np.isnan(values), NAN_RANK, ranked))


def _kind(type_: pa.DataType) -> Kind:
    """The sort of values in an array, also where the type is too fine or too wide to be a logical one."""
    if pa.types.is_timestamp(type_):
        return Kind.TIMESTAMP_NTZ if type_.tz is None else Kind.TIMESTAMP
    if pa.types.is_time(type_):
        return Kind.TIME
    return Kind.DECIMAL if pa.types.is_decimal(type_) else to_logical(type_).kind


def _cast(array: Array, type_: LogicalType) -> Array:
    if isinstance(type_, DecimalType) and pa.types.is_integer(array.type):
        array = pc.cast(array, pa.decimal128(20, 0))  # Arrow wants room for all digits of the integer's type
    if type_.kind in INSTANTS and pa.types.is_timestamp(array.type):
        return pc.cast(array, pa.timestamp("us", array.type.tz))
    if type_.kind in BYTES or type_.kind is Kind.UUID:
        return _of_length(pc.cast(array, pa.large_binary()), type_)
    if type_.kind is Kind.STRING:
        array = pc.cast(array, pa.large_string())
        array.validate(full=True)
        return array
    own = pa.float64() if type_.kind in FLOATS else to_arrow(type_)
    return array if array.type == own else pc.cast(array, own)


def _of_length(array: Array, type_: LogicalType) -> Array:
    length = 16 if type_.kind is Kind.UUID else type_.length if isinstance(type_, FixedType) else None
    if length is not None and pc.any(pc.not_equal(pc.binary_length(array), length)).as_py():
        raise PartitionsError(f"a value of type {type_} has {length} bytes, and one here has not")
    return array


def _unscaled(array: Array) -> np.ndarray[Any, Any]:
    low, high = limbs(array)
    if array.type.precision <= INT64_DIGITS:
        return low.view(np.int64)
    return cast("np.ndarray[Any, Any]", high.astype(object) * 2**64 + low.astype(object))


def _as_it_is(array: Array) -> Array:
    return array


_RANKS: dict[Kind, Callable[[Array], Any]] = {
    Kind.BOOLEAN: lambda array: int64_values(pc.cast(array, pa.int8())),
    **dict.fromkeys(FLOATS, lambda array: float_ranks(float64_values(array))),
    Kind.DECIMAL: _unscaled,
    **dict.fromkeys(BYTES | {Kind.STRING, Kind.UUID}, _as_it_is),
    Kind.NULL: lambda array: np.zeros(len(array), np.int64),
}

_SOURCES: dict[Kind, frozenset[Kind]] = {
    **dict.fromkeys(INTEGERS, INTEGERS | {Kind.DECIMAL}),
    **dict.fromkeys(FLOATS, FLOATS | INTEGERS),
    Kind.DECIMAL: INTEGERS | {Kind.DECIMAL},
    Kind.BINARY: BYTES,
    Kind.FIXED: BYTES,
    Kind.UUID: BYTES | {Kind.UUID},
}
