"""Letting go of old snapshots, and of the files that nothing else reaches.

First the metadata is committed without them, then files go: what a kill in between leaves behind is orphans.
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

from partita.errors import Conflict, TableError
from partita.formats.containment import OTHER_NAME, OUTSIDE, Listing, Removed
from partita.formats.iceberg.ancestors import known_ancestors
from partita.formats.iceberg.places import (
    check_own_place,
    delete_files,
    is_file_name,
    is_owned_name,
    is_statistics_name,
    list_files,
    named_places,
)
from partita.formats.iceberg.transaction.commit import Retries
from partita.formats.iceberg.transaction.edge import name_of, refresh, translated
from partita.formats.iceberg.transaction.manifests import is_live, manifests_by_path, read_entries
from partita.formats.iceberg.transaction.other_tables import claims_in_folder
from partita.formats.iceberg.transaction.validation import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from partita.formats.containment import Place


def expire_snapshots(
    table: Table, older_than: datetime | None = None, retain_last: int | None = None, opened: str | None = None
) -> Removed:
    """Expire snapshots older than a time, and delete what only they reached; the paths of those files.

    The last `retain_last` of each branch stay, and so does whatever a branch or a tag asks to keep. Without a time and
    a number, the table's `history.expire.*` properties say both. `opened` is the folder that the user opened or created
    the table in.
    """
    retries = Retries(table.metadata)
    with translated(table):
        while True:
            metadata = table.metadata
            check_collectable(metadata, name_of(table))
            place = check_own_place(table, opened)
            refs, kept = _kept(metadata, _limit(metadata, older_than), _least(metadata, retain_last))
            expired = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in kept]
            if not expired and refs == set(metadata.refs):
                return Removed()
            if _landed(table, refs, expired):
                return _delete_unreached(table, metadata, expired, place)
            if not retries.wait():
                raise Conflict("expire_snapshots", f"was first in all of {retries.tries} tries")
            refresh(table)


def check_collectable(metadata: TableMetadata, name: str) -> None:
    """Refuse a table whose files others may share (`gc.enabled`)."""
    check_writable(metadata)
    if metadata.properties.get("gc.enabled", "true").casefold() == "false":
        raise TableError(f"files of {name} may be shared with other tables (gc.enabled is false), so none are deleted")


def _limit(metadata: TableMetadata, older_than: datetime | None) -> int:
    """The time in milliseconds from 1970 before which snapshots may go."""
    if older_than is not None:
        if older_than.tzinfo is None:
            raise TableError("older_than needs a time zone; give datetime.now(UTC) - timedelta(...)")
        return int(older_than.timestamp() * 1000)
    age = metadata.properties.get(TableProperties.MAX_SNAPSHOT_AGE_MS, TableProperties.MAX_SNAPSHOT_AGE_MS_DEFAULT)
    return _now() - int(age)


def _least(metadata: TableMetadata, retain_last: int | None) -> int:
    default = TableProperties.MIN_SNAPSHOTS_TO_KEEP_DEFAULT
    given = (
        metadata.properties.get(TableProperties.MIN_SNAPSHOTS_TO_KEEP, default) if retain_last is None else retain_last
    )
    if int(given) < 1:
        raise TableError(f"a branch keeps at least its last snapshot; retain_last can't be {given}")
    return int(given)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _kept(metadata: TableMetadata, limit: int, least: int) -> tuple[set[str], set[int]]:
    """The names of the refs that stay, and the ids of the snapshots that do."""
    refs = {name for name, ref in metadata.refs.items() if _stays(metadata, name, ref)}
    kept: set[int] = set()
    for name in refs:
        kept |= _kept_by(metadata, metadata.refs[name], limit, least)
    reached = {snapshot.snapshot_id for ref in metadata.refs.values() for snapshot in _line(metadata, ref)}
    # What no ref reaches may be a commit that others still work on.
    kept |= {s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in reached and s.timestamp_ms >= limit}
    return refs, kept


def _stays(metadata: TableMetadata, name: str, ref: SnapshotRef) -> bool:
    if name == MAIN_BRANCH:
        return True
    snapshot = metadata.snapshot_by_id(ref.snapshot_id)
    if snapshot is None:
        return False
    age = ref.max_ref_age_ms or metadata.properties.get("history.expire.max-ref-age-ms")
    return age is None or _now() - snapshot.timestamp_ms <= int(age)


def _kept_by(metadata: TableMetadata, ref: SnapshotRef, limit: int, least: int) -> set[int]:
    if ref.snapshot_ref_type == SnapshotRefType.TAG:
        return {ref.snapshot_id}
    if ref.max_snapshot_age_ms is not None:
        limit = _now() - ref.max_snapshot_age_ms
    if ref.min_snapshots_to_keep is not None:
        least = ref.min_snapshots_to_keep
    line = _line(metadata, ref)
    kept: set[int] = set()
    for at, snapshot in enumerate(line):
        if at >= least and snapshot.timestamp_ms < limit:
            break
        kept.add(snapshot.snapshot_id)
    return kept


def _line(metadata: TableMetadata, ref: SnapshotRef) -> Iterator[Snapshot]:
    return known_ancestors(metadata, metadata.snapshot_by_id(ref.snapshot_id))


def _landed(table: Table, refs: set[str], expired: list[Snapshot]) -> bool:
    metadata = table.metadata
    ids = [snapshot.snapshot_id for snapshot in expired]
    gone = sorted(set(metadata.refs) - refs)
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in gone]
    statistics = {statistic.snapshot_id for statistic in metadata.partition_statistics}
    updates += [
        RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": each}) for each in ids if each in statistics
    ]
    if ids:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": ids}))
    requirements: list[TableRequirement] = [AssertTableUUID(uuid=metadata.table_uuid)]
    # A ref that another moved, or made, may be one that reaches what goes.
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
            f"expire_snapshots: the catalog did not say whether it took the change of {name_of(table)}; no file was "
            "deleted, and remove_orphans deletes what it let go of"
        ) from error
    table.metadata = response.metadata
    table.metadata_location = response.metadata_location
    return True


def _delete_unreached(table: Table, before: TableMetadata, expired: Iterable[Snapshot], own: Place) -> Removed:
    """Delete what only the expired snapshots reached, in the table's own folder and in those that properties name."""
    refresh(table)
    metadata = table.metadata
    staying = manifests_by_path(table.io, metadata.snapshots)
    going = {path: manifest for path, manifest in manifests_by_path(table.io, expired).items() if path not in staying}
    data_files = {entry.data_file.file_path for each in going.values() for entry in read_entries(table.io, each)}
    candidates = {*data_files, *going, *(snapshot.manifest_list for snapshot in expired)}
    statistics = _statistics(before) - _statistics(metadata)
    # Whatever the metadata of old snapshots names: files that the table still has stay.
    live = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log), *_statistics(metadata)}
    live |= {*staying, *(snapshot.manifest_list for snapshot in metadata.snapshots)}
    for manifest in staying.values() if data_files or statistics else ():
        live |= {entry.data_file.file_path for entry in read_entries(table.io, manifest) if is_live(entry)}
    kept = set(map(own.canonical, live))
    misnamed = {path for path in statistics if not is_statistics_name(path)}
    left = {path: OUTSIDE if own.relative(path) is None else OTHER_NAME for path in misnamed}
    paths = sorted(path for path in candidates | (statistics - set(left)) if own.canonical(path) not in kept)
    left = {path: reason for path, reason in left.items() if own.canonical(path) not in kept}
    claims = claims_in_folder(table, own)
    left |= {path: reason for path in paths if (reason := claims.reason(own.canonical(path))) is not None}
    removed = _delete(table, [path for path in paths if path not in left], [own, *named_places(table, live)])
    removed.left |= left
    return removed


def _delete(table: Table, paths: Sequence[str], places: Sequence[Place]) -> Removed:
    """Delete files that the table named, as far as they lie in its places; the first of these is its own."""
    removed = Removed()
    rest = list(paths)
    for place in places:
        below = {relative: path for path in rest if (relative := place.relative(path)) is not None}
        if not below:
            continue
        is_own_name = is_file_name if place == places[0] else partial(is_owned_name, table.metadata)
        found = Listing.of(list_files(table.io, place), "iceberg").removable(below, is_own_name)
        delete_files(table.io, place, found)
        # Hadoop's checksums go with their files, and nothing names them.
        removed += [below.get(path, f"{place.root}/{path}") for path in found]
        removed.left |= {below[path]: reason for path, reason in found.left.items()}
        rest = [path for path in rest if place.relative(path) is None]
    removed.left |= dict.fromkeys(rest, OUTSIDE)
    removed.sort()
    return removed


def _statistics(metadata: TableMetadata) -> set[str]:
    return {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}
