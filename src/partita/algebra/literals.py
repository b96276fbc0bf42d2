"""Literals take the type of their column, when nothing is lost.

The meaning is Spark's in its default, ANSI mode, in a session of the given time zone: dates and local times beside
timestamps are instants in that zone. Where Spark would rather cast the column, where the text is not the usual form of
the type, or where the zone's rules don't tell, there is no such literal (`Lossy`), and the comparison is left to Spark.
"""

from __future__ import annotations

import re
import struct
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from math import isinf, isnan
from typing import Self, cast
from uuid import UUID

from partita.algebra.plain import in_range, single, unscaled
from partita.algebra.time_zones import IN_UTC, TimeZone, find_time_zone
from partita.algebra.types import FLOATS, INSTANTS, INTEGERS, CharType, DecimalType, Kind, LogicalType
from partita.errors import TimeZoneError

EXACT_FLOAT = 2**24
"""Below it every integer is a float of each width, so that Spark's cast of an integer column to one loses nothing."""


class Lossy(Exception):
    """The value is no literal of that type."""


def literal_for(value: object, type_: LogicalType, zone: TimeZone = IN_UTC) -> object:
    """The typed value that a literal has beside a column of that type, or `Lossy`; NULL is NULL beside any."""
    if value is None:
        return None
    if isinstance(value, str):
        return from_text(value, type_, zone)
    if isinstance(value, bool):
        return _keep(value, type_.kind is Kind.BOOLEAN)
    if isinstance(value, int | Decimal | float):
        return _number(value, type_)
    if isinstance(value, datetime):
        return _beside_local(value, type_, zone) if value.utcoffset() is None else _beside_instant(value, type_, zone)
    if isinstance(value, date):
        return _cast_date(value, type_, zone)
    if isinstance(value, time):
        return _keep(value, type_.kind is Kind.TIME)
    if isinstance(value, UUID):
        return _keep(value, type_.kind is Kind.UUID)
    return _keep(value, isinstance(value, bytes) and type_.kind is Kind.BINARY)


def literals_for(values: tuple[object, ...], type_: LogicalType, zone: TimeZone = IN_UTC) -> tuple[object, ...]:
    """The same for the values of an IN list, which Spark brings to one type together with the column.

    A list of several kinds of literal may be brought to a type in which they round, and text beside a column of floats
    or timestamps is compared as text outside of ANSI mode: both are `Lossy`.
    """
    kinds = {_kind_of(v) for v in values if v is not None}
    if len(kinds) > 1 or ("text" in kinds and type_.kind in FLOATS | INSTANTS):
        raise Lossy
    return tuple(literal_for(v, type_, zone) for v in values)


def _kind_of(value: object) -> str:
    """Integers and decimals in one list make a decimal, or a double beside floats, and lose nothing."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return "exact"
    if isinstance(value, datetime):
        return "local time" if value.utcoffset() is None else "instant"
    return "text" if isinstance(value, str) else type(value).__name__


def cast_literal(value: object, type_: LogicalType, zone: TimeZone = IN_UTC) -> object:
    """`CAST(literal AS type)`, or `Lossy` where the cast would round or fail, or the zone's rules don't tell."""
    if value is None:
        return None
    if isinstance(type_, CharType):
        raise Lossy
    if type_.kind is Kind.FLOAT and isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
        return _single(value)
    if isinstance(type_, DecimalType) and isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        number = _decimal(value) if isinstance(value, str) else Decimal(value)
        _in_range(unscaled(number, type_.scale), type_)
        return SizedDecimal(number, type_)
    if isinstance(value, datetime):
        return _cast_timestamp(value, type_, zone)
    return literal_for(value, type_, zone)


class SizedDecimal(Decimal):
    """A decimal that was cast to a type: Spark compares in the wider of that and the column's."""

    type: DecimalType

    def __new__(cls, number: Decimal, type_: DecimalType) -> Self:
        made = super().__new__(cls, number)
        made.type = type_
        return made


def from_text(text: str, type_: LogicalType, zone: TimeZone = IN_UTC) -> object:
    """A literal from text in the usual form of the type."""
    if isinstance(type_, CharType):
        # Beside a longer literal, Spark pads the column.
        return _keep(text.ljust(type_.length), len(text) <= type_.length)
    if type_.kind is Kind.STRING:
        return text
    if type_.kind in INTEGERS:
        return _number(int(_shaped("0|-?[1-9][0-9]{0,18}", text)[0]), type_)
    if type_.kind in FLOATS:
        return _float_of_text(text, type_)
    if type_.kind is Kind.DATE:
        return read_date(text)
    if type_.kind in INSTANTS:
        value = read_timestamp(text)
        _keep(value, type_.kind is Kind.TIMESTAMP or value.tzinfo is None)
        return _cast_timestamp(value, type_, zone)
    if type_.kind is Kind.TIME:
        return read_time(text)
    if type_.kind is Kind.UUID:
        return UUID(_shaped("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)[0])
    raise Lossy


def read_date(text: str) -> date:
    """`YYYY-MM-DD`, or `Lossy`."""
    match = _shaped(_DATE, text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise Lossy from None


def read_time(text: str) -> time:
    """`HH:MM:SS[.ffffff]`, or `Lossy`."""
    match = _shaped(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?", text)
    try:
        return time(int(match[1]), int(match[2]), int(match[3]), int((match[4] or "0").ljust(6, "0")))
    except ValueError:
        raise Lossy from None


def read_timestamp(text: str) -> datetime:
    """`YYYY-MM-DD[ HH:MM[:SS[.ffffff]][zone]]`, aware where it names a zone, or `Lossy`."""
    match = _shaped(
        rf"{_DATE}(?:[ T]([0-9]{{2}}:[0-9]{{2}})(:[0-9]{{2}}(?:\.[0-9]{{1,6}})?)?(Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?", text
    )
    day = read_date(text[:10])
    at = read_time(match[4] + (match[5] or ":00")) if match[4] else time(0)
    return datetime.combine(day, at, _offset(match[6]) if match[6] else None)


_DATE = "([0-9]{4})-([0-9]{2})-([0-9]{2})"


def _shaped(pattern: str, text: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise Lossy
    return match


def _keep(value: object, fits: bool) -> object:
    if not fits:
        raise Lossy
    return value


def _number(value: Decimal | float, type_: LogicalType) -> object:
    if isinstance(value, float) and type_.kind in INTEGERS:
        whole = value.is_integer() and abs(value) < EXACT_FLOAT
        return _in_range(int(value) if whole else None, type_)
    if type_.kind in FLOATS:
        return _as_float(value, type_)
    if isinstance(value, float):
        raise Lossy
    if type_.kind in INTEGERS:
        return _in_range(unscaled(Decimal(value), 0), type_)
    if isinstance(type_, DecimalType):
        _in_range(unscaled(Decimal(value), type_.scale), type_)
        if not _fit_together(_size(value), type_):
            raise Lossy
        return Decimal(value)
    raise Lossy


def _size(value: int | Decimal) -> tuple[int, int]:
    """The precision and scale that Spark gives a literal, at the most."""
    if isinstance(value, SizedDecimal):
        return value.type.precision, value.type.scale
    if isinstance(value, int):
        return 20, 0
    scale = max(0, -cast("int", value.as_tuple().exponent))
    return max(len(value.as_tuple().digits), scale), scale


def _fit_together(size: tuple[int, int], type_: DecimalType) -> bool:
    """Whether one decimal type holds both; where none does, Spark drops digits from the column."""
    precision, scale = size
    return max(precision - scale, type_.precision - type_.scale) + max(scale, type_.scale) <= 38


def _as_float(value: Decimal | float, type_: LogicalType) -> float:
    """What Spark's cast to double makes of it; outside of ANSI mode integers beside singles are cast to those."""
    if isinstance(value, int) and type_.kind is Kind.FLOAT and abs(value) > EXACT_FLOAT:
        raise Lossy
    return _double(value)


def _double(value: Decimal | float) -> float:
    """The nearest double; `Lossy` for a number that is too large for one, which Spark refuses."""
    try:
        return value if isinstance(value, float) else finite(float(value))
    except OverflowError:
        raise Lossy from None


def finite(number: float) -> float:
    """The number, or `Lossy` where the digits that it was read from were too many for a double."""
    if isinf(number):
        raise Lossy
    return number


def _in_range(number: int | None, type_: LogicalType) -> int:
    if number is None or not in_range(number, type_):
        raise Lossy
    return number


def _decimal(text: str) -> Decimal:
    return Decimal(_shaped(r"-?[0-9]{1,38}(\.[0-9]{1,38})?", text)[0])


def _float_of_text(text: str, type_: LogicalType) -> float:
    number = float(_shaped(_FLOAT, text)[0])
    if type_.kind is Kind.FLOAT and number == number and _rounded(number) != number:  # noqa: PLR0124 - NaN is itself
        # Outside of ANSI mode Spark casts the text to a single.
        raise Lossy
    return number


_FLOAT = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|NaN|-?Infinity"


def _single(value: str | float | Decimal) -> float:
    """A single from text or a number, rounded once; `Lossy` where going by way of a double could round twice."""
    number = float(_shaped(_FLOAT, value)[0]) if isinstance(value, str) else _double(value)
    if isnan(number) or isinf(number):
        return number
    exact = isinstance(value, float) or Decimal(number) == Decimal(value)
    halfway = struct.unpack(">Q", struct.pack(">d", number))[0] & _BELOW_SINGLE == _HALF
    if not exact and (halfway or abs(number) < _LEAST_NORMAL):
        raise Lossy
    return _rounded(number)


_BELOW_SINGLE, _HALF = 0x1FFF_FFFF, 0x1000_0000
"""The bits of a double that a single has no room for, and what stands in them halfway between two singles."""
_LEAST_NORMAL = 2.0**-126


def _rounded(number: float) -> float:
    rounded = single(number)
    if rounded is None:
        raise Lossy
    return rounded


def _beside_local(value: datetime, type_: LogicalType, zone: TimeZone) -> object:
    """A timestamp without a zone: Spark casts it beside timestamps, and casts a column of dates."""
    midnight = value.time() == time(0)
    return _keep(value.date(), midnight) if type_.kind is Kind.DATE else _cast_timestamp(value, type_, zone)


def _beside_instant(value: datetime, type_: LogicalType, zone: TimeZone) -> object:
    """A timestamp: Spark casts a column of dates, or of timestamps without a zone, to instants.

    That keeps their order where the offset is fixed, and that of dates where days begin at different instants.
    """
    if type_.kind is Kind.TIMESTAMP_NTZ:
        _keep(value, zone.is_fixed)
    elif type_.kind is Kind.DATE:
        return _keep(_known(zone.local(value)).date(), _starts_one_day(value, zone))
    return _cast_timestamp(value, type_, zone)


def _starts_one_day(instant: datetime, zone: TimeZone) -> bool:
    """Whether a day begins at an instant, and the days before and after it at others."""
    day = _known(zone.local(instant)).date()
    try:
        days = [day + timedelta(days=apart) for apart in (-1, 0, 1) if not zone.is_fixed or not apart]
    except OverflowError:
        raise Lossy from None
    return [_known(zone.start_of_day(one)) == instant for one in days] == [one == day for one in days]


def _cast_timestamp(value: datetime, type_: LogicalType, zone: TimeZone) -> object:
    """`CAST(timestamp AS type)`, of one with a zone or without."""
    _keep(value, type_.kind in INSTANTS | {Kind.DATE})
    is_local = value.utcoffset() is None
    if type_.kind is Kind.TIMESTAMP:
        return _known(zone.instant(value)) if is_local else _utc(value)
    local = value if is_local else _known(zone.local(value))
    return local.date() if type_.kind is Kind.DATE else local


def _cast_date(value: date, type_: LogicalType, zone: TimeZone) -> object:
    """`CAST(date AS type)`: beside timestamps, a date is the start of the day."""
    if type_.kind is Kind.DATE:
        return value
    _keep(value, type_.kind in INSTANTS)
    return _known(zone.start_of_day(value)) if type_.kind is Kind.TIMESTAMP else datetime.combine(value, time(0))


def _known(value: datetime | None) -> datetime:
    if value is None:
        raise Lossy
    return value


def _utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise Lossy from None


def _offset(text: str) -> tzinfo | None:
    try:
        return find_time_zone(text).rules
    except TimeZoneError:
        raise Lossy from None
