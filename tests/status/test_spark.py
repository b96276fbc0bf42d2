"""The fold on Spark gives the rows that the fold in process gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import partita as pt
from partita.lake import Lake
from partita.status.duckdb_sql import sql
from partita.status.events import PARTITION_EVENT_KINDS, Event, event_schema, events_to_arrow
from partita.status.fold import fold_events
from partita.status.schema import status_schema
from partita.status.spark import fold_events_on_spark
from tests.status.histories import KEY, event_histories, hours_after_start, status_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A job of Spark's takes as long as hundreds of folds in process, so an example is many histories.
@settings(
    max_examples=max(2, settings().max_examples // 100),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(several=st.lists(event_histories(), min_size=10, max_size=30))
def test_any_history_folds_to_the_same_rows(spark: SparkSession, several: list[list[Event]]) -> None:
    events = [replace(e, asset_key=f"{e.asset_key}{n}") for n, history in enumerate(several) for e in history]
    rows = events_to_arrow([*events, *events[::3]])
    frame = spark.createDataFrame(rows).where(sql("kind IN ({kinds})", kinds=PARTITION_EVENT_KINDS))
    assert status_rows(fold_events_on_spark(frame)) == status_rows(fold_events(rows))


def test_a_lake_folds_on_spark_over_the_same_files(spark: SparkSession, lake: Lake) -> None:
    ours = [{"n": n, "region": "us-öst"} for n in range(20)]
    lake.record("sales", ours, outcome="succeeded", at=hours_after_start(1), rows=3, code_version="1", run_id="r1")
    lake.record("sales", ours[:5], outcome="failed", at=hours_after_start(2), error="boom", run_id="r2")
    lake.wipe("sales", ours[7], at=hours_after_start(3))
    with lake.attempt("orders", KEY):
        pass
    before = status_rows(lake.status())
    done = lake.fold(spark=spark)
    assert done.row_count == 21
    assert status_rows(lake.status()) == before
    table = lake._workspace.status_table
    assert table.open_stored_status(lake._workspace.ledger.files()).ledger_version == done.ledger_version
    elsewhere = Lake(lake.uri)
    assert status_rows(elsewhere.status()) == before


def test_deltas_own_connector_reads_both_tables(spark: SparkSession, lake: Lake) -> None:
    lake.record("sales", [{"n": 1}, {"n": 2}], outcome="succeeded", at=hours_after_start(1), run_id="r1")
    lake.record("sales", {"n": 1}, outcome="failed", at=hours_after_start(2), run_id="r2")
    lake.fold()
    ledger, table = (
        spark.read.format("delta").load(place.uri) for place in (lake._workspace.ledger, lake._workspace.status_table)
    )
    assert {(row.kind, row.n) for row in ledger.groupBy("kind").count().toDF("kind", "n").collect()} == {
        ("succeeded", 2), ("failed", 1)
    }  # fmt: skip
    assert [(row.partition_key, row.last_attempt_outcome) for row in table.orderBy("partition_key").collect()] == [
        ("n=i:1", "FAILED"), ("n=i:2", "SUCCEEDED")
    ]  # fmt: skip


def test_a_fold_on_spark_keeps_what_a_sweep_found(spark: SparkSession, lake: Lake) -> None:
    lake.register(pt.asset(name="orders")(print), pt.asset(name="sales", upstream=["orders"])(print))
    lake.record("sales", outcome="succeeded", at=hours_after_start(1))
    lake.record("orders", outcome="succeeded", at=hours_after_start(2))
    lake.sweep()

    def swept() -> Any:
        rows = {r["asset_key"]: r for r in DeltaTable(lake._workspace.status_table.uri).to_pyarrow_table().to_pylist()}
        return [rows["sales"][name] for name in ("stale_since", "stale_reasons", "swept_at")]

    before = swept()
    assert before[0] == hours_after_start(2)
    lake.record("orders", outcome="failed", at=hours_after_start(3))
    lake.fold(spark=spark)
    assert swept() == before
    lake.record("sales", outcome="succeeded", at=hours_after_start(4))
    lake.fold(spark=spark)
    assert swept() == [None, None, None]
    version = DeltaTable(lake._workspace.status_table.uri).version()
    lake.fold(spark=spark)
    assert DeltaTable(lake._workspace.status_table.uri).version() == version, "there was nothing to fold"


def test_an_empty_ledger_folds_on_spark(spark: SparkSession, lake: Lake) -> None:
    assert lake.fold(spark=spark).ledger_version == -1


def test_status_as_a_spark_frame(spark: SparkSession, lake: Lake) -> None:
    lake.record("sales", KEY, outcome="succeeded", at=hours_after_start(1))
    frame: Any = lake.status("sales", spark=spark)
    (row,) = frame.select("partition_key", "display_status", "last_materialization_at", "partition_values").collect()
    assert (row["partition_key"], row["display_status"]) == (str(KEY), "MATERIALIZED")
    assert row["partition_values"] == {"date": "2025-01-15", "region": "us-east"}
    assert row["last_materialization_at"].replace(tzinfo=UTC) - datetime(2025, 1, 1, tzinfo=UTC) == timedelta(hours=1)


def test_an_answer_without_rows_is_a_spark_frame_too(spark: SparkSession, lake: Lake) -> None:
    lake.record("sales", KEY, outcome="succeeded", at=hours_after_start(1))
    frame: Any = lake.status("sales", state="stale", spark=spark)
    full: Any = lake.status("sales", spark=spark)
    assert frame.collect() == []
    assert frame.schema == full.schema


def test_spark_reads_the_ledger_and_the_status_table(spark: SparkSession, lake: Lake) -> None:
    lake.record("sales", [{"n": 1}, {"n": 2}], outcome="succeeded")
    lake.record("sales", {"n": 1}, outcome="failed")
    lake.fold()
    ledger, table = lake._workspace.ledger.uri, lake._workspace.status_table.uri
    events = spark.read.format("delta").load(ledger)
    assert sorted(row["kind"] for row in events.collect()) == ["failed", "succeeded", "succeeded"]
    assert set(events.columns) == set(event_schema().names)
    rows = spark.read.format("delta").load(table)
    assert (rows.count(), rows.columns) == (2, status_schema().names)


def test_attempts_are_recorded_from_executors(spark: SparkSession, lake: Lake) -> None:
    def work(parts: Any) -> Any:
        for part in parts:
            for number in part["id"].to_pylist():
                with lake.attempt("sales", {"n": number}, run_id="job"):
                    pass
            yield part

    spark.range(0, 6, 1, 3).mapInArrow(work, "id long").collect()
    assert [row["display_status"] for row in lake.status("sales").to_pylist()] == ["MATERIALIZED"] * 6
    assert Path(lake.uri).is_dir()
