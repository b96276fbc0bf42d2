"""Files copied with some of their rows changed: what copy-on-write does after Spark has found the rows.

Spark says which rows of which files go or get new values. An executor then copies each such file row group by row
group in Arrow, and never turns the rows that stay into Spark's rows.
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
from partita.spark.scan import FILE, ROW
from partita.spark.schema import cast_sql, column_sql, has_columns, select_sql
from partita.spark.write import Sink, run_in_arrow, runs, task_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

GONE = "__partita_gone"
"""The column that is true where a row goes, and false where it gets the values beside it."""

_COUNTS = (pa.field("file", pa.int32()), pa.field("gone", pa.int64()), pa.field("changed", pa.int64()))
"""What is told of a file besides what was written in its place: its number, and how many rows of it changed."""


def leaving(rows: DataFrame) -> DataFrame:
    """Rows with positions, as changes: each of them goes."""
    return rows.select(FILE, ROW, F.lit(True).alias(GONE))


def changing(rows: DataFrame, columns: Iterable[tuple[str, str, DataType]]) -> DataFrame:
    """Changed rows as changes: those that go, and those that get new values in some columns.

    Each column is given by its name, and by its name and type in the files. `GONE` is null in none of the rows.
    """
    given = list(columns)
    place = rows.schema.fields[: len(_PLACE)]
    positions = [(name, f.dataType) for name, f in zip(_PLACE, place, strict=False)]
    is_renamed = any(name != stored for name, stored, _ in given)
    if not is_renamed and has_columns(rows.schema, [*positions, *((name, type_) for name, _, type_ in given)]):
        return rows
    values = [(cast_sql(column_sql(name), type_), stored) for name, stored, type_ in given]
    return select_sql(rows, [*((name, name) for name in _PLACE), *values])


_PLACE = (FILE, ROW, GONE)


class Copier(Protocol):
    """How a format's files are copied; it travels to the executors."""

    def pieces(self, file: int) -> Iterator[pa.RecordBatch]:
        """The rows of that file in order, under the stored names."""

    def partition(self, file: int) -> tuple[str | None, ...]:
        """The texts of that file's partition values."""

    def open(self, file: int, task: str) -> Sink:
        """A new file in the partition of that one."""


def rewrite(changes: DataFrame, copier: Copier, files: int, told: pa.Schema) -> pa.Table:
    """Copy each file that `changes` names; for each a row of `told`, with `file`, `gone` and `changed` after it.

    Where no row of a file was left nothing was written, and all of `told` is null. `changes` has `FILE`, `ROW`, `GONE`,
    and then the stored columns that get new values. A row that is named twice is a `ConstraintError`, and nothing that
    was written counts.
    """
    grouped = group_by_file(changes, files).sortWithinPartitions(FILE, ROW)

    def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
        for file, rows in by_file(batches):
            yield from _copy(copier, file, rows)

    return run_in_arrow(grouped, tell, pa.schema([*told, *_COUNTS]))


def group_by_file(rows: DataFrame, files: int) -> DataFrame:
    """Bring the rows of each file into one task, in at most as many tasks as there are files.

    The number of tasks is given, because Spark would put what is a few rows to it, and gigabytes of files to Partita,
    into one task; and it leaves a shuffle of cached rows in as many tasks as `spark.sql.shuffle.partitions` says.
    """
    tasks = max(1, min(files, int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)))
    return rows.repartition(tasks, F.col(FILE))


def by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The changes of each file, whole: a file's may go over the end of a batch."""
    held: list[pa.RecordBatch] = []
    current: int | None = None
    for batch in batches:
        for start, stop in runs([batch.column(FILE)], batch.num_rows):
            piece = batch.slice(start, stop - start)
            file = piece.column(FILE)[0].as_py()
            if held and file != current:
                yield _whole(held)
                held = []
            current = file
            held.append(piece)
    if held:
        yield _whole(held)


def _whole(held: Sequence[pa.RecordBatch]) -> tuple[int, pa.Table]:
    return held[0].column(FILE)[0].as_py(), pa.Table.from_batches(held).combine_chunks()


def matched_twice() -> ConstraintError:
    """A change that names a row twice, which a merge alone can do."""
    return ConstraintError("a row of the table matches more than one row of the source; nothing was changed")


def row_numbers(changes: pa.Table) -> np.ndarray:
    """The numbers of the rows that the sorted changes of a file name; one that is named twice is refused."""
    rows: np.ndarray = changes[ROW].to_numpy()
    if (rows[1:] == rows[:-1]).any():
        raise matched_twice()
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class _Changes:
    """The changes of one file, by the number of the row."""

    rows: np.ndarray
    gone: np.ndarray
    values: pa.Table

    @classmethod
    def of(cls, table: pa.Table) -> _Changes:
        rows = row_numbers(table)
        gone = table[GONE].to_numpy(zero_copy_only=False).astype(bool)
        return cls(rows, gone, table.drop_columns([FILE, ROW, GONE]))

    def applied(self, piece: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The piece of a file that begins with row `first`, after the changes."""
        start, stop = np.searchsorted(self.rows, [first, first + piece.num_rows])
        if start == stop:
            return piece
        at, gone = self.rows[start:stop] - first, self.gone[start:stop]
        if not gone.all() and self.values.num_columns:
            piece = _replaced(piece, at[~gone], self.values.slice(start, stop - start).filter(pa.array(~gone)))
        if not gone.any():
            return piece
        keep = np.ones(piece.num_rows, bool)
        keep[at[gone]] = False
        return piece.filter(pa.array(keep))


def _replaced(piece: pa.RecordBatch, at: np.ndarray, values: pa.Table) -> pa.RecordBatch:
    """The piece with other values in some columns of some rows."""
    order = np.arange(piece.num_rows)
    order[at] = piece.num_rows + np.arange(len(at))
    indices = pa.array(order)
    for name in values.column_names:
        place = piece.schema.get_field_index(name)
        old, field = piece.column(place), piece.schema.field(place)
        both = pa.chunked_array([old, *cast_array(values[name], field.type).chunks], field.type)
        piece = piece.set_column(place, field, both.take(indices).combine_chunks())
    return piece


def _copy(copier: Copier, file: int, table: pa.Table) -> Iterator[dict[str, object]]:
    changes = _Changes.of(table)
    gone = int(changes.gone.sum())
    counts: dict[str, object] = {"file": file, "gone": gone, "changed": len(changes.rows) - gone}
    sink: Sink | None = None
    first = 0
    written = 0
    try:
        for piece in copier.pieces(file):
            rows = changes.applied(piece, first)
            first += piece.num_rows
            if rows.num_rows == 0:
                continue
            if sink is None:
                sink = copier.open(file, task_name())
            sink.write(pa.Table.from_batches([rows]))
            written += rows.num_rows
        if first <= changes.rows[-1]:
            raise ConstraintError(f"file {file} has {first} rows, and row {changes.rows[-1]} of it was to change")
        if sink is None:
            yield counts
            return
        told = sink.close()
        sink = None
        yield {**told, **counts, "partition": list(copier.partition(file))}
    finally:
        if sink is not None:
            sink.abort()
