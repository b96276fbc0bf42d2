"""The documents about one partition: its identity and status, its history and its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partita.algebra.key import PartitionKey
from partita.algebra.key_label import key_label, value_label
from partita.algebra.key_text import canonical_value_text
from partita.assets.dimension_fields import keys_by_spec
from partita.errors import StatusError
from partita.status.text import json_timestamp
from partita.web.partition_list import find_partition_status

if TYPE_CHECKING:
    from partita.display.status_snapshot import StatusSnapshot
    from partita.lake import Lake
    from partita.web.table_facts import TableFactsCache

_TYPE_NAMES = {"s": "string", "i": "int", "b": "bool", "d": "date", "t": "timestamp", "n": "null"}
MAX_SHOWN_FILES = 1_000
"""The number of files of a partition that are listed."""


def partition_document(snapshot: StatusSnapshot, asset: str, key_text: str) -> dict[str, Any]:
    """Return the key, id, values and status of a partition. Raises `KeyFormatError` if the key is not canonical."""
    key, facts = _parse_asset_key(snapshot, asset, key_text), snapshot.asset(asset)
    return {
        "as_of": json_timestamp(snapshot.as_of),
        "asset": asset,
        "key": str(key),
        "label": key_label(key_text),
        "id": key.id(asset),
        "values": [
            {"name": name, "type": _TYPE_NAMES[canonical_value_text(value)[0]], "value": value_label(value)}
            for name, value in key.items()
        ],
        "table": facts.table,
        "status": find_partition_status(snapshot, asset, key_text),
    }


def history_document(lake: Lake, asset: str, key_text: str) -> dict[str, Any]:
    """Return the events of a partition, the newest first."""
    events = lake.history(asset, PartitionKey.parse(key_text)).to_pylist()
    fields = ("kind", "event_id", "run_id", "attempt", "code_version", "rows", "files", "bytes", "error")
    return {
        "asset": asset,
        "key": key_text,
        "events": [
            {
                **{name: event[name] for name in fields},
                # Text, because a snapshot id has more digits than a JavaScript number can hold.
                "table_version": None if event["table_version"] is None else str(event["table_version"]),
                "at": json_timestamp(event["occurred_at"]),
                "started_at": json_timestamp(event["started_at"]),
            }
            for event in reversed(events)
        ],
    }


def files_document(
    lake: Lake, snapshot: StatusSnapshot, tables: TableFactsCache, asset: str, key_text: str
) -> dict[str, Any]:
    """Return the files of the asset's table that contain the partition, and the folders of these files.

    A file is `shared` if its spec lacks some of the asset's dimensions: it may contain rows of other partitions too.
    """
    key = _parse_asset_key(snapshot, asset, key_text)
    name = snapshot.asset(asset).table
    partitions = None if name is None else lake.partitions_of(asset)
    document: dict[str, Any] = {"asset": asset, "key": key_text, "table": name, "files": [], "folders": [], "count": 0}
    if name is None or partitions is None or sorted(key) != sorted(partitions.names):
        return document
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    table = tables.facts(name)
    is_shared = np.zeros(table.files.num_rows, bool)
    is_match = np.zeros(table.files.num_rows, bool)
    spec_keys = keys_by_spec(asset, partitions, table.spec_history, table.partition_tuples)
    for spec_partitions, file_indices, keys in spec_keys:
        spec_key = str(PartitionKey.of({name: key[name] for name in spec_partitions.names}))
        is_match[file_indices[np.asarray(pc.equal(keys, spec_key))]] = True
        is_shared[file_indices] = spec_partitions.names != partitions.names
    rows = table.files.append_column("shared", pa.array(is_shared)).filter(pa.array(is_match))
    files = rows.slice(0, MAX_SHOWN_FILES).select(["path", "spec_id", "rows", "bytes", "shared"]).to_pylist()
    for file in files:
        file["path"] = file["path"].removeprefix(f"{table.uri}/").removeprefix(f"{table.uri.removeprefix('file://')}/")
    folders = sorted({file["path"].rpartition("/")[0] for file in files})
    return {**document, "files": files, "folders": folders, "count": rows.num_rows}


def _parse_asset_key(snapshot: StatusSnapshot, asset: str, key_text: str) -> PartitionKey:
    """Parse a key. Raises `StatusError` if its dimensions are not those of the asset and it has no recorded status."""
    key, facts = PartitionKey.parse(key_text), snapshot.asset(asset)
    is_mismatch = facts.is_registered and sorted(key) != sorted(facts.dimensions)
    if is_mismatch and find_partition_status(snapshot, asset, key_text) is None:
        dimensions = ", ".join(facts.dimensions) or "nothing"
        label = key_label(key, empty="without dimensions")
        raise StatusError(f"{asset!r} is partitioned by {dimensions}, but the key {label} is not")
    return key
