"""Many events at once, as rows of the ledger that DuckDB makes."""

from __future__ import annotations

import os

from partita.lake import Lake
from partita.status.duckdb_engine import open_connection
from partita.status.events import event_schema

EVENT_COUNT = int(os.environ.get("PARTITA_BENCH_EVENTS", "10_000_000"))
PARTITION_COUNT = EVENT_COUNT // 10
SHARD_COUNT = 1_000
EVENT_ID_SQL = "printf('%026d', i + 1)"
"""In place of ULIDs; they sort the same way."""
PARTITION_KEY_SQL = (
    f"'date=d:' || (DATE '2020-01-01' + (i % {PARTITION_COUNT} // {SHARD_COUNT})::INTEGER)::VARCHAR "
    f"|| ',shard=i:' || (i % {SHARD_COUNT})::VARCHAR"
)


def append_events(lake: Lake, asset: str, kind_sql: str, number_sql: str, micros_sql: str, event_count: int) -> None:  # noqa: PLR0913, PLR0917
    """Append events made by DuckDB: number `i` of each, its kind and its moment are SQL."""
    values = {
        "kind": kind_sql, "tenant_id": "'default'", "workspace_id": "'default'", "asset_key": f"'{asset}'",
        "partition_key": PARTITION_KEY_SQL, "event_id": EVENT_ID_SQL, "occurred_at": f"make_timestamptz({micros_sql})",
        "run_id": "'run-' || (i // 1000)::VARCHAR", "attempt": "1", "code_version": "'1'", "rows": "i", "files": "1",
    }  # fmt: skip
    schema = event_schema()
    selected = ", ".join(f"{values.get(name, 'NULL')} AS {name}" for name in schema.names)
    with open_connection() as connection:
        events = connection.sql(
            f"SELECT {selected} FROM (SELECT {number_sql} AS i FROM range({event_count}))"  # noqa: S608
        ).to_arrow_table()
    lake._workspace.ledger.append_rows(events.cast(schema))  # noqa: SLF001 - as rows, which the face has no use for
