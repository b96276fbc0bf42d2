"""Days and civil dates, in whole numbers, for any year.

The proleptic Gregorian calendar, as in ISO 8601, Iceberg and Spark. The arithmetic is on integers alone, without a
branch, so that it takes Python's numbers and numpy's arrays alike and knows no end at year 9999. March starts the year
inside, so that the leap day comes last.
"""

from __future__ import annotations

from typing import Any, TypeAlias

HOUR = 3_600_000_000
DAY = 24 * HOUR

Whole: TypeAlias = Any
"""A Python int, or a numpy array of them."""

_ERA = 146_097
"""Days in 400 years."""
_SHIFT = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


def days_from_civil(year: Whole, month: Whole, day: Whole) -> Whole:
    """Days from 1970-01-01 to that date."""
    shifted = year - (month <= 2)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * _ERA + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _SHIFT


def civil_from_days(days: Whole) -> tuple[Whole, Whole, Whole]:
    """Year, month and day of the date that is so many days from 1970-01-01."""
    shifted = days + _SHIFT
    era = shifted // _ERA
    day_of_era = shifted - era * _ERA
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = (shifted_month + 2) % 12 + 1
    return year_of_era + era * 400 + (month <= 2), month, day
