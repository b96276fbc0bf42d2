"""What the demo looks at closely: keys and ids by native expressions of Spark, and what a predicate skips, and why."""

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
"""Spark's own; only partita.spark may import it, for a type too."""

SHOWN = 4


def tagged(events: DataFrame, asset: str) -> pa.Table:
    """The partitions of events by day and region, as Spark makes them: key, id and rows, in the order of keys."""
    from partita.spark import id_column, key_column

    days = events.selectExpr("to_date(ts) AS date", "region")
    keyed = days.select(key_column(date="date", region="region").alias("key"))
    counted = keyed.withColumn("id", id_column(asset, "key")).groupBy("key", "id").count()
    return counted.withColumnRenamed("count", "rows").toArrow().sort_by("key")


def show_tagged(partitions: pa.Table) -> Grid:
    """Some of the partitions."""
    grid = Grid("key, and id", box=box.SIMPLE_HEAD)
    grid.add_column("rows", justify="right")
    for row in partitions.slice(0, SHOWN).to_pylist():
        grid.add_row(Text.assemble(row["key"], "\n", (row["id"], "dim")), f"{row['rows']:,}")
    rest = partitions.slice(SHOWN)
    if rest.num_rows:
        grid.add_row(f"and {rest.num_rows:,} more", f"{_total(rest):,}", style="italic")
    return grid


def of_library(partitions: pa.Table, asset: str) -> int:
    """How many of the partitions have the id that the library makes of their key."""
    return int(pc.sum(pc.equal(pt.arrow.key_ids(asset, partitions["key"]), partitions["id"])).as_py() or 0)


@dataclass(frozen=True, slots=True)
class Part:
    """Files of a plan that share a fate: kept, or skipped for a reason."""

    reason: str | None
    files: int
    rows: int


def parts(table: pt.Table, where: str) -> list[Part]:
    """What a plan of the table keeps, and what it skips by reason, the most rows first."""
    plan, every = table.plan(where), table.plan().files
    kept = Part(None, plan.files.num_rows, _total(plan.files))
    skipped = plan.skipped.join(every.select(["path", "rows"]), "path")
    found = skipped.group_by("reason").aggregate([("rows", "count"), ("rows", "sum")])
    ordered = found.sort_by([("rows_sum", "descending"), ("reason", "ascending")])
    return [kept, *(Part(r["reason"], r["rows_count"], r["rows_sum"]) for r in ordered.to_pylist())]


def show_parts(found: list[Part]) -> Grid:
    """The same as a table."""
    grid = Grid("files that are", box=box.SIMPLE_HEAD)
    for name in ("files", "rows"):
        grid.add_column(name, justify="right")
    for part in found:
        said = "kept" if part.reason is None else f"skipped by {part.reason}"
        grid.add_row(Text(said, style="bold" if part.reason is None else ""), f"{part.files:,}", f"{part.rows:,}")
    return grid


def _total(table: pa.Table) -> int:
    return int(pc.sum(table["rows"]).as_py() or 0)
