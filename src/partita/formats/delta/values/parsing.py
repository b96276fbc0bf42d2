"""The way back: typed values from `partitionValues`, and the directory from `add.path`.

What older writers left is read too: decimals with an exponent (`0E-18`), timestamps in a session's local form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from typing import cast

from partita.algebra.calendar import DAY, HOUR, civil_from_days, days_from_civil
from partita.algebra.plain import in_range, is_unicode, single, unscaled
from partita.algebra.types import BYTES, INTEGERS, DecimalType, Field, Kind
from partita.arrow.schema import to_schema
from partita.errors import PartitionValueError, value_repr
from partita.formats.delta.values.validation import PARTITIONABLE, zone_of


def parse_partition(values: Mapping[str, str | None], schema: object, *, time_zone: str = "UTC") -> dict[str, object]:
    """The values that `partitionValues` says, by column, in the schema's order.

    Dates are days and timestamps microseconds from 1970, decimals `Decimal`s, bytes `bytes`. `time_zone` is that of
    timestamps without a zone, which older writers left.
    """
    zone = zone_of(time_zone)
    known = {name.casefold(): text for name, text in _checked(values).items()}
    return {column.name: _read(known.get(column.name.casefold()), column, zone) for column in to_schema(schema)}


def _checked(values: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Refuse what `partitionValues` can't be: other than texts by name, or text with a lone surrogate."""
    if not isinstance(values, Mapping):
        raise PartitionValueError("partitionValues", "texts by the names of columns", f"{type(values).__name__}")
    for name, text in values.items():
        if not isinstance(name, str):
            raise PartitionValueError(repr(name), "the name of a column", type(name).__name__)
        if text is not None and (not isinstance(text, str) or not is_unicode(text)):
            found = (
                "text with a lone surrogate"
                if isinstance(text, str)
                else f"the {type(text).__name__} {value_repr(text)}"
            )
            raise PartitionValueError(name, "text, or None for null", found)
    return values


def _read(text: str | None, column: Field, zone: tzinfo) -> object:
    kind = column.type.kind
    if kind not in PARTITIONABLE:
        raise PartitionValueError(column.name, "a type that Delta partitions by", str(column.type))
    if text is None or text == "":
        return None
    value = _TEXTS[kind](text) if kind in _TEXTS else _read_typed(text, column, zone)
    if value is None:
        raise PartitionValueError(column.name, str(column.type), f"the text {text!r}")
    return value


def _read_typed(text: str, column: Field, zone: tzinfo) -> object:
    if column.type.kind in INTEGERS:
        number = int(text) if re.fullmatch("-?[0-9]{1,19}", text) else None
        return number if number is not None and in_range(number, column.type) else None
    if isinstance(column.type, DecimalType):
        return _decimal(text, column.type)
    return _moment(text, column.type.kind, zone)


def _decimal(text: str, type_: DecimalType) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    number = unscaled(value, type_.scale)
    if number is None or not in_range(number, type_):
        return None
    # A zero may have an exponent of a billion.
    return value if number else Decimal(0)


_DATE = r"([+-]?[0-9]{4,6})-([0-9]{2})-([0-9]{2})"
_MOMENT = re.compile(_DATE + r"[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?(Z|[+-][0-9]{2}:?[0-9]{2})?")


def _days(text: str) -> int | None:
    match = re.fullmatch(_DATE, text)
    if match is None:
        return None
    days = cast("int", days_from_civil(int(match[1]), int(match[2]), int(match[3])))
    return days if civil_from_days(days) == (int(match[1]), int(match[2]), int(match[3])) else None


def _moment(text: str, kind: Kind, zone: tzinfo) -> int | None:
    match = _MOMENT.fullmatch(text)
    days = _days(text[: match.end(3)]) if match else None
    if match is None or days is None:
        return None
    hours, minutes, seconds = int(match[4]), int(match[5]), int(match[6])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    fraction = int((match[7] or "0").ljust(6, "0"))
    micros = days * DAY + (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction
    if kind is Kind.TIMESTAMP_NTZ:
        return micros if match[8] is None else None
    return micros - _offset(match[8], micros, zone)


def _offset(given: str | None, local: int, zone: tzinfo) -> int:
    if given == "Z":
        return 0
    if given is not None:
        minutes = int(given[1:3]) * 60 + int(given[-2:])
        return (-minutes if given[0] == "-" else minutes) * (HOUR // 60)
    from datetime import datetime, timedelta

    # Outside of the years that Python has, zones have the offset of the nearest one.
    known = min(max(local, _YEAR_2), _YEAR_9998)
    at = datetime(1970, 1, 1) + timedelta(microseconds=known)  # noqa: DTZ001 - a local time, given its zone next
    return cast("timedelta", at.replace(tzinfo=zone).utcoffset()) // timedelta(microseconds=1)


_YEAR_2, _YEAR_9998 = (cast("int", days_from_civil(year, 1, 1)) * DAY for year in (2, 9998))


def _float(text: str) -> float | None:
    if not re.fullmatch(r"-?([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|Infinity)|NaN", text):
        return None
    return float(text)


def _single(number: float | None) -> float | None:
    """The nearest number of 32 bits."""
    return None if number is None else single(number)


_TEXTS: dict[Kind, Callable[[str], object]] = {
    Kind.BOOLEAN: lambda text: {"true": True, "false": False}.get(text.lower()),
    Kind.FLOAT: lambda text: _single(_float(text)),
    Kind.DOUBLE: _float,
    Kind.DATE: _days,
    Kind.STRING: lambda text: text,
    **dict.fromkeys(BYTES, str.encode),
}
