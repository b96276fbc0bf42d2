"""Maintenance: expiring old snapshots and removing orphan files.

Expiry first commits metadata without the snapshots and then deletes the files that only they reached, so a kill in
between leaves orphan files. Orphan files are files that no snapshot references: leftovers of such kills, of killed
commits, and of commits that lost a race.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableRequirement,
    TableUpdate,
)

from partita.errors import CommitConflict, TableError
from partita.formats.containment import (
    REASON_OUTSIDE_FOLDER,
    REASON_UNKNOWN_FOLDER,
    REASON_UNKNOWN_NAME,
    DeletedFiles,
    FolderListing,
)
from partita.formats.iceberg.catalogs import refresh_table, table_name, translate_metadata_errors
from partita.formats.iceberg.commit import CommitRetries
from partita.formats.iceberg.history import snapshot_ancestors
from partita.formats.iceberg.locations import (
    check_owned_folder,
    has_table_id_prefix,
    is_statistics_file_name,
    is_table_file_name,
    is_writer_file_name,
    is_writer_folder,
    list_files,
    owned_property_folders,
    remove_files_in_folder,
)
from partita.formats.iceberg.manifests.entries import is_live_entry, manifests_by_path, read_manifest_entries
from partita.formats.iceberg.other_tables import FileClaims, add_catalog_claims, claims_in_folder
from partita.formats.iceberg.validation import check_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from partita.formats.containment import FolderLocation


def expire_snapshots(
    table: Table, older_than: datetime | None = None, retain_last: int | None = None, opened_location: str | None = None
) -> DeletedFiles:
    """Expire snapshots older than a time, delete the files that only they reached, and return the paths of those files.

    The last `retain_last` snapshots of each branch stay, and so does whatever a branch or a tag retains. Without a time
    and a number, the table's `history.expire.*` properties apply. `opened_location` is the folder that the user opened
    or created the table in.
    """
    retries = CommitRetries(table.metadata)
    with translate_metadata_errors(table):
        while True:
            metadata = table.metadata
            check_gc_enabled(metadata, table_name(table))
            table_folder = check_owned_folder(table, opened_location)
            retained_refs, retained_ids = _retained_refs_and_snapshots(
                metadata, _expiry_timestamp(metadata, older_than), _min_snapshots_to_keep(metadata, retain_last)
            )
            expired_snapshots = [
                snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in retained_ids
            ]
            if not expired_snapshots and retained_refs == set(metadata.refs):
                return DeletedFiles()
            if _commit_expiry(table, retained_refs, expired_snapshots):
                return _delete_unreachable_files(table, metadata, expired_snapshots, table_folder)
            if not retries.wait():
                raise CommitConflict("expire_snapshots", f"was first in all of {retries.attempts} attempts")
            refresh_table(table)


def check_gc_enabled(metadata: TableMetadata, name: str) -> None:
    """Raise `TableError` for a table whose files other tables may share (`gc.enabled` is false)."""
    check_writable(metadata)
    if metadata.properties.get("gc.enabled", "true").casefold() == "false":
        raise TableError(f"files of {name} may be shared with other tables (gc.enabled is false), so none are deleted")


def _expiry_timestamp(metadata: TableMetadata, older_than: datetime | None) -> int:
    """Return the time, in milliseconds since 1970, before which snapshots expire."""
    if older_than is not None:
        if older_than.tzinfo is None:
            raise TableError("older_than needs a time zone; give datetime.now(UTC) - timedelta(...)")
        return int(older_than.timestamp() * 1000)
    max_age = metadata.properties.get(TableProperties.MAX_SNAPSHOT_AGE_MS, TableProperties.MAX_SNAPSHOT_AGE_MS_DEFAULT)
    return _now_ms() - int(max_age)


def _min_snapshots_to_keep(metadata: TableMetadata, retain_last: int | None) -> int:
    default = TableProperties.MIN_SNAPSHOTS_TO_KEEP_DEFAULT
    count = (
        metadata.properties.get(TableProperties.MIN_SNAPSHOTS_TO_KEEP, default) if retain_last is None else retain_last
    )
    if int(count) < 1:
        raise TableError(f"a branch keeps at least its last snapshot; retain_last can't be {count}")
    return int(count)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _retained_refs_and_snapshots(
    metadata: TableMetadata, expiry_timestamp: int, min_snapshots: int
) -> tuple[set[str], set[int]]:
    """Return the names of the refs and the ids of the snapshots that are retained."""
    refs = {name for name, ref in metadata.refs.items() if _is_ref_retained(metadata, name, ref)}
    retained_ids: set[int] = set()
    for name in refs:
        retained_ids |= _retained_by_ref(metadata, metadata.refs[name], expiry_timestamp, min_snapshots)
    reachable_ids = {
        snapshot.snapshot_id for ref in metadata.refs.values() for snapshot in _ref_ancestors(metadata, ref)
    }
    # A young snapshot that no ref reaches may be staged for a concurrent commit.
    retained_ids |= {
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in reachable_ids and snapshot.timestamp_ms >= expiry_timestamp
    }
    return refs, retained_ids


def _is_ref_retained(metadata: TableMetadata, name: str, ref: SnapshotRef) -> bool:
    if name == MAIN_BRANCH:
        return True
    snapshot = metadata.snapshot_by_id(ref.snapshot_id)
    if snapshot is None:
        return False
    max_age = ref.max_ref_age_ms or metadata.properties.get("history.expire.max-ref-age-ms")
    return max_age is None or _now_ms() - snapshot.timestamp_ms <= int(max_age)


def _retained_by_ref(metadata: TableMetadata, ref: SnapshotRef, expiry_timestamp: int, min_snapshots: int) -> set[int]:
    if ref.snapshot_ref_type == SnapshotRefType.TAG:
        return {ref.snapshot_id}
    if ref.max_snapshot_age_ms is not None:
        expiry_timestamp = _now_ms() - ref.max_snapshot_age_ms
    if ref.min_snapshots_to_keep is not None:
        min_snapshots = ref.min_snapshots_to_keep
    ancestors = _ref_ancestors(metadata, ref)
    retained_ids: set[int] = set()
    for index, snapshot in enumerate(ancestors):
        if index >= min_snapshots and snapshot.timestamp_ms < expiry_timestamp:
            break
        retained_ids.add(snapshot.snapshot_id)
    return retained_ids


def _ref_ancestors(metadata: TableMetadata, ref: SnapshotRef) -> Iterator[Snapshot]:
    return snapshot_ancestors(metadata, metadata.snapshot_by_id(ref.snapshot_id))


def _commit_expiry(table: Table, retained_refs: set[str], expired_snapshots: list[Snapshot]) -> bool:
    metadata = table.metadata
    expired_ids = [snapshot.snapshot_id for snapshot in expired_snapshots]
    dropped_refs = sorted(set(metadata.refs) - retained_refs)
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in dropped_refs]
    statistics_ids = {statistic.snapshot_id for statistic in metadata.partition_statistics}
    updates += [
        RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": snapshot_id})
        for snapshot_id in expired_ids
        if snapshot_id in statistics_ids
    ]
    if expired_ids:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired_ids}))
    requirements: list[TableRequirement] = [AssertTableUUID(uuid=metadata.table_uuid)]
    # A ref that was moved or created meanwhile may reach an expired snapshot.
    requirements += [
        AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot_id})
        for name, ref in metadata.refs.items()
    ]
    try:
        response = table.catalog.commit_table(table, tuple(requirements), tuple(updates))
    except CommitFailedException:
        return False
    except Exception as error:
        raise TableError(
            f"expire_snapshots: the catalog did not say whether it took the change of {table_name(table)}; no file was "
            "deleted; remove_orphan_files deletes the files of snapshots that are gone"
        ) from error
    table.metadata = response.metadata
    table.metadata_location = response.metadata_location
    return True


def _delete_unreachable_files(
    table: Table, previous_metadata: TableMetadata, expired_snapshots: Iterable[Snapshot], table_folder: FolderLocation
) -> DeletedFiles:
    """Delete the files that only expired snapshots reached, in the table's folder and those that properties name."""
    refresh_table(table)
    metadata = table.metadata
    live_manifests = manifests_by_path(table.io, metadata.snapshots)
    expired_manifests = {
        path: manifest
        for path, manifest in manifests_by_path(table.io, expired_snapshots).items()
        if path not in live_manifests
    }
    data_files = {
        entry.data_file.file_path
        for manifest in expired_manifests.values()
        for entry in read_manifest_entries(table.io, manifest)
    }
    candidates = {*data_files, *expired_manifests, *(snapshot.manifest_list for snapshot in expired_snapshots)}
    statistics = _statistics_paths(previous_metadata) - _statistics_paths(metadata)
    # Expired snapshots may reference files that are still live, so those are excluded by path.
    live_paths = {
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *_statistics_paths(metadata),
    }
    live_paths |= {*live_manifests, *(snapshot.manifest_list for snapshot in metadata.snapshots)}
    for manifest in live_manifests.values() if data_files or statistics else ():
        live_paths |= {
            entry.data_file.file_path for entry in read_manifest_entries(table.io, manifest) if is_live_entry(entry)
        }
    canonical_live_paths = set(map(table_folder.canonical_path, live_paths))
    misnamed_paths = {path for path in statistics if not is_statistics_file_name(path)}
    kept_reasons = {
        path: REASON_OUTSIDE_FOLDER if table_folder.relative_path(path) is None else REASON_UNKNOWN_NAME
        for path in misnamed_paths
    }
    paths = sorted(
        path
        for path in candidates | (statistics - set(kept_reasons))
        if table_folder.canonical_path(path) not in canonical_live_paths
    )
    kept_reasons = {
        path: reason
        for path, reason in kept_reasons.items()
        if table_folder.canonical_path(path) not in canonical_live_paths
    }
    claims = claims_in_folder(table, table_folder)
    kept_reasons |= {
        path: reason for path in paths if (reason := claims.reason(table_folder.canonical_path(path))) is not None
    }
    deleted_files = _delete_files(
        table,
        [path for path in paths if path not in kept_reasons],
        [table_folder, *owned_property_folders(table, live_paths)],
    )
    deleted_files.remaining |= kept_reasons
    return deleted_files


def _delete_files(table: Table, paths: Sequence[str], folders: Sequence[FolderLocation]) -> DeletedFiles:
    """Delete files that the table referenced if they are in one of `folders`, of which the first is its own."""
    deleted_files = DeletedFiles()
    remaining = list(paths)
    for folder in folders:
        paths_by_relative = {
            relative: path for path in remaining if (relative := folder.relative_path(path)) is not None
        }
        if not paths_by_relative:
            continue
        is_own_name = is_table_file_name if folder == folders[0] else partial(has_table_id_prefix, table.metadata)
        deletable = FolderListing.from_files(list_files(table.io, folder), "iceberg").deletable_files(
            paths_by_relative, is_own_name
        )
        remove_files_in_folder(table.io, folder, deletable)
        # Hadoop's checksum files are deleted with their files; no metadata references them.
        deleted_files += [paths_by_relative.get(path, f"{folder.root}/{path}") for path in deletable]
        deleted_files.remaining |= {paths_by_relative[path]: reason for path, reason in deletable.remaining.items()}
        remaining = [path for path in remaining if folder.relative_path(path) is None]
    deleted_files.remaining |= dict.fromkeys(remaining, REASON_OUTSIDE_FOLDER)
    deleted_files.sort()
    return deleted_files


def _statistics_paths(metadata: TableMetadata) -> set[str]:
    return {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}


# --- orphan files

ORPHAN_GRACE_SECONDS = 3 * 24 * 60 * 60.0
"""The default age in seconds: longer than a commit should take from its first file to its end."""


def remove_orphan_files(
    table: Table, older_than: float = ORPHAN_GRACE_SECONDS, opened_location: str | None = None
) -> DeletedFiles:
    """Delete files in the table's own folder that the table doesn't reference, older than `older_than` seconds.

    Candidates are files below `data` and `metadata` with names that writers generate, and files whose names begin with
    the table's id, also in a folder that a property such as `write.data.path` names. Files that may be another table's
    are kept (`partita.formats.iceberg.other_tables`). `opened_location` is the folder that the user opened or created
    the table in.
    """
    with translate_metadata_errors(table):
        check_gc_enabled(table.metadata, table_name(table))
        table_folder = check_owned_folder(table, opened_location)
        cutoff = time.time() - older_than
        property_folders = [
            orphans
            for orphans in owned_property_folders(table, _referenced_paths(table))
            if not _is_within(orphans, table_folder)
        ]
        listings = [
            (folder, FolderListing.from_files(list_files(table.io, folder), "iceberg"))
            for folder in (table_folder, *property_folders)
        ]
        # Refreshed after listing: files that were committed in between count as referenced.
        refresh_table(table)
        # Likewise for what other tables committed in between.
        claims = claims_in_folder(table, table_folder)
        add_catalog_claims(table, table_folder, claims)
        # Compared by file name: a folder can be spelled in many ways, and file names of one table are unique.
        referenced_names = {_file_name(path) for path in _referenced_paths(table)}
        deleted_files = DeletedFiles()
        for folder, listing in listings:
            reason_to_keep = partial(_reason_to_keep, table, claims, folder, is_table_folder=folder == table_folder)
            orphans = _find_orphan_files(
                table, listing, referenced_names, cutoff, reason_to_keep, is_table_folder=folder == table_folder
            )
            remove_files_in_folder(table.io, folder, orphans)
            deleted_files += [f"{folder.root}/{path}" for path in orphans]
            deleted_files.remaining |= {f"{folder.root}/{path}": reason for path, reason in orphans.remaining.items()}
        deleted_files.remaining |= claims.unreadable_tables
        deleted_files.sort()
        return deleted_files


def _reason_to_keep(
    table: Table, claims: FileClaims, folder: FolderLocation, path: str, *, is_table_folder: bool
) -> str | None:
    """Return why a file, by its path relative to one of the table's folders, may not be this table's."""
    claim_reason = claims.reason(f"{folder.root}/{path}")
    is_expected = not is_table_folder or is_writer_folder(path) or has_table_id_prefix(table.metadata, path)
    return REASON_UNKNOWN_FOLDER if claim_reason is None and not is_expected else claim_reason


def _find_orphan_files(  # noqa: PLR0913 - the criteria of an orphan
    table: Table,
    listing: FolderListing,
    referenced_names: set[str],
    cutoff: float,
    reason_to_keep: Callable[[str], str | None],
    *,
    is_table_folder: bool,
) -> DeletedFiles:
    def is_referenced(path: str) -> bool:
        return _file_name(path) in referenced_names

    if is_table_folder:
        return listing.orphan_files(is_referenced, is_writer_file_name, cutoff, reason_to_keep)
    orphans = listing.orphan_files(
        is_referenced, lambda path: has_table_id_prefix(table.metadata, path), cutoff, reason_to_keep
    )
    # Other files in a shared folder don't concern this table, so they aren't reported.
    orphans.remaining = {
        path: reason for path, reason in orphans.remaining.items() if has_table_id_prefix(table.metadata, path)
    }
    return orphans


def _is_within(folder: FolderLocation, other: FolderLocation) -> bool:
    return folder == other or other.relative_path(folder.root) is not None


def _referenced_paths(table: Table) -> Iterator[str]:
    """Yield the path of every file that the table's metadata references."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots)
    for path, manifest in manifests_by_path(table.io, metadata.snapshots).items():
        yield path
        yield from (entry.data_file.file_path for entry in read_manifest_entries(table.io, manifest))


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
