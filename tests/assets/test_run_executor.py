"""Executing batches: splitting those that fail, limits, errors of all partitions, and cancelling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import partita as pt
from partita.assets import run_executor
from partita.lake import Lake
from tests.assets.shop import REGIONS, Shop, attempt_history, day_key, partitions_not_current

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.usefixtures("spark")


def test_a_failing_batch_is_cut_until_the_poisoned_partition_stands_alone(
    lake: Lake, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_executor, "_RETRY_SECONDS", 0.01)
    shop.poisoned = {day_key(31, "us")}
    lake.register(*shop.assets(retries=1))
    result = lake.run(lake.plan())
    assert (result.succeeded, result.failed, result.skipped) == (7 + 3 + 1, 1, 2)
    assert [(f.asset, f.key) for f in result.failures] == [("orders", str(day_key(31, "us")))]
    assert "poisoned 2025-01-31" in result.failures[0].error
    assert [n for _, n in shop.calls if _ == "orders"][:3] == [8, 4, 4]
    attempts = attempt_history(lake, "orders", day_key(31, "us"))
    assert attempts == [(kind, n) for n in range(1, 6) for kind in ("started", "failed")], "4 in batches, 1 again alone"
    assert attempt_history(lake, "orders", day_key(2, "us", 2))[-1][0] == "succeeded"
    error = lake.status("orders", state="failed")["last_attempt_error"][0].as_py()
    assert "poisoned 2025-01-31" in error
    assert partitions_not_current(lake)["daily"] == [f"{day_key(31)} NEVER_MATERIALIZED"]
    shop.poisoned = set()
    again = lake.plan()
    assert (len(again), again.blocked.num_rows) == (3, 0)
    assert lake.run(again).ok
    assert partitions_not_current(lake) == {"orders": [], "daily": [], "monthly": []}


def test_too_many_failures_stop_the_run(lake: Lake, shop: Shop) -> None:
    shop.poisoned = {day_key(d, r, m) for m, d in ((1, 30), (1, 31), (2, 1), (2, 2)) for r in REGIONS}
    lake.register(*shop.assets())
    result = lake.run(lake.plan(select="orders", batch_partitions=1), max_failures=1, parallel=1)
    assert result.failed == 2
    assert result.left == 6
    assert not result.ok


def test_ctrl_c_stops_the_jobs_and_records_cancelled_attempts(lake: Lake, spark: SparkSession) -> None:
    is_running = threading.Event()

    @pt.asset(table="slow", partitions=pt.static("p", ["a", "b"]), code_version="1")
    def slow(ctx: Any) -> Any:
        is_running.set()
        nap = "IF(id < 0, '', java_method('java.lang.Thread', 'sleep', 600000L))"
        return ctx.spark.range(4).selectExpr("IF(id % 2 = 0, 'a', 'b') AS p", f"{nap} AS n")

    lake.register(slow)
    plan = lake.plan()
    main = threading.main_thread()

    def press() -> None:
        is_running.wait(60)
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        lake.run(plan, spark=spark)
    presser.join()
    counts = lake.status_counts("slow").to_pylist()[0]
    assert (counts["cancelled"], counts["failed"], counts["running"]) == (2, 0, 0)
    with pytest.raises(pt.PlanError, match="nothing to resume"):
        Lake(lake.uri, workspace="other").resume(spark=spark)


def test_an_event_stops_a_run_from_another_thread_and_it_can_be_resumed(lake: Lake, spark: SparkSession) -> None:
    is_running, stop = threading.Event(), threading.Event()

    @pt.asset(table="slow", partitions=pt.static("p", ["a", "b", "c"]), code_version="1")
    def slow(ctx: Any) -> Any:
        nap = "''" if stop.is_set() else "IF(id < 0, '', java_method('java.lang.Thread', 'sleep', 600000L))"
        is_running.set()
        rows = [(n, key["p"]) for n, key in enumerate(ctx.keys)]
        return ctx.spark.createDataFrame(rows, "id long, p string").selectExpr("p", f"{nap} AS n")

    lake.register(slow)
    plan = lake.plan(batch_partitions=1)
    events: list[str] = []

    def press() -> None:
        is_running.wait(60)
        stop.set()

    stopper = threading.Thread(target=press)
    stopper.start()
    result = lake.run(plan, spark=spark, parallel=1, stop=stop, listener=lambda event: events.append(event["event"]))
    stopper.join()
    assert (result.succeeded, result.failed, result.cancelled, result.left, result.ok) == (0, 0, 1, 2, False)
    assert events == ["begun", "started", "ended"]
    counts = lake.status_counts("slow").to_pylist()[0]
    assert (counts["cancelled"], counts["failed"], counts["running"]) == (1, 0, 0)
    assert lake.resume(result.run_id, spark=spark).failures == ()
    assert len(lake.plan()) == 0


def test_a_run_that_was_stopped_before_makes_nothing(lake: Lake, shop: Shop) -> None:
    lake.register(*shop.assets())
    stop = threading.Event()
    stop.set()
    result = lake.run(lake.plan(), stop=stop)
    assert (result.left, shop.calls) == (14, [])


def test_an_error_of_the_jvm_is_recorded_without_its_stack(lake: Lake) -> None:
    @pt.asset(table="parsed", partitions=pt.static("p", ["a"]), code_version="1")
    def parsed(ctx: Any) -> Any:
        rows = ctx.spark.createDataFrame([("a",)], "p string")
        return rows.selectExpr("p", "java_method('java.lang.Integer', 'parseInt', concat(p, 'x')) AS n")

    lake.register(parsed)
    error = lake.run(lake.plan()).failures[0].error
    assert error.startswith("TableError: Spark failed, and nothing was changed")
    assert 'NumberFormatException: For input string: "ax"' in error
    assert "java.base" not in error


@pytest.mark.parametrize("error", [pt.SchemaError("other columns"), NameError("name 'x' is not defined")])
def test_an_error_of_all_partitions_is_probed_in_three(lake: Lake, error: Exception) -> None:
    calls: list[int] = []

    @pt.asset(table="bad", partitions=pt.static("p", list(range(100))))
    def bad(ctx: Any) -> Any:
        calls.append(len(ctx.keys))
        raise error

    lake.register(bad)
    assert lake.run(lake.plan(), parallel=1).failed == 100
    assert calls == [100, 1, 1, 1, 97]


def test_an_asset_error_of_some_partitions_does_not_fail_the_others(lake: Lake) -> None:
    poisoned = {"01", "50", "51"}

    @pt.asset(partitions=pt.static("p", [f"{n:02}" for n in range(100)]), retries=0)
    def some(ctx: Any) -> None:
        if poisoned & {key["p"] for key in ctx.keys}:
            _ = nowhere  # type: ignore[name-defined]  # noqa: F821 - as in code that few partitions come to

    lake.register(some)
    result = lake.run(lake.plan())
    assert (result.succeeded, result.failed) == (97, 3)
    assert {(f.key, "NameError" in f.error) for f in result.failures} == {
        (str(pt.PartitionKey.of(p=p)), True) for p in poisoned
    }


def test_sys_exit_in_a_function_is_a_failure_and_long_errors_are_cut(lake: Lake) -> None:
    def leave(_: Any) -> Any:
        sys.exit(0)

    def shout(_: Any) -> Any:
        raise ValueError("x" * 10_000_000 + "end")

    partitions = pt.static("p", ["a"])
    lake.register(
        pt.asset(name="leave", partitions=partitions)(leave), pt.asset(name="shout", partitions=partitions)(shout)
    )
    result = lake.run(lake.plan())
    errors = {failure.asset: failure.error for failure in result.failures}
    assert "called sys.exit(0)" in errors["leave"]
    assert len(errors["shout"]) < 5_000
    assert "end" in errors["shout"]


def test_a_function_that_ctrl_c_interrupts_commits_nothing_afterwards(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.spark import job_tags

    is_running, is_cancelling, may_continue = threading.Event(), threading.Event(), threading.Event()
    interrupt_jobs = job_tags.interrupt_jobs

    def notice_and_interrupt(*arguments: Any) -> None:
        is_cancelling.set()
        interrupt_jobs(*arguments)

    monkeypatch.setattr(job_tags, "interrupt_jobs", notice_and_interrupt)

    @pt.asset(table="slow", partitions=pt.static("p", ["a"]), code_version="1")
    def slow(ctx: Any) -> Any:
        is_running.set()
        may_continue.wait(20)
        return ctx.spark.createDataFrame([("a", 1)], "p string, n int")

    lake.register(slow)
    plan = lake.plan()
    main = threading.main_thread()

    def press() -> None:
        is_running.wait(60)
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGINT)
        is_cancelling.wait(20)
        may_continue.set()

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        lake.run(plan, spark=spark)
    presser.join()
    assert lake.table("slow").read().count() == 0
    assert lake.status("slow", state="cancelled").num_rows == 1


@pytest.mark.long
def test_an_executor_that_is_killed_while_it_makes_a_batch_is_replaced(tmp_path: Path) -> None:
    """Spark replaces the executor process, and no row is written twice."""
    process = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed_executor.py")), str(tmp_path / "lake")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip().splitlines()[-1] == "8 True 800 8 39600 1 {1}"
