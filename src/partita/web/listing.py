"""Partitions as a list, page by page, in the order of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.picture.marks import FILTERS, MARKS
from partita.picture.snapshot import REASON_BITS, STATE_BITS, Snapshot
from partita.picture.words import stamp
from partita.status.engine import moment
from partita.web.labels import label_of
from partita.web.view import View, selected_sql

LIMIT, MOST = 50, 1_000
_MOMENTS = ("stale_since", "materialized_at", "attempted_at", "running_since")
_COLUMNS = ("no", "partition_key", "mark", "states", "reasons", "outcome", "run_id", "error", "x", "y")


def list_partitions(
    snapshot: Snapshot, view: View, *, after: int = 0, before: int | None = None, limit: int = LIMIT
) -> dict[str, Any]:
    """The partitions of a view from a place in their order on, or those before one; with how many there are.

    `next` and `previous` are the places to ask with for the pages after and before; None where there are none.
    """
    condition = selected_sql(snapshot, view)
    total, least, most = snapshot.rows(f"SELECT count(*), min(no), max(no) FROM partitions WHERE {condition}")[0]  # noqa: S608
    back = before is not None
    place = f"no < {before:d} ORDER BY no DESC" if before is not None else f"no > {after:d} ORDER BY no"
    columns = ", ".join((*_COLUMNS, *(f"epoch_us({name})" for name in _MOMENTS)))
    rows = snapshot.rows(f"SELECT {columns} FROM partitions WHERE {condition} AND {place} LIMIT {limit:d}")  # noqa: S608
    rows = rows[::-1] if back else rows
    return {
        "as_of": stamp(snapshot.as_of),
        "asset": view.asset,
        "total": total,
        "rows": [_document(row) for row in rows],
        "next": rows[-1][0] if rows and rows[-1][0] < most else None,
        "previous": rows[0][0] if rows and rows[0][0] > least else None,
    }


def find_partition(snapshot: Snapshot, asset: str, key: str) -> dict[str, Any] | None:
    """What the snapshot says of one partition; None where nothing was recorded of it and it isn't expected."""
    columns = ", ".join((*_COLUMNS, *(f"epoch_us({name})" for name in _MOMENTS)))
    number = snapshot.asset(asset).number
    rows = snapshot.rows(f"SELECT {columns} FROM partitions WHERE asset = {number:d} AND partition_key = ?", [key])  # noqa: S608
    return _document(rows[0]) if rows else None


def _document(row: Sequence[Any]) -> dict[str, Any]:
    said = dict(zip((*_COLUMNS, *_MOMENTS), row, strict=True))
    return {
        "key": said["partition_key"],
        "label": label_of(said["partition_key"]),
        "mark": MARKS[said["mark"]].name,
        "states": [name for name in FILTERS if said["states"] & STATE_BITS[name]],
        "reasons": [name for name, bit in REASON_BITS.items() if said["reasons"] & bit],
        "outcome": said["outcome"],
        "run_id": said["run_id"],
        "error": said["error"],
        "place": None if said["x"] is None or said["y"] is None else [said["x"], said["y"]],
        **{name: None if said[name] is None else stamp(moment(said[name])) for name in _MOMENTS},
    }
