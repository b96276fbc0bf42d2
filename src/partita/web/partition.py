"""One partition: who it is, how it is, what happened to it, and where its files are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import tagged
from partita.picture.words import stamp
from partita.status.shown import value_text
from partita.web.labels import label_of
from partita.web.listing import find_partition

if TYPE_CHECKING:
    from partita.lake import Lake
    from partita.picture.snapshot import Snapshot
    from partita.web.tables import Tables

_TYPES = {"s": "string", "i": "int", "b": "bool", "d": "date", "t": "timestamp", "n": "null"}
SHOWN = 1_000
"""How many files of a partition are listed."""


def identity(snapshot: Snapshot, asset: str, text: str) -> dict[str, Any]:
    """The partition's key, id and values, and what the snapshot says of it; a key that isn't canonical is refused."""
    key = PartitionKey.parse(text)
    facts = snapshot.asset(asset)
    return {
        "as_of": stamp(snapshot.as_of),
        "asset": asset,
        "key": str(key),
        "label": label_of(text),
        "id": key.id(asset),
        "values": [
            {"name": name, "type": _TYPES[tagged(value)[0]], "value": value_text(value)} for name, value in key.items()
        ],
        "table": facts.table,
        "status": find_partition(snapshot, asset, text),
    }


def history(lake: Lake, asset: str, text: str) -> dict[str, Any]:
    """The partition's events, the newest first."""
    events = lake.history(asset, PartitionKey.parse(text)).to_pylist()
    kept = ("kind", "event_id", "run_id", "attempt", "code_version", "rows", "files", "bytes", "table_version", "error")
    return {
        "asset": asset,
        "key": text,
        "events": [
            {
                **{name: event[name] for name in kept},
                "at": stamp(event["occurred_at"]),
                "started_at": stamp(event["started_at"]),
            }
            for event in reversed(events)
        ],
    }


def files(snapshot: Snapshot, tables: Tables, asset: str, text: str) -> dict[str, Any]:
    """The partition's files in its asset's table, and the folders that they are in, as the format writes them.

    An asset's dimensions are partition fields of its table, which may have more of them.
    """
    PartitionKey.parse(text)
    name = snapshot.asset(asset).table
    found: dict[str, Any] = {"asset": asset, "key": text, "table": name, "files": [], "folders": [], "count": 0}
    if name is None:
        return found
    import pyarrow.compute as pc

    table = tables.facts(name)
    rows = table.files
    for part in text.split(",") if text else ():
        pattern = f"(^|,){re.escape(part)}(,|$)"
        rows = rows.filter(pc.fill_null(pc.match_substring_regex(rows["key"], pattern), False))
    listed = rows.slice(0, SHOWN).select(["path", "spec_id", "rows", "bytes"]).to_pylist()
    for file in listed:
        file["path"] = file["path"].removeprefix(f"{table.uri}/").removeprefix(f"{table.uri.removeprefix('file://')}/")
    folders = sorted({file["path"].rpartition("/")[0] for file in listed})
    return {**found, "files": listed, "folders": folders, "count": rows.num_rows}
