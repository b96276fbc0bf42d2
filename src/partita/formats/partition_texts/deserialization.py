"""Parse `partitionValues` into typed values.

Texts of older writers are read too: decimals with an exponent (`0E-18`), timestamps in a session's local time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from typing import cast

from partita.algebra.calendar import MICROS_PER_DAY, MICROS_PER_HOUR, civil_from_days, days_from_civil
from partita.algebra.physical_values import decimal_to_unscaled, is_in_range, is_unicode, round_to_float32
from partita.algebra.types import BINARY_KINDS, INTEGER_KINDS, DecimalType, Field, TypeKind
from partita.arrow.schema import to_schema
from partita.errors import PartitionValueError, value_repr
from partita.formats.partition_texts.validation import PARTITION_KINDS, time_zone_rules


def parse_partition(values: Mapping[str, str | None], schema: object, *, time_zone: str = "UTC") -> dict[str, object]:
    """Parse `partitionValues` into typed values by column, in the schema's order.

    Dates are days and timestamps microseconds from 1970, decimals `Decimal`s, bytes `bytes`. `time_zone` is that of
    timestamps without a zone, which older writers left. Raises `PartitionValueError` for a text that is not a value of
    its column.
    """
    zone = time_zone_rules(time_zone)
    texts = {name.casefold(): text for name, text in _check_texts(values).items()}
    return {column.name: _parse_value(texts.get(column.name.casefold()), column, zone) for column in to_schema(schema)}


def _check_texts(values: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Raise `PartitionValueError` unless these are Unicode texts by column name."""
    if not isinstance(values, Mapping):
        raise PartitionValueError("partitionValues", "texts by the names of columns", f"{type(values).__name__}")
    for name, text in values.items():
        if not isinstance(name, str):
            raise PartitionValueError(repr(name), "the name of a column", type(name).__name__)
        if text is not None and (not isinstance(text, str) or not is_unicode(text)):
            actual = (
                "text with a lone surrogate"
                if isinstance(text, str)
                else f"the {type(text).__name__} {value_repr(text)}"
            )
            raise PartitionValueError(name, "text, or None for null", actual)
    return values


def _parse_value(text: str | None, column: Field, zone: tzinfo) -> object:
    kind = column.type.kind
    if kind not in PARTITION_KINDS:
        raise PartitionValueError(column.name, "a type that Delta partitions by", str(column.type))
    if text is None or text == "":
        return None
    value = _TEXT_PARSERS[kind](text) if kind in _TEXT_PARSERS else _parse_typed_value(text, column, zone)
    if value is None:
        raise PartitionValueError(column.name, str(column.type), f"the text {text!r}")
    return value


def _parse_typed_value(text: str, column: Field, zone: tzinfo) -> object:
    if column.type.kind in INTEGER_KINDS:
        number = int(text) if re.fullmatch("-?[0-9]{1,19}", text) else None
        return number if number is not None and is_in_range(number, column.type) else None
    if isinstance(column.type, DecimalType):
        return _parse_decimal(text, column.type)
    return _parse_timestamp(text, column.type.kind, zone)


def _parse_decimal(text: str, type_: DecimalType) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    number = decimal_to_unscaled(value, type_.scale)
    if number is None or not is_in_range(number, type_):
        return None
    # A zero may have any exponent, up to a billion.
    return value if number else Decimal(0)


_DATE_PATTERN = r"([+-]?[0-9]{4,6})-([0-9]{2})-([0-9]{2})"
_TIMESTAMP_PATTERN = re.compile(
    _DATE_PATTERN + r"[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)


def _parse_date(text: str) -> int | None:
    match = re.fullmatch(_DATE_PATTERN, text)
    if match is None:
        return None
    days = cast("int", days_from_civil(int(match[1]), int(match[2]), int(match[3])))
    return days if civil_from_days(days) == (int(match[1]), int(match[2]), int(match[3])) else None


def _parse_timestamp(text: str, kind: TypeKind, zone: tzinfo) -> int | None:
    match = _TIMESTAMP_PATTERN.fullmatch(text)
    days = _parse_date(text[: match.end(3)]) if match else None
    if match is None or days is None:
        return None
    hours, minutes, seconds = int(match[4]), int(match[5]), int(match[6])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    fraction = int((match[7] or "0").ljust(6, "0"))
    micros = days * MICROS_PER_DAY + (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction
    if kind is TypeKind.TIMESTAMP_NTZ:
        return micros if match[8] is None else None
    return micros - _utc_offset_micros(match[8], micros, zone)


def _utc_offset_micros(offset_text: str | None, local_micros: int, zone: tzinfo) -> int:
    if offset_text == "Z":
        return 0
    if offset_text is not None:
        minutes = int(offset_text[1:3]) * 60 + int(offset_text[-2:])
        return (-minutes if offset_text[0] == "-" else minutes) * (MICROS_PER_HOUR // 60)
    from datetime import datetime, timedelta

    # Outside of the years that Python supports, use the offset of the nearest year.
    nearest_micros = min(max(local_micros, _YEAR_2), _YEAR_9998)
    moment = datetime(1970, 1, 1) + timedelta(microseconds=nearest_micros)  # noqa: DTZ001 - a local time, given its zone next
    return cast("timedelta", moment.replace(tzinfo=zone).utcoffset()) // timedelta(microseconds=1)


_YEAR_2, _YEAR_9998 = (cast("int", days_from_civil(year, 1, 1)) * MICROS_PER_DAY for year in (2, 9998))


def _parse_float(text: str) -> float | None:
    if not re.fullmatch(r"-?([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|Infinity)|NaN", text):
        return None
    return float(text)


def _nearest_single(number: float | None) -> float | None:
    """Return the nearest 32-bit float; None for None."""
    return None if number is None else round_to_float32(number)


_TEXT_PARSERS: dict[TypeKind, Callable[[str], object]] = {
    TypeKind.BOOLEAN: lambda text: {"true": True, "false": False}.get(text.lower()),
    TypeKind.FLOAT: lambda text: _nearest_single(_parse_float(text)),
    TypeKind.DOUBLE: _parse_float,
    TypeKind.DATE: _parse_date,
    TypeKind.STRING: lambda text: text,
    **dict.fromkeys(BINARY_KINDS, str.encode),
}
