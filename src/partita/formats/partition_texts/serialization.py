"""Stage 2: format physical values as the texts of `add.partitionValues` and of the directory.

The two differ only for timestamps: the log has the instant in UTC with six fraction digits, the directory the local
time as Spark casts it to text.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import cast

from partita.algebra.calendar import MICROS_PER_DAY, civil_from_days
from partita.algebra.hashing import decimal_text, time_text
from partita.algebra.types import FLOAT_KINDS, DecimalType, Field, TypeKind
from partita.formats.partition_texts.java_floats import java_float_text


def partition_text(plain: object, column: Field) -> str | None:
    """Return the text for `partitionValues`; None for null, the empty string and empty bytes."""
    if plain is None or plain == "":
        return None
    if column.type.kind is TypeKind.TIMESTAMP:
        return _timestamp_text(cast("int", plain), "T") + "Z"
    if column.type.kind is TypeKind.TIMESTAMP_NTZ:
        return _timestamp_text(cast("int", plain), " ")
    return _value_text(plain, column)


def directory_text(plain: object, column: Field, zone: tzinfo) -> str | None:
    """Return the text for the directory, unescaped; None for null, the empty string and empty bytes."""
    if plain is None or plain == "":
        return None
    if column.type.kind is TypeKind.TIMESTAMP:
        return _local_timestamp_text(cast("int", plain), zone)
    if column.type.kind is TypeKind.TIMESTAMP_NTZ:
        return _trim_fraction(_timestamp_text(cast("int", plain), " "))
    return _value_text(plain, column)


def _value_text(plain: object, column: Field) -> str:
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(column.type, DecimalType):
        return decimal_text(cast("int", plain), column.type.scale)
    if column.type.kind in FLOAT_KINDS:
        return java_float_text(cast("float", plain), column.type.kind)
    if column.type.kind is TypeKind.DATE:
        return date_text(cast("int", plain))
    return str(plain)


def date_text(days: int) -> str:
    """Format a date as `2025-01-15`; years beyond four digits as Spark does: `+10000-01-01`, `-0001-12-31`."""
    year, month, day = civil_from_days(days)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _timestamp_text(micros: int, separator: str) -> str:
    days, rest = divmod(micros, MICROS_PER_DAY)
    return f"{date_text(days)}{separator}{time_text(rest)}"


def _trim_fraction(timestamp_text: str) -> str:
    """Remove trailing zeros of the fraction, and the point if nothing follows it, as Spark does."""
    return timestamp_text.rstrip("0").removesuffix(".") if "." in timestamp_text else timestamp_text


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_9998 = (datetime(9998, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_YEAR_2 = (datetime(2, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def _local_timestamp_text(micros: int, zone: tzinfo) -> str:
    """Format a timestamp in local time, with its offset if that local time occurs twice (the second time)."""
    nearest_micros = min(max(micros, _YEAR_2), _YEAR_9998)
    moment = (_EPOCH + timedelta(microseconds=nearest_micros)).astimezone(zone)
    offset = cast("timedelta", moment.utcoffset()) // timedelta(microseconds=1)
    text = _trim_fraction(_timestamp_text(micros + offset, " "))
    return text + moment.strftime("%z") if moment.fold else text
