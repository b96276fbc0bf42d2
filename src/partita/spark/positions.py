"""Rows that are gone while their files stay: left out of a scan, and told apart by file for whoever marks them so."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from partita.spark.rewrite import matched_twice
from partita.spark.scan import FILE, ROW, frame_of, parquet
from partita.spark.schema import quoted
from partita.spark.write import run_in_arrow, task_name

if TYPE_CHECKING:
    from pyspark.sql import Column

PLACE = "__partita_place"
"""The column with the place of a row's file in the table."""
GROUP = "__partita_group"
"""The column with the number of what is marked together."""
_KNOWN = "__partita_known"
"""The column that is true where a row was marked before."""
_FROM = "__partita_from"
BROADCAST_ROWS = 5_000_000
"""Up to so many marked rows go to every executor; more are sorted to where their files are."""


def marked_rows(spark: SparkSession, locations: Sequence[str], pairs: pa.Table) -> DataFrame:
    """What position-delete files say of some data files: the columns of `pairs` but its first two, and `ROW`.

    `pairs` has a row for each such file, by Spark's name for it, and each data file that it may speak of, by the path
    that stands in it: `reported`, `file_path`, and then what is to be known of the data file.
    """
    rows = parquet(spark, "file_path string, pos long", locations)
    placed = rows.select("file_path", F.col("pos").alias(ROW), F.col("_metadata.file_path").alias("reported"))
    known = F.broadcast(frame_of(spark, pairs))
    return placed.join(known, ["reported", "file_path"]).drop("reported", "file_path")


def without_marked(rows: DataFrame, marked: DataFrame, count: int) -> DataFrame:
    """Rows with positions, without those of `marked` (`FILE` and `ROW`), of which there are about `count`."""
    gone = marked.select(_position().alias(_FROM))
    if count <= BROADCAST_ROWS:
        gone = F.broadcast(gone)
    return rows.join(gone, _position() == F.col(_FROM), "left_anti")


def counted(positions: DataFrame) -> pa.Table:
    """The files that rows with positions are of, and how many `rows` of each; one that is named twice is refused."""
    counts = positions.groupBy(FILE).agg(F.count("*").alias("rows"), F.count_distinct(ROW).alias("distinct"))
    found = counts.orderBy(FILE).toArrow()
    if not found["rows"].equals(found["distinct"]):
        raise matched_twice()
    return found.select([FILE, "rows"])


def without_equal(
    rows: DataFrame, deleted: DataFrame, pairs: pa.Table, columns: Sequence[str], *, spread: bool
) -> DataFrame:
    """Rows with positions, without those that equal one of `deleted` in some columns, null being null.

    `deleted` has the columns, and the number of the delete file as `FILE`; `pairs` says which files of `rows` (`FILE`)
    each delete file (`delete`) is about. With `spread`, `deleted` goes to every executor.
    """
    numbered = deleted.withColumnRenamed(FILE, _FROM)
    about = numbered.join(F.broadcast(frame_of(rows.sparkSession, pairs)), F.col(_FROM) == F.col("delete"))
    names = [(name, f"__partita_equal_{at}") for at, name in enumerate(columns)]
    gone = about.select(
        F.col(FILE).alias(_KNOWN), *(F.col(quoted(name)).alias(under) for name, under in names)
    ).distinct()
    condition = F.col(FILE) == F.col(_KNOWN)
    for name, under in names:
        condition = condition & F.col(quoted(name)).eqNullSafe(F.col(under))
    return rows.join(F.broadcast(gone) if spread else gone, condition, "left_anti")


def _position() -> Column:
    """File and row in one number, which Spark looks up several times as fast as two."""
    return F.shiftleft(F.col(FILE).cast("long"), 40).bitwiseOR(F.col(ROW))


class Marker(Protocol):
    """How rows are marked as gone; it travels to the executors."""

    def mark(self, group: int, places: np.ndarray, rows: np.ndarray, task: str) -> dict[str, object]:
        """Mark those rows of the files at those places, which are in that group; tell of what was written."""


def mark(positions: DataFrame, groups: pa.Table, known: DataFrame | None, marker: Marker, told: pa.Schema) -> pa.Table:
    """Mark rows as gone, together with those of their groups that were marked before; a row of `told` for each group.

    `positions` has `FILE` and `ROW`, and `groups` says the `PLACE` and `GROUP` of each `FILE`; `known` has `PLACE`,
    `GROUP` and `ROW` of the rows that were marked before. A row that is named twice in `positions` is refused. A group
    of which no row is new is left alone.
    """
    spark = positions.sparkSession
    new = positions.join(F.broadcast(frame_of(spark, groups)), FILE).select(
        PLACE, GROUP, ROW, F.lit(False).alias(_KNOWN)
    )
    rows = new if known is None else new.union(known.select(PLACE, GROUP, ROW, F.lit(True)))
    count = len(np.unique(groups[GROUP].to_numpy()))
    tasks = max(1, min(count, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))

    def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        held = list(batches)
        if held:
            yield from _marked(pa.Table.from_batches(held), marker)

    return run_in_arrow(rows.repartition(tasks, GROUP), tell, told)


def _marked(rows: pa.Table, marker: Marker) -> Iterator[dict[str, object]]:
    group, place, row = (rows[name].to_numpy() for name in (GROUP, PLACE, ROW))
    known = rows[_KNOWN].to_numpy()
    # What is known comes last among its equals, so that what is new is counted.
    order = np.lexsort((known, row, place, group))
    group, place, row, known = group[order], place[order], row[order], known[order]
    again = (np.diff(place) == 0) & (np.diff(row) == 0)
    if (again & ~known[1:]).any():
        raise matched_twice()
    first = np.concatenate([[True], ~again])
    group, place, row, known = group[first], place[first], row[first], known[first]
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(group)]
    task = task_name()
    for start, stop in itertools.pairwise(edges):
        new = int((~known[start:stop]).sum())
        if new:
            yield {**marker.mark(int(group[start]), place[start:stop], row[start:stop], task), "gone": new}
