"""Position and equality deletes on Spark: applied to the rows of a scan, counted by data file, and written."""

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

TABLE_FILE_INDEX = "__partita_table_file"
"""The column with the index of a row's data file in the table version."""
DELETE_GROUP = "__partita_group"
"""The column with the number of the delete file that a position goes to: one for each spec and partition."""
_KNOWN_DELETE = "__partita_known"
"""The column that is true for a position that an earlier delete file has."""
_DELETE_KEY = "__partita_delete"
MAX_BROADCAST_ROWS = 5_000_000
"""At most this many deleted positions are broadcast; more are joined by a shuffle."""


def read_position_deletes(spark: SparkSession, locations: Sequence[str], pairs: pa.Table) -> DataFrame:
    """Return the positions in position-delete files: the columns of `pairs` after its first two, and `ROW_INDEX`.

    `pairs` has a row for each delete file and each data file that it may reference: `reported`, the path of the delete
    file as Spark reports it; `file_path`, the path of the data file as delete files have it; and columns of the data
    file. Positions of other data files are left out.
    """
    rows = read_parquet(spark, "file_path string, pos long", locations)
    positions = rows.select("file_path", F.col("pos").alias(ROW_INDEX), F.col("_metadata.file_path").alias("reported"))
    delete_pairs = F.broadcast(frame_from_arrow(spark, pairs))
    return positions.join(delete_pairs, ["reported", "file_path"]).drop("reported", "file_path")


def apply_position_deletes(rows: DataFrame, deletes: DataFrame, delete_count: int) -> DataFrame:
    """Return rows without those at the positions of `deletes` (`FILE_INDEX`, `ROW_INDEX`), about `delete_count`."""
    removed_deletes = deletes.select(_position_key().alias(_DELETE_KEY))
    if delete_count <= MAX_BROADCAST_ROWS:
        removed_deletes = F.broadcast(removed_deletes)
    return rows.join(removed_deletes, _position_key() == F.col(_DELETE_KEY), "left_anti")


def row_counts_by_file(positions: DataFrame) -> pa.Table:
    """Count the positions in each file (`FILE_INDEX`, `rows`); raise an error if two positions are equal."""
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
    """Return rows without those that equal a row of `deletes` in some columns, where null equals null.

    `deletes` has the columns, and the index of the delete file as `FILE_INDEX`. `pairs` has a row for each delete file
    (`delete`) and each data file (`FILE_INDEX`) that it applies to. With `broadcast`, the deletes are broadcast.
    """
    numbered_deletes = deletes.withColumnRenamed(FILE_INDEX, _DELETE_KEY)
    deletes_by_file = numbered_deletes.join(
        F.broadcast(frame_from_arrow(rows.sparkSession, pairs)), F.col(_DELETE_KEY) == F.col("delete")
    )
    names = [(name, f"__partita_equal_{index}") for index, name in enumerate(columns)]
    distinct_deletes = deletes_by_file.select(
        F.col(FILE_INDEX).alias(_KNOWN_DELETE), *(F.col(quote_identifier(name)).alias(alias) for name, alias in names)
    ).distinct()
    condition = F.col(FILE_INDEX) == F.col(_KNOWN_DELETE)
    for name, alias in names:
        condition = condition & F.col(quote_identifier(name)).eqNullSafe(F.col(alias))
    return rows.join(F.broadcast(distinct_deletes) if broadcast else distinct_deletes, condition, "left_anti")


def _position_key() -> Column:
    """Return the file and the row index as one number: joins by one column are several times as fast as by two."""
    return F.shiftleft(F.col(FILE_INDEX).cast("long"), 40).bitwiseOR(F.col(ROW_INDEX))


class PositionDeleteWriter(Protocol):
    """Writes position-delete files; it is pickled and sent to the executors."""

    def write_deletes(
        self, group: int, file_indices: np.ndarray, row_indices: np.ndarray, task: str
    ) -> dict[str, object]:
        """Write the positions of one group, and return the row of `WRITTEN_FILE_SCHEMA` for the delete file."""


def write_position_deletes(
    positions: DataFrame,
    groups: pa.Table,
    known_deletes: DataFrame | None,
    writer: PositionDeleteWriter,
    result_schema: pa.Schema,
) -> pa.Table:
    """Write the positions of deleted rows, with the earlier ones of the same groups; return a row for each new file.

    `positions` has `FILE_INDEX` and `ROW_INDEX`; `groups` has the `TABLE_FILE_INDEX` and the `DELETE_GROUP` of each
    `FILE_INDEX`; `known_deletes` has the `TABLE_FILE_INDEX`, `DELETE_GROUP` and `ROW_INDEX` of earlier deletes. The
    result has the columns of `result_schema`. A group without a new position gets no file. Raises an error if two of
    `positions` are equal.
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
    group, file, row = (rows[name].to_numpy() for name in (DELETE_GROUP, TABLE_FILE_INDEX, ROW_INDEX))
    is_known = rows[_KNOWN_DELETE].to_numpy()
    # Of equal positions, the earlier delete comes last, so that a new one is counted.
    order = np.lexsort((is_known, row, file, group))
    group, file, row, is_known = group[order], file[order], row[order], is_known[order]
    is_repeated = (np.diff(file) == 0) & (np.diff(row) == 0)
    if (is_repeated & ~is_known[1:]).any():
        raise multiple_match_error()
    first = np.concatenate([[True], ~is_repeated])
    group, file, row, is_known = group[first], file[first], row[first], is_known[first]
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(group)]
    task = task_name()
    for start, stop in itertools.pairwise(edges):
        new = int((~is_known[start:stop]).sum())
        if new:
            yield {
                **writer.write_deletes(int(group[start]), file[start:stop], row[start:stop], task),
                "deleted_rows": new,
            }
