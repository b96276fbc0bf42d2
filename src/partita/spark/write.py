"""Data files written by executors, each described by a row that the driver gets.

The format decides by a `FileTarget` what a file is, where it is stored and what its description holds. A task that
Spark retries writes files under other names; files without a description at the driver are no part of the table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from partita.arrow.distinct_rows import bits_of_floats, distinct_row_ids, sort_into_groups
from partita.arrow.partition_texts import partition_text
from partita.spark.workers import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_BUFFERED_BYTES = 256 * 2**20
"""The size of the Arrow batches that a task buffers before it writes."""
MAX_OPEN_FILES = 1000
"""The number of files that a task has open at once."""

PARTITION_COLUMN_PREFIX = "__partita_partition_"
"""The prefix of the columns with the partition values of rows."""


class Sink(Protocol):
    """A data file that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Write rows, and keep no reference to them."""

    @property
    def is_full(self) -> bool:
        """Whether further rows should go into another file."""

    def close(self) -> dict[str, object]:
        """Finish the file and return its description without the partition."""

    def abort(self) -> None:
        """Discard the file."""


class FileTarget(Protocol):
    """Where data files are written; it is pickled and sent to the executors."""

    def open_sink(self, partition: tuple[str | None, ...], task: str) -> Sink:
        """Open a new file in that partition, whose name contains `task`."""


def write_data_files(rows: DataFrame, target: FileTarget, field_count: int, result_schema: pa.Schema) -> pa.Table:
    """Write all rows, and return a row of `result_schema` for each file.

    The first `field_count` columns of the rows are their partition values; the others are stored. Each task writes a
    file for each partition that it has rows of.
    """
    return run_arrow_tasks(rows, lambda batches: _TaskWriter(target, field_count).write_batches(batches), result_schema)


def rebalance_by_partition(rows: DataFrame, field_count: int) -> DataFrame:
    """Bring the rows of a partition, the first columns of the rows, into one task, or into several if they are many."""
    return rows.hint("rebalance", *rows.columns[:field_count]) if field_count else rows


TaskFunction = Callable[[Iterable[pa.RecordBatch]], Iterable[dict[str, object]]]
"""A function from the rows of a task to the rows of its result."""


def run_arrow_tasks(rows: DataFrame, task: TaskFunction, result_schema: pa.Schema) -> pa.Table:
    """Run a function in each task, and return the rows that the tasks yield as a table of that schema."""

    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in task(batches):
            yield pa.RecordBatch.from_pylist([row], result_schema)

    return (
        map_in_arrow(rows, run_task, from_arrow_schema(result_schema))
        .toArrow()
        .select(result_schema.names)
        .cast(result_schema)
    )


def task_name() -> str:
    """Return the index and the attempt of the current task, for the names of its files."""
    task = TaskContext.get()
    return "00000-0" if task is None else f"{task.partitionId():05d}-{task.taskAttemptId()}"


@dataclass(slots=True, eq=False)
class _TaskWriter:
    """Writes the rows of one task: buffers them in Arrow, splits them by partition, and writes each part.

    That is faster than sorting rows by partition in Spark, and needs no more memory than `MAX_BUFFERED_BYTES`. The file
    of a partition stays open for further rows.
    """

    target: FileTarget
    field_count: int
    buffered_batches: list[pa.RecordBatch] = field(default_factory=list)
    buffered_bytes: int = 0
    open_sinks: dict[tuple[str | None, ...], Sink] = field(default_factory=dict)
    task: str = field(default_factory=task_name)

    def write_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        """Write the rows, and yield the description of each file when it is finished."""
        try:
            for batch in batches:
                self.buffered_batches.append(batch)
                # Not `nbytes`, which reads the offsets of lists: Java sends none for a list column without lists.
                self.buffered_bytes += batch.get_total_buffer_size()
                if self.buffered_bytes >= MAX_BUFFERED_BYTES:
                    yield from self._flush_batches()
            yield from self._flush_batches()
            while self.open_sinks:
                yield self._close_sink(next(iter(self.open_sinks)))
        finally:
            for sink in self.open_sinks.values():
                sink.abort()

    def _flush_batches(self) -> Iterator[dict[str, object]]:
        if not self.buffered_batches:
            return
        table = pa.Table.from_batches(self.buffered_batches)
        self.buffered_batches.clear()
        self.buffered_bytes = 0
        for partition, rows in rows_by_partition(table, self.field_count):
            if partition not in self.open_sinks:
                if len(self.open_sinks) >= MAX_OPEN_FILES:
                    yield self._close_sink(next(iter(self.open_sinks)))
                self.open_sinks[partition] = self.target.open_sink(partition, self.task)
            sink = self.open_sinks[partition]
            sink.write(rows)
            if sink.is_full:
                yield self._close_sink(partition)

    def _close_sink(self, partition: tuple[str | None, ...]) -> dict[str, object]:
        description = self.open_sinks[partition].close()
        del self.open_sinks[partition]
        return {**description, "partition": list(partition)}


def rows_by_partition(table: pa.Table, field_count: int) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """Yield the texts of each partition, and its rows without the partition columns, in the order of the table."""
    stored_rows = table.select(range(field_count, table.num_columns))
    partition_columns = [table.column(index).combine_chunks() for index in range(field_count)]
    # 0.0 and -0.0, which are equal, are two partitions.
    row_ids = distinct_row_ids(map(bits_of_floats, partition_columns), table.num_rows)
    row_indices, bounds = sort_into_groups(row_ids)
    if len(bounds) > 2:
        stored_rows = stored_rows.take(pa.array(row_indices))
    for start, stop in itertools.pairwise(bounds):
        partition = tuple(partition_text(column[row_indices[start]]) for column in partition_columns)
        yield partition, stored_rows.slice(start, stop - start)


def equal_row_runs(columns: Sequence[pa.Array], row_count: int) -> Iterator[tuple[int, int]]:
    """Yield the start and stop of each run of neighbouring rows that are equal in all columns."""
    if row_count == 0:
        return
    changes = np.zeros(row_count - 1, bool)
    for column in columns:
        codes = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        changes |= codes[1:] != codes[:-1]
    ends = [*(np.flatnonzero(changes) + 1).tolist(), row_count]
    yield from zip([0, *ends[:-1]], ends, strict=True)
