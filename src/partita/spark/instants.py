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
    """`2025-01-15`; a date outside the years 0001 to 9999 fails the query with `problem` and the date."""
    text = column.cast("string")
    # The text stands in both branches, so that Spark computes it once.
    outside = F.raise_error(F.concat(F.lit(problem), text))
    fits = column.isNull() | ((F.octet_length(text) == F.lit(10)) & (text >= F.lit("0001")))
    return F.when(fits, text).otherwise(outside)


def timestamp_text(column: Column, problem: str) -> Column:
    """`2025-01-15T10:30:00.000000Z` of a timestamp; outside the years 0001 to 9999 the query fails with `problem`."""
    micros = F.unix_micros(column)
    # In years from 0001 on this is not negative, so that plain division and remainder do.
    since = micros - long(FIRST_DAY * DAY)
    day = F.date_from_unix_date((div(since, DAY) + long(FIRST_DAY)).cast("int")).cast("string")
    text = F.concat(
        day, F.lit("T"), _digits(since, DAY, HOUR),
        F.lit(":"), _digits(since, HOUR, MINUTE),
        F.lit(":"), _digits(since, MINUTE, SECOND),
        F.lit("."), _digits(since, SECOND, 10_000), _digits(since, 10_000, 100), _digits(since, 100, 1),
        F.lit("Z"),
    )  # fmt: skip
    fits = (micros >= long(FIRST_DAY * DAY)) & (micros < long(AFTER_DAYS * DAY))
    outside = F.raise_error(F.concat(F.lit(problem), micros.cast("string"), F.lit(" microseconds from 1970")))
    return F.when(fits, text).when(column.isNotNull(), outside)


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


def _digits(micros: Column, whole: int, part: int) -> Column:
    """Two digits: how many `part`s there are in what is over `whole`s."""
    # A look-up takes a tenth of the time of formatting; Spark folds the split into a constant.
    pairs = F.split(F.lit(" ".join(f"{n:02}" for n in range(100))), " ")
    return pairs[div(micros % long(whole), part)]


def _six_digits(text: Column, width: int) -> Column:
    """A text as Spark casts it, without trailing zeros of the fraction, with all six digits."""
    pointed = F.when(F.length(text) == width, F.concat(text, F.lit("."))).otherwise(text)
    return F.rpad(pointed, width + 7, "0")
