"""Whether files that others wrote or deleted conflicts with a commit that is about to be made.

| since the table was read                                   | conflicts with a commit that             |
|------------------------------------------------------------|------------------------------------------|
| a file is gone, or was written anew                        | removes it, or read it                   |
| a file was added in a partition, or where a predicate may  | replaces the partition, or the rows that |
| match                                                      | the predicate matches                    |

It doesn't matter who wrote: the listing tells. Two appends never conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partita.algebra.predicate import Predicate
from partita.errors import CommitConflict
from partita.formats.file_plan import prune_files
from partita.formats.partition_selection import PartitionSelection
from partita.formats.table_change import TableChange

if TYPE_CHECKING:
    from partita.formats.parquet.state import ParquetTableVersion


def needs_check(change: TableChange) -> bool:
    """Return whether a change depends on what the table had: an append doesn't."""
    return change.read_scope is not None or bool(len(change.removed_file_indices) + len(change.read_file_indices))


def check_conflict(base: ParquetTableVersion, now: ParquetTableVersion, change: TableChange) -> None:
    """Raise `CommitConflict` if the folder, as it is now, contradicts a change of it as it was."""
    if base.data_files == now.data_files:
        return
    if (base.schema, base.spec) != (now.schema, now.spec):
        raise CommitConflict(change.operation, "changed the columns of the table by the files that it added or removed")
    current_files = set(now.data_files)
    for index in np.concatenate([change.removed_file_indices, change.read_file_indices]).tolist():
        if base.data_files[index] not in current_files:
            raise CommitConflict(change.operation, f"removed or replaced {base.data_files[index].path}")
    base_files = set(base.data_files)
    for index in () if change.read_scope is None else _matching_indices(now, change.read_scope).tolist():
        if now.data_files[index] not in base_files:
            raise CommitConflict(change.operation, f"added {now.data_files[index].path}")


def _matching_indices(table_version: ParquetTableVersion, read_scope: Predicate | PartitionSelection) -> np.ndarray:
    if isinstance(read_scope, Predicate):
        may_match = prune_files(table_version.without_statistics(), read_scope).may_match
        return np.flatnonzero(may_match.to_numpy(zero_copy_only=False))
    whole, part = read_scope.matching_indices(table_version.spec_history, table_version.partitions)
    return np.concatenate([whole, part])
