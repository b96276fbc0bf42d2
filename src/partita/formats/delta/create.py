"""Create a Delta table: its first commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.algebra.types import LogicalType, StructType, TypeKind
from partita.errors import SpecError, TableError, TableExists, value_repr
from partita.formats.column_partitioning import identity_spec
from partita.formats.delta.columns import GENERATION_EXPRESSION, max_column_id, new_table_schema
from partita.formats.delta.commit import current_millis
from partita.formats.delta.log import DeltaLog


def create_table(
    log: DeltaLog, schema: Schema, functions: Iterable[PartitionFunction], properties: Mapping[str, str]
) -> None:
    """Commit version 0 of a new table; raise `TableExists` if the folder has a log already."""
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TableError(f"properties must be strings; {name!r} is {value!r}")
    mode = properties.get("delta.columnMapping.mode", "none")
    if mode not in ("none", "name", "id"):
        raise SpecError(f"delta.columnMapping.mode must be none, name or id, not {value_repr(mode)}")
    document, partitions = new_table_schema(schema, functions, is_mapped=mode != "none")
    configuration = dict(properties)
    if mode != "none":
        configuration["delta.columnMapping.maxColumnId"] = str(max_column_id(document))
    now_millis = current_millis()
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(document, ensure_ascii=False),
        "partitionColumns": partitions,
        "configuration": configuration,
        "createdTime": now_millis,
    }
    info = {
        "timestamp": now_millis,
        "operation": "CREATE TABLE",
        "operationParameters": {"partitionBy": json.dumps(partitions), "properties": json.dumps(configuration)},
        "isBlindAppend": True,
        "engineInfo": "Partita",
        "txnId": str(uuid4()),
    }
    actions = [
        {"commitInfo": info},
        {"protocol": _protocol_action(schema, document, configuration)},
        {"metaData": metadata},
    ]
    if log.storage.exists("_delta_log/_last_checkpoint") or not log.write_commit(0, actions):
        raise TableExists(log.storage.uri)


def new_table_spec(schema: Schema, functions: Iterable[PartitionFunction]) -> PartitionSpec:
    """Return the partition spec that a new table would have."""
    document, partitions = new_table_schema(schema, functions, is_mapped=True)
    return identity_spec(partitions, schema_from_json(document))


def _protocol_action(schema: Schema, document: Mapping[str, Any], configuration: Mapping[str, str]) -> dict[str, Any]:
    """Return the lowest protocol that the columns and properties of a new table need."""
    is_mapped = "delta.columnMapping.maxColumnId" in configuration
    has_generated_columns = any(GENERATION_EXPRESSION in (f.get("metadata") or {}) for f in document["fields"])
    has_constraints = any(key.startswith("delta.constraints.") for key in configuration)
    if any(_has_kind(f.type, TypeKind.TIMESTAMP_NTZ) for f in schema):
        feature_use = [
            ("columnMapping", is_mapped),
            ("generatedColumns", has_generated_columns),
            ("checkConstraints", has_constraints),
        ]
        writer = ["timestampNtz", "appendOnly", "invariants", *(name for name, is_used in feature_use if is_used)]
        reader = ["timestampNtz", *(["columnMapping"] if is_mapped else [])]
        return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": writer}
    if is_mapped:
        return {"minReaderVersion": 2, "minWriterVersion": 5}
    return {"minReaderVersion": 1, "minWriterVersion": 4 if has_generated_columns else 3 if has_constraints else 2}


def _has_kind(type_: LogicalType, kind: TypeKind) -> bool:
    if isinstance(type_, StructType):
        return any(_has_kind(f.type, kind) for f in type_.fields)
    inner = [getattr(type_, name) for name in ("element", "key", "value") if hasattr(type_, name)]
    return type_.kind is kind or any(_has_kind(part, kind) for part in inner)
