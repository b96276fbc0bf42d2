"""Conversion of days and dates: equal to Python's within its years, and round trips beyond them."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.calendar import civil_from_days, days_from_civil

EPOCH = date(1970, 1, 1)


@given(st.dates())
def test_days_are_those_of_python(day: date) -> None:
    days = (day - EPOCH).days
    assert days_from_civil(day.year, day.month, day.day) == days
    assert civil_from_days(days) == (day.year, day.month, day.day)


@given(st.integers(-(10**9), 10**9))
def test_any_day_comes_back(days: int) -> None:
    year, month, day = civil_from_days(days)
    assert days_from_civil(year, month, day) == days
    assert 1 <= month <= 12
    assert 1 <= day <= 31


@pytest.mark.parametrize(
    ("civil", "days"),
    [
        ((1970, 1, 1), 0),
        ((1969, 12, 31), -1),
        ((2000, 2, 29), 11_016),
        ((0, 3, 1), -719_468),
        ((10_000, 1, 1), 2_932_897),
    ],
)
def test_days(civil: tuple[int, int, int], days: int) -> None:
    assert days_from_civil(*civil) == days
    assert civil_from_days(days) == civil


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_arrays_of_numpy_are_taken(dtype: type[np.generic]) -> None:
    days = np.arange(-800_000, 3_000_000, 997).astype(dtype)
    year, month, day = civil_from_days(days)
    assert [*zip(year.tolist(), month.tolist(), day.tolist(), strict=True)] == [
        civil_from_days(d) for d in days.tolist()
    ]
    assert (days_from_civil(year, month, day) == days).all()
