"""Conversion of literals to the type of the column that they are compared with, if nothing is lost.

The rules are Spark's in its default ANSI mode, in a session with the given time zone: a date or a local time that is
compared with timestamps is an instant in that zone. If Spark would cast the column instead, if a string does not have
the usual format of the type, or if the rules of the zone are not known, `LossyLiteral` is raised, and the comparison is
left to Spark.
"""

from __future__ import annotations

import re
import struct
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from math import isinf, isnan
from typing import Self, cast
from uuid import UUID

from partita.algebra.physical_values import decimal_to_unscaled, is_in_range, round_to_float32
from partita.algebra.time_zones import UTC_TIME_ZONE, TimeZone, find_time_zone
from partita.algebra.types import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    TIMESTAMP_KINDS,
    CharType,
    DecimalType,
    LogicalType,
    TypeKind,
)
from partita.errors import TimeZoneError

MAX_EXACT_FLOAT32_INT = 2**24
"""Every integer up to it is exact as a float32, so that Spark's cast of an integer column loses nothing."""


class LossyLiteral(Exception):
    """The value can't be a literal of the type without loss."""


def literal_for(value: object, type_: LogicalType, zone: TimeZone = UTC_TIME_ZONE) -> object:
    """Convert a literal that is compared with a column of the given type, or raise `LossyLiteral`; NULL stays NULL."""
    if value is None:
        return None
    if isinstance(value, str):
        return literal_from_text(value, type_, zone)
    if isinstance(value, bool):
        return _require_fit(value, type_.kind is TypeKind.BOOLEAN)
    if isinstance(value, int | Decimal | float):
        return _number_literal(value, type_)
    if isinstance(value, datetime):
        return (
            _timestamp_ntz_literal(value, type_, zone)
            if value.utcoffset() is None
            else _timestamp_literal(value, type_, zone)
        )
    if isinstance(value, date):
        return _cast_date(value, type_, zone)
    if isinstance(value, time):
        return _require_fit(value, type_.kind is TypeKind.TIME)
    if isinstance(value, UUID):
        return _require_fit(value, type_.kind is TypeKind.UUID)
    return _require_fit(value, isinstance(value, bytes) and type_.kind is TypeKind.BINARY)


def literals_for(values: tuple[object, ...], type_: LogicalType, zone: TimeZone = UTC_TIME_ZONE) -> tuple[object, ...]:
    """Convert the values of an IN list, which Spark casts to one common type together with the column.

    Raises `LossyLiteral` for a list with several kinds of literals, which Spark may cast to a type that rounds them,
    and for strings in a list for floats or timestamps, which Spark compares as strings outside of ANSI mode.
    """
    kinds = {_literal_kind(v) for v in values if v is not None}
    if len(kinds) > 1 or ("text" in kinds and type_.kind in FLOAT_KINDS | TIMESTAMP_KINDS):
        raise LossyLiteral
    return tuple(literal_for(v, type_, zone) for v in values)


def _literal_kind(value: object) -> str:
    """Return the kind of a literal; integers and decimals are one kind, as Spark's common type holds both exactly."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return "exact"
    if isinstance(value, datetime):
        return "local time" if value.utcoffset() is None else "instant"
    return "text" if isinstance(value, str) else type(value).__name__


def cast_literal(value: object, type_: LogicalType, zone: TimeZone = UTC_TIME_ZONE) -> object:
    """Evaluate `CAST(literal AS type)`; raise `LossyLiteral` if it rounds, fails or needs unknown rules of the zone."""
    if value is None:
        return None
    if isinstance(type_, CharType):
        raise LossyLiteral
    if type_.kind is TypeKind.FLOAT and isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
        return _cast_to_float32(value)
    if isinstance(type_, DecimalType) and isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        number = _parse_decimal(value) if isinstance(value, str) else Decimal(value)
        _require_range(decimal_to_unscaled(number, type_.scale), type_)
        return TypedDecimal(number, type_)
    if isinstance(value, datetime):
        return _cast_timestamp(value, type_, zone)
    return literal_for(value, type_, zone)


class TypedDecimal(Decimal):
    """A decimal that was cast to a type; Spark compares it in the wider of that type and the column's."""

    type: DecimalType

    def __new__(cls, number: Decimal, type_: DecimalType) -> Self:
        decimal = super().__new__(cls, number)
        decimal.type = type_
        return decimal


def literal_from_text(text: str, type_: LogicalType, zone: TimeZone = UTC_TIME_ZONE) -> object:
    """Parse a literal in the usual format of the type, or raise `LossyLiteral`."""
    if isinstance(type_, CharType):
        # Spark pads the column if the literal is longer.
        return _require_fit(text.ljust(type_.length), len(text) <= type_.length)
    if type_.kind is TypeKind.STRING:
        return text
    if type_.kind in INTEGER_KINDS:
        return _number_literal(int(_match_pattern("0|-?[1-9][0-9]{0,18}", text)[0]), type_)
    if type_.kind in FLOAT_KINDS:
        return _parse_float(text, type_)
    if type_.kind is TypeKind.DATE:
        return parse_date(text)
    if type_.kind in TIMESTAMP_KINDS:
        value = parse_timestamp(text)
        _require_fit(value, type_.kind is TypeKind.TIMESTAMP or value.tzinfo is None)
        return _cast_timestamp(value, type_, zone)
    if type_.kind is TypeKind.TIME:
        return parse_time(text)
    if type_.kind is TypeKind.UUID:
        return UUID(_match_pattern("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)[0])
    raise LossyLiteral


def parse_date(text: str) -> date:
    """Parse `YYYY-MM-DD`, or raise `LossyLiteral`."""
    match = _match_pattern(_DATE_PATTERN, text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise LossyLiteral from None


def parse_time(text: str) -> time:
    """Parse `HH:MM:SS[.ffffff]`, or raise `LossyLiteral`."""
    match = _match_pattern(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?", text)
    try:
        return time(int(match[1]), int(match[2]), int(match[3]), int((match[4] or "0").ljust(6, "0")))
    except ValueError:
        raise LossyLiteral from None


def parse_timestamp(text: str) -> datetime:
    """Parse `YYYY-MM-DD[ HH:MM[:SS[.ffffff]][zone]]`, aware if it has a zone, or raise `LossyLiteral`."""
    match = _match_pattern(
        rf"{_DATE_PATTERN}(?:[ T]([0-9]{{2}}:[0-9]{{2}})(:[0-9]{{2}}(?:\.[0-9]{{1,6}})?)?"
        r"(Z|[+-][0-9]{2}:[0-9]{2})?)?",
        text,
    )
    day = parse_date(text[:10])
    time_of_day = parse_time(match[4] + (match[5] or ":00")) if match[4] else time(0)
    return datetime.combine(day, time_of_day, _parse_offset(match[6]) if match[6] else None)


_DATE_PATTERN = "([0-9]{4})-([0-9]{2})-([0-9]{2})"


def _match_pattern(pattern: str, text: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise LossyLiteral
    return match


def _require_fit(value: object, is_in_range: bool) -> object:
    if not is_in_range:
        raise LossyLiteral
    return value


def _number_literal(value: Decimal | float, type_: LogicalType) -> object:
    if isinstance(value, float) and type_.kind in INTEGER_KINDS:
        is_exact = value.is_integer() and abs(value) < MAX_EXACT_FLOAT32_INT
        return _require_range(int(value) if is_exact else None, type_)
    if type_.kind in FLOAT_KINDS:
        return _float_literal(value, type_)
    if isinstance(value, float):
        raise LossyLiteral
    if type_.kind in INTEGER_KINDS:
        return _require_range(decimal_to_unscaled(Decimal(value), 0), type_)
    if isinstance(type_, DecimalType):
        _require_range(decimal_to_unscaled(Decimal(value), type_.scale), type_)
        if not _has_common_decimal_type(_decimal_size(value), type_):
            raise LossyLiteral
        return Decimal(value)
    raise LossyLiteral


def _decimal_size(value: int | Decimal) -> tuple[int, int]:
    """Return the largest precision and scale that Spark may give a literal."""
    if isinstance(value, TypedDecimal):
        return value.type.precision, value.type.scale
    if isinstance(value, int):
        return 20, 0
    scale = max(0, -cast("int", value.as_tuple().exponent))
    return max(len(value.as_tuple().digits), scale), scale


def _has_common_decimal_type(size: tuple[int, int], type_: DecimalType) -> bool:
    """Return whether one decimal type holds both; if none does, Spark drops digits of the column."""
    precision, scale = size
    return max(precision - scale, type_.precision - type_.scale) + max(scale, type_.scale) <= 38


def _float_literal(value: Decimal | float, type_: LogicalType) -> float:
    """Return the value as Spark casts it to double; outside of ANSI mode Spark casts integers to float32 instead."""
    if isinstance(value, int) and type_.kind is TypeKind.FLOAT and abs(value) > MAX_EXACT_FLOAT32_INT:
        raise LossyLiteral
    return _to_double(value)


def _to_double(value: Decimal | float) -> float:
    """Return the nearest double; raise `LossyLiteral` for a number that is too large, which Spark refuses."""
    try:
        return value if isinstance(value, float) else require_finite(float(value))
    except OverflowError:
        raise LossyLiteral from None


def require_finite(number: float) -> float:
    """Return the number; raise `LossyLiteral` if the parsed digits exceeded the range of a double."""
    if isinf(number):
        raise LossyLiteral
    return number


def _require_range(number: int | None, type_: LogicalType) -> int:
    if number is None or not is_in_range(number, type_):
        raise LossyLiteral
    return number


def _parse_decimal(text: str) -> Decimal:
    return Decimal(_match_pattern(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", text)[0])


def _parse_float(text: str, type_: LogicalType) -> float:
    number = float(_match_pattern(_FLOAT_PATTERN, text)[0])
    if type_.kind is TypeKind.FLOAT and number == number and _round_to_float32(number) != number:  # noqa: PLR0124 - NaN is itself
        # Outside of ANSI mode Spark casts the string to float32.
        raise LossyLiteral
    return number


_FLOAT_PATTERN = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|NaN|-?Infinity"


def _cast_to_float32(value: str | float | Decimal) -> float:
    """Return the nearest float32; raise `LossyLiteral` if rounding by way of a double could round twice."""
    number = float(_match_pattern(_FLOAT_PATTERN, value)[0]) if isinstance(value, str) else _to_double(value)
    if isnan(number) or isinf(number):
        return number
    exact = isinstance(value, float) or Decimal(number) == Decimal(value)
    halfway = struct.unpack(">Q", struct.pack(">d", number))[0] & _FLOAT32_LOST_BITS == _FLOAT32_HALFWAY
    if not exact and (halfway or abs(number) < _FLOAT32_MIN_NORMAL):
        raise LossyLiteral
    return _round_to_float32(number)


_FLOAT32_LOST_BITS, _FLOAT32_HALFWAY = 0x1FFF_FFFF, 0x1000_0000
"""The bits of a double that a float32 does not have, and their value halfway between two float32s."""
_FLOAT32_MIN_NORMAL = 2.0**-126


def _round_to_float32(number: float) -> float:
    float32_value = round_to_float32(number)
    if float32_value is None:
        raise LossyLiteral
    return float32_value


def _timestamp_ntz_literal(value: datetime, type_: LogicalType, zone: TimeZone) -> object:
    """Convert a timestamp without a zone: Spark casts it to timestamps, but casts a column of dates to its type."""
    midnight = value.time() == time(0)
    return _require_fit(value.date(), midnight) if type_.kind is TypeKind.DATE else _cast_timestamp(value, type_, zone)


def _timestamp_literal(value: datetime, type_: LogicalType, zone: TimeZone) -> object:
    """Convert a timestamp: Spark casts a column of dates, or of timestamps without a zone, to instants.

    That keeps the order of timestamps if the offset is fixed, and that of dates if every day starts at an instant of
    its own.
    """
    if type_.kind is TypeKind.TIMESTAMP_NTZ:
        _require_fit(value, zone.is_fixed)
    elif type_.kind is TypeKind.DATE:
        return _require_fit(_require_known(zone.to_local(value)).date(), _is_start_of_day(value, zone))
    return _cast_timestamp(value, type_, zone)


def _is_start_of_day(instant: datetime, zone: TimeZone) -> bool:
    """Return whether a day begins at the instant, and the days before and after it at others."""
    day = _require_known(zone.to_local(instant)).date()
    try:
        days = [day + timedelta(days=day_offset) for day_offset in (-1, 0, 1) if not zone.is_fixed or not day_offset]
    except OverflowError:
        raise LossyLiteral from None
    return [_require_known(zone.start_of_day(d)) == instant for d in days] == [d == day for d in days]


def _cast_timestamp(value: datetime, type_: LogicalType, zone: TimeZone) -> object:
    """Evaluate `CAST(timestamp AS type)` for a timestamp with or without a zone."""
    _require_fit(value, type_.kind in TIMESTAMP_KINDS | {TypeKind.DATE})
    is_local = value.utcoffset() is None
    if type_.kind is TypeKind.TIMESTAMP:
        return _require_known(zone.to_instant(value)) if is_local else _to_utc(value)
    local = value if is_local else _require_known(zone.to_local(value))
    return local.date() if type_.kind is TypeKind.DATE else local


def _cast_date(value: date, type_: LogicalType, zone: TimeZone) -> object:
    """Evaluate `CAST(date AS type)`; as a timestamp, a date is the start of the day."""
    if type_.kind is TypeKind.DATE:
        return value
    _require_fit(value, type_.kind in TIMESTAMP_KINDS)
    return (
        _require_known(zone.start_of_day(value))
        if type_.kind is TypeKind.TIMESTAMP
        else datetime.combine(value, time(0))
    )


def _require_known(value: datetime | None) -> datetime:
    if value is None:
        raise LossyLiteral
    return value


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise LossyLiteral from None


def _parse_offset(text: str) -> tzinfo | None:
    try:
        return find_time_zone(text).rules
    except TimeZoneError:
        raise LossyLiteral from None
