"""Write Delta logs by hand, for cases that no available writer produces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from partita.formats.delta.log import DeltaLog, DeltaSnapshot
from partita.storage import Storage

PROTOCOL_ACTION: dict[str, Any] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def schema_field(name: str, type_: Any = "string", **metadata: Any) -> dict[str, Any]:
    """Return a field of a schema as JSON."""
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def metadata_action(
    *columns: Mapping[str, Any],
    partitions: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a `metaData` action."""
    return {
        "metaData": {
            "id": "0a1b",
            "name": None,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(columns) or [schema_field("x", "long")]}),
            "partitionColumns": list(partitions),
            "configuration": dict(configuration or {}),
            "createdTime": 17,
        }
    }


def add_action(path: str, **fields: Any) -> dict[str, Any]:
    """Return an `add` action."""
    return {
        "add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 5, "dataChange": True, **fields}
    }


def remove_action(path: str, **fields: Any) -> dict[str, Any]:
    """Return a `remove` action."""
    return {"remove": {"path": path, "deletionTimestamp": 6, "dataChange": True, **fields}}


def deletion_vector(path: str, offset: int | None = None) -> dict[str, Any]:
    """Return the descriptor of a deletion vector."""
    return {"storageType": "u", "pathOrInlineDv": path, "offset": offset, "sizeInBytes": 1, "cardinality": 1}


def write_log(folder: Path, *commits: Sequence[Mapping[str, Any]], first: int = 0) -> DeltaLog:
    """Write a log with some commits."""
    log = DeltaLog(Storage.from_uri(folder))
    for version, actions in enumerate(commits, first):
        assert log.write_commit(version, actions)
    return log


def file_paths(snapshot: DeltaSnapshot) -> list[str]:
    """Return the paths of the files of a snapshot, in order."""
    paths: list[str] = snapshot.files["path"].to_pylist()
    return paths


_TEXT_MAP_TYPE = pa.map_(pa.string(), pa.string())
_ADD_TYPE = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXT_MAP_TYPE),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
    ]
)
_CHECKPOINT_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ("add", _ADD_TYPE),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXT_MAP_TYPE)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXT_MAP_TYPE),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
    ]
)


def write_checkpoint(folder: Path, version: int, *parts: Sequence[Mapping[str, Any]]) -> None:
    """Write a checkpoint of some actions in parts, without stats and deletion vectors, as older writers do."""
    for at, actions in enumerate(parts, 1):
        part = f".{at:010}.{len(parts):010}" if len(parts) > 1 else ""
        write_checkpoint_part(folder / "_delta_log" / f"{version:020}.checkpoint{part}.parquet", actions)


def write_checkpoint_part(
    file: Path, actions: Sequence[Mapping[str, Any]], schema: pa.Schema = _CHECKPOINT_SCHEMA
) -> None:
    """Write one Parquet file of a checkpoint."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(actions), schema), file)
