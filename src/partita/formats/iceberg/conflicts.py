"""Conflicts: whether what concurrent commits did since the base snapshot matters to a change.

| a concurrent commit                              | conflicts with a change that              |
|--------------------------------------------------|-------------------------------------------|
| removed a data file                              | removes it, or deletes rows of it         |
| added deletes to a data file                     | replaces rows of that file by new rows    |
| added rows to what was read                      | has a `read_conflict_check`               |
| removed files, or deleted rows, of what was read | has a `read_conflict_check` and adds rows |
| dropped a column                                 | adds files that have the column           |
| rolled the table back, or expired the base       | is not a blind append                     |
| evolved the partitioning, compacted other files  | none: a file keeps its spec               |

A delete file that both remove is no conflict: its deletes are in the delete files that each of them puts in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import VoidTransform

from partita.errors import CommitConflict, PartitionsError, TableError
from partita.formats.iceberg.history import snapshots_since
from partita.formats.iceberg.manifests.data_files import (
    PartitionIdentity,
    may_reference,
    partition_identity,
    referenced_path,
    spec_id_of,
)
from partita.formats.iceberg.manifests.entries import is_live_entry, read_snapshot_manifests
from partita.formats.iceberg.manifests.lookup import ManifestLookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from partita.formats.iceberg.snapshot_change import SnapshotChange


def check_conflicts(
    lookup: ManifestLookup,
    base_snapshot_id: int | None,
    current_snapshot: Snapshot | None,
    change: SnapshotChange,
) -> None:
    """Raise `CommitConflict` if a snapshot between the base and the current one matters to the change."""
    if change.is_blind_append:
        return
    concurrent_snapshots, is_ancestor = snapshots_since(lookup.table.metadata, current_snapshot, base_snapshot_id)
    if base_snapshot_id is not None and not is_ancestor:
        raise CommitConflict(
            change.operation, "rolled the table back, or expired the snapshot that this change is based on"
        )
    _check_files_exist(lookup, base_snapshot_id, current_snapshot, change)
    for snapshot in concurrent_snapshots:
        _check_concurrent_snapshot(lookup, snapshot, change)


def check_schema_conflict(written_schema: Schema, metadata: TableMetadata, change: SnapshotChange) -> None:
    """Raise `CommitConflict` if added files have a column that was dropped after they were written."""
    current_ids = set(metadata.schema().field_ids)
    dropped_ids = sorted(_written_column_ids(change, written_schema, metadata) - current_ids)
    if dropped_ids:
        name = written_schema.find_column_name(dropped_ids[0])
        raise CommitConflict(change.operation, f"dropped column {name!r}, which the files of this change have")


def _check_files_exist(
    lookup: ManifestLookup,
    base_snapshot_id: int | None,
    current_snapshot: Snapshot | None,
    change: SnapshotChange,
) -> None:
    """Check that removed and referenced files exist, and that delete files are of their data files' partitions."""
    required_files = change.required_data_files | change.removed_data_files
    files: dict[str, DataFile] = {}
    if required_files:
        files = lookup.find_data_files(current_snapshot, required_files, change.added_delete_files)
        missing = required_files - set(files)
        if missing:
            _raise_missing_files(lookup, base_snapshot_id, current_snapshot, change, missing)
        _check_delete_partitions(change, {path: partition_identity(file) for path, file in files.items()})
    if change.removed_delete_files and (current_snapshot is None or current_snapshot.snapshot_id == base_snapshot_id):
        delete_manifests = [
            manifest
            for manifest in lookup.live_manifests(current_snapshot)
            if manifest.content == ManifestContent.DELETES
        ]
        entries_by_manifest = lookup.find_entries(
            delete_manifests, change.removed_delete_files, [*files.values(), *change.added_delete_files]
        )
        missing = change.removed_delete_files - {
            entry.data_file.file_path for entries in entries_by_manifest.values() for entry in entries
        }
        if missing:
            raise TableError(f"delete file {min(missing)} is not in the table, so it can't be removed")


def _raise_missing_files(
    lookup: ManifestLookup,
    base_snapshot_id: int | None,
    current_snapshot: Snapshot | None,
    change: SnapshotChange,
    missing: frozenset[str],
) -> None:
    base_snapshot = None if base_snapshot_id is None else lookup.table.metadata.snapshot_by_id(base_snapshot_id)
    removed_since = missing & set(lookup.find_data_files(base_snapshot, missing, ()))
    if not removed_since or current_snapshot is None:
        raise TableError(f"data file {min(missing)} is not in the table, so nothing of it can be removed")
    raise CommitConflict(
        change.operation, f"removed a file that this change needs ({min(removed_since)})", current_snapshot.snapshot_id
    )


def _check_delete_partitions(change: SnapshotChange, partitions: dict[str, PartitionIdentity]) -> None:
    """Raise `PartitionsError` for a delete file of another partition than its data file: readers disagree on it."""
    required_partitions = {partitions[path] for path in change.required_data_files}
    for file in change.added_delete_files:
        path = referenced_path(file)
        allowed_partitions = required_partitions if path is None else {partitions[path]}
        if partition_identity(file) not in allowed_partitions:
            raise PartitionsError(
                f"delete file {file.file_path} is of spec {spec_id_of(file)} and partition {file.partition}, "
                f"but {path or 'no data file that it may point into'} is not"
            )
    delete_partitions = {partition_identity(file) for file in change.added_delete_files}
    for path in change.referenced_data_files:
        if partitions[path] not in delete_partitions:
            raise PartitionsError(f"no added delete file is of the spec and the partition of {path}")


def _check_concurrent_snapshot(lookup: ManifestLookup, snapshot: Snapshot, change: SnapshotChange) -> None:
    changed_entries = list(_entries_changed_by(lookup, snapshot))
    new_deletes = [
        entry for entry in changed_entries if is_live_entry(entry) and entry.data_file.content != DataFileContent.DATA
    ]
    adds_rows = bool(change.added_data_files)
    if adds_rows and new_deletes:
        _check_concurrent_deletes(lookup, snapshot, change, new_deletes)
    only_moves_rows = snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE
    if change.read_conflict_check is None or only_moves_rows:
        return
    added_entries = [
        entry
        for entry in changed_entries
        if entry.status == ManifestEntryStatus.ADDED and entry.data_file.content == DataFileContent.DATA
    ]
    if added_entries and change.read_conflict_check(lookup.table, added_entries):
        raise CommitConflict(change.operation, "added rows that match what this operation read", snapshot.snapshot_id)
    removed_entries = [
        entry
        for entry in changed_entries
        if not is_live_entry(entry) and entry.data_file.content == DataFileContent.DATA
    ]
    if (
        adds_rows
        and (removed_entries or new_deletes)
        and change.read_conflict_check(lookup.table, [*removed_entries, *new_deletes])
    ):
        raise CommitConflict(change.operation, "removed rows that match what this operation read", snapshot.snapshot_id)


def _check_concurrent_deletes(
    lookup: ManifestLookup, snapshot: Snapshot, change: SnapshotChange, new_deletes: Iterable[ManifestEntry]
) -> None:
    """Raise `CommitConflict` if the change would bring back rows that a concurrent commit deleted."""
    replaced_files = change.removed_data_files | change.required_data_files
    if not replaced_files:
        return
    partitions = {
        path: partition_identity(file)
        for path, file in lookup.find_data_files(snapshot, replaced_files, change.added_delete_files).items()
    }
    specs = lookup.table.metadata.specs()
    for entry in new_deletes:
        file = entry.data_file
        # An equality delete of an unpartitioned spec applies to all partitions (specification, "Scan Planning").
        is_global = file.content == DataFileContent.EQUALITY_DELETES and _is_unpartitioned(specs[spec_id_of(file)])
        for path, partition in partitions.items():
            if (is_global or partition == partition_identity(file)) and may_reference(file, path):
                raise CommitConflict(
                    change.operation, f"deleted rows of a file that this change rewrites ({path})", snapshot.snapshot_id
                )


def _is_unpartitioned(spec: PartitionSpec) -> bool:
    """Return whether a spec has only one partition: version 1 keeps dropped fields as void fields."""
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def _entries_changed_by(lookup: ManifestLookup, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    """Yield the entries of files that the snapshot itself added or deleted."""
    for manifest in read_snapshot_manifests(lookup.table.io, snapshot):
        is_added = manifest.added_snapshot_id == snapshot.snapshot_id
        # Counts that the manifest list lacks are None, and may be any number.
        if is_added and (manifest.added_files_count != 0 or manifest.deleted_files_count != 0):
            for entry in lookup.entries(manifest):
                if entry.snapshot_id == snapshot.snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                    yield entry


def _written_column_ids(change: SnapshotChange, written_schema: Schema, metadata: TableMetadata) -> set[int]:
    """Return the column ids of the added data files; all ids of the schema for a file whose metrics name none."""
    specs = metadata.specs()
    column_ids: set[int] = set()
    for file in change.added_data_files:
        metric_ids = set(file.column_sizes or {}) | set(file.value_counts or {})
        column_ids |= metric_ids or set(written_schema.field_ids)
        column_ids |= {field.source_id for field in specs[spec_id_of(file)].fields}
    return column_ids & set(written_schema.field_ids)
