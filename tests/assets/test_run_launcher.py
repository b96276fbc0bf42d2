"""Runs from start to end: plans that are out of date, leases, and a ledger that fails for a while."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import partita as pt
from partita.assets import run_executor
from partita.lake import Lake
from tests.assets.shop import Shop, attempt_history, day_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.usefixtures("spark")


def test_a_stored_plan_is_refused_once_its_inputs_changed(lake: Lake, shop: Shop, tmp_path: Path) -> None:
    lake.register(*shop.assets())
    file = str(tmp_path / "plan.jsonl")
    lake.plan(select="orders").save(file)
    plan = pt.load_plan(file)
    assert lake.run(plan).ok
    with pytest.raises(pt.PlanOutdated, match="orders changed") as caught:
        lake.run(pt.load_plan(file))
    assert caught.value.assets == ("orders",)
    later = lake.plan(missing=True)
    lake.register(*shop.assets(version="2"))
    with pytest.raises(pt.PlanOutdated):
        lake.run(later)
    other = Lake(str(tmp_path / "other"))
    with pytest.raises(pt.PlanError, match="not for this lake"):
        other.run(later)


def test_a_plan_of_assets_that_are_not_here_is_refused(lake: Lake, shop: Shop) -> None:
    lake.register(*shop.assets())
    plan = lake.plan()
    with pytest.raises(pt.PlanError, match="has no function for"):
        Lake(lake.uri).run(plan)


def test_a_late_success_of_an_upstream_makes_downstreams_stale(lake: Lake, shop: Shop) -> None:
    lake.register(*shop.assets())
    lake.run(lake.plan())
    lake.record("orders", day_key(30, "us"), outcome="succeeded", run_id="elsewhere")
    plan = lake.plan(stale=True)
    assert [(r["asset_key"], r["reasons"]) for r in plan.partitions.to_pylist()] == [
        ("daily", ["UPSTREAM_CHANGED"]),
        ("monthly", ["UPSTREAM_PLANNED"]),
    ]
    assert len(lake.plan(stale=True, since=datetime.now(UTC) - timedelta(minutes=5))) == 2
    assert len(lake.plan(stale=True, since=datetime.now(UTC) + timedelta(minutes=5), select="daily")) == 0


def test_of_two_runs_over_the_same_partitions_one_waits(lake: Lake, spark: SparkSession) -> None:
    is_running, may_continue = threading.Event(), threading.Event()
    run_ids: list[str] = []

    @pt.asset(table="slow", partitions=pt.static("p", ["a", "b"]), code_version="1")
    def slow(ctx: Any) -> Any:
        run_ids.append(ctx.run_id)
        is_running.set()
        assert may_continue.wait(60)
        return ctx.spark.createDataFrame([(key["p"], 1) for key in ctx.keys], "p string, n int")

    lake.register(slow)
    plan = lake.plan()
    results: list[pt.RunResult] = []
    first = threading.Thread(target=lambda: results.append(lake.run(plan, spark=spark)))
    first.start()
    assert is_running.wait(60)
    other = Lake(lake.uri)
    other.register(slow)
    with pytest.raises(pt.PartitionsLeased, match="at work on 2 of these partitions"):
        other.run(plan, spark=spark)
    events: list[str] = []

    def listen(event: Any) -> None:
        events.append(event["event"])
        may_continue.set()

    with pytest.raises(pt.PlanOutdated):
        other.run(plan, spark=spark, wait=60, listener=listen)
    first.join()
    assert events == ["waiting"]
    assert (results[0].ok, len(run_ids)) == (True, 1)
    assert len(other.plan()) == 0


def test_a_ledger_that_fails_after_a_commit_is_retried_and_nothing_is_committed_twice(
    lake: Lake, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.assets import attempt_recording

    tries: list[int] = []
    record_success = attempt_recording.record_success

    def failing(*arguments: Any) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise pt.StorageError("the disk is away")
        record_success(*arguments)

    monkeypatch.setattr(run_executor, "record_success", failing)
    lake.register(*shop.assets())
    assert lake.run(lake.plan(select="orders")).ok
    assert (shop.calls, len(tries)) == ([("orders", 8)], 3)
    assert len(lake.table("shop.orders").change_feed().commits) == 1
    assert attempt_history(lake, "orders", day_key(30, "us")) == [("started", 1), ("succeeded", 1)]


def test_a_ledger_that_stays_away_stops_the_run_which_can_be_resumed(
    lake: Lake, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.assets import attempt_recording

    def failing(*_: Any) -> None:
        raise pt.StorageError("the disk is away")

    lake.register(*shop.assets(version="1"))
    with monkeypatch.context() as patch:
        patch.setattr(run_executor, "record_success", failing)
        patch.setattr(attempt_recording, "_MAX_LEDGER_TRIES", 2)
        with pytest.raises(pt.PlanError, match="resume it later: the disk is away"):
            lake.run(lake.plan(select="orders"))
    lake.register(*shop.assets(version="2"))
    assert lake.resume().ok
    assert len(lake.table("shop.orders").change_feed().commits) == 1
    versions = lake.status("orders")["last_materialization_code_version"].to_pylist()
    assert set(versions) == {"1"}, "the code that made it, not the one that found it made"
