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
from bench.events import PARTITIONS as PLANNED
from bench.events import SHARDS, append_events
from bench.harness import Row, Side, at_least, compare, measure
from bench.peers import dagster_instance, has_dagster
from partita.lake import Lake
from partita.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = int(os.environ.get("PARTITA_BENCH_DAYS", "1_000"))
ROWS_A_DAY = 1_000
SAMPLE = 20
FIRST = date(2022, 1, 1)
PARTITIONS = pt.daily("day", start=FIRST, end=FIRST + timedelta(days=DAYS))
WIDE_ROWS = 10_000_000


def rows() -> Iterator[Row]:
    """Each measures both sides in this run, over the same tables."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        yield from _planning(Lake(f"{folder}/planning"))
        spark = session("partita-bench", **{"spark.driver.memory": "6g"})
        lake = Lake(f"{folder}/lake")
        _make_raw(lake, spark)
        yield from _one_run(lake, spark, Path(folder))
        yield from _overhead(lake, spark)
        spark.stop()


# --- one run for many partitions


def _make_raw(lake: Lake, spark: SparkSession) -> None:
    raw = spark.range(0, DAYS * ROWS_A_DAY, 1, 4).selectExpr(
        f"date_add(date'{FIRST}', int(id % {DAYS})) AS day", "concat('city-', id % 300) AS city", "id % 97 AS quantity"
    )
    schema = pa.schema([("day", pa.date32()), ("city", pa.string()), ("quantity", pa.int64())])
    lake.create_table("raw", schema, format="delta", partition_by=["day"]).append(raw)


def _totals(raw: DataFrame) -> DataFrame:
    """The function that everyone runs."""
    return raw.groupBy("day", "city").sum("quantity").toDF("day", "city", "quantity")


def _one_run(lake: Lake, spark: SparkSession, folder: Path) -> Iterator[Row]:
    raw = pt.source("raw", partitions=PARTITIONS)
    version = count()

    def run() -> None:
        made = pt.asset(name="totals", table="totals", partitions=PARTITIONS, upstream=[raw],
                        code_version=str(next(version)))(lambda ctx: _totals(ctx.read(raw)))  # fmt: skip
        lake.register(raw, made)
        result = lake.run(lake.plan(select="totals"), spark=spark)
        assert result.succeeded == DAYS, result

    what = f"materialize {DAYS:,} partitions"
    ours = Side("one run", run)
    one_by_one = Side(f"one Spark job each, {SAMPLE} of them", partial(_one_by_one, lake, folder), share=SAMPLE / DAYS)
    yield compare(what, ours=ours, theirs=one_by_one, repeat=3)
    theirs = _dagster(lake, folder)
    if theirs is not None:
        side = Side(f"Dagster in its process, {SAMPLE} of them", theirs, share=SAMPLE / DAYS)
        yield compare(what, ours=ours, theirs=side, goal=at_least(50), repeat=3)


def _one_by_one(lake: Lake, folder: Path) -> None:
    for day in _days():
        _made(lake, day).write.mode("overwrite").parquet(f"{folder}/one-by-one/day={day}")


def _made(lake: Lake, day: date) -> DataFrame:
    return _totals(lake.table("raw").read(pt.col("day") == day))


def _days() -> list[date]:
    return [FIRST + timedelta(days=number) for number in range(SAMPLE)]


def _dagster(lake: Lake, folder: Path) -> Callable[[], None] | None:
    """Materializes a sample of partitions in Dagster's own process, each by a run of its own, as it does."""
    if not has_dagster():
        return None
    import dagster

    partitions = dagster.DailyPartitionsDefinition(start_date=FIRST.isoformat())

    # Dagster reads annotations, and takes its own alone.
    @dagster.asset(partitions_def=partitions)  # type: ignore[untyped-decorator,unused-ignore] # where it is installed
    def totals(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        day = date.fromisoformat(context.partition_key)
        _made(lake, day).write.mode("overwrite").parquet(f"{folder}/dagster-made/day={day}")

    instance = dagster_instance(folder / "dagster-run")

    def materialize() -> None:
        for day in _days():
            done = dagster.materialize(
                [totals], partition_key=day.isoformat(), instance=instance,
                run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
            )  # fmt: skip
            assert done.success

    return materialize


# --- what a run adds


def _overhead(lake: Lake, spark: SparkSession) -> Iterator[Row]:
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


def _planning(lake: Lake) -> Iterator[Row]:
    last = date(2020, 1, 1) + timedelta(days=PLANNED // SHARDS)
    partitions = pt.daily("date", start="2020-01-01", end=last) * pt.static("shard", range(SHARDS))
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
