"""Rows into files: executors write them and tell what they wrote, the driver gets the tellings.

What a file is, where it lies and what is known of it is the format's: it gives a `Target`, which each task opens anew
for each partition. A task that is tried twice writes under other names; what the driver does not hear of is no part of
the table.
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

from partita.spark.workers import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HELD_BYTES = 256 * 2**20
"""How much a task holds in Arrow before it writes."""
OPEN_FILES = 1000
"""How many files a task has open at once."""

PARTITION = "__partita_partition_"
"""How the columns begin that hold each row's partition values."""


class Sink(Protocol):
    """A file that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Add rows, and keep no hold of them."""

    @property
    def is_full(self) -> bool:
        """Whether the rest should go into another file."""

    def close(self) -> dict[str, object]:
        """Finish it, and tell of it: all that is told but for the partition."""

    def abort(self) -> None:
        """Drop it."""


class Target(Protocol):
    """Where files go; it travels to the executors."""

    def text(self, value: pa.Scalar) -> str | None:
        """A partition value as what is told of it."""

    def open(self, partition: tuple[str | None, ...], task: str) -> Sink:
        """A new file in that partition, whose name holds `task`."""


def write(rows: DataFrame, target: Target, partitions: int, told: pa.Schema) -> pa.Table:
    """Write all rows, and return a row of `told` for each file.

    The first `partitions` columns of `rows` are its partition values, of which `told` has the texts; the rest are what
    is stored. Each task writes a file for each partition that it has rows of.
    """
    return run_in_arrow(rows, lambda batches: _Writer(target, partitions).files(batches), told)


def gathered(rows: DataFrame, partitions: int) -> DataFrame:
    """Such rows, those of a partition in one task, or in several where there are very many of them."""
    return rows.hint("rebalance", *rows.columns[:partitions]) if partitions else rows


Tell = Callable[[Iterable[pa.RecordBatch]], Iterable[dict[str, object]]]
"""What a task does with its rows, and the rows that it tells of it."""


def run_in_arrow(rows: DataFrame, tell: Tell, told: pa.Schema) -> pa.Table:
    """What the tasks tell, as a table of that schema; each row of it is sent as soon as it is told."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in tell(batches):
            yield pa.RecordBatch.from_pylist([row], told)

    return map_in_arrow(rows, run, from_arrow_schema(told)).toArrow().select(told.names).cast(told)


def task_name() -> str:
    """The task and the attempt that run here, as a part of a file's name."""
    task = TaskContext.get()
    return "00000-0" if task is None else f"{task.partitionId():05d}-{task.taskAttemptId()}"


@dataclass(slots=True, eq=False)
class _Writer:
    """What one task writes: rows are held in Arrow, sorted into partitions there, and written a piece at a time.

    That takes a part of the time of sorting rows in Spark, and needs no more than `HELD_BYTES` at once. A partition's
    file stays open for the pieces to come.
    """

    target: Target
    partitions: int
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0
    open: dict[tuple[str | None, ...], Sink] = field(default_factory=dict)
    task: str = field(default_factory=task_name)

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        """Write the rows, and tell of each file as it is finished."""
        try:
            for batch in batches:
                self.held.append(batch)
                # Not `nbytes`: it looks at the offsets of lists, and where there are no lists Java sends no offsets.
                self.held_bytes += batch.get_total_buffer_size()
                if self.held_bytes >= HELD_BYTES:
                    yield from self._spill()
            yield from self._spill()
            while self.open:
                yield self._closed(next(iter(self.open)))
        finally:
            for sink in self.open.values():
                sink.abort()

    def _spill(self) -> Iterator[dict[str, object]]:
        if not self.held:
            return
        table = pa.Table.from_batches(self.held)
        self.held.clear()
        self.held_bytes = 0
        for partition, rows in by_partition(table, self.partitions, self.target.text):
            if partition not in self.open:
                if len(self.open) >= OPEN_FILES:
                    yield self._closed(next(iter(self.open)))
                self.open[partition] = self.target.open(partition, self.task)
            sink = self.open[partition]
            sink.write(rows)
            if sink.is_full:
                yield self._closed(partition)

    def _closed(self, partition: tuple[str | None, ...]) -> dict[str, object]:
        told_of = self.open[partition].close()
        del self.open[partition]
        return {**told_of, "partition": list(partition)}


def by_partition(
    table: pa.Table, partitions: int, text: Callable[[pa.Scalar], str | None]
) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """The rows of each partition, without the columns that name it; in the order of the table within each."""
    stored = table.select(range(partitions, table.num_columns))
    values = [table.column(at).combine_chunks() for at in range(partitions)]
    codes = np.zeros(table.num_rows, np.int64)
    for column in values:
        encoded = pc.dictionary_encode(_bits(column), null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes.astype(np.uint16 if codes.size and codes.max() < 2**16 else np.int64), kind="stable")
    edges = [0, *(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), table.num_rows]
    if len(edges) > 2:
        stored = stored.take(pa.array(order))
    for start, stop in itertools.pairwise(edges):
        yield tuple(text(column[order[start]]) for column in values), stored.slice(start, stop - start)


def _bits(column: pa.Array) -> pa.Array:
    """The column as what tells its values apart: 0.0 and -0.0 are equal, and two partitions."""
    return column.view(pa.int64() if column.type == pa.float64() else pa.int32()) if _is_float(column) else column


def _is_float(column: pa.Array) -> bool:
    return bool(pa.types.is_floating(column.type))


def runs(columns: Sequence[pa.Array], size: int) -> Iterator[tuple[int, int]]:
    """Where neighbouring rows are the same in all columns, as starts and stops."""
    if size == 0:
        return
    changes = np.zeros(size - 1, bool)
    for column in columns:
        codes = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        changes |= codes[1:] != codes[:-1]
    ends = [*(np.flatnonzero(changes) + 1).tolist(), size]
    yield from zip([0, *ends[:-1]], ends, strict=True)
