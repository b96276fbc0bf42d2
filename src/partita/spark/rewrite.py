"""Copy-on-write: data files copied with some of their rows deleted or updated.

Spark finds the rows to change by file and row index. An executor then copies each of these files in Arrow, row group by
row group, so that unchanged rows are never converted to Spark's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from partita.arrow.required_fields import cast_array
from partita.errors import ConstraintError
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.schema import has_columns
from partita.spark.sql_text import cast_sql, column_sql, select_sql
from partita.spark.write import Sink, equal_row_runs, run_arrow_tasks, task_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

IS_DELETED = "__partita_deleted"
"""The column that is true for a row to delete, and false for a row to update with the values beside it."""

_COUNT_FIELDS = (pa.field("file", pa.int32()), pa.field("deleted", pa.int64()), pa.field("changed", pa.int64()))
"""Fields of a copy's description: the index of the original file, and how many of its rows were deleted and updated."""


def row_deletions(rows: DataFrame) -> DataFrame:
    """Return changes that delete these rows, which have positions."""
    return rows.select(FILE_INDEX, ROW_INDEX, F.lit(True).alias(IS_DELETED))


def row_changes(rows: DataFrame, columns: Iterable[tuple[str, str, DataType]]) -> DataFrame:
    """Return changes that delete or update these rows, with the new values under their stored names and types.

    `columns` has the name, the stored name and the stored type of each column that may change. `IS_DELETED` must not be
    null.
    """
    stored_columns = list(columns)
    change_fields = rows.schema.fields[: len(_CHANGE_COLUMNS)]
    change_columns = [(name, f.dataType) for name, f in zip(_CHANGE_COLUMNS, change_fields, strict=False)]
    is_renamed = any(name != stored_name for name, stored_name, _ in stored_columns)
    if not is_renamed and has_columns(
        rows.schema, [*change_columns, *((name, type_) for name, _, type_ in stored_columns)]
    ):
        return rows
    values = [(cast_sql(column_sql(name), type_), stored_name) for name, stored_name, type_ in stored_columns]
    return select_sql(rows, [*((name, name) for name in _CHANGE_COLUMNS), *values])


_CHANGE_COLUMNS = (FILE_INDEX, ROW_INDEX, IS_DELETED)


class Copier(Protocol):
    """How the files of a format are copied; it is pickled and sent to the executors."""

    def read_batches(self, file: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file in order, under their stored names."""

    def file_partition_texts(self, file: int) -> tuple[str | None, ...]:
        """Return the texts of a file's partition values."""

    def open_sink(self, file: int, task: str) -> Sink:
        """Open a new file in the partition of a file."""


def rewrite_files(changes: DataFrame, copier: Copier, file_count: int, result_schema: pa.Schema) -> pa.Table:
    """Copy each file that `changes` names, and return a row of `result_schema` for each, with counts of its rows.

    The columns after `result_schema` are the number of the `file`, and its `deleted` and `changed` rows.

    `changes` has `FILE_INDEX`, `ROW_INDEX`, `IS_DELETED`, and then the stored columns with new values. If no row of a
    file is left, nothing is written and the columns of `result_schema` are null. A row that is named twice raises
    `ConstraintError`.
    """
    changes_by_file = group_by_file(changes, file_count).sortWithinPartitions(FILE_INDEX, ROW_INDEX)

    def rewrite_task(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        for file, rows in rows_by_file(batches):
            yield from _rewrite_file(copier, file, rows)

    return run_arrow_tasks(changes_by_file, rewrite_task, pa.schema([*result_schema, *_COUNT_FIELDS]))


def group_by_file(rows: DataFrame, file_count: int) -> DataFrame:
    """Bring the rows of each file into one task, in at most as many tasks as there are files.

    The number of tasks is given because Spark would bring a few changed rows into one task, which would then copy
    gigabytes of files, and shuffles cached rows into as many tasks as `spark.sql.shuffle.partitions` says.
    """
    tasks = max(1, min(file_count, int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)))
    return rows.repartition(tasks, F.col(FILE_INDEX))


def rows_by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Yield all changes of each file; they may be in several batches."""
    file_batches: list[pa.RecordBatch] = []
    current_file: int | None = None
    for batch in batches:
        for start, stop in equal_row_runs([batch.column(FILE_INDEX)], batch.num_rows):
            run = batch.slice(start, stop - start)
            file = run.column(FILE_INDEX)[0].as_py()
            if file_batches and file != current_file:
                yield _file_rows(file_batches)
                file_batches = []
            current_file = file
            file_batches.append(run)
    if file_batches:
        yield _file_rows(file_batches)


def _file_rows(batches: Sequence[pa.RecordBatch]) -> tuple[int, pa.Table]:
    return batches[0].column(FILE_INDEX)[0].as_py(), pa.Table.from_batches(batches).combine_chunks()


def multiple_match_error() -> ConstraintError:
    """Return the error for changes that name a row twice, which only a merge can do."""
    return ConstraintError("a row of the table matches more than one row of the source; nothing was changed")


def unique_row_indices(changes: pa.Table) -> np.ndarray:
    """Return the row indices of the sorted changes of a file; raise `ConstraintError` if one is there twice."""
    row_indices: np.ndarray = changes[ROW_INDEX].to_numpy()
    if (row_indices[1:] == row_indices[:-1]).any():
        raise multiple_match_error()
    return row_indices


@dataclass(frozen=True, slots=True, eq=False)
class _FileChanges:
    """The changes of one file, sorted by row index."""

    row_indices: np.ndarray
    is_deleted: np.ndarray
    values: pa.Table

    @classmethod
    def from_table(cls, table: pa.Table) -> _FileChanges:
        row_indices = unique_row_indices(table)
        is_deleted = table[IS_DELETED].to_numpy(zero_copy_only=False).astype(bool)
        return cls(row_indices, is_deleted, table.drop_columns([FILE_INDEX, ROW_INDEX, IS_DELETED]))

    def apply_to(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Return a batch of the file, which begins with row `first_row`, after the changes."""
        start, stop = np.searchsorted(self.row_indices, [first_row, first_row + batch.num_rows])
        if start == stop:
            return batch
        indices, is_deleted = self.row_indices[start:stop] - first_row, self.is_deleted[start:stop]
        if not is_deleted.all() and self.values.num_columns:
            values = self.values.slice(start, stop - start).filter(pa.array(~is_deleted))
            batch = _replace_values(batch, indices[~is_deleted], values)
        if not is_deleted.any():
            return batch
        is_kept = np.ones(batch.num_rows, bool)
        is_kept[indices[is_deleted]] = False
        return batch.filter(pa.array(is_kept))


def _replace_values(batch: pa.RecordBatch, row_indices: np.ndarray, values: pa.Table) -> pa.RecordBatch:
    """Return a batch with new values in some columns of some rows."""
    order = np.arange(batch.num_rows)
    order[row_indices] = batch.num_rows + np.arange(len(row_indices))
    indices = pa.array(order)
    for name in values.column_names:
        index = batch.schema.get_field_index(name)
        field = batch.schema.field(index)
        old_and_new = pa.chunked_array([batch.column(index), *cast_array(values[name], field.type).chunks], field.type)
        batch = batch.set_column(index, field, old_and_new.take(indices).combine_chunks())
    return batch


def _rewrite_file(copier: Copier, file: int, changed_rows: pa.Table) -> Iterator[dict[str, object]]:
    changes = _FileChanges.from_table(changed_rows)
    deleted_count = int(changes.is_deleted.sum())
    counts: dict[str, object] = {
        "file": file,
        "deleted": deleted_count,
        "changed": len(changes.row_indices) - deleted_count,
    }
    sink: Sink | None = None
    row_count = 0
    try:
        for batch in copier.read_batches(file):
            rows = changes.apply_to(batch, row_count)
            row_count += batch.num_rows
            if rows.num_rows == 0:
                continue
            if sink is None:
                sink = copier.open_sink(file, task_name())
            sink.write(pa.Table.from_batches([rows]))
        if row_count <= changes.row_indices[-1]:
            raise ConstraintError(
                f"file {file} has {row_count} rows, and row {changes.row_indices[-1]} of it was to change"
            )
        if sink is None:
            yield counts
            return
        description = sink.close()
        sink = None
        yield {**description, **counts, "partition": list(copier.file_partition_texts(file))}
    finally:
        if sink is not None:
            sink.abort()
