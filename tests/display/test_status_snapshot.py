"""Snapshots of status: where partitions lie on a map, and keys that others wrote."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

import partita as pt
from partita.algebra.ulid import new_ulid
from partita.display.bins import bin_partitions
from partita.display.status_snapshot import snapshot_from_status, take_snapshot
from partita.lake import Lake
from partita.status.events import repeat_event
from partita.web.asset_view import AssetView
from partita.web.partition_list import list_partitions
from tests.status.histories import events_from_arrow


@pytest.fixture
def counted_lake(lake: Lake) -> Lake:
    """A lake with an asset of three partitions, none of them made."""
    lake.register(pt.asset(name="counted", partitions=pt.static("n", [1, 2, 3]))(print))
    return lake


def test_a_lake_without_anything_has_a_snapshot(lake: Lake) -> None:
    snapshot = take_snapshot(lake)
    assert (dict(snapshot.assets), snapshot.ledger_version) == ({}, -1)


@pytest.mark.slow(reason="several status queries")
def test_an_answer_about_status_is_a_snapshot_too(counted_lake: Lake) -> None:
    counted_lake.record("counted", [{"n": 1}, {"n": 2}], outcome="succeeded")
    whole, part = take_snapshot(counted_lake), snapshot_from_status(counted_lake.status("counted", "n < 3"))
    assert whole.asset("counted").mark_counts[:4] == (2, 0, 0, 1)
    assert part.asset("counted").mark_counts[:4] == (2, 0, 0, 0)


@pytest.mark.slow(reason="several status queries")
def test_partitions_without_a_place_are_counted(lake: Lake) -> None:
    lake.record("days", [{"other": 1}, {"date": None}], outcome="succeeded", at=datetime(2026, 2, 1, tzinfo=UTC))
    lake.register(pt.asset(name="days", partitions=pt.daily("date", start="2026-01-01", end="2026-01-03"))(print))
    facts = take_snapshot(lake).asset("days")
    assert (facts.partition_count, facts.layout.unplaced_count) == (4, 2)


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize(
    ("partitions", "across", "down"),
    [
        (pt.daily("d", start="2026-01-01", end="2026-03-01"), ("day of the month", 0, 30), ("month", 672, 673)),
        (pt.hourly("h", start="2026-01-01", end="2026-01-02"), ("hour of the day", 0, 23), ("day", 20454, 20454)),
        (pt.monthly("m", start="2024-06-01", end="2026-01-01"), ("month of the year", 0, 11), ("year", 2024, 2025)),
        (pt.weekly("w", start="2026-01-05", end="2026-02-02"), ("week of the year", 0, 52), ("year", 2026, 2026)),
        (
            pt.weekly("w", start="2026-01-05", end="2026-02-02") * pt.static("s", ["a", "b"]),
            ("week", 2923, 2926),
            ("value", 0, 1),
        ),
        (pt.static("a", ["x"]) * pt.static("b", range(10)), ("value", 0, 9), ("value", 0, 0)),
        (pt.static("a", range(51)), ("place", 0, 49), ("value", 0, 1)),
        (None, ("place", 0, 0), ("value", 0, 0)),
    ],
)
def test_the_layout_of_partitions(
    lake: Lake, partitions: pt.PartitionSet | None, across: tuple[str, int, int], down: tuple[str, int, int]
) -> None:
    lake.register(pt.asset(name="a", partitions=partitions)(print))
    snapshot = take_snapshot(lake)
    layout = snapshot.asset("a").layout
    assert (layout.across.unit, layout.across.first, layout.across.last) == across
    assert (layout.down.unit, layout.down.first, layout.down.last) == down
    placed = snapshot.fetch_rows("SELECT x, y FROM partitions")
    assert len(set(placed)) == len(placed) == snapshot.asset("a").partition_count
    assert layout.unplaced_count == 0


@pytest.mark.slow(reason="a lake for each layout")
@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([date(2026, 1, 1), date(2026, 1, 3)], "day of the month"),
        ([datetime(2026, 1, 1, 5, tzinfo=UTC)], "hour of the day"),
        ([datetime(2026, 1, 1, 5, 30, tzinfo=UTC)], "minute of the day"),
        ([datetime(2026, 1, 1, 5, 30, 1, tzinfo=UTC)], "place"),
        ([1, 2], "place"),
        ([date(2026, 1, 1), 2], "place"),
    ],
)
def test_without_a_definition_the_layout_follows_the_values(lake: Lake, values: list[object], unit: str) -> None:
    lake.record("a", [{"v": value} for value in values], outcome="succeeded")
    assert take_snapshot(lake, datetime.now(UTC) + timedelta(days=1)).asset("a").layout.across.unit == unit


@pytest.mark.slow(reason="several status queries")
def test_keys_that_others_wrote_are_text_and_never_sql(lake: Lake) -> None:
    lake.record("a", {"n": 1}, outcome="succeeded", at=datetime(2026, 1, 1, tzinfo=UTC))
    odd = ["0');DROP TABLE partitions;--=i:1", "\\1=d:2026-01-01", "=", "d=d:9999-99-99", "n=i:x", "zz'='"]
    event = events_from_arrow(lake.history("a", {"n": 1}))[0]
    rows = repeat_event(event, {"partition_key": odd, "event_id": [new_ulid() for _ in odd], "run_id": list("abcdef")})
    lake._workspace.ledger.append_rows(rows)
    snapshot = take_snapshot(lake)
    assert {key for (key,) in snapshot.fetch_rows("SELECT partition_key FROM partitions")} == {*odd, "n=i:1"}
    assert bin_partitions(snapshot, "a").partition_count + snapshot.asset("a").layout.unplaced_count == 7
    assert list_partitions(snapshot, AssetView("a"))["total"] == 7


@pytest.mark.slow(reason="several status queries")
def test_values_stand_in_the_order_that_people_expect(lake: Lake) -> None:
    lake.register(pt.asset(name="a", partitions=pt.static("n", [10, 9, -1, None, 100]))(print))
    snapshot = take_snapshot(lake)
    placed = snapshot.fetch_rows("SELECT partition_key FROM partitions ORDER BY x")
    assert [key for (key,) in placed] == ["n=n:null", "n=i:-1", "n=i:9", "n=i:10", "n=i:100"]
