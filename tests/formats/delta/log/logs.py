"""Logs written by hand, for what no writer at hand makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from partita.formats.delta.log import DeltaLog, Snapshot
from partita.storage import Storage

PROTOCOL: dict[str, Any] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def column(name: str, type_: Any = "string", **metadata: Any) -> dict[str, Any]:
    """A field of a schema."""
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def metadata(
    *columns: Mapping[str, Any],
    partitions: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A `metaData` action."""
    return {
        "metaData": {
            "id": "0a1b",
            "name": None,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(columns) or [column("x", "long")]}),
            "partitionColumns": list(partitions),
            "configuration": dict(configuration or {}),
            "createdTime": 17,
        }
    }


def add(path: str, **fields: Any) -> dict[str, Any]:
    """An `add` action."""
    return {
        "add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 5, "dataChange": True, **fields}
    }


def remove(path: str, **fields: Any) -> dict[str, Any]:
    """A `remove` action."""
    return {"remove": {"path": path, "deletionTimestamp": 6, "dataChange": True, **fields}}


def vector(place: str, offset: int | None = None) -> dict[str, Any]:
    """The descriptor of a deletion vector."""
    return {"storageType": "u", "pathOrInlineDv": place, "offset": offset, "sizeInBytes": 1, "cardinality": 1}


def write(folder: Path, *commits: Sequence[Mapping[str, Any]], first: int = 0) -> DeltaLog:
    """A log of those commits."""
    log = DeltaLog(Storage.at(folder))
    for version, actions in enumerate(commits, first):
        assert log.commit(version, actions)
    return log


def paths(snapshot: Snapshot) -> list[str]:
    """The paths of its files, in order."""
    found: list[str] = snapshot.files["path"].to_pylist()
    return found


_TEXTS = pa.map_(pa.string(), pa.string())
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
    ]
)
_CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ("add", _ADD),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
    ]
)


def write_checkpoint(folder: Path, version: int, *parts: Sequence[Mapping[str, Any]]) -> None:
    """A checkpoint of those actions, in as many parts; without stats and deletion vectors, which older ones lack."""
    for at, actions in enumerate(parts, 1):
        part = f".{at:010}.{len(parts):010}" if len(parts) > 1 else ""
        write_part(folder / "_delta_log" / f"{version:020}.checkpoint{part}.parquet", actions)


def write_part(file: Path, actions: Sequence[Mapping[str, Any]], schema: pa.Schema = _CHECKPOINT) -> None:
    """One Parquet file of a checkpoint."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(actions), schema), file)
