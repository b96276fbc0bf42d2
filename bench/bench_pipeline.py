"""The pipeline: 1,000 partitions in one run, planning a million, and what a run adds to the job that it wraps.

One run is measured beside one Spark job for each partition, and beside Dagster, which materializes the same function
in its own process partition by partition; both take a sample. All three read the same table, and theirs write Parquet.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import partita as pt
from bench.dagster_peer import dagster_instance, has_dagster
from bench.events import PARTITION_COUNT as PLANNED
from bench.events import SHARD_COUNT, append_events
from bench.harness import Row, Side, at_least, compare, measure
from partita.lake import Lake
from partita.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_COUNT = int(os.environ.get("PARTITA_BENCH_DAYS", "1_000"))
ROWS_PER_DAY = 1_000
SAMPLE_SIZE = 20
FIRST_DAY = date(2022, 1, 1)
PARTITIONS = pt.daily("day", start=FIRST_DAY, end=FIRST_DAY + timedelta(days=DAY_COUNT))
WIDE_ROWS = 10_000_000


def rows() -> Iterator[Row]:
    """Each measures both sides in this run, over the same tables."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        yield from _measure_planning(Lake(f"{folder}/planning"))
        spark = spark_session("partita-bench", **{"spark.driver.memory": "6g"})
        lake = Lake(f"{folder}/lake")
        _create_raw_table(lake, spark)
        yield from _compare_runs(lake, spark, Path(folder))
        yield from _compare_overhead(lake, spark)
        spark.stop()


# --- one run for many partitions


def _create_raw_table(lake: Lake, spark: SparkSession) -> None:
    raw = spark.range(0, DAY_COUNT * ROWS_PER_DAY, 1, 4).selectExpr(
        f"date_add(date'{FIRST_DAY}', int(id % {DAY_COUNT})) AS day",
        "concat('city-', id % 300) AS city",
        "id % 97 AS quantity",
    )
    schema = pa.schema([("day", pa.date32()), ("city", pa.string()), ("quantity", pa.int64())])
    lake.create_table("raw", schema, format="delta", partition_by=["day"]).append(raw)


def _daily_totals(raw: DataFrame) -> DataFrame:
    """The function that everyone runs."""
    return raw.groupBy("day", "city").sum("quantity").toDF("day", "city", "quantity")


def _compare_runs(lake: Lake, spark: SparkSession, folder: Path) -> Iterator[Row]:
    raw = pt.source("raw", partitions=PARTITIONS)
    version = count()

    def run() -> None:
        made = pt.asset(name="totals", table="totals", partitions=PARTITIONS, upstream=[raw],
                        code_version=str(next(version)))(lambda ctx: _daily_totals(ctx.read(raw)))  # fmt: skip
        lake.register(raw, made)
        result = lake.run(lake.plan(select="totals"), spark=spark)
        assert result.succeeded == DAY_COUNT, result

    what = f"materialize {DAY_COUNT:,} partitions"
    ours = Side("one run", run)
    one_by_one = Side(
        f"one Spark job each, {SAMPLE_SIZE} of them",
        partial(_run_one_by_one, lake, folder),
        share=SAMPLE_SIZE / DAY_COUNT,
    )
    yield compare(what, ours=ours, theirs=one_by_one, repeat=3)
    theirs = _dagster_materializer(lake, folder)
    if theirs is not None:
        side = Side(f"Dagster in its process, {SAMPLE_SIZE} of them", theirs, share=SAMPLE_SIZE / DAY_COUNT)
        yield compare(what, ours=ours, theirs=side, goal=at_least(50), repeat=3)


def _run_one_by_one(lake: Lake, folder: Path) -> None:
    for day in _sample_days():
        _totals_of_day(lake, day).write.mode("overwrite").parquet(f"{folder}/one-by-one/day={day}")


def _totals_of_day(lake: Lake, day: date) -> DataFrame:
    return _daily_totals(lake.table("raw").read(pt.col("day") == day))


def _sample_days() -> list[date]:
    return [FIRST_DAY + timedelta(days=number) for number in range(SAMPLE_SIZE)]


def _dagster_materializer(lake: Lake, folder: Path) -> Callable[[], None] | None:
    """Materializes a sample of partitions in Dagster's own process, each by a run of its own, as it does."""
    if not has_dagster():
        return None
    import dagster

    partitions = dagster.DailyPartitionsDefinition(start_date=FIRST_DAY.isoformat())

    # Dagster reads annotations, and takes its own alone.
    @dagster.asset(partitions_def=partitions)  # type: ignore[untyped-decorator,unused-ignore] # where it is installed
    def totals(context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        day = date.fromisoformat(context.partition_key)
        _totals_of_day(lake, day).write.mode("overwrite").parquet(f"{folder}/dagster-made/day={day}")

    instance = dagster_instance(folder / "dagster-run")

    def materialize() -> None:
        for day in _sample_days():
            done = dagster.materialize(
                [totals], partition_key=day.isoformat(), instance=instance,
                run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
            )  # fmt: skip
            assert done.success

    return materialize


# --- what a run adds


def _compare_overhead(lake: Lake, spark: SparkSession) -> Iterator[Row]:
    regions = [f"region-{number}" for number in range(20)]
    wide = spark.range(0, WIDE_ROWS, 1, 4).selectExpr(
        f"concat('region-', id % {len(regions)}) AS region",
        "id",
        "id % 1000 / 7d AS price",
        "sha2(string(id), 256) AS code",
    )
    schema = pa.schema([("region", pa.string()), ("id", pa.int64()), ("price", pa.float64()), ("code", pa.string())])
    for name in ("bare", "wrapped"):
        lake.create_table(name, schema, format="delta", partition_by=["region"])
    made = pt.asset(name="wrapped", table="wrapped", partitions=pt.static("region", regions), code_version="1")
    lake.register(made(lambda _: wide))

    def run() -> None:
        lake.wipe("wrapped", [{"region": region} for region in regions])
        assert lake.run(lake.plan(select="wrapped"), spark=spark).ok

    def bare() -> None:
        lake.table("bare").replace_partitions(wide, pa.table({"region": regions}))

    yield compare(
        f"replace {len(regions)} partitions with {WIDE_ROWS:,} rows",
        ours=Side("plan and run", run),
        theirs=Side("the bare Spark job that it wraps", bare),
        goal=at_least(1 / 1.15),
        repeat=7,
    )


# --- planning


def _measure_planning(lake: Lake) -> Iterator[Row]:
    last = date(2020, 1, 1) + timedelta(days=PLANNED // SHARD_COUNT)
    partitions = pt.daily("date", start="2020-01-01", end=last) * pt.static("shard", range(SHARD_COUNT))
    orders = pt.asset(name="orders", partitions=partitions, code_version="1")(print)
    sales = pt.asset(name="sales", partitions=partitions, upstream=[orders], code_version="1")(print)
    lake.register(orders, sales)
    append_events(lake, "orders", "'succeeded'", "range", "1735689600000000 + i", PLANNED)
    lake.fold()
    plan = lake.plan(select="sales")
    assert len(plan) == PLANNED
    what = f"plan over {PLANNED:,} expected partitions with one upstream"
    yield measure(f"{what}, all missing", Side("lake.plan", lambda: lake.plan(select="sales")), repeat=2)
    append_events(lake, "sales", "'succeeded'", "range", "1735776000000000 + i", PLANNED)
    lake.fold()
    lake.record("orders", plan.partitions["partition_key"][0].as_py(), outcome="succeeded")
    assert len(lake.plan()) == 1
    yield measure(f"{what}, one stale", Side("lake.plan", lake.plan), repeat=2)
