"""The steps of `partita demo`, each with its commands and checks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.text import Text

import partita as pt
from partita.cli.demo import DEFAULT_EVENTS
from partita.cli.demo_inspection import (
    count_matching_ids,
    file_groups,
    file_groups_grid,
    partitions_grid,
    spark_partitions,
)
from partita.cli.demo_session import DemoSession

DAYS, REGIONS, MONTHS = 21, 6, 2
"""The number of values of each dimension in the project's pipeline.py."""
LATE_ROWS, PRODUCTS, NEW_PRODUCTS, DELETED_ROWS = 2 * REGIONS, 200, 3, 3
"""The number of rows that external_writers.py writes, and of rows of the customer who is deleted."""
BROKEN_PARTITION = "date=2025-02-02,region=us"
PREDICATE = "ts >= '2025-01-30' AND region != 'us' AND customer = 'ada'"


def run_demo(session: DemoSession, event_count: int, keep: bool) -> None:
    """Run all steps with this number of events, on a Spark that is started first and stopped at the end."""
    with _demo_spark(session, event_count):
        lake = pt.Lake(str(session.folder / "lake"))
        _write_sources(session, lake, event_count)
        _run_pipeline(session, lake, event_count)
        _inspect_partitions(session, lake)
        _break_partition(session, lake, event_count)
        _repair_partition(session, lake, event_count)
        _change_code(session, lake)
        _delete_customer(session, lake, event_count)
        _show_final_status(session, keep)


@contextmanager
def _demo_spark(session: DemoSession, size: int) -> Iterator[None]:
    from partita.spark import spark_session

    session.show(Text("Starting Spark once for all commands; outside of the demo each starts its own.", style="dim"))
    if size <= DEFAULT_EVENTS:
        # For few rows a JVM would spend half of the demo on compiling code and on its threads.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark = spark_session("partita demo")
    try:
        yield
    finally:
        spark.stop()


def _write_sources(session: DemoSession, lake: pt.Lake, size: int) -> None:
    session.begin_step(
        "Other systems write the sources",
        "The web shop writes its events to an Iceberg table that is partitioned by day. From February on the table "
        "is also partitioned by region; existing files keep their partitioning. The products are in a Delta table "
        "outside of the lake, which is adopted as a source.",
    )
    session.run_python("external_writers.py", "january", *_size_option(size))
    session.run_partita("evolve", "raw.events", "--add", "region")
    session.run_python("external_writers.py", "february", *_size_option(size))
    session.run_python("external_writers.py", "products")
    session.run_partita("adopt", "catalog/products", "--format", "delta", "--name", "catalog.products")
    session.run_partita("tables")
    specs = [str(spec) for spec in lake.table("raw.events").specs]
    session.check_equal("partition specs of raw.events", specs, ["day(ts) AS date", "day(ts) AS date, region"])
    session.check_equal("events", _row_count(lake, "raw.events"), size)


def _run_pipeline(session: DemoSession, lake: pt.Lake, size: int) -> None:
    session.begin_step(
        "Run the pipeline",
        "pipeline.py defines the assets and their upstreams. Many partitions run as one Spark job and one commit. "
        "Some regions have names with slashes, quotes and line breaks; these work, because a partition is typed "
        "values and not a path.",
    )
    session.run_partita("run")
    _check_states(session, lake, "orders", {"materialized": DAYS * REGIONS, "stale": 0, "failed": 0, "missing": 0})
    _check_orders(session, lake, size)
    session.check_equal("embeddings", _row_count(lake, "shop.embeddings"), PRODUCTS)


def _inspect_partitions(session: DemoSession, lake: pt.Lake) -> None:
    session.begin_step(
        "Look at keys, file plans and vectors",
        "Native Spark expressions compute the key and the id of each row's partition. A file plan uses metadata to "
        "skip files that can't match a predicate, and gives the reason for each. Vectors are searched without Spark.",
    )
    events = lake.table("raw.events")
    with session.show_python(
        'pt.spark.with_key(events, dimensions=["date", "region"]).withColumn("id", pt.spark.id_column(...))'
    ):
        partitions = spark_partitions(events.read(), events.name)
    session.show(partitions_grid(partitions))
    session.check_equal(
        "partitions whose id is the same in Spark and in Python",
        count_matching_ids(partitions, events.name),
        DAYS * REGIONS,
    )
    with session.show_python(f'lake.table("raw.events").plan("{PREDICATE}")'):
        groups = file_groups(events, PREDICATE)
    session.show(file_groups_grid(groups))
    session.check_equal(
        "matching rows in the planned files", events.read(PREDICATE).count(), events.read().where(PREDICATE).count()
    )
    vectors: Any = lake.table("shop.embeddings")
    with session.show_python('lake.table("shop.embeddings").search(vector, "vector", k=3)'):
        (product,) = vectors.read("product = 17").collect()
        nearest_names = vectors.search(product["vector"], "vector", k=3)["name"].to_pylist()
    session.check_equal("nearest product to the vector of product 17", nearest_names[0], "product 17")


def _break_partition(session: DemoSession, lake: pt.Lake, size: int) -> None:
    session.begin_step(
        "A partition fails",
        "Late events arrive for two days in all regions, and the price of one is not a number. The batch is split "
        "in halves until the partition that fails is alone; the others succeed. Downstream partitions of the failed "
        "one are skipped and keep their old data.",
    )
    session.run_python("external_writers.py", "late", *_size_option(size))
    session.run_partita("run", expected_code=1)
    session.run_partita("status", "orders")
    session.run_partita("why", "orders", BROKEN_PARTITION)
    failed_partitions = lake.status(state="failed")
    session.check_equal("failed partitions", failed_partitions.num_rows, 1)
    error = failed_partitions["last_attempt_error"][0].as_py() or ""
    session.check_equal("the error contains the price", "12,50 EUR" in error, True)
    _check_states(session, lake, "daily", {"materialized": DAYS - 1, "stale": 1})


def _repair_partition(session: DemoSession, lake: pt.Lake, size: int) -> None:
    session.begin_step(
        "Repair the partition",
        "The price is corrected in the table. The failed partition and its downstream partitions run.",
    )
    session.run_partita("sql", "UPDATE raw.events SET price = '12.50' WHERE price = '12,50 EUR'")
    session.run_partita("run")
    _check_orders(session, lake, size + LATE_ROWS)


def _change_code(session: DemoSession, lake: pt.Lake) -> None:
    session.begin_step(
        "Change the code, and append with delta-rs",
        "A new tax rate changes the code version of `daily`, so every day is stale. delta-rs, which knows nothing of "
        "Partita, appends products; the log of the table says which buckets it changed. The plan is a file that you "
        "can review.",
    )
    session.edit_file("pipeline.py", "TAX = 0.19", "TAX = 0.20")
    session.run_python("external_writers.py", "news")
    session.run_partita("plan", "--out", "plan.jsonl")
    planned_assets = pt.load_plan("plan.jsonl").partitions["asset_key"].to_pylist()
    partition_counts = {"orders": 0, "daily": DAYS, "change": DAYS, "monthly": MONTHS, "embeddings": 1}
    session.check_equal(
        "planned partitions", {asset: planned_assets.count(asset) for asset in partition_counts}, partition_counts
    )
    session.run_partita("run", "plan.jsonl")
    session.check_equal("embeddings", _row_count(lake, "shop.embeddings"), PRODUCTS + NEW_PRODUCTS)


def _delete_customer(session: DemoSession, lake: pt.Lake, size: int) -> None:
    session.begin_step(
        "Delete a customer",
        "One DELETE works across both partition specs. An old file holds all regions of a day, so after the change "
        "all of them are stale; a new file holds one region. The downstream partitions run as well.",
    )
    session.run_partita("sql", "DELETE FROM raw.events WHERE customer = 'ada'")
    session.run_partita("plan", "--select", "orders+")
    session.check_equal("stale orders", lake.status("orders", state="stale").num_rows, REGIONS + 1)
    session.run_partita("run")
    session.check_equal("orders of ada", lake.table("shop.orders").read("customer = 'ada'").count(), 0)
    _check_orders(session, lake, size + LATE_ROWS - DELETED_ROWS)
    _check_amounts(session, lake)


def _show_final_status(session: DemoSession, keep: bool) -> None:
    session.begin_step(
        "Everything is current", "With --check the exit code is 1 if a partition is missing, stale or failed."
    )
    session.run_partita("status", "--check")
    place = f"in {session.folder}" if keep else "in a project that stays, made with `partita demo --folder shop`"
    next_commands = {
        "history orders date=2025-02-02,region=us": "the events of a partition",
        "plan --explain daily date=2025-02-02": "whether and why a partition would run",
        "partitions raw.events": "the partitions of a table, with their specs",
        "ui": "a web page that shows the lake",
        "init": "a project of your own",
    }
    lines = "\n".join(f"  partita {words:<42} {summary}" for words, summary in next_commands.items())
    guide = "docs/guide/first-pipeline.md shows the same steps in Python."
    session.show(Text(f"\nWhat to try next, {place}:\n{lines}\n{guide}"))
    verdict = ("All checks passed", "bold green") if session.is_correct else ("Some checks failed", "bold red")
    session.show(Text.assemble("\n", verdict, f" in {session.seconds} s."))


def _size_option(size: int) -> tuple[str, ...]:
    return () if size == DEFAULT_EVENTS else ("--size", str(size))


# --- checks


def _check_orders(session: DemoSession, lake: pt.Lake, rows: int) -> None:
    """Check that every table that is made from orders counts each order once."""
    sums = _query_row(lake, "SELECT (SELECT sum(orders) FROM shop.daily), (SELECT sum(orders) FROM shop.monthly)")
    counts = {"orders": _row_count(lake, "shop.orders"), "daily": sums[0], "monthly": sums[1]}
    session.check_equal("number of orders", counts, dict.fromkeys(counts, rows))


def _check_amounts(session: DemoSession, lake: pt.Lake) -> None:
    """Check the total amount of the orders against the events, and the revenue against the amount and the tax."""
    sums = _query_row(
        lake,
        """
        SELECT (SELECT sum(amount) FROM shop.orders) AS amount, (SELECT sum(revenue) FROM shop.monthly) AS revenue,
               (SELECT sum(amount) FROM (
                    SELECT DISTINCT id, CAST(price AS DECIMAL(10, 2)) * quantity AS amount FROM raw.events
               )) AS paid
    """,
    )
    session.check_equal("total amount", sums["amount"], sums["paid"])
    session.check_equal("revenue divided by amount", round(sums["revenue"] / float(sums["amount"]), 3), 1.2)


def _check_states(session: DemoSession, lake: pt.Lake, asset: str, state_counts: dict[str, int]) -> None:
    (row,) = lake.status_counts(asset).to_pylist()
    session.check_equal(f"partitions of {asset}", {name: row[name] for name in state_counts}, state_counts)


def _row_count(lake: pt.Lake, table: str) -> int:
    """Return the number of rows of a table, from its metadata."""
    return int(sum(lake.table(table).partitions()["rows"].to_pylist()))


def _query_row(lake: pt.Lake, statement: str) -> Any:
    result: Any = lake.sql(statement)
    (row,) = result.collect()
    return row
