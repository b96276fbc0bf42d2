"""The snapshots of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from partita.formats.iceberg.ancestors import known_ancestors

if TYPE_CHECKING:
    from pyiceberg.table import Table

_HISTORY = pa.schema(
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


def history(table: Table) -> pa.Table:
    """The snapshots that the table still has, newest first.

    Columns: `version` (the snapshot's id), `timestamp`, `operation`, `parent`, `is_current_ancestor` (false for what
    was rolled back, and for other branches), `schema_id`, and `summary`.
    """
    metadata = table.metadata
    current = {snapshot.snapshot_id for snapshot in known_ancestors(metadata, metadata.current_snapshot())}
    rows = []
    for snapshot in sorted(metadata.snapshots, key=lambda each: each.timestamp_ms)[::-1]:
        summary = snapshot.summary
        rows.append(
            {
                "version": snapshot.snapshot_id,
                "timestamp": snapshot.timestamp_ms,
                "operation": None if summary is None else summary.operation.value,
                "parent": snapshot.parent_snapshot_id,
                "is_current_ancestor": snapshot.snapshot_id in current,
                "schema_id": snapshot.schema_id,
                "summary": [] if summary is None else list(summary.additional_properties.items()),
            }
        )
    return pa.Table.from_pylist(rows, _HISTORY)
