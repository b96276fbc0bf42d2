"""The change that one operation commits to a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from partita.algebra.predicate import Predicate
    from partita.formats.capabilities import Operation
    from partita.formats.partition_selection import PartitionSelection

WRITTEN_FILE_SCHEMA = pa.schema([("path", pa.string()), ("partition", pa.list_(pa.string())), ("rows", pa.int64()),
                  ("bytes", pa.int64()), ("modified", pa.int64()), ("details", pa.string())])  # fmt: skip
"""One row per file that an executor wrote; `details` is JSON that the format's commit reads."""

NO_FILE_INDICES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TableChange:
    """The files that an operation adds and removes, what it read, and what it counted.

    `added_files` and `delete_files` are rows of `WRITTEN_FILE_SCHEMA`: new data files, and files that mark rows of
    remaining data files as deleted. `removed_file_indices` and `read_file_indices` are file indices of the table
    version that the change is based on, and `replaced_delete_files` paths of delete files that it has. `read_scope` is
    what the operation looked at: nothing (an append), a predicate, or whole partitions. `transaction` is an application
    and its own number: a number that the table has already is not committed again.

    `TableRows.update_rows` and `delete_rows` return a change without scope; the operation completes it.
    """

    operation: Operation
    added_files: pa.Table = field(default_factory=WRITTEN_FILE_SCHEMA.empty_table)
    removed_file_indices: np.ndarray = field(default_factory=lambda: NO_FILE_INDICES)
    read_scope: Predicate | PartitionSelection | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    read_file_indices: np.ndarray = field(default_factory=lambda: NO_FILE_INDICES)
    delete_files: pa.Table = field(default_factory=WRITTEN_FILE_SCHEMA.empty_table)
    replaced_delete_files: tuple[str, ...] = ()
    deleted_row_count: int = 0
    updated_row_count: int = 0
    inserted_row_count: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the change adds and removes no file and records no transaction."""
        return (
            not (self.added_files.num_rows or self.delete_files.num_rows or len(self.removed_file_indices))
            and self.transaction is None
        )


def total(column: pa.ChunkedArray | pa.Array) -> int:
    """Return the sum of an integer column; 0 if it is empty."""
    return int(pc.sum(column).as_py() or 0)


def written_partition_texts(written_files: pa.Table, field_count: int) -> list[pa.Array]:
    """Return the partition texts of written files, one array per partition field."""
    flat = written_files["partition"].combine_chunks().flatten()
    return [flat.take(pa.array(np.arange(i, len(flat), field_count))) for i in range(field_count)]


def spec_id_column(spec_id: int, row_count: int) -> pa.Array:
    """Return the column `spec_id` of `row_count` partitions of one spec."""
    return pa.array(np.full(row_count, spec_id, np.int32))
