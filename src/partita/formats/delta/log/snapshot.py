"""What a Delta table is at one version: its protocol, its metadata and its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from partita.errors import TableError
from partita.untrusted import parse_json


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a table asks of its readers and writers; features are named from reader 3 and writer 7 on."""

    reader: int
    writer: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> Self:
        """The protocol of a `protocol` action."""
        try:
            reader, writer = int(action["minReaderVersion"]), int(action["minWriterVersion"])
        except (KeyError, TypeError, ValueError):
            raise TableError(f"a protocol needs minReaderVersion and minWriterVersion; found {action!r}") from None
        features = (frozenset(action.get(name) or ()) for name in ("readerFeatures", "writerFeatures"))
        return cls(reader, writer, *features)


@dataclass(frozen=True, slots=True)
class Metadata:
    """A table's schema, partition columns and settings.

    `schema` is the parsed `schemaString`, `partition_columns` have the schema's names, and `raw` is the whole
    `metaData` action, to be changed and written back.
    """

    id: str
    name: str | None
    schema: Mapping[str, Any]
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int | None
    raw: Mapping[str, Any]

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> Self:
        """The metadata of a `metaData` action."""
        try:
            return cls(
                id=action["id"],
                name=action.get("name"),
                schema=_struct(action["schemaString"]),
                partition_columns=tuple(action["partitionColumns"]),
                configuration=action.get("configuration") or {},
                created_time=action.get("createdTime"),
                raw=action,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"the table's metadata can't be read: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A table at one version; `timestamp` is that of its commit, in milliseconds from 1970.

    `files` has one row for each file, in the order that they came into the table: `path` as the log has it, URI-encoded
    and mostly relative; `partition_values`, a struct of one text for each partition column under its physical name;
    `size`; `modification_time`; `stats`, JSON or null; `has_deletion_vector`; `deletion_vector`, the vector's unique
    id or null. `transactions` are the versions that applications left, by their id. `canonical_paths` are the paths of
    `files` in the form that tells files apart (`paths.py`), None where all of them have it already.
    """

    version: int
    timestamp: int
    protocol: Protocol
    metadata: Metadata
    files: pa.Table
    transactions: Mapping[str, int]
    canonical_paths: pa.Array | None = None


def files_schema(partitions: Iterable[str]) -> pa.Schema:
    """The schema of `Snapshot.files` for partition columns of those physical names."""
    return pa.schema(
        [
            ("path", pa.string()),
            ("partition_values", pa.struct([(name, pa.string()) for name in partitions])),
            ("size", pa.int64()),
            ("modification_time", pa.int64()),
            ("stats", pa.string()),
            ("has_deletion_vector", pa.bool_()),
            ("deletion_vector", pa.string()),
        ]
    )


def column_mapping_mode(metadata: Metadata) -> str:
    """`none`, `name` or `id`: how columns in files are found (Column Mapping)."""
    return metadata.configuration.get("delta.columnMapping.mode", "none")


def physical_names(metadata: Metadata) -> dict[str, str]:
    """The names that the top-level columns have in files, in statistics and in partition values, by their own."""
    mapped = column_mapping_mode(metadata) != "none"
    return {f["name"]: _physical(f) if mapped else f["name"] for f in metadata.schema["fields"]}


def partition_names(metadata: Metadata) -> tuple[str, ...]:
    """The physical names of the partition columns, in their order."""
    names = physical_names(metadata)
    return tuple(names.get(name, name) for name in metadata.partition_columns)


def _physical(field: Mapping[str, Any]) -> str:
    physical = (field.get("metadata") or {}).get("delta.columnMapping.physicalName")
    return str(field["name"] if physical is None else physical)


def _struct(text: str) -> Mapping[str, Any]:
    schema = parse_json(text)
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise TypeError("schemaString is not a struct")
    return schema
