"""Commit a `TableChange` to an Iceberg table as one snapshot."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import dense_array
from partita.errors import CommitConflict
from partita.formats.iceberg.catalogs import translate_catalog_errors
from partita.formats.iceberg.delete_file_index import is_global_delete, shared_partition_groups
from partita.formats.iceberg.files import new_data_file, new_delete_file
from partita.formats.iceberg.history import NO_SNAPSHOT
from partita.formats.iceberg.isolation import isolation_level, may_match_read
from partita.formats.iceberg.state import IcebergTableVersion
from partita.formats.iceberg.targets import data_folder
from partita.formats.iceberg.transaction import SnapshotChange, commit_snapshot
from partita.formats.table_change import TableChange

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from partita.formats.iceberg.transaction.change import ReadConflictCheck

_SNAPSHOT_OPERATIONS = {
    "append": "append", "overwrite": "overwrite", "overwrite_partitions": "overwrite",
    "replace_partitions": "overwrite", "rewrite": "replace",
}  # fmt: skip


def commit_change(table_version: IcebergTableVersion, change: TableChange) -> int:
    """Commit a change on top of a snapshot, and return the id of the new snapshot."""
    snapshot_change = _snapshot_change(table_version, change)
    base = None if table_version.version == NO_SNAPSHOT else table_version.version
    try:
        with translate_catalog_errors(table_version.uri):
            return commit_snapshot(copy.copy(table_version.table), base, snapshot_change)
    except CommitConflict as conflict:
        # The error names the operation that the caller asked for, not the kind of snapshot.
        raise CommitConflict(change.operation, conflict.reason, conflict.version) from conflict


def _snapshot_change(table_version: IcebergTableVersion, change: TableChange) -> SnapshotChange:
    """Describe a change by the paths and manifest entries that a commit can check against other snapshots."""
    entries = table_version.data_entries
    paths = dense_array(entries["path"])
    referenced_indices = _referenced_file_indices(change.delete_files)
    affected_indices = pa.array([*change.removed_file_indices.tolist(), *referenced_indices], pa.int64())
    return SnapshotChange(
        _snapshot_operation(change),
        _added_files(table_version, change),
        frozenset(paths.take(pa.array(change.removed_file_indices)).to_pylist()),
        frozenset(change.replaced_delete_files) | _dangling_delete_files(table_version, change.removed_file_indices),
        frozenset(paths[index].as_py() for index in referenced_indices),
        _read_conflict_check(table_version, change),
        {key: str(value) for key, value in change.parameters.items()},
        change.transaction,
        frozenset(pc.unique(entries["manifest"].take(affected_indices)).to_pylist()),
    )


def _snapshot_operation(change: TableChange) -> str:
    operation = _SNAPSHOT_OPERATIONS.get(change.operation)
    if operation is None:
        return "row_delta" if change.delete_files.num_rows else "overwrite"
    removes = len(change.removed_file_indices) or change.delete_files.num_rows
    return "overwrite" if operation == "append" and removes else operation


def _added_files(table_version: IcebergTableVersion, change: TableChange) -> list[DataFile]:
    """Return the new data files in the current spec, and the new delete files in the spec of their data files."""
    folder = data_folder(table_version.table)
    files = [new_data_file(file, folder, table_version.spec) for file in change.added_files.to_pylist()]
    for file in change.delete_files.to_pylist():
        data_file_index = json.loads(file["details"])["data_files"][0]
        spec = table_version.spec_history.spec(table_version.data_entries["spec_id"][data_file_index].as_py())
        files.append(new_delete_file(file, folder, spec))
    return files


def _referenced_file_indices(delete_files: pa.Table) -> set[int]:
    """Return the indices of the data files that new delete files refer to."""
    return {index for details in delete_files["details"].to_pylist() for index in json.loads(details)["data_files"]}


def _read_conflict_check(table_version: IcebergTableVersion, change: TableChange) -> ReadConflictCheck | None:
    """Return a check whether files that others added match what was read; None if the change tolerates them."""
    if change.read_scope is None or isolation_level(table_version, change.operation) == "snapshot":
        return None
    return partial(may_match_read, table_version, read_scope=change.read_scope)


def _dangling_delete_files(table_version: IcebergTableVersion, removed_file_indices: np.ndarray) -> frozenset[str]:
    """Return the paths of delete files that apply to no data file once some data files are removed.

    A partial version decides only about partitions of the removed files, as it has all files of these.
    """
    delete_entries = table_version.delete_entries
    if not len(removed_file_indices) or not delete_entries.num_rows:
        return frozenset()
    file_count = table_version.files.num_rows
    file_indices, is_dangling = np.arange(file_count), np.ones(delete_entries.num_rows, bool)
    if table_version.is_partial:
        groups = shared_partition_groups(table_version.data_entries, delete_entries)
        is_affected = np.isin(groups, groups[removed_file_indices])
        file_indices = np.flatnonzero(is_affected[:file_count])
        is_dangling = is_affected[file_count:] & ~is_global_delete(delete_entries, table_version.spec_history)
    index = table_version.delete_index(file_indices)
    remains = ~np.isin(index["file"].to_numpy(), removed_file_indices)
    is_dangling[index["delete"].to_numpy()[remains]] = False
    return frozenset(delete_entries["path"].filter(pa.array(is_dangling)).to_pylist())
