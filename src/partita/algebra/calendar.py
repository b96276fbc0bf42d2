"""Conversion between days since 1970 and dates of the proleptic Gregorian calendar, for any year.

The calendar is that of ISO 8601, Iceberg and Spark. The arithmetic uses integers without branches, so that it works for
Python ints and numpy arrays alike and is not limited to year 9999. Internally the year starts in March, which puts the
leap day at its end.
"""

from __future__ import annotations

from typing import Any, TypeAlias

YEAR, MONTH, DAY, HOUR = "year", "month", "day", "hour"
CALENDAR_UNITS = (YEAR, MONTH, DAY, HOUR)
"""The units of the calendar that partition functions have, from the longest to the shortest."""

MICROS_PER_HOUR = 3_600_000_000
MICROS_PER_DAY = 24 * MICROS_PER_HOUR

IntOrArray: TypeAlias = Any
"""A Python int, or a numpy array of integers."""

_DAYS_PER_ERA = 146_097
"""Days in 400 years."""
_ERA_START_TO_EPOCH = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


def days_from_civil(year: IntOrArray, month: IntOrArray, day: IntOrArray) -> IntOrArray:
    """Return the days from 1970-01-01 to a date."""
    march_year = year - (month <= 2)
    era = march_year // 400
    year_of_era = march_year - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return (
        era * _DAYS_PER_ERA
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + day_of_year
        - _ERA_START_TO_EPOCH
    )


def civil_from_days(days: IntOrArray) -> tuple[IntOrArray, IntOrArray, IntOrArray]:
    """Return year, month and day of the date that is `days` days from 1970-01-01."""
    era_days = days + _ERA_START_TO_EPOCH
    era = era_days // _DAYS_PER_ERA
    day_of_era = era_days - era * _DAYS_PER_ERA
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = (shifted_month + 2) % 12 + 1
    return year_of_era + era * 400 + (month <= 2), month, day


def iso_date(days: int) -> str:
    """Return the date that is `days` days from 1970-01-01 as `YYYY-MM-DD`."""
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}"
