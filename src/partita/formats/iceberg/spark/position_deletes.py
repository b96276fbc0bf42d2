"""Rows that are gone while their files stay: left out of a scan, and told apart by file for whoever marks them so."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from partita.spark.frames import frame_from_arrow
from partita.spark.parquet_reader import read_parquet
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.rewrite import multiple_match_error
from partita.spark.sql_text import quote_identifier
from partita.spark.write import run_arrow_tasks, task_name

if TYPE_CHECKING:
    from pyspark.sql import Column

TABLE_FILE_INDEX = "__partita_place"
"""The column with the place of a row's file in the table."""
DELETE_GROUP = "__partita_group"
"""The column with the number of what is marked together."""
_KNOWN_DELETE = "__partita_known"
"""The column that is true where a row was marked before."""
_DELETE_KEY = "__partita_from"
MAX_BROADCAST_ROWS = 5_000_000
"""Up to so many marked rows go to every executor; more are sorted to where their files are."""


def read_position_deletes(spark: SparkSession, locations: Sequence[str], pairs: pa.Table) -> DataFrame:
    """What position-delete files say of some data files: the columns of `pairs` but its first two, and `ROW`.

    `pairs` has a row for each such file, by Spark's name for it, and each data file that it may speak of, by the path
    that stands in it: `reported`, `file_path`, and then what is to be known of the data file.
    """
    rows = read_parquet(spark, "file_path string, pos long", locations)
    positions = rows.select("file_path", F.col("pos").alias(ROW_INDEX), F.col("_metadata.file_path").alias("reported"))
    delete_pairs = F.broadcast(frame_from_arrow(spark, pairs))
    return positions.join(delete_pairs, ["reported", "file_path"]).drop("reported", "file_path")


def apply_position_deletes(rows: DataFrame, deletes: DataFrame, delete_count: int) -> DataFrame:
    """Rows with positions, without those of `marked` (`FILE` and `ROW`), of which there are about `count`."""
    removed_deletes = deletes.select(_position_key().alias(_DELETE_KEY))
    if delete_count <= MAX_BROADCAST_ROWS:
        removed_deletes = F.broadcast(removed_deletes)
    return rows.join(removed_deletes, _position_key() == F.col(_DELETE_KEY), "left_anti")


def row_counts_by_file(positions: DataFrame) -> pa.Table:
    """The files that rows with positions are of, and how many `rows` of each; one that is named twice is refused."""
    counts = positions.groupBy(FILE_INDEX).agg(
        F.count("*").alias("rows"), F.count_distinct(ROW_INDEX).alias("distinct")
    )
    counts_table = counts.orderBy(FILE_INDEX).toArrow()
    if not counts_table["rows"].equals(counts_table["distinct"]):
        raise multiple_match_error()
    return counts_table.select([FILE_INDEX, "rows"])


def apply_equality_deletes(
    rows: DataFrame, deletes: DataFrame, pairs: pa.Table, columns: Sequence[str], *, broadcast: bool
) -> DataFrame:
    """Rows with positions, without those that equal one of `deleted` in some columns, null being null.

    `deleted` has the columns, and the number of the delete file as `FILE`; `pairs` says which files of `rows` (`FILE`)
    each delete file (`delete`) is about. With `spread`, `deleted` goes to every executor.
    """
    numbered_deletes = deletes.withColumnRenamed(FILE_INDEX, _DELETE_KEY)
    about = numbered_deletes.join(
        F.broadcast(frame_from_arrow(rows.sparkSession, pairs)), F.col(_DELETE_KEY) == F.col("delete")
    )
    names = [(name, f"__partita_equal_{at}") for at, name in enumerate(columns)]
    removed_deletes = about.select(
        F.col(FILE_INDEX).alias(_KNOWN_DELETE), *(F.col(quote_identifier(name)).alias(under) for name, under in names)
    ).distinct()
    condition = F.col(FILE_INDEX) == F.col(_KNOWN_DELETE)
    for name, under in names:
        condition = condition & F.col(quote_identifier(name)).eqNullSafe(F.col(under))
    return rows.join(F.broadcast(removed_deletes) if broadcast else removed_deletes, condition, "left_anti")


def _position_key() -> Column:
    """File and row in one number, which Spark looks up several times as fast as two."""
    return F.shiftleft(F.col(FILE_INDEX).cast("long"), 40).bitwiseOR(F.col(ROW_INDEX))


class PositionDeleteWriter(Protocol):
    """How rows are marked as gone; it travels to the executors."""

    def write_deletes(
        self, group: int, file_indices: np.ndarray, row_indices: np.ndarray, task: str
    ) -> dict[str, object]:
        """Mark those rows of the files at those places, which are in that group; tell of what was written."""


def write_position_deletes(
    positions: DataFrame,
    groups: pa.Table,
    known_deletes: DataFrame | None,
    writer: PositionDeleteWriter,
    result_schema: pa.Schema,
) -> pa.Table:
    """Mark rows as gone, together with those of their groups that were marked before; a row of `told` for each group.

    `positions` has `FILE` and `ROW`, and `groups` says the `PLACE` and `GROUP` of each `FILE`; `known` has `PLACE`,
    `GROUP` and `ROW` of the rows that were marked before. A row that is named twice in `positions` is refused. A group
    of which no row is new is left alone.
    """
    spark = positions.sparkSession
    new = positions.join(F.broadcast(frame_from_arrow(spark, groups)), FILE_INDEX).select(
        TABLE_FILE_INDEX, DELETE_GROUP, ROW_INDEX, F.lit(False).alias(_KNOWN_DELETE)
    )
    rows = (
        new
        if known_deletes is None
        else new.union(known_deletes.select(TABLE_FILE_INDEX, DELETE_GROUP, ROW_INDEX, F.lit(True)))
    )
    count = len(np.unique(groups[DELETE_GROUP].to_numpy()))
    tasks = max(1, min(count, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))

    def write_task(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        task_batches = list(batches)
        if task_batches:
            yield from _write_deletes_by_group(pa.Table.from_batches(task_batches), writer)

    return run_arrow_tasks(rows.repartition(tasks, DELETE_GROUP), write_task, result_schema)


def _write_deletes_by_group(rows: pa.Table, writer: PositionDeleteWriter) -> Iterator[dict[str, object]]:
    group, place, row = (rows[name].to_numpy() for name in (DELETE_GROUP, TABLE_FILE_INDEX, ROW_INDEX))
    is_known = rows[_KNOWN_DELETE].to_numpy()
    # What is known comes last among its equals, so that what is new is counted.
    order = np.lexsort((is_known, row, place, group))
    group, place, row, is_known = group[order], place[order], row[order], is_known[order]
    again = (np.diff(place) == 0) & (np.diff(row) == 0)
    if (again & ~is_known[1:]).any():
        raise multiple_match_error()
    first = np.concatenate([[True], ~again])
    group, place, row, is_known = group[first], place[first], row[first], is_known[first]
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(group)]
    task = task_name()
    for start, stop in itertools.pairwise(edges):
        new = int((~is_known[start:stop]).sum())
        if new:
            yield {
                **writer.write_deletes(int(group[start]), place[start:stop], row[start:stop], task),
                "deleted_rows": new,
            }
