"""Time windows: ordinals, key values and instants, also across clock changes, and overlaps."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.time_windows import WINDOW_UNITS, TimeWindows
from partita.errors import DefinitionError, KeyValueError

START = datetime(2020, 1, 1)  # noqa: DTZ001 - in the zone of the windows
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "+05:30"]
OFFSETS = [timedelta(0), timedelta(hours=5), timedelta(minutes=45), timedelta(days=2, hours=1)]


@st.composite
def windows(draw: st.DrawFn) -> TimeWindows:
    return TimeWindows(
        "w",
        draw(st.sampled_from(WINDOW_UNITS)),
        START,
        None,
        draw(st.sampled_from(ZONES)),
        draw(st.sampled_from(OFFSETS)),
    )


INSTANTS = st.datetimes(datetime(2009, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(windows(), INSTANTS)
def test_every_instant_is_in_one_window(time_windows: TimeWindows, instant: datetime) -> None:
    ordinal = time_windows.ordinal_at(instant)
    assert time_windows.window_start(ordinal) <= instant < time_windows.window_start(ordinal + 1)


@given(windows(), INSTANTS)
def test_a_value_and_an_ordinal_say_the_same(time_windows: TimeWindows, instant: datetime) -> None:
    ordinal = time_windows.ordinal_at(instant)
    assert time_windows.ordinal_of(time_windows.key_value(ordinal)) == ordinal


@given(windows(), windows(), INSTANTS)
def test_windows_that_overlap_are_found_and_no_others(
    time_windows: TimeWindows, other: TimeWindows, instant: datetime
) -> None:
    ordinal = other.ordinal_at(instant)
    start, stop = other.window_start(ordinal), other.window_start(ordinal + 1)
    ordinals = time_windows.overlapping_ordinals(other, ordinal, ordinal)
    assert time_windows.ordinal_at(instant) in ordinals
    for inside in ordinals:
        assert time_windows.window_start(inside) < stop
        assert time_windows.window_start(inside + 1) > start
    assert time_windows.window_start(ordinals[0]) <= start
    assert time_windows.window_start(ordinals[-1] + 1) >= stop


@given(windows(), INSTANTS, st.timedeltas(timedelta(0), timedelta(days=90)))
def test_expected_windows_start_after_the_start_and_are_over(
    time_windows: TimeWindows, now: datetime, longer: timedelta
) -> None:
    ordinals = time_windows.expected_ordinals(now)
    assert all(time_windows.window_start(n + 1) <= now for n in ordinals[-2:])
    later = time_windows.expected_ordinals(now + longer)
    assert (ordinals.start, len(ordinals) <= len(later)) == (later.start, True)
    if len(ordinals):
        assert time_windows.window_start(ordinals[-1] + 2) > now


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("week", date(2025, 1, 7)),
        ("month", date(2025, 1, 2)),
        ("day", datetime(2025, 1, 1, tzinfo=UTC)),
        ("hour", date(2025, 1, 1)),
        ("hour", datetime(2025, 1, 1, 0, 30, tzinfo=UTC)),
        ("day", "2025-01-01"),
        ("day", None),
    ],
)
def test_a_value_that_no_window_has(unit: str, value: object) -> None:
    assert TimeWindows("w", unit, START).ordinal_of(value) is None


def test_a_day_that_a_zone_skipped_starts_where_the_next_one_does() -> None:
    days = TimeWindows("w", "day", START, None, "Pacific/Apia")
    skipped = days.ordinal_of(date(2011, 12, 30))
    assert skipped is not None
    assert days.window_start(skipped + 1) - days.window_start(skipped) in (timedelta(0), timedelta(days=1))


EDGES = ["0001-01-01", "0001-01-02", "9999-12-30", "9999-12-31", "9999-12-31T23:59:59.999999"]


@pytest.mark.parametrize("offset", [timedelta(days=-40), timedelta(0), timedelta(hours=5), timedelta(days=40)])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("unit", WINDOW_UNITS)
def test_windows_at_the_edges_of_the_calendar_are_those_that_there_are(unit: str, zone: str, offset: timedelta) -> None:
    for text in EDGES:
        edge = datetime.fromisoformat(text)
        now = edge.replace(tzinfo=UTC)
        early, late = (
            TimeWindows("w", unit, edge, None, zone, offset),
            TimeWindows("w", unit, START, edge, zone, offset),
        )
        for time_windows in (early, late):
            ordinals = time_windows.expected_ordinals(now)
            for n in (*ordinals[:1], *ordinals[-1:]):
                assert time_windows.window_start(n) < time_windows.window_start(n + 1) <= now
                assert not time_windows.is_empty(n)


def test_the_first_and_the_last_day_of_all() -> None:
    def days(start: str, now: datetime) -> list[object]:
        windows = TimeWindows("w", "day", datetime.fromisoformat(start))
        return [windows.key_value(n) for n in windows.expected_ordinals(now)]

    assert days("0001-01-01", datetime(1, 1, 3, tzinfo=UTC)) == [date(1, 1, 1), date(1, 1, 2)]
    assert days("9999-12-29", datetime.max.replace(tzinfo=UTC)) == [date(9999, 12, 29), date(9999, 12, 30)]


def test_invalid_windows_are_refused() -> None:
    with pytest.raises(DefinitionError, match="unknown unit"):
        TimeWindows("w", "century", START)
    with pytest.raises(DefinitionError, match="Mars"):
        TimeWindows("w", "day", START, None, "Mars/Olympus")
    with pytest.raises(KeyValueError):
        TimeWindows("No Name", "day", START)
