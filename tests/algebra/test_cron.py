"""Cron schedules: fields, days of month and of week, and clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import partita as pt
from partita.algebra.cron import CronSchedule
from partita.errors import DefinitionError


def ticks(schedule: str, first: str, last: str, zone: str = "UTC") -> list[str]:
    start, stop = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (first, last))
    tick_micros = CronSchedule(schedule, zone).ticks(start, stop)
    return [datetime.fromtimestamp(micros / 1e6, UTC).strftime("%m-%d %H:%M") for micros in tick_micros]


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
        ("@daily", ["01-01 00:00", "01-02 00:00"]),
        ("@yearly", ["01-01 00:00"]),
        ("0 0 * * thu-sun", ["01-02 00:00"]),
        ("0 0 * * sun-wed", ["01-01 00:00"]),
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


def test_clocks_that_skip_half_an_hour_bring_no_moment_before_it() -> None:
    """In Lord Howe, clocks go from 2:00 to 2:30 at 15:30 UTC, and from 2:00 back to 1:30 at 15:00 UTC."""
    howe = "Australia/Lord_Howe"
    assert ticks("15 * * * *", "2025-10-04T14:00", "2025-10-04T17:00", howe) == [
        "10-04 14:45", "10-04 15:45", "10-04 16:15"
    ]  # fmt: skip
    assert ticks("45 * * * *", "2025-04-05T14:00", "2025-04-05T17:00", howe) == [
        "04-05 14:45", "04-05 15:15", "04-05 16:15"
    ]  # fmt: skip


@pytest.mark.parametrize("lag", [None, timedelta(0), timedelta(days=400), timedelta(days=365_000)])
@pytest.mark.parametrize("now", [datetime(2025, 6, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_deadlines_at_the_end_of_the_calendar(lag: timedelta | None, now: datetime) -> None:
    materialized_at = datetime(9999, 12, 30, tzinfo=UTC)
    assert pt.cron("@yearly", lag=lag).deadlines(materialized_at, now, now) == []
    early = pt.cron("@yearly", lag=lag).deadlines(
        datetime(2025, 5, 30, tzinfo=UTC), datetime(2025, 5, 31, tzinfo=UTC), now
    )
    assert len(early) == (0 if now.year == 2025 else 2 if lag is not None else 1)


@pytest.mark.parametrize(
    "schedule",
    [
        "", "* * * *", "60 * * * *", "* * 0 * *", "* * * * mo", "*/0 * * * *", "5-1 * * * *", "a * * * *", 5, None,
        "0 0 30 2 *", "0 0 31 4,6 *", "1_0 * * * *", "\uff11 * * * *", "*/\uff11 * * * *", "@never",
    ],
)  # fmt: skip
def test_an_invalid_schedule_is_refused(schedule: Any) -> None:
    with pytest.raises(DefinitionError, match="cron schedule"):
        CronSchedule(schedule)


def test_a_day_that_only_some_months_or_years_have_is_a_schedule() -> None:
    assert ticks("0 0 29 2 *", "2025-01-01", "2028-12-31") == ["02-29 00:00"]
    assert ticks("0 0 31 2 mon", "2025-02-01", "2025-02-09") == ["02-03 00:00"]


@pytest.mark.parametrize("schedule", ["* * * * *", "0 9 * * *", "0 0 29 2 *", "30 2 * * sun"])
def test_the_moments_that_follow_one_are_the_first_of_all_after_it(schedule: str) -> None:
    cron = CronSchedule(schedule, "Europe/Berlin")
    after, last = datetime(2025, 3, 29, 9, tzinfo=UTC), datetime(2034, 1, 1, tzinfo=UTC)
    until = min(last, datetime(2025, 3, 31, tzinfo=UTC)) if schedule == "* * * * *" else last
    every = [tick for tick in cron.ticks(after, until) if tick > after.timestamp() * 1e6]
    assert cron.next_ticks(after, 2, last) == every[:2]
    assert cron.next_ticks(after, 2, after) == []
