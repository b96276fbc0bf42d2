"""The change feed: which partitions the snapshots of an Iceberg table changed since a cursor.

| the cursor's snapshot is       | commits in the feed                                                             |
|--------------------------------|---------------------------------------------------------------------------------|
| the current one                | none                                                                            |
| an ancestor of the current one | each snapshot since, except those that replace files without changing rows      |
| expired, or no ancestor        | the current one, with all of its partitions and those of files that are gone    |
| missing: the feed starts       | each known ancestor, the oldest with all of its partitions                      |

Of a snapshot only the manifests that it added are read, and of these only those that list an added or deleted file. The
manifests of many snapshots are decoded together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.snapshots import Operation, Snapshot

from partita.algebra.spec import SpecHistory
from partita.arrow.buffers import dense_array, null_mask
from partita.arrow.distinct_rows import distinct_rows
from partita.formats.change_feed import (
    ChangeFeed,
    TableCommit,
    datetime_from_millis,
    decode_cursor,
    encode_cursor,
    partitions_by_commit,
)
from partita.formats.iceberg.delete_file_index import is_global_delete
from partita.formats.iceberg.history import snapshots_since
from partita.formats.iceberg.manifests import (
    PARTITION_PREFIX,
    read_added_manifests,
    read_changed_entries,
    read_live_entries,
    read_manifest_list,
)
from partita.formats.iceberg.specs import spec_history

if TYPE_CHECKING:
    from pyiceberg.table import Table

_FORMAT_NAME = "Iceberg"


def read_change_feed(table: Table, after: str | None) -> ChangeFeed:
    """Return the commits after a cursor that changed data, and the cursor of the current snapshot."""
    metadata = table.metadata
    cursor = decode_cursor(_FORMAT_NAME, after)
    table_uuid, current_snapshot = str(metadata.table_uuid), metadata.current_snapshot()
    cursor_snapshot_id = cursor["snapshot"] if cursor is not None and cursor["table"] == table_uuid else None
    next_cursor = encode_cursor(
        _FORMAT_NAME, table=table_uuid, snapshot=None if current_snapshot is None else current_snapshot.snapshot_id
    )
    if current_snapshot is None or current_snapshot.snapshot_id == cursor_snapshot_id:
        return ChangeFeed(next_cursor, ())
    history = spec_history(metadata)
    snapshots, is_ancestor = snapshots_since(metadata, current_snapshot, cursor_snapshot_id)
    if cursor_snapshot_id is not None and not is_ancestor:
        return ChangeFeed(next_cursor, (_commit_after_gap(table, history, current_snapshot, cursor_snapshot_id),))
    return ChangeFeed(
        next_cursor, tuple(_table_commits(table, history, snapshots, from_start=cursor_snapshot_id is None))
    )


def _table_commits(
    table: Table, history: SpecHistory, snapshots: list[Snapshot], *, from_start: bool
) -> Iterator[TableCommit]:
    """Yield what each snapshot changed, leaving out those that changed nothing.

    With `from_start`, the first snapshot is the oldest known one, and has all of its partitions.
    """
    first = snapshots[0] if from_start else None
    read_snapshots = [
        snapshot for snapshot in snapshots if snapshot is first or _operation_name(snapshot) != Operation.REPLACE.value
    ]
    changed_entries = read_changed_entries(table.io, read_added_manifests(table.io, read_snapshots), history)
    full_snapshot_ids = {first.snapshot_id} if first is not None else set()
    full_snapshot_ids |= set(
        changed_entries["snapshot_id"].filter(pa.array(is_global_delete(changed_entries, history))).to_pylist()
    )
    partitions_by_id = _partitions_by_snapshot(changed_entries, [snapshot.snapshot_id for snapshot in read_snapshots])
    for snapshot, changed_partitions in zip(read_snapshots, partitions_by_id, strict=True):
        snapshot_id = snapshot.snapshot_id
        partitions = (
            _with_live_partitions(table, history, snapshot, changed_partitions)
            if snapshot_id in full_snapshot_ids
            else changed_partitions
        )
        if partitions.num_rows:
            yield TableCommit(
                str(snapshot_id),
                snapshot_id,
                datetime_from_millis(snapshot.timestamp_ms),
                _operation_name(snapshot),
                partitions,
            )


def _operation_name(snapshot: Snapshot) -> str:
    return "unknown" if snapshot.summary is None else snapshot.summary.operation.value


def _with_live_partitions(table: Table, history: SpecHistory, snapshot: Snapshot, partitions: pa.Table) -> pa.Table:
    """Return the partitions together with all partitions of a snapshot."""
    live_entries = read_live_entries(table.io, read_manifest_list(table.io, snapshot), history)
    return _concat_partitions([partitions, _distinct_partitions(live_entries)])


def _partitions_by_snapshot(entries: pa.Table, snapshot_ids: list[int]) -> Iterator[pa.Table]:
    """Yield the distinct partitions that each snapshot changed, with the columns of `TableVersion.partitions`."""
    fields = [name for name in entries.column_names if name.startswith(PARTITION_PREFIX)]
    snapshot_indices = pc.index_in(dense_array(entries["snapshot_id"]), value_set=pa.array(snapshot_ids, pa.int64()))
    rows = np.flatnonzero(~null_mask(snapshot_indices))
    column_names = [*(name.removeprefix(PARTITION_PREFIX) for name in fields), "spec_id"]
    partitions = entries.select([*fields, "spec_id"]).rename_columns(column_names).take(pa.array(rows))
    return partitions_by_commit(partitions, snapshot_indices.take(pa.array(rows)).to_numpy(), len(snapshot_ids))


def _commit_after_gap(
    table: Table, history: SpecHistory, current_snapshot: Snapshot, cursor_snapshot_id: int
) -> TableCommit:
    """Return one commit to the current snapshot for a cursor whose snapshot is not among its known ancestors."""
    metadata = table.metadata
    live_entries = read_live_entries(table.io, read_manifest_list(table.io, current_snapshot), history)
    partitions = [_distinct_partitions(live_entries)]
    cursor_snapshot = metadata.snapshot_by_id(cursor_snapshot_id)
    if cursor_snapshot is not None:
        old_entries = read_live_entries(table.io, read_manifest_list(table.io, cursor_snapshot), history)
        partitions.append(
            _distinct_partitions(
                old_entries.filter(pc.invert(pc.is_in(old_entries["path"], value_set=live_entries["path"])))
            )
        )
    last_log_entry = metadata.snapshot_log[-1] if metadata.snapshot_log else None
    timestamp_ms = (
        last_log_entry.timestamp_ms
        if last_log_entry is not None and last_log_entry.snapshot_id == current_snapshot.snapshot_id
        else current_snapshot.timestamp_ms
    )
    snapshot_id = current_snapshot.snapshot_id
    return TableCommit(
        f"{snapshot_id}:after:{cursor_snapshot_id}",
        snapshot_id,
        datetime_from_millis(timestamp_ms),
        "unknown",
        _concat_partitions(partitions),
    )


def _distinct_partitions(entries: pa.Table) -> pa.Table:
    """Return the distinct partitions of entries, with the columns of `TableVersion.partitions`."""
    fields = [name for name in entries.column_names if name.startswith(PARTITION_PREFIX)]
    column_names = [*(name.removeprefix(PARTITION_PREFIX) for name in fields), "spec_id"]
    return distinct_rows(entries.select([*fields, "spec_id"]).rename_columns(column_names))


def _concat_partitions(parts: list[pa.Table]) -> pa.Table:
    """Return the distinct partitions of several tables; fields of unknown transforms may lack a type in some."""
    return distinct_rows(pa.concat_tables(parts, promote_options="permissive"))
