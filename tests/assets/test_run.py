"""Runs over each format: which partitions succeed, fail alone or are skipped, and what is recorded."""

from __future__ import annotations

import signal
import sys
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.lake import Lake
from tests.assets.shop import REGIONS, Shop, day_key, partitions_not_current, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("delta", "iceberg", "lance")
pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def shop() -> Shop:
    return Shop()


def history(lake: Lake, asset: str, key: pt.PartitionKey) -> list[tuple[str, int]]:
    rows = lake.history(asset, key).to_pylist()
    return [(row["kind"], row["attempt"]) for row in rows]


@pytest.mark.parametrize("format_name", FORMATS)
def test_everything_that_is_missing_is_made_in_order_each_asset_by_one_job(
    lake: Lake, shop: Shop, format_name: str
) -> None:
    lake.register(*shop.assets(format_name))
    events: list[dict[str, Any]] = []
    result = lake.run(lake.plan(), listener=lambda event: events.append(dict(event)))
    assert (result.succeeded, result.ok) == (8 + 4 + 2, True)
    assert shop.calls == [("orders", 8), ("daily", 4), ("monthly", 2)]
    assert len(table_rows(lake, "shop.orders")) == 24
    assert table_rows(lake, "shop.daily") == [(date(2025, m, d), 12) for m, d in ((1, 30), (1, 31), (2, 1), (2, 2))]
    assert table_rows(lake, "shop.monthly") == [(date(2025, 1, 1), 24), (date(2025, 2, 1), 24)]
    assert partitions_not_current(lake) == {"orders": [], "daily": [], "monthly": []}
    assert [event["event"] for event in events if event["event"] != "started"] == ["begun", *["succeeded"] * 3, "ended"]
    (row,) = [r for r in lake.status("orders").to_pylist() if r["partition_key"] == str(day_key(30, REGIONS[1]))]
    assert (row["last_materialization_rows"], row["last_materialization_run_id"]) == (3, result.run_id)
    assert row["last_materialization_started_at"] <= row["last_materialization_at"]
    assert len(lake.plan()) == 0


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_changed_code_version_runs_anew_with_what_is_made_from_it(lake: Lake, shop: Shop, format_name: str) -> None:
    lake.register(*shop.assets(format_name))
    lake.run(lake.plan())
    shop.times = 10
    lake.register(*shop.assets(format_name, version="2"))
    plan = lake.plan(where="date = '2025-01-31'")
    assert plan.partitions["reasons"].to_pylist() == [["CODE_CHANGED"]] * 2 + [["UPSTREAM_PLANNED"]]
    assert lake.run(plan).succeeded == 3
    assert table_rows(lake, "shop.daily")[:2] == [(date(2025, 1, 30), 12), (date(2025, 1, 31), 120)]
    assert len(table_rows(lake, "shop.orders")) == 24, "replaced, not added"
    rest = {(row["asset_key"], row["partition_key"]): row["reasons"] for row in lake.plan().partitions.to_pylist()}
    assert len(rest) == 6 + 3 + 2
    assert rest["monthly", str(day_key(1))] == ["UPSTREAM_CHANGED", "UPSTREAM_PLANNED"]


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_asked_partition_without_rows_is_materialized_and_empty(lake: Lake, shop: Shop, format_name: str) -> None:
    assets = shop.assets(format_name)
    lake.register(*assets)
    lake.run(lake.plan())
    shop.empty = {day_key(30, region) for region in REGIONS}
    lake.register(*shop.assets(format_name, version="2"))
    assert lake.run(lake.plan()).ok
    assert table_rows(lake, "shop.daily") == [(date(2025, m, d), 12) for m, d in ((1, 31), (2, 1), (2, 2))]
    assert partitions_not_current(lake) == {"orders": [], "daily": [], "monthly": []}
    (row,) = [r for r in lake.status("daily").to_pylist() if r["partition_key"] == str(day_key(30))]
    assert row["last_materialization_rows"] == 0


@pytest.mark.parametrize("format_name", FORMATS)
def test_rows_outside_of_the_asked_partitions_are_an_error_with_samples(
    lake: Lake, shop: Shop, format_name: str
) -> None:
    shop.stray = [(date(2024, 12, 31), "xx", 77)]
    lake.register(*shop.assets(format_name))
    result = lake.run(lake.plan(select="orders", where="date = '2025-01-30'"))
    assert (result.succeeded, result.failed) == (0, 2)
    assert "77" in result.failures[0].error
    assert "2024" in result.failures[0].error
    assert table_rows(lake, "shop.orders") == []


def test_a_failing_batch_is_cut_until_the_poisoned_partition_stands_alone(lake: Lake, shop: Shop) -> None:
    shop.poisoned = {day_key(31, "us")}
    lake.register(*shop.assets(retries=1))
    result = lake.run(lake.plan())
    assert (result.succeeded, result.failed, result.skipped) == (7 + 3 + 1, 1, 2)
    assert [(f.asset, f.key) for f in result.failures] == [("orders", str(day_key(31, "us")))]
    assert "poisoned 2025-01-31" in result.failures[0].error
    assert [n for _, n in shop.calls if _ == "orders"][:3] == [8, 4, 4]
    attempts = history(lake, "orders", day_key(31, "us"))
    assert attempts == [(kind, n) for n in range(1, 6) for kind in ("started", "failed")], "4 in batches, 1 again alone"
    assert history(lake, "orders", day_key(2, "us", 2))[-1][0] == "succeeded"
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


def test_an_asset_reads_the_partitions_that_it_is_mapped_to_and_no_other(lake: Lake, shop: Shop) -> None:
    files: list[str] = []

    def record_files(frame: Any) -> Any:
        files.extend(frame.inputFiles())
        return frame

    shop.reading = record_files
    lake.register(*shop.assets())
    lake.run(lake.plan(select="orders"))
    lake.run(lake.plan(select="daily", where="date = '2025-01-31'"))
    assert len(files) == 2
    assert all("date=2025-01-31" in file for file in files)


def test_windows_before_ours_and_a_function_choose_what_is_read(lake: Lake, shop: Shop) -> None:
    orders, *_ = shop.assets()
    dates: dict[str, list[date]] = {}
    days = pt.daily("date", start="2025-01-31", end="2025-02-03")

    def read(name: str, mapping: Any) -> pt.Asset:
        def read_orders(ctx: Any) -> None:
            dates[name] = sorted({row.date for row in ctx.read(orders).select("date").collect()})

        return pt.asset(name=name, partitions=days, upstream=[(orders, mapping)], code_version="1")(read_orders)

    def first(_: pt.PartitionKey) -> list[pt.PartitionKey]:
        return [day_key(30, "us")]

    assets = [read("before", pt.window_offset("date", -1)), read("week", pt.window_offset("date", -6, 0)),
              read("all", pt.all_partitions()), read("first", pt.mapped_by(first))]  # fmt: skip
    lake.register(orders, *assets)
    assert lake.run(lake.plan(where="date <= '2025-01-31'", select=["orders"])).ok
    assert lake.run(lake.plan(where="date = '2025-01-31'", select=["before", "week", "first"])).ok
    jan = [date(2025, 1, 30), date(2025, 1, 31)]
    assert dates == {"before": jan[:1], "week": jan, "first": jan[:1]}
    plan = lake.plan(select="all")
    assert (len(plan), set(plan.blocked["by_asset"].to_pylist())) == (0, {"orders"})


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
        threading.Event().wait(3)
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


def test_an_asset_without_a_table_and_one_without_partitions(lake: Lake, shop: Shop) -> None:
    orders, *_ = shop.assets()
    row_counts: list[int] = []

    @pt.asset(upstream=[(orders, pt.all_partitions())])
    def mail(ctx: Any) -> None:
        row_counts.append(ctx.read(orders).count())

    @pt.asset(table="total", upstream=[(orders, pt.all_partitions())])
    def total(ctx: Any) -> Any:
        return ctx.read(orders).groupBy().sum("n").toDF("n")

    lake.register(orders, mail, total)
    assert lake.run(lake.plan()).succeeded == 10
    assert row_counts == [24]
    assert table_rows(lake, "total") == [(48,)]
    lake.wipe("total")
    assert lake.run(lake.plan()).succeeded == 1
    assert table_rows(lake, "total") == [(48,)]


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (lambda _: None, "returned nothing"),
        (lambda _: 7, "rows are a Spark DataFrame"),
        (lambda ctx: ctx.spark.range(1), "no column 'p'"),
        (lambda ctx: ctx.read("elsewhere"), "not an upstream of 'bad'"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_a_function_may_not_do_is_a_failed_attempt(lake: Lake, returned: Any, error: str) -> None:
    lake.register(pt.asset(name="bad", table="bad", partitions=pt.static("p", ["a"]))(returned))
    result = lake.run(lake.plan())
    assert result.failed == 1
    assert error in result.failures[0].error
    assert lake.status("bad", state="failed").num_rows == 1


def test_a_table_that_could_not_hold_the_partitions_is_not_made(lake: Lake) -> None:
    @pt.asset(table="bad", partitions=pt.static("p", ["a"]))
    def bad(ctx: Any) -> Any:
        return ctx.spark.createDataFrame([(1, 2)], "p int, n int")

    lake.register(bad)
    (failure,) = lake.run(lake.plan()).failures
    assert "can't hold 'a' in a key" in failure.error
    assert lake.tables() == []
    assert lake.register(bad) == [], "as before"


def test_a_late_source_makes_what_is_made_from_it_stale(lake: Lake, shop: Shop) -> None:
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


def test_one_lake_with_all_three_formats(lake: Lake) -> None:
    days = pt.daily("date", start="2025-01-01", end="2025-01-04")

    @pt.asset(table="raw", format="iceberg", partitions=days, code_version="1")
    def raw(ctx: Any) -> Any:
        return ctx.spark.createDataFrame([(k["date"], n) for k in ctx.keys for n in range(4)], "date date, n long")

    @pt.asset(table="clean", format="delta", partitions=days, upstream=[raw], code_version="1")
    def clean(ctx: Any) -> Any:
        return ctx.read(raw).where("n > 0")

    @pt.asset(table="vectors", format="lance", partitions=pt.static("id_bucket", [0, 1]),
              partition_by=[pt.bucket("id", 2)], upstream=[(clean, pt.all_partitions())], code_version="1")  # fmt: skip
    def vectors(ctx: Any) -> Any:
        return ctx.filter_to_keys(
            ctx.read(clean).selectExpr("n AS id", "array(float(n), float(1)) AS vector").distinct()
        )

    lake.register(raw, clean, vectors)
    assert lake.run(lake.plan()).succeeded == 3 + 3 + 2
    assert lake.table("vectors").read().count() == 3
    lake.wipe("vectors", {"id_bucket": 1})
    assert lake.run(lake.plan()).succeeded == 1
    assert lake.table("vectors").read().count() == 3
    lake.table("raw").delete("n = 2 AND date = '2025-01-02'")
    anew = pt.asset(name="clean", table="clean", partitions=days, upstream=[raw], code_version="2")
    lake.register(anew(clean))
    assert lake.run(lake.plan()).succeeded == 3 + 2
    assert lake.table("clean").read().count() == 8
    assert lake.status_counts()["current"].to_pylist() == [3, 3, 2]


def test_the_schema_of_a_new_table_may_say_what_spark_cannot(lake: Lake) -> None:
    columns = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), 2))])

    @pt.asset(table="vectors", format="lance", partitions=pt.static("id_bucket", [0, 1]), schema=columns,
              partition_by=[pt.bucket("id", 2)])  # fmt: skip
    def vectors(ctx: Any) -> Any:
        return ctx.filter_to_keys(ctx.spark.range(4).selectExpr("id", "array(float(id), float(1)) AS vector"))

    lake.register(vectors)
    assert lake.run(lake.plan()).ok
    table: Any = lake.table("vectors")
    assert table.search([3.0, 1.0], "vector", k=2)["id"].to_pylist() == [3, 2]


def test_two_runs_over_the_same_partitions_one_works_and_the_other_waits(lake: Lake, spark: SparkSession) -> None:
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
    from partita.assets import attempt_recording, run_executor

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
    assert history(lake, "orders", day_key(30, "us")) == [("started", 1), ("succeeded", 1)]


def test_a_ledger_that_stays_away_stops_the_run_which_can_be_resumed(
    lake: Lake, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.assets import attempt_recording, run_executor

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
def test_an_error_of_all_partitions_is_not_looked_for_in_each(lake: Lake, error: Exception) -> None:
    calls: list[int] = []

    @pt.asset(table="bad", partitions=pt.static("p", list(range(100))))
    def bad(ctx: Any) -> Any:
        calls.append(len(ctx.keys))
        raise error

    lake.register(bad)
    assert lake.run(lake.plan(), parallel=1).failed == 100
    assert calls == [100, 1, 1, 1, 97]


def test_such_an_error_of_some_partitions_does_not_fail_the_others(lake: Lake) -> None:
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


def test_what_ctrl_c_finds_in_python_commits_nothing_afterwards(lake: Lake, spark: SparkSession) -> None:
    is_running, may_continue = threading.Event(), threading.Event()

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
        threading.Event().wait(2)
        may_continue.set()

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        lake.run(plan, spark=spark)
    presser.join()
    assert lake.table("slow").read().count() == 0
    assert lake.status("slow", state="cancelled").num_rows == 1
