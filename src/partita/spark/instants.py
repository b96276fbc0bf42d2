"""Dates and times in whole numbers and as text, whatever the session's time zone and ANSI mode.

Spark's own functions on timestamps work in the session's zone; these go by the microseconds since 1970 in UTC.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from partita.algebra.calendar import DAY, HOUR, days_from_civil

OUTSIDE = "outside the years 0001 to 9999: "
"""What a query that meets such a date fails with, in front of the date."""

FIRST_DAY = days_from_civil(1, 1, 1)
AFTER_DAYS = days_from_civil(10_000, 1, 1)
MINUTE = 60_000_000
SECOND = 1_000_000


def long(number: int) -> Column:
    """A literal of 64 bits."""
    return F.lit(number).cast("long")


def div(column: Column, by: int) -> Column:
    """The quotient without its fraction; the sign is the number's."""
    return F.call_function("div", column, long(by))


def floor_div(column: Column, by: int) -> Column:
    """The next lower whole quotient, for a long that may be negative."""
    # `>> 63` is -1 for a negative remainder and 0 for the others: no branch, and no overflow at either end.
    return div(column, by) + F.shiftright(column % long(by), 63)


def day_of(micros: Column) -> Column:
    """The date in UTC of microseconds since 1970."""
    return F.date_from_unix_date(floor_div(micros, DAY).cast("int"))


def date_text(column: Column, problem: str) -> Column:
    """`2025-01-15`; a date outside the years 0001 to 9999 fails the query with `problem` and the day."""
    return if_date_fits(column, problem, F.concat(*date_pieces(column)))


def timestamp_text(column: Column, problem: str) -> Column:
    """`2025-01-15T10:30:00.000000Z` of a timestamp; outside the years 0001 to 9999 the query fails with `problem`."""
    return if_timestamp_fits(column, problem, F.concat(*timestamp_pieces(column)))


def if_date_fits(column: Column, problem: str, value: Column) -> Column:
    """`value`, null of null; a date outside the years 0001 to 9999 fails the query with `problem` and the day."""
    days = F.unix_date(column)
    fits = days.between(F.lit(FIRST_DAY), F.lit(AFTER_DAYS - 1))
    outside = F.raise_error(F.concat(F.lit(problem), days.cast("string"), F.lit(" days from 1970")))
    return F.when(fits, value).when(column.isNotNull(), outside)


def if_timestamp_fits(column: Column, problem: str, value: Column) -> Column:
    """The same for a timestamp."""
    micros = F.unix_micros(column)
    fits = (micros >= long(FIRST_DAY * DAY)) & (micros < long(AFTER_DAYS * DAY))
    outside = F.raise_error(F.concat(F.lit(problem), micros.cast("string"), F.lit(" microseconds from 1970")))
    return F.when(fits, value).when(column.isNotNull(), outside)


def date_pieces(column: Column, before: str = "") -> tuple[Column, ...]:
    """The parts of `2025-01-15`, for a date of the years 0001 to 9999, with `before` in front; each is null of null."""
    # Spark's cast takes twice as long, and tells ten days of 1582 wrong where `timeParserPolicy` is LEGACY.
    year = F.year(column)
    return (
        _one_of([f"{before}{n:02}" for n in range(100)], F.call_function("div", year, F.lit(100))),
        _one_of([f"{n:02}-" for n in range(100)], year % F.lit(100)),
        _one_of([f"{month:02}-{day:02}" for month in range(13) for day in range(32)],
                F.shiftleft(F.month(column), 5).bitwiseOR(F.day(column))),
    )  # fmt: skip


def timestamp_pieces(column: Column, before: str = "") -> tuple[Column, ...]:
    """The parts of `2025-01-15T10:30:00.000000Z`, for a timestamp of those years; each is null of null."""
    # Spark may make these before it knows that the timestamp is one of those years: nothing here overflows.
    micros = F.unix_micros(column)
    return (*date_pieces(day_of(micros), before), *clock_pieces(F.pmod(micros, long(DAY))))


def clock_pieces(micros: Column) -> tuple[Column, ...]:
    """The parts of `T10:30:00.000000Z`, so many microseconds after midnight."""
    return (
        _one_of([f"T{n:02}:" for n in range(24)], div(micros, HOUR)),
        _one_of([f"{n:02}:" for n in range(60)], div(micros % long(HOUR), MINUTE)),
        _one_of([f"{n:02}." for n in range(60)], div(micros % long(MINUTE), SECOND)),
        _one_of([f"{n:02}" for n in range(100)], div(micros % long(SECOND), 10_000)),
        _one_of([f"{n:02}" for n in range(100)], div(micros % long(10_000), 100)),
        _one_of([f"{n:02}Z" for n in range(100)], micros % long(100)),
    )


def timestamp_ntz_text(column: Column, problem: str) -> Column:
    """`2025-01-15T10:30:00.000000` of a timestamp without a zone, with the same limits."""
    text = F.replace(column.cast("string"), F.lit(" "), F.lit("T"))
    fits = (F.substring(text, 11, 1) == F.lit("T")) & (text >= F.lit("0001"))
    return F.when(fits, _six_digits(text, 19)).when(column.isNotNull(), F.raise_error(F.concat(F.lit(problem), text)))


def time_text(column: Column) -> Column:
    """`10:30:00.000000` of a time of the day."""
    return _six_digits(column.cast("string"), 8)


def micros_of_time(column: Column) -> Column:
    """Microseconds from midnight."""
    return F.time_diff(F.lit("MICROSECOND"), F.make_time(F.lit(0), F.lit(0), F.lit(0)), column)


def _one_of(texts: list[str], number: Column) -> Column:
    """The text with that number, looked up: it takes a tenth of the time of formatting; none has a space in it."""
    # Spark folds the split into a constant.
    return F.get(F.split(F.lit(" ".join(texts)), " "), number.cast("int"))


def _six_digits(text: Column, width: int) -> Column:
    """A text as Spark casts it, without trailing zeros of the fraction, with all six digits."""
    pointed = F.when(F.length(text) == width, F.concat(text, F.lit("."))).otherwise(text)
    return F.rpad(pointed, width + 7, "0")
