"""Cron schedules: fields, days by month and by week, and clocks that are changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from partita.algebra.cron import Cron
from partita.errors import DefinitionError


def ticks(schedule: str, first: str, last: str, zone: str = "UTC") -> list[str]:
    start, stop = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (first, last))
    found = Cron(schedule, zone).ticks(start, stop)
    return [datetime.fromtimestamp(tick / 1e6, UTC).strftime("%m-%d %H:%M") for tick in found]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0 9 * * *", ["01-01 09:00", "01-02 09:00"]),
        ("*/30 23 * * *", ["01-01 23:00", "01-01 23:30", "01-02 23:00", "01-02 23:30"]),
        ("5,10-12 0 2 * *", ["01-02 00:05", "01-02 00:10", "01-02 00:11", "01-02 00:12"]),
        ("0 0 * * thu", ["01-02 00:00"]),
        ("0 0 * jan 4", ["01-02 00:00"]),
        ("0 0 1 * thu", ["01-01 00:00", "01-02 00:00"]),
        ("0 0 * feb *", []),
        ("0 0 * * 0,7", []),
        ("0 20/2 1 * *", ["01-01 20:00", "01-01 22:00"]),
    ],
)
def test_the_moments_of_a_schedule(schedule: str, expected: list[str]) -> None:
    assert ticks(schedule, "2025-01-01", "2025-01-02T23:59") == expected


def test_both_ends_count() -> None:
    assert ticks("0 * * * *", "2025-01-01T05:00", "2025-01-01T06:00") == ["01-01 05:00", "01-01 06:00"]


def test_a_time_that_the_clocks_skip_comes_later_and_one_that_they_repeat_comes_once() -> None:
    berlin = "Europe/Berlin"
    assert ticks("30 2 * * *", "2025-03-29T12:00", "2025-03-31T12:00", berlin) == ["03-30 01:30", "03-31 00:30"]
    assert ticks("30 2 * * *", "2025-10-25T12:00", "2025-10-26T12:00", berlin) == ["10-26 00:30"]
    assert len(ticks("0 * * * *", "2025-10-25T22:00", "2025-10-26T22:59", berlin)) == 25
    assert len(ticks("0 * * * *", "2025-03-29T23:00", "2025-03-30T21:59", berlin)) == 23


@pytest.mark.parametrize(
    "schedule", ["", "* * * *", "60 * * * *", "* * 0 * *", "* * * * mo", "*/0 * * * *", "5-1 * * * *", "a * * * *"]
)
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(DefinitionError, match="cron schedule"):
        Cron(schedule)
