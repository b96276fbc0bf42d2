"""What the demo does: orders made, partitioned and tagged by native Spark expressions, then pruned in process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

import partita as pt
from partita.cli.demo_step import Step
from partita.cli.demo_table import Changed, change_orders

DataFrame: TypeAlias = Any
SparkSession: TypeAlias = Any
"""Spark's own; only partita.spark may import them, for a type too."""

ASSET = "orders"
SPEC = "day(ts), bucket(16, user_id), country"
WHERE = "ts >= '2025-01-20' AND ts < '2025-01-25' AND country != 'FR' AND user_id = 4711"

_ORDERS = (
    "id AS order_id",
    "timestamp_seconds(unix_timestamp(timestamp'2025-01-01 00:00:00Z') + pmod(xxhash64(id, 1), 60 * 86400)) AS ts",
    "pmod(xxhash64(id, 2), 5000) AS user_id",
    "element_at(split('US US US DE DE FR GB JP', ' '), cast(pmod(xxhash64(id, 3), 8) AS int) + 1) AS country",
    "cast(pmod(xxhash64(id, 4), 50000) / 100 AS decimal(10, 2)) AS price",
)
"""Made of hashes of the number of the row, so that every run has the same orders."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """What one part of the predicate excluded."""

    reason: str
    partitions: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The demo's outcome. `partitions` and `kept` have the columns key, id and rows."""

    partitions: pa.Table
    kept: pa.Table
    skipped: tuple[Skipped, ...]
    matching: int
    matching_in_kept: int
    changed: Changed

    @property
    def agree(self) -> bool:
        """Whether pruning lost no row that matches, and the table has the rows that it should."""
        return self.matching == self.matching_in_kept and self.changed.rows == self.changed.expected

    def summary(self) -> dict[str, Any]:
        """The outcome in plain values, for JSON."""
        return {
            "asset": ASSET,
            "spec": SPEC,
            "where": WHERE,
            "partitions": self.partitions.num_rows,
            "rows": total_rows(self.partitions),
            "kept": {"partitions": self.kept.num_rows, "rows": total_rows(self.kept)},
            "skipped": [{"reason": s.reason, "partitions": s.partitions, "rows": s.rows} for s in self.skipped],
            "matching": {"all": self.matching, "kept": self.matching_in_kept},
            "table": {
                "versions": [{"version": v.number, "done": v.done, **v.counts} for v in self.changed.versions],
                "rows": self.changed.rows,
                "expected": self.changed.expected,
            },
            "agree": self.agree,
        }


def prune_orders(rows: int, step: Step) -> Found:
    """Run the demo on so many orders; Spark is started, and stopped at the end."""
    with step("starting Spark"):
        from partita.spark import session

        spark = session("partita demo")
    try:
        return _prune_orders(spark, rows, step)
    finally:
        with step("stopping Spark"):
            spark.stop()


def total_rows(partitions: pa.Table) -> int:
    """The rows of all these partitions."""
    return pc.sum(partitions["rows"]).as_py() or 0


def _prune_orders(spark: SparkSession, rows: int, step: Step) -> Found:
    with step("saying how orders are made, partitioned and tagged"):
        orders = spark.range(rows).selectExpr(*_ORDERS)
        spec = pt.parse_spec(SPEC, orders.schema, family="iceberg")
        tagged = _tagged(orders, spec)
    with step(f"tagging {rows:,} orders with key and id, counting each partition"):
        partitions = _partitions(tagged, spec)
    with step(f"pruning {partitions.num_rows:,} partitions, without Spark"):
        hit = pt.prune(WHERE, schema=orders.schema, spec=spec, partitions=partitions)
    kept = partitions.filter(hit.may_match)
    with step("counting the matching rows of all partitions"):
        matching = orders.where(WHERE).count()
    with step("counting the matching rows of the kept partitions"):
        in_kept = _only(tagged, kept, spark).where(WHERE).count()
    changed = change_orders(orders, step)
    return Found(partitions, kept, _skipped(partitions, hit.reasons), matching, in_kept, changed)


def _tagged(orders: DataFrame, spec: pt.PartitionSpec) -> DataFrame:
    """The orders with a column for each partition field, and their partition's key and id."""
    from partita.spark import id_column, key_column, with_partitions

    functions = {field.name: field.function for field in spec.fields}
    numbered = with_partitions(orders, functions, family=spec.family)
    # Iceberg's day is a number of days; in a key it is a date.
    fields = numbered.selectExpr("* EXCEPT (ts_day)", "date_from_unix_date(ts_day) AS ts_day")
    typed = {name: (fields[name], fields.schema[name].dataType) for name in functions}
    keyed = fields.withColumn("key", key_column(**typed))
    return keyed.withColumn("id", id_column(ASSET, "key"))


def _partitions(tagged: DataFrame, spec: pt.PartitionSpec) -> pa.Table:
    """One row a partition: its fields, key, id and number of rows, in order."""
    names = spec.names
    counted = tagged.groupBy(*names, "key", "id").count().withColumnRenamed("count", "rows")
    return counted.toArrow().sort_by([(name, "ascending") for name in names])


def _only(tagged: DataFrame, kept: pa.Table, spark: SparkSession) -> DataFrame:
    keys = spark.createDataFrame(kept.select(["key"]))
    return tagged.join(keys, "key", "left_semi")


def _skipped(partitions: pa.Table, reasons: pa.Array) -> tuple[Skipped, ...]:
    """What was excluded, by reason, the most rows first."""
    table = pa.table({"reason": reasons, "rows": partitions["rows"]}).filter(pc.is_valid(reasons))
    grouped = table.group_by("reason").aggregate([("rows", "count"), ("rows", "sum")])
    ordered = grouped.sort_by([("rows_sum", "descending"), ("reason", "ascending")])
    return tuple(Skipped(g["reason"], g["rows_count"], g["rows_sum"]) for g in ordered.to_pylist())
