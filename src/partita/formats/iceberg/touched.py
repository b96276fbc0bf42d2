"""Which partitions the snapshots of an Iceberg table touched.

| where the cursor's snapshot is    | what is told                                                              |
|-----------------------------------|---------------------------------------------------------------------------|
| the current one                   | nothing                                                                   |
| an ancestor of the current one    | each snapshot since, but for those that replace files and change no rows  |
| expired, or no ancestor           | the current one, with all partitions of it, and of files that went        |
| nowhere, for it is the start      | each ancestor that is known, the oldest with all of its partitions        |

Of a snapshot only the manifests that it added are read, and of these only such as list a file that came or went. Those
of many snapshots are decoded together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.snapshots import Operation, Snapshot

from partita.algebra.spec import SpecHistory
from partita.arrow.buffers import null_mask, one_array
from partita.arrow.groups import distinct
from partita.formats.commits import (
    Commits,
    TableCommit,
    cursor_fields,
    cursor_text,
    moment,
    partitions_by_commit,
)
from partita.formats.iceberg.ancestors import known_ancestors
from partita.formats.iceberg.deletes import are_global
from partita.formats.iceberg.manifests import PARTITION, live_entries, manifest_list
from partita.formats.iceberg.manifests.entries import changed_entries
from partita.formats.iceberg.manifests.listing import own_manifests
from partita.formats.iceberg.specs import spec_history

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

_FORM = "Iceberg"


def commits(table: Table, after: str | None) -> Commits:
    """The snapshots after a cursor that changed data."""
    metadata = table.metadata
    cursor = cursor_fields(_FORM, after)
    uuid, head = str(metadata.table_uuid), metadata.current_snapshot()
    seen = cursor["snapshot"] if cursor is not None and cursor["table"] == uuid else None
    text = cursor_text(_FORM, table=uuid, snapshot=None if head is None else head.snapshot_id)
    if head is None or head.snapshot_id == seen:
        return Commits(text, ())
    history = spec_history(metadata)
    since, is_found = _since(metadata, head, seen)
    if seen is not None and not is_found:
        return Commits(text, (_jump(table, history, head, seen),))
    return Commits(text, tuple(_told(table, history, since, has_first=seen is None)))


def _since(metadata: TableMetadata, head: Snapshot, seen: int | None) -> tuple[list[Snapshot], bool]:
    """The known ancestors of the current snapshot after that one, oldest first, and whether it is one of them."""
    found: list[Snapshot] = []
    for snapshot in known_ancestors(metadata, head):
        if snapshot.snapshot_id == seen:
            return found[::-1], True
        found.append(snapshot)
    return found[::-1], False


def _told(table: Table, history: SpecHistory, since: list[Snapshot], *, has_first: bool) -> Iterator[TableCommit]:
    """What each snapshot changed; those that changed nothing are left out.

    With `has_first`, the first is the oldest that is known, and has all that is in it.
    """
    first = since[0] if has_first else None
    asked = [one for one in since if one is first or _operation(one) != Operation.REPLACE.value]
    made = changed_entries(table.io, own_manifests(table.io, asked), history)
    whole = {first.snapshot_id} if first is not None else set()
    whole |= set(made["snapshot_id"].filter(pa.array(are_global(made, history))).to_pylist())
    touched = _by_snapshot(made, [one.snapshot_id for one in asked])
    for snapshot, changed in zip(asked, touched, strict=True):
        number = snapshot.snapshot_id
        partitions = _with_live(table, history, snapshot, changed) if number in whole else changed
        if partitions.num_rows:
            yield TableCommit(str(number), number, moment(snapshot.timestamp_ms), _operation(snapshot), partitions)


def _operation(snapshot: Snapshot) -> str:
    return "unknown" if snapshot.summary is None else snapshot.summary.operation.value


def _with_live(table: Table, history: SpecHistory, snapshot: Snapshot, partitions: pa.Table) -> pa.Table:
    """Partitions, and all that a snapshot has."""
    live = live_entries(table.io, manifest_list(table.io, snapshot), history)
    return _joined([partitions, _partitions(live)])


def _by_snapshot(made: pa.Table, snapshot_ids: list[int]) -> Iterator[pa.Table]:
    """The partitions that each of the snapshots changed, once, as `State.partitions` has them."""
    fields = [name for name in made.column_names if name.startswith(PARTITION)]
    places = pc.index_in(one_array(made["snapshot_id"]), value_set=pa.array(snapshot_ids, pa.int64()))
    there = np.flatnonzero(~null_mask(places))
    named = [*(name.removeprefix(PARTITION) for name in fields), "spec_id"]
    changed = made.select([*fields, "spec_id"]).rename_columns(named).take(pa.array(there))
    return partitions_by_commit(changed, places.take(pa.array(there)).to_numpy(), len(snapshot_ids))


def _jump(table: Table, history: SpecHistory, head: Snapshot, seen: int) -> TableCommit:
    """The current snapshot, where none of the way from the one that was seen is known."""
    metadata = table.metadata
    live = live_entries(table.io, manifest_list(table.io, head), history)
    parts = [_partitions(live)]
    before = metadata.snapshot_by_id(seen)
    if before is not None:
        gone = live_entries(table.io, manifest_list(table.io, before), history)
        parts.append(_partitions(gone.filter(pc.invert(pc.is_in(gone["path"], value_set=live["path"])))))
    last = metadata.snapshot_log[-1] if metadata.snapshot_log else None
    at = last.timestamp_ms if last is not None and last.snapshot_id == head.snapshot_id else head.timestamp_ms
    number = head.snapshot_id
    return TableCommit(f"{number}:after:{seen}", number, moment(at), "unknown", _joined(parts))


def _partitions(entries: pa.Table) -> pa.Table:
    """Each partition of entries once, as `State.partitions` has them."""
    fields = [name for name in entries.column_names if name.startswith(PARTITION)]
    named = [*(name.removeprefix(PARTITION) for name in fields), "spec_id"]
    return distinct(entries.select([*fields, "spec_id"]).rename_columns(named))


def _joined(parts: list[pa.Table]) -> pa.Table:
    """Each of their partitions once; a field of an unknown transform may have no type in one of them."""
    return distinct(pa.concat_tables(parts, promote_options="permissive"))
