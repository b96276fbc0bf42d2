"""The files that one snapshot adds and removes, and how they follow from a `TableChange`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry

from partita.arrow.buffers import dense_array
from partita.formats.capabilities import Operation
from partita.formats.iceberg.delete_file_index import is_global_delete, shared_partition_groups
from partita.formats.iceberg.files import new_data_file, new_delete_file
from partita.formats.iceberg.isolation import isolation_level, may_match_read
from partita.formats.iceberg.manifests.data_files import referenced_path
from partita.formats.iceberg.snapshot_summary import SnapshotOperation
from partita.formats.iceberg.targets import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

    from partita.formats.iceberg.state import IcebergTableVersion
    from partita.formats.table_change import TableChange

ReadConflictCheck: TypeAlias = "Callable[[Table, list[ManifestEntry]], bool]"


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotChange:
    """The files that one snapshot adds and removes, with what the commit has to check.

    `operation` is the text of a `SnapshotOperation`. Added files carry their spec id; a file
    without one is of spec 0. `removed_data_files` and `removed_delete_files` are paths. `referenced_data_files` are the
    data files that added position-delete files reference. `read_conflict_check` tells whether files that a concurrent
    commit added or removed are among what the operation read; None if it read nothing, or if that doesn't matter.
    `summary_properties` go into the snapshot summary. `transaction` is an application id and its version: a version
    that the table has seen is not committed again. `affected_manifests` are the manifests of the base snapshot that
    list the removed and referenced data files; None if they are unknown and have to be searched for.
    """

    operation: str
    added_files: Sequence[DataFile] = ()
    removed_data_files: frozenset[str] = frozenset()
    removed_delete_files: frozenset[str] = frozenset()
    referenced_data_files: frozenset[str] = frozenset()
    read_conflict_check: ReadConflictCheck | None = None
    summary_properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    affected_manifests: frozenset[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the change adds and removes no file."""
        return not (self.added_files or self.removed_data_files or self.removed_delete_files)

    @property
    def added_data_files(self) -> list[DataFile]:
        """The data files among the added files."""
        return [file for file in self.added_files if file.content == DataFileContent.DATA]

    @property
    def added_delete_files(self) -> list[DataFile]:
        """The delete files among the added files."""
        return [file for file in self.added_files if file.content != DataFileContent.DATA]

    @property
    def required_data_files(self) -> frozenset[str]:
        """The data files that must still be in the table, because added delete files reference them."""
        paths = (referenced_path(file) for file in self.added_delete_files)
        return self.referenced_data_files | {path for path in paths if path is not None}

    @property
    def is_blind_append(self) -> bool:
        """Return whether no concurrent commit can conflict with the change."""
        return self.read_conflict_check is None and not (
            self.removed_data_files or self.removed_delete_files or self.required_data_files
        )


_SNAPSHOT_OPERATIONS = {
    Operation.APPEND: SnapshotOperation.APPEND,
    Operation.OVERWRITE: SnapshotOperation.OVERWRITE,
    Operation.OVERWRITE_PARTITIONS: SnapshotOperation.OVERWRITE,
    Operation.REPLACE_PARTITIONS: SnapshotOperation.OVERWRITE,
    Operation.REWRITE: SnapshotOperation.REPLACE,
}


def snapshot_change(table_version: IcebergTableVersion, change: TableChange) -> SnapshotChange:
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


def _snapshot_operation(change: TableChange) -> SnapshotOperation:
    operation = _SNAPSHOT_OPERATIONS.get(change.operation)
    if operation is None:
        return SnapshotOperation.ROW_DELTA if change.delete_files.num_rows else SnapshotOperation.OVERWRITE
    removes = len(change.removed_file_indices) or change.delete_files.num_rows
    return SnapshotOperation.OVERWRITE if operation is SnapshotOperation.APPEND and removes else operation


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
    is_remaining = ~np.isin(index["file"].to_numpy(), removed_file_indices)
    is_dangling[index["delete"].to_numpy()[is_remaining]] = False
    return frozenset(delete_entries["path"].filter(pa.array(is_dangling)).to_pylist())
