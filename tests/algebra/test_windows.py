"""Time windows: ordinals, values and instants, over changes of clocks, and those that overlap."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.windows import UNITS, Windows
from partita.errors import DefinitionError, KeyValueError

START = datetime(2020, 1, 1)  # noqa: DTZ001 - in the zone of the windows
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "+05:30"]
OFFSETS = [timedelta(0), timedelta(hours=5), timedelta(minutes=45), timedelta(days=2, hours=1)]


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    return Windows(
        "w", draw(st.sampled_from(UNITS)), START, None, draw(st.sampled_from(ZONES)), draw(st.sampled_from(OFFSETS))
    )


INSTANTS = st.datetimes(datetime(2009, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(windows(), INSTANTS)
def test_every_instant_is_in_one_window(given: Windows, instant: datetime) -> None:
    ordinal = given.ordinal_at(instant)
    assert given.starts_at(ordinal) <= instant < given.starts_at(ordinal + 1)


@given(windows(), INSTANTS)
def test_a_value_and_an_ordinal_say_the_same(given: Windows, instant: datetime) -> None:
    ordinal = given.ordinal_at(instant)
    assert given.ordinal(given.value(ordinal)) == ordinal


@given(windows(), windows(), INSTANTS)
def test_windows_that_overlap_are_found_and_no_others(one: Windows, other: Windows, instant: datetime) -> None:
    ordinal = other.ordinal_at(instant)
    start, stop = other.starts_at(ordinal), other.starts_at(ordinal + 1)
    found = one.overlapping(other, ordinal, ordinal)
    assert one.ordinal_at(instant) in found
    for inside in found:
        assert one.starts_at(inside) < stop
        assert one.starts_at(inside + 1) > start
    assert one.starts_at(found[0]) <= start
    assert one.starts_at(found[-1] + 1) >= stop


@given(windows(), INSTANTS, st.timedeltas(timedelta(0), timedelta(days=90)))
def test_expected_windows_start_after_the_start_and_are_over(given: Windows, now: datetime, longer: timedelta) -> None:
    found = given.expected(now)
    assert all(given.starts_at(n + 1) <= now for n in found[-2:])
    later = given.expected(now + longer)
    assert (found.start, len(found) <= len(later)) == (later.start, True)
    if len(found):
        assert given.starts_at(found[-1] + 2) > now


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
    assert Windows("w", unit, START).ordinal(value) is None


def test_a_day_that_a_zone_skipped_starts_where_the_next_one_does() -> None:
    days = Windows("w", "day", START, None, "Pacific/Apia")
    skipped = days.ordinal(date(2011, 12, 30))
    assert skipped is not None
    assert days.starts_at(skipped + 1) - days.starts_at(skipped) in (timedelta(0), timedelta(days=1))


EDGES = ["0001-01-01", "0001-01-02", "9999-12-30", "9999-12-31", "9999-12-31T23:59:59.999999"]


@pytest.mark.parametrize("offset", [timedelta(days=-40), timedelta(0), timedelta(hours=5), timedelta(days=40)])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("unit", UNITS)
def test_windows_at_the_edges_of_the_calendar_are_those_that_there_are(unit: str, zone: str, offset: timedelta) -> None:
    for text in EDGES:
        edge = datetime.fromisoformat(text)
        now = edge.replace(tzinfo=UTC)
        early, late = Windows("w", unit, edge, None, zone, offset), Windows("w", unit, START, edge, zone, offset)
        for one in (early, late):
            found = one.expected(now)
            for n in (*found[:1], *found[-1:]):
                assert one.starts_at(n) < one.starts_at(n + 1) <= now
                assert not one.is_empty(n)


def test_the_first_and_the_last_day_of_all() -> None:
    def days(start: str, now: datetime) -> list[object]:
        windows = Windows("w", "day", datetime.fromisoformat(start))
        return [windows.value(n) for n in windows.expected(now)]

    assert days("0001-01-01", datetime(1, 1, 3, tzinfo=UTC)) == [date(1, 1, 1), date(1, 1, 2)]
    assert days("9999-12-29", datetime.max.replace(tzinfo=UTC)) == [date(9999, 12, 29), date(9999, 12, 30)]


def test_what_cannot_be_windows_is_refused() -> None:
    with pytest.raises(DefinitionError, match="units"):
        Windows("w", "century", START)
    with pytest.raises(DefinitionError, match="Mars"):
        Windows("w", "day", START, None, "Mars/Olympus")
    with pytest.raises(KeyValueError):
        Windows("No Name", "day", START)
