"""Which partitions the snapshots of an Iceberg table touched.

| where the cursor's snapshot is    | what is told                                                              |
|-----------------------------------|---------------------------------------------------------------------------|
| the current one                   | nothing                                                                   |
| an ancestor of the current one    | each snapshot since, but for those that replace files and change no rows  |
| expired, or no ancestor           | the current one, with all partitions of it, and of files that went        |
| nowhere, for it is the start      | each ancestor that is known, the oldest with all of its partitions        |

Of a snapshot only the manifests that it added are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.snapshots import Operation, Snapshot

from partita.algebra.spec import SpecHistory
from partita.arrow.groups import distinct
from partita.formats.commits import Commits, TableCommit, cursor_fields, cursor_text, moment
from partita.formats.iceberg.manifests import EQUALITY_DELETES, PARTITION, live_entries, manifest_list
from partita.formats.iceberg.manifests.entries import made_entries
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
    told = [_commit(table, history, one, is_first=at == 0 and seen is None) for at, one in enumerate(since)]
    return Commits(text, tuple(one for one in told if one is not None))


def _since(metadata: TableMetadata, head: Snapshot, seen: int | None) -> tuple[list[Snapshot], bool]:
    """The known ancestors of the current snapshot after that one, oldest first, and whether it is one of them."""
    found: list[Snapshot] = []
    one: Snapshot | None = head
    while one is not None and one.snapshot_id != seen:
        found.append(one)
        one = None if one.parent_snapshot_id is None else metadata.snapshot_by_id(one.parent_snapshot_id)
    return found[::-1], one is not None


def _commit(table: Table, history: SpecHistory, snapshot: Snapshot, *, is_first: bool) -> TableCommit | None:
    """What a snapshot changed; None where that is nothing. The first that is known has all that is in it."""
    operation = "unknown" if snapshot.summary is None else snapshot.summary.operation.value
    if operation == Operation.REPLACE.value and not is_first:
        return None
    manifests = manifest_list(table.io, snapshot)
    own = manifests.filter(pc.equal(manifests["snapshot_id"], snapshot.snapshot_id))
    made = made_entries(table.io, own, history)
    made = made.filter(pc.equal(made["snapshot_id"], snapshot.snapshot_id))
    touched = _partitions(made)
    if is_first or _is_everywhere(made, history):
        touched = _joined([touched, _partitions(live_entries(table.io, manifests, history))])
    if not touched.num_rows:
        return None
    number = snapshot.snapshot_id
    return TableCommit(str(number), number, moment(snapshot.timestamp_ms), operation, touched)


def _is_everywhere(made: pa.Table, history: SpecHistory) -> bool:
    """Whether there is an equality delete of a spec without fields, which is of all partitions ("Scan Planning")."""
    void = [spec.spec_id for spec in history.specs if all(f.transform.name == "void" for f in spec.fields)]
    equal = made["content"].to_numpy() == EQUALITY_DELETES
    return bool((equal & np.isin(made["spec_id"].to_numpy(), void)).any())


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
