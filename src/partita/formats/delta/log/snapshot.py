"""A Delta table at one version: its protocol, metadata and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from partita.errors import TableError
from partita.untrusted_input import parse_json


@dataclass(frozen=True, slots=True)
class DeltaProtocol:
    """The versions and features that a table requires of readers and writers.

    Features are named from reader version 3 and writer version 7 on.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @classmethod
    def from_action(cls, action: Mapping[str, Any]) -> Self:
        """Parse a `protocol` action; raise `TableError` if it has no versions."""
        try:
            reader, writer = int(action["minReaderVersion"]), int(action["minWriterVersion"])
        except (KeyError, TypeError, ValueError):
            raise TableError(f"a protocol needs minReaderVersion and minWriterVersion; found {action!r}") from None
        features = (frozenset(action.get(name) or ()) for name in ("readerFeatures", "writerFeatures"))
        return cls(reader, writer, *features)


@dataclass(frozen=True, slots=True)
class DeltaMetadata:
    """A table's schema, partition columns and properties.

    `schema_json` is the parsed `schemaString`, `partition_columns` are names of the schema, and `action` is the whole
    `metaData` action, to be changed and written back.
    """

    id: str
    schema_json: Mapping[str, Any]
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    action: Mapping[str, Any]

    @classmethod
    def from_action(cls, action: Mapping[str, Any]) -> Self:
        """Parse a `metaData` action; raise `TableError` if it lacks a field."""
        try:
            return cls(
                id=action["id"],
                schema_json=_parse_schema_string(action["schemaString"]),
                partition_columns=tuple(action["partitionColumns"]),
                configuration=action.get("configuration") or {},
                action=action,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"the table's metadata can't be read: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class DeltaSnapshot:
    """A table at one version; `timestamp` is the time of its commit in milliseconds since 1970.

    `files` has one row per file, in the order in which they were added: `path` as the log has it, URI-encoded and
    mostly relative; `partition_values`, a struct with the text of each partition column under its physical name;
    `size`; `modification_time`; `stats`, JSON or null; `has_deletion_vector`; `deletion_vector`, the vector's unique
    id or null. `transactions` maps the ids of applications to their last transaction. `canonical_paths` are the paths
    of `files` in canonical form (`paths.py`), or None if all of them are canonical already.
    """

    version: int
    timestamp: int
    protocol: DeltaProtocol
    metadata: DeltaMetadata
    files: pa.Table
    transactions: Mapping[str, int]
    canonical_paths: pa.Array | None = None


def files_schema(partition_names: Iterable[str]) -> pa.Schema:
    """Return the schema of `DeltaSnapshot.files` for the physical names of the partition columns."""
    return pa.schema(
        [
            ("path", pa.string()),
            ("partition_values", pa.struct([(name, pa.string()) for name in partition_names])),
            ("size", pa.int64()),
            ("modification_time", pa.int64()),
            ("stats", pa.string()),
            ("has_deletion_vector", pa.bool_()),
            ("deletion_vector", pa.string()),
        ]
    )


def column_mapping_mode(metadata: DeltaMetadata) -> str:
    """Return how columns are found in files: `none`, `name` or `id` (Column Mapping)."""
    return metadata.configuration.get("delta.columnMapping.mode", "none")


def physical_names(metadata: DeltaMetadata) -> dict[str, str]:
    """Map the names of top-level columns to their names in files, statistics and partition values."""
    is_mapped = column_mapping_mode(metadata) != "none"
    return {f["name"]: _physical_name(f) if is_mapped else f["name"] for f in metadata.schema_json["fields"]}


def physical_partition_names(metadata: DeltaMetadata) -> tuple[str, ...]:
    """Return the physical names of the partition columns, in order."""
    names = physical_names(metadata)
    return tuple(names.get(name, name) for name in metadata.partition_columns)


def _physical_name(field: Mapping[str, Any]) -> str:
    physical = (field.get("metadata") or {}).get("delta.columnMapping.physicalName")
    return str(field["name"] if physical is None else physical)


def _parse_schema_string(text: str) -> Mapping[str, Any]:
    schema = parse_json(text)
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise TypeError("schemaString is not a struct")
    return schema
