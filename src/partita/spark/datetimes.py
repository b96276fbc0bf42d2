"""Dates and times as integers and as text, independent of the session's time zone and ANSI mode.

Spark's own functions on timestamps use the session's time zone; these use the microseconds since 1970 in UTC.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from partita.algebra.calendar import MICROS_PER_DAY, MICROS_PER_HOUR, days_from_civil

OUTSIDE_YEARS_PROBLEM = "outside the years 0001 to 9999: "
"""The message of a query that fails because of such a date, before the date."""

FIRST_DAY = days_from_civil(1, 1, 1)
END_DAY = days_from_civil(10_000, 1, 1)
MINUTE = 60_000_000
SECOND = 1_000_000


def long_literal(number: int) -> Column:
    """Return a 64-bit literal."""
    return F.lit(number).cast("long")


def integral_div(column: Column, divisor: int) -> Column:
    """Return the quotient rounded towards zero."""
    return F.call_function("div", column, long_literal(divisor))


def floor_div(column: Column, divisor: int) -> Column:
    """Return the quotient rounded down, for a long that may be negative."""
    # `>> 63` is -1 for a negative remainder and 0 otherwise: no branch, and no overflow.
    return integral_div(column, divisor) + F.shiftright(column % long_literal(divisor), 63)


def utc_date(micros: Column) -> Column:
    """Return the date in UTC of microseconds since 1970."""
    return F.date_from_unix_date(floor_div(micros, MICROS_PER_DAY).cast("int"))


def date_text(column: Column, problem: str) -> Column:
    """Return `2025-01-15`; a date outside the years 0001 to 9999 fails the query with `problem` and the day."""
    return value_if_date_in_range(column, problem, F.concat(*date_pieces(column)))


def timestamp_text(column: Column, problem: str) -> Column:
    """Return `2025-01-15T10:30:00.000000Z`; a timestamp outside the years 0001 to 9999 fails the query."""
    return value_if_timestamp_in_range(column, problem, F.concat(*timestamp_pieces(column)))


def value_if_date_in_range(column: Column, problem: str, value: Column) -> Column:
    """Return `value`, or null for a null date; a date outside the years 0001 to 9999 fails the query with `problem`."""
    days = F.unix_date(column)
    is_in_range = days.between(F.lit(FIRST_DAY), F.lit(END_DAY - 1))
    outside = F.raise_error(F.concat(F.lit(problem), days.cast("string"), F.lit(" days from 1970")))
    return F.when(is_in_range, value).when(column.isNotNull(), outside)


def value_if_timestamp_in_range(column: Column, problem: str, value: Column) -> Column:
    """Return `value`, or null for a null timestamp; one outside the years 0001 to 9999 fails the query."""
    micros = F.unix_micros(column)
    is_in_range = (micros >= long_literal(FIRST_DAY * MICROS_PER_DAY)) & (
        micros < long_literal(END_DAY * MICROS_PER_DAY)
    )
    outside = F.raise_error(F.concat(F.lit(problem), micros.cast("string"), F.lit(" microseconds from 1970")))
    return F.when(is_in_range, value).when(column.isNotNull(), outside)


def date_pieces(column: Column, prefix: str = "") -> tuple[Column, ...]:
    """Return the parts of `2025-01-15` after a prefix, for a date of the years 0001 to 9999; null for null."""
    # Spark's cast takes twice as long, and is wrong for ten days of 1582 if `timeParserPolicy` is LEGACY.
    year = F.year(column)
    return (
        _lookup_text([f"{prefix}{n:02}" for n in range(100)], F.call_function("div", year, F.lit(100))),
        _lookup_text([f"{n:02}-" for n in range(100)], year % F.lit(100)),
        _lookup_text([f"{month:02}-{day:02}" for month in range(13) for day in range(32)],
                F.shiftleft(F.month(column), 5).bitwiseOR(F.day(column))),
    )  # fmt: skip


def timestamp_pieces(column: Column, prefix: str = "") -> tuple[Column, ...]:
    """Return the parts of `2025-01-15T10:30:00.000000Z` after a prefix, for a timestamp in range; null for null."""
    # Spark may evaluate this before it checks the range of the timestamp, so nothing here may overflow.
    micros = F.unix_micros(column)
    return (*date_pieces(utc_date(micros), prefix), *time_of_day_pieces(F.pmod(micros, long_literal(MICROS_PER_DAY))))


def time_of_day_pieces(micros: Column) -> tuple[Column, ...]:
    """Return the parts of `T10:30:00.000000Z` for microseconds after midnight."""
    return (
        _lookup_text([f"T{n:02}:" for n in range(24)], integral_div(micros, MICROS_PER_HOUR)),
        _lookup_text([f"{n:02}:" for n in range(60)], integral_div(micros % long_literal(MICROS_PER_HOUR), MINUTE)),
        _lookup_text([f"{n:02}." for n in range(60)], integral_div(micros % long_literal(MINUTE), SECOND)),
        _lookup_text([f"{n:02}" for n in range(100)], integral_div(micros % long_literal(SECOND), 10_000)),
        _lookup_text([f"{n:02}" for n in range(100)], integral_div(micros % long_literal(10_000), 100)),
        _lookup_text([f"{n:02}Z" for n in range(100)], micros % long_literal(100)),
    )


def timestamp_ntz_text(column: Column, problem: str) -> Column:
    """Return `2025-01-15T10:30:00.000000` for a timestamp without a zone, with the same range."""
    text = F.replace(column.cast("string"), F.lit(" "), F.lit("T"))
    is_in_range = (F.substring(text, 11, 1) == F.lit("T")) & (text >= F.lit("0001"))
    error = F.raise_error(F.concat(F.lit(problem), text))
    return F.when(is_in_range, _pad_fraction(text, 19)).when(column.isNotNull(), error)


def time_text(column: Column) -> Column:
    """Return `10:30:00.000000` for a time of day."""
    return _pad_fraction(column.cast("string"), 8)


def time_micros(column: Column) -> Column:
    """Return the microseconds since midnight of a time of day."""
    return F.time_diff(F.lit("MICROSECOND"), F.make_time(F.lit(0), F.lit(0), F.lit(0)), column)


def _lookup_text(texts: list[str], number: Column) -> Column:
    """Return the text with that index, which takes a tenth of the time of formatting; no text has a space."""
    # Spark folds the split into a constant.
    return F.get(F.split(F.lit(" ".join(texts)), " "), number.cast("int"))


def _pad_fraction(text: Column, width: int) -> Column:
    """Pad the fraction of a time to six digits; Spark's cast drops its trailing zeros."""
    with_point = F.when(F.length(text) == width, F.concat(text, F.lit("."))).otherwise(text)
    return F.rpad(with_point, width + 7, "0")
