"""The tasks of a scan: leaves and groups of their fragments, packed by size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.errors import SchemaError, TableError
from partita.formats.lance.leaf_dataset import LeafDataset, fragments_of, row_count_and_bytes, translate_lance_errors
from partita.formats.lance.search import VectorQuery
from partita.formats.lance.state import LanceTableVersion

if TYPE_CHECKING:
    import numpy as np

MAX_TASK_BYTES = 128 * 2**20
"""Bytes that a task reads at most, unless a single fragment is larger."""
MIN_TASK_BYTES = 2 * 2**20
"""Bytes below which another task is not worth its start."""
BATCH_ROWS = 65_536
"""Rows of the batches that are passed to Spark."""


@dataclass(frozen=True, slots=True)
class LeafSplit:
    """A leaf at a version, or some of its fragments; `leaf_index` is its index among the scanned leaves."""

    leaf: LeafDataset
    version: int
    leaf_index: int
    byte_size: int
    where: str | None = None
    fragment_ids: tuple[int, ...] | None = None


def scan_tasks(leaves: Sequence[LeafSplit], task_count: int) -> list[list[LeafSplit]]:
    """Pack leaves into tasks; a leaf that is too large for one task is split."""
    max_bytes = _max_task_bytes(leaves, task_count)
    splits = [
        leaf_split
        for leaf in leaves
        for leaf_split in (split_by_fragments(leaf, max_bytes) if _is_large(leaf, max_bytes) else [leaf])
    ]
    return pack_into_tasks(splits, max_bytes)


def leaf_scan_tasks(leaves: Sequence[LeafSplit], task_count: int) -> list[list[LeafSplit]]:
    """Pack whole leaves into tasks."""
    return pack_into_tasks(leaves, _max_task_bytes(leaves, task_count))


def leaf_splits(
    table_version: LanceTableVersion,
    file_indices: np.ndarray,
    versions: Sequence[int],
    filters: Sequence[str | None],
) -> list[LeafSplit]:
    """Return a split for each leaf at a version, without those that have no row that matches the filter."""
    leaves = [table_version.leaf(index) for index in file_indices.tolist()]
    sizes = table_version.files["bytes"].take(pa.array(file_indices)).to_pylist()
    return [
        LeafSplit(leaf, version, leaf_index, size or 0, where)
        for leaf_index, (leaf, version, size, where) in enumerate(zip(leaves, versions, sizes, filters, strict=True))
        if where != "FALSE"
    ]


def _max_task_bytes(splits: Sequence[LeafSplit], task_count: int) -> int:
    """Return the size of a task: small enough for one task to read, and for enough tasks to use all cores."""
    return min(
        MAX_TASK_BYTES, max(MIN_TASK_BYTES, sum(leaf_split.byte_size for leaf_split in splits) // max(1, task_count))
    )


def _is_large(leaf_split: LeafSplit, max_bytes: int) -> bool:
    return leaf_split.byte_size == 0 or leaf_split.byte_size > max_bytes


def split_by_fragments(leaf_split: LeafSplit, max_bytes: int) -> Iterator[LeafSplit]:
    """Split a leaf into groups of its fragments; a single fragment is never split."""
    fragment_ids: list[int] = []
    group_bytes = 0
    for fragment in fragments_of(leaf_split.leaf.open(leaf_split.version)):
        _, size = row_count_and_bytes([fragment])
        if fragment_ids and group_bytes + size > max_bytes:
            yield replace(leaf_split, byte_size=group_bytes, fragment_ids=tuple(fragment_ids))
            fragment_ids, group_bytes = [], 0
        fragment_ids.append(fragment.id)
        group_bytes += size
    if fragment_ids:
        yield replace(leaf_split, byte_size=group_bytes, fragment_ids=tuple(fragment_ids))


def pack_into_tasks(splits: Sequence[LeafSplit], max_bytes: int) -> list[list[LeafSplit]]:
    """Pack splits into tasks of about `max_bytes`: from the largest on, each goes to the task with the least bytes."""
    total_bytes = sum(leaf_split.byte_size for leaf_split in splits)
    count = max(-(-total_bytes // max_bytes), -(-len(splits) // _MAX_LEAVES_PER_TASK), 1)
    tasks: list[list[LeafSplit]] = [[] for _ in range(min(count, len(splits)))]
    task_sizes = [(0, index) for index in range(len(tasks))]
    for leaf_split in sorted(splits, key=lambda s: -s.byte_size):
        size, index = heappop(task_sizes)
        tasks[index].append(leaf_split)
        # Opening a leaf takes time too, however small it is.
        heappush(task_sizes, (size + leaf_split.byte_size + _LEAF_OPEN_COST_BYTES, index))
    return tasks


_MAX_LEAVES_PER_TASK = 1000
"""Maximum number of leaves of one task."""
_LEAF_OPEN_COST_BYTES = 64 * 2**10
"""The cost of opening a leaf, as the bytes that could be read meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class LanceReader:
    """Reads tasks on executors: stored columns from Lance, and those that leaves don't store from their names.

    `schema` has the Arrow types that Spark takes; with `positions` its last two columns are the index of the leaf and
    the address of the row. `omitted_values` has a row for each leaf, and the columns that leaves don't store.
    """

    tasks: list[list[LeafSplit]]
    stored_columns: tuple[str, ...]
    schema: pa.Schema
    omitted_values: pa.Table
    positions: bool = False

    def read(self, task: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of a task."""
        for leaf_split in self.tasks[task]:
            yield from self._read_split(leaf_split)

    def _read_split(self, leaf_split: LeafSplit) -> Iterator[pa.RecordBatch]:
        with translate_lance_errors(leaf_split.leaf.location):
            dataset = leaf_split.leaf.open(leaf_split.version)
            # A leaf may lack a column that was added later; the column is null in it, and Lance can't filter by it.
            existing_columns = set(dataset.schema.names)
            columns = [name for name in self.stored_columns if name in existing_columns]
            where = leaf_split.where if len(columns) == len(self.stored_columns) else None
            fragments = dataset.get_fragments() if leaf_split.fragment_ids is not None else None
            scanner = dataset.scanner(
                columns=columns, filter=where, batch_size=BATCH_ROWS, scan_in_order=False,
                fragments=fragments and [f for f in fragments if f.fragment_id in (leaf_split.fragment_ids or ())],
                with_row_address=self.positions or not columns,
            )  # fmt: skip
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield self._complete_batch(batch, leaf_split.leaf_index)

    def _complete_batch(self, batch: pa.RecordBatch, leaf_index: int) -> pa.RecordBatch:
        fields = list(self.schema)
        columns = []
        for f in fields[:-2] if self.positions else fields:
            if f.name in self.omitted_values.column_names:
                columns.append(pa.repeat(self.omitted_values[f.name][leaf_index], batch.num_rows).cast(f.type))
            elif f.name in batch.schema.names:
                columns.append(_cast_column(batch.column(f.name), f))
            elif f.nullable:
                columns.append(pa.nulls(batch.num_rows, f.type))
            else:
                raise TableError(f"a leaf lacks the column {f.name!r}, which may not be null; repair() names the leaf")
        if self.positions:
            columns.append(pa.repeat(pa.scalar(leaf_index, fields[-2].type), batch.num_rows))
            columns.append(batch.column("_rowaddr").cast(fields[-1].type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _cast_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """Cast a column to its type in Spark; raise `SchemaError` for values that would lose precision."""
    try:
        if column.type == pa.time64("ns"):
            column = column.cast(pa.time64("us"))
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} is {column.type}, and Spark has no type that holds it: {error}; leave the column "
            "out, or read the leaf with Lance"
        ) from error


@dataclass(frozen=True, slots=True, eq=False)
class SearchReader:
    """Searches the leaves of tasks on executors."""

    tasks: list[list[LeafSplit]]
    query: VectorQuery
    schema: pa.Schema
    omitted_values: pa.Table = field(default_factory=lambda: pa.table({}))

    def read(self, task: int) -> Iterator[pa.RecordBatch]:
        """Return the nearest rows of each leaf of a task."""
        for leaf_split in self.tasks[task]:
            rows = self.query.nearest_in_leaf(leaf_split.leaf, leaf_split.version, leaf_split.where)
            columns = [
                pa.repeat(self.omitted_values[f.name][leaf_split.leaf_index], rows.num_rows).cast(f.type)
                if f.name in self.omitted_values.column_names
                else rows[f.name].combine_chunks().cast(f.type)
                for f in self.schema
            ]
            if rows.num_rows:
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
