"""The fold of events into status rows on Spark: `partita.status.fold`, for ledgers of any size.

The names of events' columns and of roles are those of the status room, which hands them over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a status row that comes from one event: its columns, and the SQL that says their values.

    `order` counts how many of them, from the left, say which event is the last; or with `first`, which is the first.
    """

    name: str
    condition: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    order: int
    first: bool = False


def read_events(spark: SparkSession, location: str, paths: Mapping[str, str], kinds: Sequence[str]) -> DataFrame | None:
    """The events of some kinds in the files of a ledger; None where there are none."""
    frames = [
        spark.read.option("recursiveFileLookup", "true").parquet(*files).withColumn("kind", F.lit(kind))
        for kind in kinds
        if (files := [f"{location}/{path}" for path, its in sorted(paths.items()) if its == kind])
    ]
    if not frames:
        return None
    every = frames[0]
    for frame in frames[1:]:
        every = every.unionByName(frame)
    return every


def fold(events: DataFrame, key: Sequence[str], parts: Sequence[Part], wiped: str, gone: str) -> DataFrame:
    """One row for each partition: the key, `row_version`, `partition_values`, and the columns of each part.

    `gone` names the part that is empty where `wiped`, another part, came after it.
    """
    chosen = [_chosen(part).alias(part.name) for part in parts]
    grouped = events.groupBy(*key).agg(F.max("event_id").alias("row_version"), *chosen)
    by_name = {part.name: part for part in parts}
    lost = (_order(by_name[gone]) < _order(by_name[wiped])) & F.col(wiped).isNotNull()
    grouped = grouped.withColumn(gone, F.when(F.coalesce(~lost, F.lit(True)), F.col(gone)))
    columns = [F.col(part.name)[column].alias(column) for part in parts for column in part.columns]
    return grouped.select(*key, "row_version", partition_values(F.col("partition_key")), *columns)


def partition_values(key: Column) -> Column:
    """The dimensions of a canonical key and the texts of their values, as a map."""

    def text(part: Column) -> Column:
        value = F.regexp_extract(part, "^[^=]*=[a-z]:(.*)$", 1)
        octets = F.unbase64(F.translate(value, "-_", "+/"))
        tag = F.regexp_extract(part, "^[^=]*=([a-z]):", 1)
        return F.when(tag == "s", F.decode(octets, "UTF-8")).when(tag != "n", value)

    parts = F.filter(F.split(key, ","), lambda part: part != "")
    names = F.transform(parts, lambda part: F.substring_index(part, "=", 1))
    return F.map_from_arrays(names, F.transform(parts, text)).alias("partition_values")


def _chosen(part: Part) -> Column:
    values = [F.expr(value).alias(column) for column, value in zip(part.columns, part.values, strict=True)]
    whole = F.when(F.expr(part.condition), F.struct(*values))
    order = F.when(F.expr(part.condition), F.struct(*values[: part.order]))
    return F.min_by(whole, order) if part.first else F.max_by(whole, order)


def _order(part: Part) -> Column:
    return F.struct(*(F.col(part.name)[column].alias(str(at)) for at, column in enumerate(part.columns[: part.order])))
