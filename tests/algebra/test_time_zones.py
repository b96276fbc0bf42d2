"""Time zones by the names that Spark accepts, and local times in them."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.predicate import UnboundPredicate, col
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema
from partita.algebra.time_zones import TimeZone, find_time_zone
from partita.errors import TimeZoneError
from tests.pruning_cases import has_residual
from tests.value_strategies import INVALID_TIME_ZONES, TIME_ZONES

SCHEMA = Schema.of({"ts": "timestamp", "n": "timestamp_ntz", "d": "date"})
BERLIN = find_time_zone("Europe/Berlin")


@pytest.mark.parametrize("name", TIME_ZONES)
def test_a_name_that_spark_takes(name: str) -> None:
    zone = find_time_zone(name)
    at = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)
    assert zone.to_local(at) == (at + timedelta(minutes=TIME_ZONES[name])).replace(tzinfo=None)
    assert zone.to_instant(datetime(2025, 1, 15, 10, 30)) == at - timedelta(minutes=TIME_ZONES[name])  # noqa: DTZ001


@pytest.mark.parametrize("name", [*INVALID_TIME_ZONES, "Mars/Base", "../../etc/passwd", "\0", None, 5, ["UTC"]])
def test_a_name_that_no_zone_has(name: str) -> None:
    with pytest.raises(TimeZoneError, match="use names such as UTC, Europe/Berlin or") as raised:
        find_time_zone(name)
    assert raised.value.name == name
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)  # noqa: S301 - our own


def local(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "text", "instant"),
    [
        ("Europe/Berlin", "2025-03-30 01:59:59", "2025-03-30 00:59:59Z"),
        # In a gap, shifted by its length: 02:30 is 03:30 in summer time.
        ("Europe/Berlin", "2025-03-30 02:30:00", "2025-03-30 01:30:00Z"),
        ("Europe/Berlin", "2025-03-30 03:30:00", "2025-03-30 01:30:00Z"),
        # In an overlap, the first of the two.
        ("Europe/Berlin", "2025-10-26 02:30:00", "2025-10-26 00:30:00Z"),
        ("Australia/Lord_Howe", "2025-10-05 02:15:00", "2025-10-04 15:45:00Z"),
        ("Antarctica/Troll", "2025-03-30 02:30:00", "2025-03-30 02:30:00Z"),
        ("+05:30", "0001-01-02 00:00:00", "0001-01-01 18:30:00Z"),
    ],
)
def test_gaps_and_overlaps_are_as_in_java(zone: str, text: str, instant: str) -> None:
    assert find_time_zone(zone).to_instant(local(text)) == local(instant)


def test_times_outside_of_the_rules_are_none() -> None:
    assert BERLIN.to_instant(local("1969-12-31 23:59:59")) is None
    assert BERLIN.to_instant(local("2100-01-01")) is None
    assert BERLIN.to_local(local("1969-12-31 00:00:00Z")) is None
    assert find_time_zone("+01:00").to_instant(local("0001-01-01")) is None
    assert find_time_zone("+01:00").to_local(local("9999-12-31 23:30:00Z")) is None
    assert TimeZone("SystemV/PST8", None).to_instant(local("2025-01-01")) is None


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("Europe/Berlin", "2025-03-30", "2025-03-29 23:00:00Z"),
        # A gap from 00:00 to 01:00, and midnight twice.
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04 03:00:00Z"),
        ("America/Havana", "2025-11-02", "2025-11-02 04:00:00Z"),
        # A day that was left out.
        ("Pacific/Apia", "2011-12-30", "2011-12-30 10:00:00Z"),
        ("Pacific/Apia", "2011-12-31", "2011-12-30 10:00:00Z"),
    ],
)
def test_the_start_of_a_day(zone: str, day: str, start: str) -> None:
    assert find_time_zone(zone).start_of_day(date.fromisoformat(day)) == local(start)


def test_a_gap_over_midnight_is_left_to_spark() -> None:
    class Odd(ZoneInfo):
        """A made-up zone whose clocks go from 23:30 to 00:30."""

        def utcoffset(self, dt: datetime | None) -> timedelta:
            assert dt is not None
            return timedelta(hours=1 if dt.replace(tzinfo=None) >= datetime(2025, 1, 2, 0, 30) else 0)  # noqa: DTZ001

        def fromutc(self, dt: datetime) -> datetime:
            late = dt.replace(tzinfo=None) >= datetime(2025, 1, 1, 23, 30)  # noqa: DTZ001
            return dt + timedelta(hours=1 if late else 0)

    odd = TimeZone("Odd", Odd.no_cache("UTC"))
    assert odd.start_of_day(date(2025, 1, 1)) == datetime(2025, 1, 1, tzinfo=UTC)
    assert odd.start_of_day(date(2025, 1, 2)) is None


CASES = [
    ("ts < '2025-01-01 08:00:00'", "`ts` < TIMESTAMP '2025-01-01T07:00:00.000000Z'"),
    ("ts < '2025-01-01'", "`ts` < TIMESTAMP '2024-12-31T23:00:00.000000Z'"),
    ("ts < DATE '2025-01-01'", "`ts` < TIMESTAMP '2024-12-31T23:00:00.000000Z'"),
    ("ts < TIMESTAMP '2025-01-01 08:00:00'", "`ts` < TIMESTAMP '2025-01-01T07:00:00.000000Z'"),
    ("ts < TIMESTAMP_NTZ '2025-01-01 08:00:00'", "`ts` < TIMESTAMP '2025-01-01T07:00:00.000000Z'"),
    ("ts < '2025-01-01 08:00:00Z'", "`ts` < TIMESTAMP '2025-01-01T08:00:00.000000Z'"),
    ("ts < CAST(DATE '2025-07-01' AS TIMESTAMP)", "`ts` < TIMESTAMP '2025-06-30T22:00:00.000000Z'"),
    ("n < '2025-01-01 08:00:00'", "`n` < TIMESTAMP_NTZ '2025-01-01T08:00:00.000000'"),
    ("n < DATE '2025-01-01'", "`n` < TIMESTAMP_NTZ '2025-01-01T00:00:00.000000'"),
    ("n < CAST(TIMESTAMP '2025-01-01 08:00:00Z' AS TIMESTAMP_NTZ)", "`n` < TIMESTAMP_NTZ '2025-01-01T09:00:00.000000'"),
    ("d = '2025-01-01'", "`d` = DATE '2025-01-01'"),
    ("d = TIMESTAMP '2025-01-01 00:00:00'", "`d` = DATE '2025-01-01'"),
    ("d = TIMESTAMP '2024-12-31 23:00:00Z'", "`d` = DATE '2025-01-01'"),
    ("d = CAST(TIMESTAMP '2025-01-01 23:30:00Z' AS DATE)", "`d` = DATE '2025-01-02'"),
]
LEFT_TO_SPARK = [
    "n < TIMESTAMP '2025-01-01 08:00:00'",
    "d < TIMESTAMP '2025-01-01 08:00:00'",
    "d < TIMESTAMP '2025-01-01 00:00:00Z'",
    "ts IN (TIMESTAMP '2025-01-01 00:00:00', TIMESTAMP_NTZ '2025-01-01 00:00:00')",
    "ts < '1969-07-20 20:17:00'",
    "ts < '2100-01-01'",
    "hour(ts) = 4",
    "date(ts) = '2025-01-01'",
]


@pytest.mark.parametrize(("text", "sql"), CASES)
def test_literals_are_in_the_zone(text: str, sql: str) -> None:
    assert parse_predicate(UnboundPredicate(text, BERLIN), SCHEMA).sql() == sql


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_inexact_times_are_left_to_spark(text: str) -> None:
    assert parse_predicate(UnboundPredicate(text, BERLIN), SCHEMA).sql() == text


def test_without_rules_all_that_needs_them_is_left_to_spark() -> None:
    unknown = TimeZone("Europe/Berlin", None)
    for text, _ in CASES[:5]:
        assert has_residual(parse_predicate(UnboundPredicate(text, unknown), SCHEMA))
    same = ("ts < '2025-01-01 08:00:00Z'", "n < DATE '2025-01-01'", "d = '2025-01-01'")
    assert not any(has_residual(parse_predicate(UnboundPredicate(text, unknown), SCHEMA)) for text in same)


def test_python_values_follow_the_same_rule() -> None:
    naive, aware = datetime(2025, 1, 1, 8), datetime(2025, 1, 1, 8, tzinfo=timezone(timedelta(hours=-8)))  # noqa: DTZ001
    held = {
        col("ts") < naive: "`ts` < TIMESTAMP '2025-01-01T07:00:00.000000Z'",
        col("ts") < date(2025, 1, 1): "`ts` < TIMESTAMP '2024-12-31T23:00:00.000000Z'",
        col("ts") < aware: "`ts` < TIMESTAMP '2025-01-01T16:00:00.000000Z'",
        col("n") < naive: "`n` < TIMESTAMP_NTZ '2025-01-01T08:00:00.000000'",
    }
    for predicate, sql in held.items():
        bound = parse_predicate(UnboundPredicate(predicate, BERLIN), SCHEMA)
        assert bound.sql() == sql
        # What is bound means the same in every zone.
        assert parse_predicate(bound, SCHEMA) == bound
    unknown = parse_predicate(UnboundPredicate(col("ts") < naive, TimeZone("?", None)), SCHEMA)
    assert unknown.sql() == "`ts` < TIMESTAMP_NTZ '2025-01-01T08:00:00.000000'"


@given(st.datetimes(datetime(1970, 1, 2), datetime(2099, 12, 30)), st.sampled_from(sorted(TIME_ZONES)))  # noqa: DTZ001
def test_local_times_and_instants(at: datetime, name: str) -> None:
    zone = find_time_zone(name)
    instant = zone.to_instant(at)
    assert instant is not None
    shown = zone.to_local(instant)
    # A local time comes back, or the one behind the gap that it is in.
    assert shown is not None
    assert shown >= at
    assert shown == at or zone.to_instant(shown) == instant


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Los_Angeles", "Pacific/Apia", "+05:30"])
def test_days_begin_one_after_the_other(name: str) -> None:
    zone = find_time_zone(name)
    starts = [zone.start_of_day(date(2011, 1, 1) + timedelta(days=day)) for day in range(800)]
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(starts))
