"""The texts of primitive values in keys and canonical JSON: `partita.algebra.hashing.scalar_text` over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import MICROS_PER_DAY, civil_from_days, days_from_civil
from partita.algebra.types import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, DecimalType, LogicalType, TypeKind
from partita.arrow.base64url import encode_base64url
from partita.arrow.buffers import Array, BinaryBuffers, Bools, Floats, Ints, Octets, float64_values
from partita.arrow.physical_values import cast_to_logical, to_physical_array
from partita.errors import PartitionsError, SchemaError

FIRST_DAY = days_from_civil(1, 1, 1)
LAST_DAY = days_from_civil(9999, 12, 31)


def scalar_texts(array: Array, type_: LogicalType) -> Array:
    """Return the text of every value, as `large_string`; null stays null.

    Raises `SchemaError` for a type without a text, and `PartitionsError` for a year outside 0001 to 9999.
    """
    to_texts = _TEXT_RULES.get(type_.kind)
    if to_texts is None:
        raise SchemaError(f"a value of type {type_} has no text in canonical JSON")
    return to_texts(array, type_)


def join_texts(*parts: Any) -> Array:
    """Concatenate the parts row by row; a part is a `large_string` array or a `str`."""
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def date_texts(days: Ints, nulls: Bools | None) -> Array:
    """Return `2025-01-15` for days within the years 0001 to 9999."""
    return _fixed_width_texts(_date_columns(days), nulls)


def timestamp_texts(micros: Ints, nulls: Bools | None, zone: str) -> Array:
    """Return `2025-01-15T10:30:00.000000` and the zone for microseconds within the years 0001 to 9999."""
    days = micros // MICROS_PER_DAY
    columns = [*_date_columns(days), "T", *_time_columns(micros - days * MICROS_PER_DAY), zone]
    return _fixed_width_texts(columns, nulls)


def outside_years_mask(days: Ints) -> Bools:
    """Return which days are outside the years 0001 to 9999."""
    is_outside_years: Bools = (days < FIRST_DAY) | (days > LAST_DAY)
    return is_outside_years


def hex_digits(octets: Octets) -> Octets:
    """Return two hexadecimal digits for every byte of an array of any shape, along its last axis."""
    return _HEX[octets].view(np.uint8)


_HEX = np.array([f"{octet:02x}".encode() for octet in range(256)]).view(np.uint16)
_TWO_DIGITS = np.array([f"{number:02}".encode() for number in range(100)]).view(np.uint16)


def _two_digits(numbers: np.ndarray[Any, Any]) -> Octets:
    digits: Octets = _TWO_DIGITS[numbers].view(np.uint8)
    return digits.reshape(-1, 2)


def _date_columns(days: Ints) -> list[Octets | str]:
    year, month, day = civil_from_days(days.astype(np.int32))  # numpy divides 32-bit integers many times faster
    century = year // 100
    return [_two_digits(century), _two_digits(year - century * 100), "-", _two_digits(month), "-", _two_digits(day)]


def _time_columns(micros: Ints) -> list[Octets | str]:
    whole_seconds = micros // 1_000_000
    seconds, fraction = whole_seconds.astype(np.int32), (micros - whole_seconds * 1_000_000).astype(np.int32)
    clock = (seconds // 3600, ":", seconds // 60 % 60, ":", seconds % 60, ".")
    parts = (*clock, fraction // 10_000, fraction // 100 % 100, fraction % 100)
    return [part if isinstance(part, str) else _two_digits(part) for part in parts]


def _fixed_width_texts(columns: list[Octets | str], nulls: Bools | None) -> Array:
    """Return strings of equal width, concatenated from columns of characters and constant strings."""
    rows = len(cast("Octets", columns[0]))
    widths = [len(c) if isinstance(c, str) else c.shape[1] for c in columns]
    total_width = sum(widths)
    characters = np.empty((rows, total_width), np.uint8)
    start = 0
    for column, width in zip(columns, widths, strict=True):
        octets = np.frombuffer(column.encode(), np.uint8) if isinstance(column, str) else column
        characters[:, start : start + width] = octets
        start += width
    offsets = np.arange(rows + 1, dtype=np.int64) * total_width
    return BinaryBuffers(characters.reshape(-1), offsets).to_array(pa.large_string(), nulls)


def _cast_texts(array: Array, type_: LogicalType) -> Array:
    return pc.cast(cast_to_logical(array, type_), pa.large_string())


def _date_array_texts(array: Array, type_: LogicalType) -> Array:
    physical = to_physical_array(array, type_)
    _check_years(outside_years_mask(physical.values), type_)
    return date_texts(physical.values, physical.nulls)


def _timestamp_array_texts(array: Array, type_: LogicalType) -> Array:
    physical = to_physical_array(array, type_)
    _check_years(outside_years_mask(physical.values // MICROS_PER_DAY), type_)
    return timestamp_texts(physical.values, physical.nulls, "Z" if type_.kind is TypeKind.TIMESTAMP else "")


def _time_array_texts(array: Array, type_: LogicalType) -> Array:
    physical = to_physical_array(array, type_)
    return _fixed_width_texts(_time_columns(physical.values), physical.nulls)


def _check_years(is_outside_years: Bools, type_: LogicalType) -> None:
    if is_outside_years.any():
        raise PartitionsError(f"a {type_} outside the years 0001 to 9999 has no text in canonical JSON")


def _decimal_array_texts(array: Array, type_: LogicalType) -> Array:
    decimal = cast("DecimalType", type_)
    number = cast_to_logical(array, type_).view(pa.decimal128(decimal.precision, 0))
    digits = pc.cast(pc.abs(number), pa.large_string())
    sign = pc.if_else(pc.less(number, pa.scalar(0)), _text_scalar("-"), _text_scalar(""))
    if not decimal.scale:
        return join_texts(sign, digits)
    padded_digits = pc.utf8_lpad(digits, decimal.scale + 1, "0")
    integer_digits = pc.utf8_slice_codeunits(padded_digits, 0, -decimal.scale)
    return join_texts(sign, integer_digits, ".", pc.utf8_slice_codeunits(padded_digits, -decimal.scale, None))


def _float_array_texts(array: Array, type_: LogicalType) -> Array:
    """Format floats like `float.hex`, without trailing zeros and plus signs, from the bits of the doubles."""
    doubles = cast_to_logical(array, type_)
    values = float64_values(doubles) + 0.0
    bits = values.view(np.uint64)
    exponent = (bits >> 52 & 0x7FF).astype(np.int64)
    scale = np.where(values == 0, 0, np.where(exponent == 0, -1022, exponent - 1023))
    digits = hex_digits((bits << 12).astype(">u8").view(np.uint8).reshape(-1, 8))[:, :13]
    fraction = pc.utf8_rtrim(_fixed_width_texts([digits], None), "0")
    fraction = pc.if_else(pc.equal(fraction, _text_scalar("")), _text_scalar("0"), fraction)
    leading_digit_texts = pc.if_else(pa.array(exponent == 0), _text_scalar("0x0."), _text_scalar("0x1."))
    finite_texts = join_texts(
        _sign_texts(values), leading_digit_texts, fraction, "p", pc.cast(pa.array(scale), pa.large_string())
    )
    non_nan_texts = pc.if_else(pa.array(np.isinf(values)), join_texts(_sign_texts(values), "Infinity"), finite_texts)
    texts = pc.if_else(pa.array(np.isnan(values)), _text_scalar("NaN"), non_nan_texts)
    return pc.if_else(pc.is_valid(doubles), texts, pa.scalar(None, pa.large_string()))


def _sign_texts(values: Floats) -> Array:
    return pc.if_else(pa.array(np.signbit(values)), _text_scalar("-"), _text_scalar(""))


def _uuid_array_texts(array: Array, type_: LogicalType) -> Array:
    physical = to_physical_array(array, type_)
    octets = BinaryBuffers.from_array(physical.values.fill_null(bytes(16))).octets.reshape(-1, 16)
    digits = hex_digits(octets)
    groups = (digits[:, :8], digits[:, 8:12], digits[:, 12:16], digits[:, 16:20], digits[:, 20:])
    columns = [part for group in groups for part in ("-", group)][1:]
    return _fixed_width_texts(columns, physical.nulls)


def _text_scalar(text: str) -> Any:
    return pa.scalar(text, pa.large_string())


_TEXT_RULES: dict[TypeKind, Callable[[Array, LogicalType], Array]] = {
    TypeKind.BOOLEAN: _cast_texts,
    **dict.fromkeys(INTEGER_KINDS, _cast_texts),
    **dict.fromkeys(FLOAT_KINDS, _float_array_texts),
    TypeKind.DECIMAL: _decimal_array_texts,
    TypeKind.DATE: _date_array_texts,
    TypeKind.TIME: _time_array_texts,
    TypeKind.TIMESTAMP: _timestamp_array_texts,
    TypeKind.TIMESTAMP_NTZ: _timestamp_array_texts,
    TypeKind.STRING: _cast_texts,
    **dict.fromkeys(BINARY_KINDS, lambda array, type_: encode_base64url(cast_to_logical(array, type_))),
    TypeKind.UUID: _uuid_array_texts,
}
