"""One partition: who it is, how it is, what happened to it, and where its files are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import tagged
from partita.assets.holding import keys_by_spec
from partita.errors import StatusError
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
    key, facts = _key_of(snapshot, asset, text), snapshot.asset(asset)
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
    kept = ("kind", "event_id", "run_id", "attempt", "code_version", "rows", "files", "bytes", "error")
    return {
        "asset": asset,
        "key": text,
        "events": [
            {
                **{name: event[name] for name in kept},
                # As text: a snapshot's id has more digits than JavaScript's numbers.
                "table_version": None if event["table_version"] is None else str(event["table_version"]),
                "at": stamp(event["occurred_at"]),
                "started_at": stamp(event["started_at"]),
            }
            for event in reversed(events)
        ],
    }


def files(lake: Lake, snapshot: Snapshot, tables: Tables, asset: str, text: str) -> dict[str, Any]:
    """The files in its asset's table that hold the partition, and the folders that they are in, as the format has them.

    A file of a spec that lacks some of the asset's dimensions is `shared`: it may hold rows of it, and of others.
    """
    key = _key_of(snapshot, asset, text)
    name = snapshot.asset(asset).table
    wanted = None if name is None else lake.partitions_of(asset)
    found: dict[str, Any] = {"asset": asset, "key": text, "table": name, "files": [], "folders": [], "count": 0}
    if name is None or wanted is None or sorted(key) != sorted(wanted.names):
        return found
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    table = tables.facts(name)
    is_shared = np.zeros(table.files.num_rows, bool)
    is_found = np.zeros(table.files.num_rows, bool)
    for held, places, keys in keys_by_spec(asset, wanted, table.specs, table.partitions):
        own = str(PartitionKey.of({name: key[name] for name in held.names}))
        is_found[places[np.asarray(pc.equal(keys, own))]] = True
        is_shared[places] = held.names != wanted.names
    rows = table.files.append_column("shared", pa.array(is_shared)).filter(pa.array(is_found))
    listed = rows.slice(0, SHOWN).select(["path", "spec_id", "rows", "bytes", "shared"]).to_pylist()
    for file in listed:
        file["path"] = file["path"].removeprefix(f"{table.uri}/").removeprefix(f"{table.uri.removeprefix('file://')}/")
    folders = sorted({file["path"].rpartition("/")[0] for file in listed})
    return {**found, "files": listed, "folders": folders, "count": rows.num_rows}


def _key_of(snapshot: Snapshot, asset: str, text: str) -> PartitionKey:
    """The key that a text is; one with other dimensions than the asset has is refused, unless it had them once."""
    key, facts = PartitionKey.parse(text), snapshot.asset(asset)
    is_other = facts.registered and sorted(key) != sorted(facts.dimensions)
    if is_other and find_partition(snapshot, asset, text) is None:
        by = ", ".join(facts.dimensions) or "nothing"
        raise StatusError(f"{asset!r} is partitioned by {by}, and the key {text!r} is not")
    return key
