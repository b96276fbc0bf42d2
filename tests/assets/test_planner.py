"""Planning: which partitions run, which are held back, and why."""

from __future__ import annotations

import importlib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.lake import Lake
from tests.assets.planned_shop import DAYS, day, define, planned_keys, record, record_all, register_shop


@pytest.fixture
def shop(lake: Lake) -> Lake:
    return register_shop(lake)


@pytest.mark.slow(reason="several plans of a lake")
def test_upstreams_run_first(shop: Lake) -> None:
    plan = shop.plan()
    assert plan.assets == ("orders", "sales", "change", "report")
    assert [len(batch.keys) for batch in plan.batches] == [8, 4, 4, 1]
    assert plan.blocked.num_rows == 0
    assert str(plan).splitlines()[0] == "17 partitions in 4 batches, 0 held back"


@pytest.mark.slow(reason="several plans of a lake")
def test_downstream_partitions_are_planned_through_every_mapping(shop: Lake) -> None:
    record_all(shop)
    assert len(shop.plan()) == 0
    record(shop, "orders", day(2, region="us"), run_id="again")
    plan = shop.plan()
    assert planned_keys(plan) == {"sales": [str(day(2))], "change": [str(day(2)), str(day(3))], "report": [""]}
    reasons = {row["asset_key"]: (row["reasons"], row["by_asset"]) for row in plan.partitions.to_pylist()}
    assert reasons["sales"] == (["UPSTREAM_CHANGED"], "orders")
    assert reasons["change"] == (["UPSTREAM_PLANNED"], "sales")
    assert "UPSTREAM_CHANGED (orders[date=2025-01-02,region=us])" in plan.explain("sales", str(day(2)))
    assert "does not run" in plan.explain("sales", str(day(1)))


@pytest.mark.slow(reason="several plans of a lake")
def test_a_plan_is_for_the_requested_states(shop: Lake) -> None:
    record_all(shop)
    shop.wipe("sales", day(1))
    record(shop, "sales", day(2), outcome="failed", run_id="bad")
    record(shop, "orders", day(3, region="eu"), run_id="again")
    assert planned_keys(shop.plan(missing=True)) == {"sales": [str(day(1))]}
    assert planned_keys(shop.plan(failed=True)) == {"sales": [str(day(2))]}
    assert planned_keys(shop.plan(stale=True))["sales"] == [str(day(3))]
    assert planned_keys(shop.plan(stale=True, missing=True, failed=True)) == planned_keys(shop.plan())
    assert planned_keys(shop.plan())["sales"] == [str(day(n)) for n in (1, 2, 3)]


@pytest.mark.slow(reason="several plans of a lake")
def test_a_partition_without_readable_upstreams_is_held_back(shop: Lake) -> None:
    record(shop, "orders", *[day(n, region=region) for n in (1, 2) for region in ("eu", "us")])
    record(shop, "orders", day(3, region="eu"), day(3, region="us"), day(4, region="eu"))
    record(shop, "orders", day(3, region="us"), outcome="failed", run_id="bad")
    plan = shop.plan(select="sales+")
    assert planned_keys(plan) == {"sales": [str(day(1)), str(day(2))], "change": [str(day(1)), str(day(2))]}
    blocked = {
        row["asset_key"] + row["partition_key"]: (row["by_asset"], row["by_partition"])
        for row in plan.blocked.to_pylist()
    }
    assert blocked[f"sales{day(3)}"] == ("orders", str(day(3, region="us"))), "its last attempt failed"
    assert blocked[f"sales{day(4)}"] == ("orders", str(day(4, region="us")))
    assert blocked[f"change{day(3)}"] == ("sales", str(day(3)))
    assert blocked["report"][0] == "change"
    assert "is held back: orders[date=2025-01-04,region=us] is missing" in plan.explain("sales", str(day(4)))


NOON = datetime(2025, 1, 20, 12, tzinfo=UTC)


OPEN = pt.daily("date", start="2025-01-01")


MONTHS = pt.monthly("date", start="2024-12-01")


def tomorrow(key: pt.PartitionKey) -> list[pt.PartitionKey]:
    return [pt.PartitionKey.of(date=key["date"] + timedelta(days=1))]  # type: ignore[operator] # a date


NEW_YORK_DAYS = pt.daily("date", start="2025-01-01", time_zone="America/New_York")
# The upstream's partitions, the mapping, now, the first of our days up to the 19th that is held back, and by what.
OPEN_WINDOWS: list[tuple[pt.PartitionSet, Any, datetime, int | None, pt.PartitionKey | None]] = [
    (OPEN, pt.same_key(), NOON, None, None),
    (NEW_YORK_DAYS, pt.same_key(),
     datetime(2025, 1, 20, 1, tzinfo=UTC), 19, day(19)),
    (NEW_YORK_DAYS, pt.same_key(), NOON, None, None),
    (MONTHS, pt.same_key(), NOON, 1, day(1)),
    (OPEN, pt.window_offset("date", 0, 1), NOON, 19, day(20)),
    (OPEN, pt.window_offset("date", -1, 0), NOON, None, None),
    (OPEN * pt.static("region", ["eu"]), pt.window_offset("date", 2), NOON, 18, day(21, region="eu")),
    (OPEN, pt.mapped_by(tomorrow), NOON, 19, day(20)),
    (OPEN, pt.all_partitions(), NOON, None, None),
    (DAYS, pt.window_offset("date", 0, 1), NOON, None, None),
    (DAYS, pt.mapped_by(tomorrow), NOON, None, None),
    (pt.monthly("date", start="2025-02-01"), pt.same_key(), NOON, None, None),
    (pt.monthly("date", start="2024-01-01", end="2025-01-01"), pt.same_key(), NOON, None, None),
]  # fmt: skip


@pytest.mark.slow(reason="several plans of a lake")
def test_a_window_of_an_upstream_that_is_not_over_holds_back(lake: Lake) -> None:
    for row, (partitions, mapping, *_) in enumerate(OPEN_WINDOWS):
        upstream = define(f"upstream{row}", partitions)
        lake.register(upstream, define(f"ours{row}", OPEN, upstream=[(upstream, mapping)]))
    for now in {now for _, _, now, _, _ in OPEN_WINDOWS}:
        rows = [row for row, (_, _, at, _, _) in enumerate(OPEN_WINDOWS) if at == now]
        plan = lake.plan(now=now, select=[f"{name}{row}" for row in rows for name in ("upstream", "ours")])
        blocked = {
            (held_back["asset_key"], held_back["partition_key"]): held_back["by_partition"]
            for held_back in plan.blocked.to_pylist()
        }
        first_days = {row: OPEN_WINDOWS[row][3] for row in rows}
        # Partitions of the upstreams themselves are never held back.
        assert blocked.keys() == {
            (f"ours{row}", str(day(n))) for row, held in first_days.items() if held for n in range(held, 20)
        }, now
        for row in rows:
            by = OPEN_WINDOWS[row][4]
            assert by is None or blocked[f"ours{row}", str(day(19))] == str(by), f"row {row}"


@pytest.mark.slow(reason="several plans of a lake")
def test_a_partition_made_before_its_window_is_over_holds_nothing_back(lake: Lake) -> None:
    prices = define("prices", MONTHS)
    lake.register(prices, define("ours", OPEN, upstream=[prices]))
    record(lake, "prices", pt.PartitionKey.of(date=date(2024, 12, 1)), at=NOON)
    assert len(lake.plan(now=NOON, select="ours")) == 0
    record(lake, "prices", day(1), at=NOON)
    assert len(lake.plan(now=NOON, select="ours")) == 19


@pytest.mark.slow(reason="several plans of a lake")
def test_a_predicate_narrows_to_partitions(shop: Lake) -> None:
    plan = shop.plan(where="date < '2025-01-03' AND region = 'us'", select="orders")
    assert planned_keys(plan) == {"orders": [str(day(n, region="us")) for n in (1, 2)]}
    with pytest.raises(pt.PredicateError, match="nobody"):
        shop.plan(where="nobody = 1")
    record_all(shop)
    for where in ("nobody = 1", pt.col("nobody") == 1, "date = 'x' AND nobody"):
        with pytest.raises(pt.PredicateError, match="nobody"):
            shop.plan(where=where)
    assert len(shop.plan(where="region = 'us' AND date > '2025-01-01'")) == 0


@pytest.mark.slow(reason="several plans of a lake")
def test_since_leaves_out_older_states(shop: Lake) -> None:
    record_all(shop)
    now = datetime.now(UTC)
    record(shop, "orders", day(1, region="us"), run_id="late")
    assert planned_keys(shop.plan(stale=True, select="sales", since=now - timedelta(hours=1))) == {
        "sales": [str(day(1))]
    }
    assert len(shop.plan(stale=True, select="sales", since=now + timedelta(hours=1))) == 0
    fresh = Lake(shop.uri, workspace="fresh")
    fresh.register(define("sales", DAYS))
    assert planned_keys(fresh.plan(since=datetime(2025, 1, 3, tzinfo=UTC))) == {"sales": [str(day(3)), str(day(4))]}


@pytest.mark.slow(reason="several plans of a lake")
def test_a_wiped_partition_is_missing_since_the_wipe(shop: Lake) -> None:
    record_all(shop)
    after = datetime.now(UTC)
    shop.wipe("sales", day(1))
    assert planned_keys(shop.plan(missing=True, select="sales", since=after)) == {"sales": [str(day(1))]}
    assert len(shop.plan(missing=True, select="sales", since=after + timedelta(hours=1))) == 0
    shop.wipe("orders", day(7, region="us"))
    assert len(shop.plan(missing=True, select="orders", since=after)) == 0, "which nobody expects"


@pytest.mark.slow(reason="several plans of a lake")
def test_assets_that_are_not_available_are_not_planned(shop: Lake) -> None:
    plan = shop.plan(available_assets=["orders", "sales"])
    assert plan.assets == ("orders", "sales")
    assert plan.request["not_among"] == ["change", "report"]
    assert shop.plan(available_assets=["orders", "sales"], select="sales+").assets == ()
    assert shop.plan(available_assets=["orders", "sales"], select="orders+").assets == ("orders", "sales")
    with pytest.raises(pt.PlanError, match="'report' selects no asset"):
        shop.plan(available_assets=["orders", "sales"], select="report")


def test_a_text_that_delta_cannot_tell_from_null_is_refused(lake: Lake) -> None:
    for format_name in ("iceberg", "delta"):
        odd = define("odd", pt.static("region", ["", "us"]), table="odd", format=format_name)
        if format_name == "delta":
            with pytest.raises(pt.DefinitionError, match="can't tell from null"):
                lake.register(odd)
        else:
            lake.register(odd)


@pytest.mark.slow(reason="several plans of a lake")
def test_times_of_a_predicate_are_in_the_lake_s_zone_where_no_session_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("partita.spark.session"), "running_session", lambda: None)
    hours = pt.hourly("hour", start="2025-01-01", end="2025-01-01T04:00:00")

    @pt.asset(partitions=hours)
    def visits(ctx: object) -> None: ...

    lake = pt.Lake(str(tmp_path), time_zone="Europe/Berlin")
    lake.register(visits)
    where = "hour >= '2025-01-01 03:00:00'"
    plan = lake.plan(where=where)
    # From 02:00 in UTC on.
    assert (len(plan), plan.time_zone) == (2, "Europe/Berlin")
    assert "in time zone Europe/Berlin" in repr(plan)
    assert "that name no time zone are in Europe/Berlin" in str(plan)
    plan.save(str(tmp_path / "plan.jsonl"))
    assert pt.load_plan(str(tmp_path / "plan.jsonl")).time_zone == "Europe/Berlin"
    assert lake.status(where=where).num_rows == 2
    assert lake.plan().time_zone is None
    assert len(pt.Lake(str(tmp_path)).plan(where=where)) == 1
