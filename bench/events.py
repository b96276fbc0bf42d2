"""Many events at once, as rows of the ledger that DuckDB makes."""

from __future__ import annotations

import os

from partita.lake import Lake
from partita.status.engine import connect
from partita.status.events import event_schema

EVENTS = int(os.environ.get("PARTITA_BENCH_EVENTS", "10_000_000"))
PARTITIONS = EVENTS // 10
SHARDS = 1_000
IDS = "printf('%026d', i + 1)"
"""In place of ULIDs; they sort the same way."""
KEY = (
    f"'date=d:' || (DATE '2020-01-01' + (i % {PARTITIONS} // {SHARDS})::INTEGER)::VARCHAR "
    f"|| ',shard=i:' || (i % {SHARDS})::VARCHAR"
)


def append_events(  # noqa: PLR0913, PLR0917 - what events are made of
    lake: Lake, asset: str, kind: str, number: str, micros: str, size: int
) -> None:
    """Append events made by DuckDB: number `i` of each, its kind and its moment are SQL."""
    values = {
        "kind": kind, "tenant_id": "'default'", "workspace_id": "'default'", "asset_key": f"'{asset}'",
        "partition_key": KEY, "event_id": IDS, "occurred_at": f"make_timestamptz({micros})",
        "run_id": "'run-' || (i // 1000)::VARCHAR", "attempt": "1", "code_version": "'1'", "rows": "i", "files": "1",
    }  # fmt: skip
    schema = event_schema()
    selected = ", ".join(f"{values.get(name, 'NULL')} AS {name}" for name in schema.names)
    with connect() as connection:
        events = connection.sql(f"SELECT {selected} FROM (SELECT {number} AS i FROM range({size}))").to_arrow_table()  # noqa: S608
    lake._workspace.ledger.append_rows(events.cast(schema))  # noqa: SLF001 - as rows, which the face has no use for
