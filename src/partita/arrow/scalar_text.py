"""The texts of values that are not nested, as keys and canonical JSON hold them: `scalar_text` over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import DAY, civil_from_days, days_from_civil
from partita.algebra.types import BYTES, FLOATS, INTEGERS, DecimalType, Kind, LogicalType
from partita.arrow.base64url import encode
from partita.arrow.buffers import Array, Bools, Floats, Ints, Octets, Runs, float64_values
from partita.arrow.plain import exact, ranks
from partita.errors import PartitionsError, SchemaError

FIRST_DAY = days_from_civil(1, 1, 1)
LAST_DAY = days_from_civil(9999, 12, 31)


def scalar_texts(array: Array, type_: LogicalType) -> Array:
    """The text of every value of an array, as `large_string`; null stays null.

    A type without such a text is a `SchemaError`; a year outside 0001 to 9999 is a `PartitionsError`.
    """
    rule = _RULES.get(type_.kind)
    if rule is None:
        raise SchemaError(f"a value of type {type_} has no text in canonical JSON")
    return rule(array, type_)


def join(*parts: Any) -> Array:
    """The texts of the parts put together, row by row; a part is a `large_string` array or a `str`."""
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def date_texts(days: Ints, null: Bools | None) -> Array:
    """`2025-01-15`, from days of the years 0001 to 9999."""
    return _fixed_width(_date_columns(days), null)


def timestamp_texts(micros: Ints, null: Bools | None, zone: str) -> Array:
    """`2025-01-15T10:30:00.000000` and the zone, from microseconds of the years 0001 to 9999."""
    days = micros // DAY
    columns = [*_date_columns(days), "T", *_time_columns(micros - days * DAY), zone]
    return _fixed_width(columns, null)


def outside_years(days: Ints) -> Bools:
    """Which days lie outside the years 0001 to 9999."""
    outside: Bools = (days < FIRST_DAY) | (days > LAST_DAY)
    return outside


def hex_texts(octets: Octets) -> Octets:
    """Two hexadecimal digits for every byte of an array of any shape, along its last axis."""
    return _HEX[octets].view(np.uint8)


_HEX = np.array([f"{octet:02x}".encode() for octet in range(256)]).view(np.uint16)
_TWO_DIGITS = np.array([f"{number:02}".encode() for number in range(100)]).view(np.uint16)


def _two_digits(numbers: np.ndarray[Any, Any]) -> Octets:
    digits: Octets = _TWO_DIGITS[numbers].view(np.uint8)
    return digits.reshape(-1, 2)


def _date_columns(days: Ints) -> list[Octets | str]:
    year, month, day = civil_from_days(days.astype(np.int32))  # numpy divides them many times faster
    century = year // 100
    return [_two_digits(century), _two_digits(year - century * 100), "-", _two_digits(month), "-", _two_digits(day)]


def _time_columns(micros: Ints) -> list[Octets | str]:
    whole = micros // 1_000_000
    seconds, fraction = whole.astype(np.int32), (micros - whole * 1_000_000).astype(np.int32)
    clock = (seconds // 3600, ":", seconds // 60 % 60, ":", seconds % 60, ".")
    parts = (*clock, fraction // 10_000, fraction // 100 % 100, fraction % 100)
    return [part if isinstance(part, str) else _two_digits(part) for part in parts]


def _fixed_width(columns: list[Octets | str], null: Bools | None) -> Array:
    """Texts that all have the same characters in the same places, from the columns left to right."""
    rows = len(cast("Octets", columns[0]))
    widths = [len(c) if isinstance(c, str) else c.shape[1] for c in columns]
    places = np.empty((rows, sum(widths)), np.uint8)
    at = 0
    for column, width in zip(columns, widths, strict=True):
        fixed = np.frombuffer(column.encode(), np.uint8) if isinstance(column, str) else column
        places[:, at : at + width] = fixed
        at += width
    return Runs(places.reshape(-1), np.arange(rows + 1, dtype=np.int64) * at).to_array(pa.large_string(), null)


def _own_texts(array: Array, type_: LogicalType) -> Array:
    return pc.cast(exact(array, type_), pa.large_string())


def _dates(array: Array, type_: LogicalType) -> Array:
    plains = ranks(array, type_)
    _refuse_years(outside_years(plains.values), type_)
    return date_texts(plains.values, plains.null)


def _timestamps(array: Array, type_: LogicalType) -> Array:
    plains = ranks(array, type_)
    _refuse_years(outside_years(plains.values // DAY), type_)
    return timestamp_texts(plains.values, plains.null, "Z" if type_.kind is Kind.TIMESTAMP else "")


def _times(array: Array, type_: LogicalType) -> Array:
    plains = ranks(array, type_)
    return _fixed_width(_time_columns(plains.values), plains.null)


def _refuse_years(outside: Bools, type_: LogicalType) -> None:
    if outside.any():
        raise PartitionsError(f"a {type_} outside the years 0001 to 9999 has no text in canonical JSON")


def _decimals(array: Array, type_: LogicalType) -> Array:
    decimal = cast("DecimalType", type_)
    number = exact(array, type_).view(pa.decimal128(decimal.precision, 0))
    digits = pc.cast(pc.abs(number), pa.large_string())
    sign = pc.if_else(pc.less(number, pa.scalar(0)), _text("-"), _text(""))
    if not decimal.scale:
        return join(sign, digits)
    padded = pc.utf8_lpad(digits, decimal.scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -decimal.scale)
    return join(sign, whole, ".", pc.utf8_slice_codeunits(padded, -decimal.scale, None))


def _floats(array: Array, type_: LogicalType) -> Array:
    """Hexadecimal, as `float.hex` has it but without zeros at the end and a plus: from the bits of the doubles."""
    doubles = exact(array, type_)
    values = float64_values(doubles) + 0.0
    bits = values.view(np.uint64)
    exponent = (bits >> 52 & 0x7FF).astype(np.int64)
    scale = np.where(values == 0, 0, np.where(exponent == 0, -1022, exponent - 1023))
    digits = hex_texts((bits << 12).astype(">u8").view(np.uint8).reshape(-1, 8))[:, :13]
    fraction = pc.utf8_rtrim(_fixed_width([digits], None), "0")
    fraction = pc.if_else(pc.equal(fraction, _text("")), _text("0"), fraction)
    lead = pc.if_else(pa.array(exponent == 0), _text("0x0."), _text("0x1."))
    finite = join(_signs(values), lead, fraction, "p", pc.cast(pa.array(scale), pa.large_string()))
    infinite = pc.if_else(pa.array(np.isinf(values)), join(_signs(values), "Infinity"), finite)
    texts = pc.if_else(pa.array(np.isnan(values)), _text("NaN"), infinite)
    return pc.if_else(pc.is_valid(doubles), texts, pa.scalar(None, pa.large_string()))


def _signs(values: Floats) -> Array:
    return pc.if_else(pa.array(np.signbit(values)), _text("-"), _text(""))


def _uuids(array: Array, type_: LogicalType) -> Array:
    plains = ranks(array, type_)
    octets = Runs.of(plains.values.fill_null(bytes(16))).octets.reshape(-1, 16)
    digits = hex_texts(octets)
    groups = (digits[:, :8], digits[:, 8:12], digits[:, 12:16], digits[:, 16:20], digits[:, 20:])
    columns = [part for group in groups for part in ("-", group)][1:]
    return _fixed_width(columns, plains.null)


def _text(text: str) -> Any:
    return pa.scalar(text, pa.large_string())


_RULES: dict[Kind, Callable[[Array, LogicalType], Array]] = {
    Kind.BOOLEAN: _own_texts,
    **dict.fromkeys(INTEGERS, _own_texts),
    **dict.fromkeys(FLOATS, _floats),
    Kind.DECIMAL: _decimals,
    Kind.DATE: _dates,
    Kind.TIME: _times,
    Kind.TIMESTAMP: _timestamps,
    Kind.TIMESTAMP_NTZ: _timestamps,
    Kind.STRING: _own_texts,
    **dict.fromkeys(BYTES, lambda array, type_: encode(exact(array, type_))),
    Kind.UUID: _uuids,
}
