"""The details that `partita demo` prints: keys and ids computed by Spark, and the files that a file plan skips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.table import Table as Grid
from rich.text import Text

import partita as pt

DataFrame: TypeAlias = Any
"""A Spark DataFrame; only modules of partita.spark may import pyspark, even for types."""

MAX_SHOWN_PARTITIONS = 4


def spark_partitions(events: DataFrame, asset: str) -> pa.Table:
    """Return the partitions of events by day and region, with key, id and number of rows, all computed by Spark."""
    from partita.spark import id_column, with_key

    days = events.selectExpr("to_date(ts) AS date", "region")
    keys = with_key(days, "key", dimensions=["date", "region"])
    counts = keys.withColumn("id", id_column(asset, "key")).groupBy("key", "id").count()
    return counts.withColumnRenamed("count", "rows").toArrow().sort_by("key")


def partitions_grid(partitions: pa.Table) -> Grid:
    """Render the first partitions as a table."""
    grid = Grid("key and id", box=box.SIMPLE_HEAD)
    grid.add_column("rows", justify="right")
    for row in partitions.slice(0, MAX_SHOWN_PARTITIONS).to_pylist():
        grid.add_row(Text.assemble(row["key"], "\n", (row["id"], "dim")), f"{row['rows']:,}")
    rest = partitions.slice(MAX_SHOWN_PARTITIONS)
    if rest.num_rows:
        grid.add_row(f"and {rest.num_rows:,} more", f"{_total_rows(rest):,}", style="italic")
    return grid


def count_matching_ids(partitions: pa.Table, asset: str) -> int:
    """Count the partitions whose id is the one that Python computes from their key."""
    return int(pc.sum(pc.equal(pt.arrow.key_ids(asset, partitions["key"]), partitions["id"])).as_py() or 0)


@dataclass(frozen=True, slots=True)
class DemoFileGroup:
    """The files that a plan reads, if `reason` is None, or that it skips for a reason."""

    reason: str | None
    files: int
    rows: int


def file_groups(table: pt.Table, where: str) -> list[DemoFileGroup]:
    """Return the files that a plan of the table reads, then those that it skips by reason, the most rows first."""
    plan, all_files = table.plan(where), table.plan().files
    files_to_read = DemoFileGroup(None, plan.files.num_rows, _total_rows(plan.files))
    skipped_files = plan.skipped.join(all_files.select(["path", "rows"]), "path")
    counts = skipped_files.group_by("reason").aggregate([("rows", "count"), ("rows", "sum")])
    sorted_counts = counts.sort_by([("rows_sum", "descending"), ("reason", "ascending")])
    return [
        files_to_read,
        *(DemoFileGroup(r["reason"], r["rows_count"], r["rows_sum"]) for r in sorted_counts.to_pylist()),
    ]


def file_groups_grid(groups: list[DemoFileGroup]) -> Grid:
    """Render groups of files as a table."""
    grid = Grid("file plan", box=box.SIMPLE_HEAD)
    for name in ("files", "rows"):
        grid.add_column(name, justify="right")
    for group in groups:
        label = "read" if group.reason is None else f"skipped by {group.reason}"
        grid.add_row(Text(label, style="bold" if group.reason is None else ""), f"{group.files:,}", f"{group.rows:,}")
    return grid


def _total_rows(table: pa.Table) -> int:
    return int(pc.sum(table["rows"]).as_py() or 0)
