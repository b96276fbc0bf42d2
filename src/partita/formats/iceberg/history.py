"""The history of a table: its snapshots, their ancestry, and since when it has each partition spec."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.serializers import FromInputFile

from partita.errors import TableError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

NO_SNAPSHOT = -1
"""The version of a table without a snapshot, as in Iceberg's metadata."""

_HISTORY_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("operation", pa.string()),
        ("parent", pa.int64()),
        ("is_current_ancestor", pa.bool_()),
        ("schema_id", pa.int32()),
        ("summary", pa.map_(pa.string(), pa.string())),
    ]
)


def snapshot_history(table: Table) -> pa.Table:
    """Return the snapshots in the table's metadata, newest first.

    Columns: `version` (the snapshot id), `timestamp`, `operation`, `parent`, `is_current_ancestor` (false for snapshots
    that were rolled back, and for other branches), `schema_id` and `summary`.
    """
    metadata = table.metadata
    ancestor_ids = {snapshot.snapshot_id for snapshot in snapshot_ancestors(metadata, metadata.current_snapshot())}
    rows = []
    for snapshot in sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)[::-1]:
        summary = snapshot.summary
        rows.append(
            {
                "version": snapshot.snapshot_id,
                "timestamp": snapshot.timestamp_ms,
                "operation": None if summary is None else summary.operation.value,
                "parent": snapshot.parent_snapshot_id,
                "is_current_ancestor": snapshot.snapshot_id in ancestor_ids,
                "schema_id": snapshot.schema_id,
                "summary": [] if summary is None else list(summary.additional_properties.items()),
            }
        )
    return pa.Table.from_pylist(rows, _HISTORY_SCHEMA)


def snapshot_ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """Yield a snapshot, its parent and so on, as far as the metadata has them.

    Raises `TableError` where a snapshot is its own ancestor.
    """
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    seen_ids: set[int] = set()
    while snapshot is not None:
        if snapshot.snapshot_id in seen_ids:
            raise TableError(
                f"snapshot {snapshot.snapshot_id} is its own ancestor in the metadata of {metadata.location}; restore "
                "an earlier metadata file"
            )
        seen_ids.add(snapshot.snapshot_id)
        yield snapshot
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else snapshots.get(parent_id)


def snapshots_since(
    metadata: TableMetadata, current_snapshot: Snapshot | None, snapshot_id: int | None
) -> tuple[list[Snapshot], bool]:
    """Return the ancestors of the current snapshot after `snapshot_id`, oldest first.

    The second value tells whether `snapshot_id` is one of the ancestors; if not, all known ancestors are returned.
    """
    snapshots: list[Snapshot] = []
    for snapshot in snapshot_ancestors(metadata, current_snapshot):
        if snapshot.snapshot_id == snapshot_id:
            return snapshots[::-1], True
        snapshots.append(snapshot)
    return snapshots[::-1], False


# --- specs

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_METADATA_PREFIX = "00000-"
"""The file name prefix of a table's first metadata file."""


def spec_times(table: Table) -> dict[int, datetime]:
    """Return when each partition spec first appeared in the metadata files that the table still references.

    A spec that is older than the oldest of these files is left out, unless that file is the table's first. Metadata
    keeps all earlier specs, so a binary search reads few of the files.
    """
    locations = [entry.metadata_file for entry in table.metadata.metadata_log] + [table.metadata_location]

    @cache
    def read_metadata(file_index: int) -> TableMetadata:
        if file_index == len(locations) - 1:
            return table.metadata
        return FromInputFile.table_metadata(table.io.new_input(locations[file_index]))

    def has_spec(spec_id: int, file_index: int) -> bool:
        return spec_id in read_metadata(file_index).specs()

    has_first_file = locations[0].rpartition("/")[2].startswith(_FIRST_METADATA_PREFIX)
    times = {}
    for spec_id in table.metadata.specs():
        # Maintenance by other tools may have deleted files that the log references.
        with suppress(FileNotFoundError):
            file_index = bisect_left(range(len(locations)), True, key=partial(has_spec, spec_id))
            if file_index or has_first_file:
                times[spec_id] = _EPOCH + timedelta(milliseconds=read_metadata(file_index).last_updated_ms)
    return times
