"""Stage 2: plain values to the strings of `add.partitionValues`, and to those that the directory shows.

The two differ for timestamps alone: the log has the instant in UTC with six digits, the directory the local time as
Spark casts it to text.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import cast

from partita.algebra.calendar import DAY, civil_from_days
from partita.algebra.hashing import decimal_text, time_text
from partita.algebra.types import FLOATS, DecimalType, Field, Kind
from partita.formats.delta.values.java_floats import java_text


def serialized(plain: object, column: Field) -> str | None:
    """The string in `partitionValues`; None for null, and for the empty string and empty bytes."""
    if plain is None or plain == "":
        return None
    if column.type.kind is Kind.TIMESTAMP:
        return _moment(cast("int", plain), "T") + "Z"
    if column.type.kind is Kind.TIMESTAMP_NTZ:
        return _moment(cast("int", plain), " ")
    return _text(plain, column)


def directory_text(plain: object, column: Field, zone: tzinfo) -> str | None:
    """The string that the directory shows, before it is escaped; None as above."""
    if plain is None or plain == "":
        return None
    if column.type.kind is Kind.TIMESTAMP:
        return _local(cast("int", plain), zone)
    if column.type.kind is Kind.TIMESTAMP_NTZ:
        return _trimmed(_moment(cast("int", plain), " "))
    return _text(plain, column)


def _text(plain: object, column: Field) -> str:
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(column.type, DecimalType):
        return decimal_text(cast("int", plain), column.type.scale)
    if column.type.kind in FLOATS:
        return java_text(cast("float", plain), column.type.kind)
    if column.type.kind is Kind.DATE:
        return date_text(cast("int", plain))
    return str(plain)


def date_text(days: int) -> str:
    """`2025-01-15`; years beyond four digits as Spark writes them: `+10000-01-01`, `-0001-12-31`."""
    year, month, day = civil_from_days(days)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _moment(micros: int, between: str) -> str:
    days, rest = divmod(micros, DAY)
    return f"{date_text(days)}{between}{time_text(rest)}"


def _trimmed(moment: str) -> str:
    """The fraction as Spark casts it to text: no trailing zeros, and no point where nothing follows it."""
    return moment.rstrip("0").removesuffix(".") if "." in moment else moment


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_9998 = (datetime(9998, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_YEAR_2 = (datetime(2, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def _local(micros: int, zone: tzinfo) -> str:
    """The local time, with the offset behind it where clocks went back and the same time came before."""
    known = min(max(micros, _YEAR_2), _YEAR_9998)
    at = (_EPOCH + timedelta(microseconds=known)).astimezone(zone)
    offset = cast("timedelta", at.utcoffset()) // timedelta(microseconds=1)
    text = _trimmed(_moment(micros + offset, " "))
    return text + at.strftime("%z") if at.fold else text
