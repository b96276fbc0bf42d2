"""What others committed since, and whether it matters to a change.

| what another did since                            | matters to a change that            |
|---------------------------------------------------|-------------------------------------|
| took away a data file                             | removes it, or deletes rows of it   |
| added deletes to a data file                      | puts new rows in place of its rows  |
| added rows to what was read                       | `reads` them                        |
| took away, or deleted rows of what was read       | `reads` them, and adds rows         |
| dropped a column                                  | adds files that have it             |
| rolled the table back, or expired its base        | is not blind                        |
| evolved the partitioning, compacted other files   | none: a file keeps its spec         |

A delete file that both take away is gone either way: what it said is in the deletes that each put in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import VoidTransform

from partita.errors import Conflict, PartitionsError, TableError
from partita.formats.iceberg.ancestors import known_ancestors
from partita.formats.iceberg.transaction.manifests import is_live, listed_manifests
from partita.formats.iceberg.transaction.partitions import Partition, partition_of
from partita.formats.iceberg.transaction.planning import Entries, entries_of, located
from partita.formats.iceberg.transaction.pointers import may_point_into, referenced_path, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from partita.formats.iceberg.transaction.changes import Changes


def check_conflicts(entries: Entries, base: int | None, head: Snapshot | None, changes: Changes) -> None:
    """Refuse a change of `base` where what came up to `head` matters to it."""
    if changes.is_blind:
        return
    since = _since(entries.table.metadata, base, head)
    if since is None:
        raise Conflict(changes.operation, "rolled the table back, or expired the snapshot that this one was made from")
    _check_files(entries, base, head, changes)
    for snapshot in since:
        _check_snapshot(entries, snapshot, changes)


def check_schema(written: Schema, metadata: TableMetadata, changes: Changes) -> None:
    """Refuse files with a column that another has dropped since they were written."""
    known = set(metadata.schema().field_ids)
    gone = sorted(_columns(changes, written, metadata) - known)
    if gone:
        name = written.find_column_name(gone[0])
        raise Conflict(changes.operation, f"dropped column {name!r}, which the files of this one have")


def _since(metadata: TableMetadata, base: int | None, head: Snapshot | None) -> list[Snapshot] | None:
    """The snapshots from `base` up to `head`, oldest first; None where `head` doesn't come from `base`."""
    found: list[Snapshot] = []
    for snapshot in known_ancestors(metadata, head):
        if snapshot.snapshot_id == base:
            return found[::-1]
        found.append(snapshot)
    return None if base is not None else found[::-1]


def _check_files(entries: Entries, base: int | None, head: Snapshot | None, changes: Changes) -> None:
    """The files that the change takes away or points into are there, and deletes are of the partition of theirs."""
    needed = changes.targets | changes.removed
    found: dict[str, DataFile] = {}
    if needed:
        found = located(entries, head, needed, changes.added_deletes)
        missing = needed - set(found)
        if missing:
            _refuse_missing(entries, base, head, changes, missing)
        _check_deletes(changes, {path: partition_of(file) for path, file in found.items()})
    if changes.removed_deletes and (head is None or head.snapshot_id == base):
        deletes = [each for each in entries.manifests(head) if each.content == ManifestContent.DELETES]
        there = entries_of(entries, deletes, changes.removed_deletes, [*found.values(), *changes.added_deletes])
        missing = changes.removed_deletes - {entry.data_file.file_path for own in there.values() for entry in own}
        if missing:
            raise TableError(f"delete file {min(missing)} is not in the table, so it can't be removed")


def _refuse_missing(
    entries: Entries, base: int | None, head: Snapshot | None, changes: Changes, missing: frozenset[str]
) -> None:
    before = None if base is None else entries.table.metadata.snapshot_by_id(base)
    was_there = missing & set(located(entries, before, missing, ()))
    if not was_there or head is None:
        raise TableError(f"data file {min(missing)} is not in the table, so nothing of it can be removed")
    raise Conflict(changes.operation, f"took away a file that this one changes ({min(was_there)})", head.snapshot_id)


def _check_deletes(changes: Changes, partitions: dict[str, Partition]) -> None:
    """Readers disagree on a delete whose spec or partition isn't its file's, so none is ever written."""
    there = {partitions[path] for path in changes.targets}
    for file in changes.added_deletes:
        path = referenced_path(file)
        wanted = there if path is None else {partitions[path]}
        if partition_of(file) not in wanted:
            raise PartitionsError(
                f"delete file {file.file_path} is of spec {spec_of(file)} and partition {file.partition}, "
                f"but {path or 'no data file that it may point into'} is not"
            )
    of_deletes = {partition_of(file) for file in changes.added_deletes}
    for path in changes.referenced:
        if partitions[path] not in of_deletes:
            raise PartitionsError(f"no added delete file is of the spec and the partition of {path}")


def _check_snapshot(entries: Entries, snapshot: Snapshot, changes: Changes) -> None:
    made = list(_made_by(entries, snapshot))
    new_deletes = [entry for entry in made if is_live(entry) and entry.data_file.content != DataFileContent.DATA]
    adds = bool(changes.added_data)
    if adds and new_deletes:
        _check_touched(entries, snapshot, changes, new_deletes)
    moved_only = snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE
    if changes.reads is None or moved_only:
        return
    added = [e for e in made if e.status == ManifestEntryStatus.ADDED and e.data_file.content == DataFileContent.DATA]
    if added and changes.reads(entries.table, added):
        raise Conflict(changes.operation, "added rows to what this one read", snapshot.snapshot_id)
    taken = [entry for entry in made if not is_live(entry) and entry.data_file.content == DataFileContent.DATA]
    if adds and (taken or new_deletes) and changes.reads(entries.table, [*taken, *new_deletes]):
        raise Conflict(changes.operation, "took rows from what this one read", snapshot.snapshot_id)


def _check_touched(
    entries: Entries, snapshot: Snapshot, changes: Changes, new_deletes: Iterable[ManifestEntry]
) -> None:
    """New rows in place of rows that another deleted meanwhile would bring those back."""
    replaced = changes.removed | changes.targets
    if not replaced:
        return
    partitions = {
        path: partition_of(file) for path, file in located(entries, snapshot, replaced, changes.added_deletes).items()
    }
    specs = entries.table.metadata.specs()
    for entry in new_deletes:
        file = entry.data_file
        # An equality delete of an unpartitioned spec is of all partitions (specification, "Scan Planning").
        everywhere = file.content == DataFileContent.EQUALITY_DELETES and _is_everywhere(specs[spec_of(file)])
        for path, partition in partitions.items():
            if (everywhere or partition == partition_of(file)) and may_point_into(file, path):
                raise Conflict(
                    changes.operation, f"deleted rows of a file that this one changes ({path})", snapshot.snapshot_id
                )


def _is_everywhere(spec: PartitionSpec) -> bool:
    """Whether a spec has but one partition: version 1 keeps dropped fields as void ones."""
    return all(isinstance(field.transform, VoidTransform) for field in spec.fields)


def _made_by(entries: Entries, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    """The entries of what a snapshot itself added and deleted."""
    for manifest in listed_manifests(entries.table.io, snapshot):
        is_own = manifest.added_snapshot_id == snapshot.snapshot_id
        # Counts that the list doesn't say may be any.
        if is_own and (manifest.added_files_count != 0 or manifest.deleted_files_count != 0):
            for entry in entries.of(manifest):
                if entry.snapshot_id == snapshot.snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                    yield entry


def _columns(changes: Changes, written: Schema, metadata: TableMetadata) -> set[int]:
    """The ids of the columns that added data files have; those of the whole schema where one doesn't tell."""
    specs = metadata.specs()
    ids: set[int] = set()
    for file in changes.added_data:
        told = set(file.column_sizes or {}) | set(file.value_counts or {})
        ids |= told or set(written.field_ids)
        ids |= {field.source_id for field in specs[spec_of(file)].fields}
    return ids & set(written.field_ids)
