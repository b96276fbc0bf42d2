"""The demo's story: a shop that runs, breaks, is mended, changes, gets rows from strangers, and forgets a customer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.text import Text

import partita as pt
from partita.cli.command import COMMANDS
from partita.cli.demo import SIZE
from partita.cli.demo_look import of_library, parts, show_parts, show_tagged, tagged
from partita.cli.demo_stage import Stage

DAYS, REGIONS, MONTHS = 21, 6, 2
"""How many the project's pipeline.py has."""
LATE, PRODUCTS, NEWS, FORGOTTEN = 2 * REGIONS, 200, 3, 3
"""How many rows its strangers write, and how many of them are of the customer who is forgotten."""
BROKEN = "date=2025-02-02,region=us"
WHERE = "ts >= '2025-01-30' AND region != 'us' AND customer = 'ada'"


def tell(stage: Stage, size: int, stays: bool) -> None:
    """Live through it with so many events; Spark is started, and stopped at the end."""
    with _spark(stage, size):
        lake = pt.Lake(str(stage.folder / "lake"))
        _open(stage, lake, size)
        _run_all(stage, lake, size)
        _look(stage, lake)
        _break(stage, lake, size)
        _mend(stage, lake, size)
        _change(stage, lake)
        _forget(stage, lake, size)
        _end(stage, stays)


@contextmanager
def _spark(stage: Stage, size: int) -> Iterator[None]:
    from partita.spark import session

    stage.show(Text("Starting Spark in this process; each command would start its own.", style="dim"))
    if size <= SIZE:
        # A JVM that lives for two minutes, over few rows, would spend half of them on compiling and on its threads.
        os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark = session("partita demo")
    try:
        yield
    finally:
        spark.stop()


def _open(stage: Stage, lake: pt.Lake, size: int) -> None:
    stage.step(
        "Others write",
        "The web shop keeps its events in an Iceberg table, by day. From February on it is partitioned by region "
        "too, and what is there stays as it is. Products are in a Delta table that lies elsewhere, and is adopted.",
    )
    stage.python("strangers.py", "january", *_size(size))
    stage.partita("evolve", "raw.events", "--add", "region")
    stage.python("strangers.py", "february", *_size(size))
    stage.python("strangers.py", "products")
    stage.partita("adopt", "catalog/products", "--format", "delta", "--name", "catalog.products")
    stage.partita("tables")
    specs = [str(spec) for spec in lake.table("raw.events").specs]
    stage.check("ways that raw.events is partitioned", specs, ["day(ts) AS date", "day(ts) AS date, region"])
    stage.check("events", _rows(lake, "raw.events"), size)


def _run_all(stage: Stage, lake: pt.Lake, size: int) -> None:
    stage.step(
        "Everything runs",
        "pipeline.py says what is made from what. Many partitions are one Spark job and one commit. Some regions "
        "have hostile names, which do no harm: a partition is typed values, and never a path.",
    )
    stage.partita("run")
    _check_states(stage, lake, "orders", {"materialized": DAYS * REGIONS, "stale": 0, "failed": 0, "missing": 0})
    _check_orders(stage, lake, size)
    stage.check("embeddings", _rows(lake, "shop.embeddings"), PRODUCTS)


def _look(stage: Stage, lake: pt.Lake) -> None:
    stage.step(
        "A partition has one identity, and a predicate needs few of them",
        "Native expressions of Spark give rows the key and the id of their partition. A plan skips by metadata what "
        "can't match, and says why. Vectors are searched without Spark.",
    )
    events = lake.table("raw.events")
    with stage.typed('events.select(pt.spark.key_column(date="date", region="region"), pt.spark.id_column(...))'):
        found = tagged(events.read(), events.name)
    stage.show(show_tagged(found))
    stage.check("partitions with the id that the library gives them", of_library(found, events.name), DAYS * REGIONS)
    with stage.typed(f'lake.table("raw.events").plan("{WHERE}")'):
        files = parts(events, WHERE)
    stage.show(show_parts(files))
    stage.check("matching rows in what is kept", events.read(WHERE).count(), events.read().where(WHERE).count())
    vectors: Any = lake.table("shop.embeddings")
    with stage.typed('lake.table("shop.embeddings").search(vector, "vector", k=3)'):
        (wanted,) = vectors.read("product = 17").collect()
        nearest = vectors.search(wanted["vector"], "vector", k=3)["name"].to_pylist()
    stage.check("nearest to the vector of product 17", nearest[0], "product 17")


def _break(stage: Stage, lake: pt.Lake, size: int) -> None:
    stage.step(
        "A partition breaks",
        "Events come late, for two days in all regions, and one has a price that nobody can read. The batch is cut "
        "in two until what can't be made stands alone; the others succeed. What is made from it is skipped, and "
        "stays as it was.",
    )
    stage.python("strangers.py", "late", *_size(size))
    stage.partita("run", code=1)
    stage.partita("status", "orders")
    stage.partita("why", "orders", BROKEN)
    failed = lake.status(state="failed")
    stage.check("failed partitions", failed.num_rows, 1)
    stage.check("the error names the price", "12,50 EUR" in (failed["last_attempt_error"][0].as_py() or ""), True)
    _check_states(stage, lake, "daily", {"materialized": DAYS - 1, "stale": 1})


def _mend(stage: Stage, lake: pt.Lake, size: int) -> None:
    stage.step(
        "It is mended",
        "The price is put right in the table. What is stale runs: that partition, and what is made from it.",
    )
    stage.partita("sql", "UPDATE raw.events SET price = '12.50' WHERE price = '12,50 EUR'")
    stage.partita("run")
    _check_orders(stage, lake, size + LATE)


def _change(stage: Stage, lake: pt.Lake) -> None:
    stage.step(
        "Code changes, and a stranger writes",
        "With another tax every day is stale, by the fingerprint of its code. delta-rs, which has never heard of "
        "Partita, appends products; the table's own log says which buckets it touched. The plan is a file that can "
        "be reviewed.",
    )
    stage.edit("pipeline.py", "TAX = 0.19", "TAX = 0.20")
    stage.python("strangers.py", "news")
    stage.partita("plan", "--out", "plan.jsonl")
    planned = pt.load_plan("plan.jsonl").partitions["asset_key"].to_pylist()
    expected = {"orders": 0, "daily": DAYS, "change": DAYS, "monthly": MONTHS, "embeddings": 1}
    stage.check("planned partitions", {asset: planned.count(asset) for asset in expected}, expected)
    stage.partita("run", "plan.jsonl")
    stage.check("embeddings", _rows(lake, "shop.embeddings"), PRODUCTS + NEWS)


def _forget(stage: Stage, lake: pt.Lake, size: int) -> None:
    stage.step(
        "A customer is forgotten",
        "One DELETE spans both ways of partitioning. An old file holds all regions of a day, so all of them are "
        "stale; a new one holds one region. What was made from them follows.",
    )
    stage.partita("sql", "DELETE FROM raw.events WHERE customer = 'ada'")
    stage.partita("plan", "--select", "orders+")
    stage.check("stale orders", lake.status("orders", state="stale").num_rows, REGIONS + 1)
    stage.partita("run")
    stage.check("orders of ada", lake.table("shop.orders").read("customer = 'ada'").count(), 0)
    _check_orders(stage, lake, size + LATE - FORGOTTEN)
    _check_amounts(stage, lake)


def _end(stage: Stage, stays: bool) -> None:
    stage.step("All is current", "With --check the exit code would be 1 if anything were missing, stale or failed.")
    stage.partita("status", "--check")
    where = f"in {stage.folder}" if stays else "in a shop that stays: `partita demo --folder shop`"
    looks = {
        "history orders date=2025-02-02,region=us": "what happened to a partition",
        "plan --explain daily date=2025-02-02": "whether and why a partition would run",
        "partitions raw.events": "which partitions a table has, and of which spec",
        "ui": "a page to look at the lake",
        "init": "a project of your own",
    }
    known = {words: said for words, said in looks.items() if words.partition(" ")[0] in COMMANDS}
    lines = "\n".join(f"  partita {words:<42} {said}" for words, said in known.items())
    stage.show(Text(f"\nWhere to look next, {where}\n{lines}\ndocs/guide.md goes the same way in Python."))
    right = stage.agrees
    verdict = ("Everything is as it should be", "bold green") if right else ("Something is not right!", "bold red")
    stage.show(Text.assemble("\n", verdict, f"; it took {stage.seconds} s."))


def _size(size: int) -> tuple[str, ...]:
    return () if size == SIZE else ("--size", str(size))


# --- what is checked


def _check_orders(stage: Stage, lake: pt.Lake, rows: int) -> None:
    """Each order once, in every table that is made from orders."""
    found = _row(lake, "SELECT (SELECT sum(orders) FROM shop.daily), (SELECT sum(orders) FROM shop.monthly)")
    counts = {"orders": _rows(lake, "shop.orders"), "daily": found[0], "monthly": found[1]}
    stage.check("orders in all", counts, dict.fromkeys(counts, rows))


def _check_amounts(stage: Stage, lake: pt.Lake) -> None:
    """The amount of all orders, as it is and as the events say; and what the tax makes of it."""
    found = _row(
        lake,
        """
        SELECT (SELECT sum(amount) FROM shop.orders) AS amount, (SELECT sum(revenue) FROM shop.monthly) AS revenue,
               (SELECT sum(amount) FROM (
                    SELECT DISTINCT id, CAST(price AS DECIMAL(10, 2)) * quantity AS amount FROM raw.events
               )) AS paid
    """,
    )
    stage.check("their amount", found["amount"], found["paid"])
    stage.check("revenue by amount", round(found["revenue"] / float(found["amount"]), 3), 1.2)


def _check_states(stage: Stage, lake: pt.Lake, asset: str, expected: dict[str, int]) -> None:
    (row,) = lake.status_counts(asset).to_pylist()
    stage.check(f"partitions of {asset}", {name: row[name] for name in expected}, expected)


def _rows(lake: pt.Lake, table: str) -> int:
    """The rows of a table, by its metadata."""
    return int(sum(lake.table(table).partitions()["rows"].to_pylist()))


def _row(lake: pt.Lake, statement: str) -> Any:
    answer: Any = lake.sql(statement)
    (row,) = answer.collect()
    return row
