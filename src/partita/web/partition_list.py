"""The list of partitions, page by page, in the order of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partita.algebra.key_label import key_label
from partita.display.coordinates import PARTITIONS
from partita.display.status_snapshot import REASON_BITS, STATE_BITS, StatusSnapshot
from partita.status.duckdb_engine import timestamp_from_micros
from partita.status.duckdb_sql import comma_separated, name, names, sql
from partita.status.states import COMMON_STATE_FILTERS, MARKS
from partita.status.text import json_timestamp
from partita.web.asset_view import AssetView, selected_sql

DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE = 50, 1_000
_TIMESTAMP_COLUMNS = ("stale_since", "materialized_at", "attempted_at", "running_since")
_STATUS_COLUMNS = ("no", "partition_key", "mark", "states", "reasons", "outcome", "run_id", "error", "x", "y")
_SELECT_LIST = comma_separated(
    [names(_STATUS_COLUMNS), *(sql("epoch_us({column})", column=name(column)) for column in _TIMESTAMP_COLUMNS)]
)


def list_partitions(
    snapshot: StatusSnapshot,
    view: AssetView,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = DEFAULT_PAGE_SIZE,
) -> dict[str, Any]:
    """Return a page of a view's partitions, after a position in their order or before one, and their total number.

    `next` is the `after` of the following page, `previous` the `before` of the preceding one; None if there is none.
    """
    condition = selected_sql(snapshot, view)
    extent = sql(
        "SELECT count(*), min(no), max(no) FROM {rows} WHERE {condition}", rows=PARTITIONS, condition=condition
    )
    total, first_position, last_position = snapshot.fetch_rows(extent)[0]
    is_backward = before is not None
    page = (
        sql("no < {before} ORDER BY no DESC", before=before)
        if is_backward
        else sql("no > {after} ORDER BY no", after=after)
    )
    rows = snapshot.fetch_rows(
        sql(
            "SELECT {columns} FROM {partitions} WHERE {condition} AND {page} LIMIT {limit}",
            columns=_SELECT_LIST,
            partitions=PARTITIONS,
            condition=condition,
            page=page,
            limit=limit,
        )
    )
    rows = rows[::-1] if is_backward else rows
    return {
        "as_of": json_timestamp(snapshot.as_of),
        "asset": view.asset,
        "total": total,
        "rows": [_status_document(row) for row in rows],
        "next": rows[-1][0] if rows and rows[-1][0] < last_position else None,
        "previous": rows[0][0] if rows and rows[0][0] > first_position else None,
    }


def find_partition_status(snapshot: StatusSnapshot, asset: str, key: str) -> dict[str, Any] | None:
    """Return the status of one partition in the snapshot; None if it is neither recorded nor expected."""
    rows = snapshot.fetch_rows(
        sql(
            "SELECT {columns} FROM {partitions} WHERE asset = {number} AND partition_key = {key}",
            columns=_SELECT_LIST,
            partitions=PARTITIONS,
            number=snapshot.asset(asset).asset_number,
            key=key,
        )
    )
    return _status_document(rows[0]) if rows else None


def _status_document(row: Sequence[Any]) -> dict[str, Any]:
    status = dict(zip((*_STATUS_COLUMNS, *_TIMESTAMP_COLUMNS), row, strict=True))
    return {
        "key": status["partition_key"],
        "label": key_label(status["partition_key"]),
        "mark": MARKS[status["mark"]].name,
        "states": [name for name in COMMON_STATE_FILTERS if status["states"] & STATE_BITS[name]],
        "reasons": [name for name, bit in REASON_BITS.items() if status["reasons"] & bit],
        "outcome": status["outcome"],
        "run_id": status["run_id"],
        "error": status["error"],
        "place": None if status["x"] is None or status["y"] is None else [status["x"], status["y"]],
        **{
            name: None if status[name] is None else json_timestamp(timestamp_from_micros(status[name]))
            for name in _TIMESTAMP_COLUMNS
        },
    }
