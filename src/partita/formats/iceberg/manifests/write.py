"""Writing manifests and manifest lists (specification, "Manifests").

A manifest holds entries of one spec and one content. An added entry leaves its sequence numbers to the manifest list;
existing and deleted entries state them. Differences from pyiceberg's own writer: partition fields are optional (a void
field of a required column is null), the entry schema is `schema.manifest_entry_schema`, the header has `schema-id` and
`content`, and many entries share an Avro block.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from pydantic_core import to_json
from pyiceberg.avro.codecs import AVRO_CODEC_KEY, AvroCompressionCodec
from pyiceberg.avro.file import _SCHEMA_KEY, MAGIC, META_SCHEMA, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest_list,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Record, StructProtocol
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from partita.formats.iceberg.locations import metadata_file_prefix, metadata_path
from partita.formats.iceberg.manifests.entries import is_live_entry
from partita.formats.iceberg.manifests.partition_summaries import partition_summaries, summaries_of_columns
from partita.formats.iceberg.manifests.schema import manifest_entry_schema
from partita.formats.iceberg.properties import int_property
from partita.formats.iceberg.specs import find_compatible_schema, partition_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import StructType

    from partita.formats.iceberg.manifests.copy import ManifestCopy

_BLOCK_ENTRIES = 250
"""Entries per Avro block; the size of a manifest is checked after each block."""
MAX_MANIFEST_ENTRIES = 10_000
"""Entries per manifest, however small they are: removing one file rewrites the entries of all others."""
DEFAULT_TARGET_SIZE = 8 << 20
"""Bytes per manifest unless `commit.manifest.target-size-bytes` says otherwise."""
_COMPRESSION_CODEC: AvroCompressionCodec = "deflate"
"""The codec of Iceberg's own manifest writers; the table's codec property is about data files."""
_CONTENT_NAMES = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}


def target_manifest_size(metadata: TableMetadata) -> int:
    """Return the size in bytes at which a manifest is full, from the table's properties."""
    return int_property(metadata.properties, TableProperties.MANIFEST_TARGET_SIZE_BYTES, DEFAULT_TARGET_SIZE)


@dataclass(slots=True, eq=False)
class ManifestWriter:
    """Writes the manifests and manifest lists of one commit; `written_paths` are the paths of all of them."""

    table: Table
    snapshot_id: int
    written_paths: list[str] = field(default_factory=list)
    _commit_id: str = field(default_factory=lambda: str(uuid4()))
    _manifest_numbers: Iterator[int] = field(default_factory=count)
    _attempt_numbers: Iterator[int] = field(default_factory=count)

    def write_manifests(
        self, spec_id: int, content: ManifestContent, entries: Sequence[ManifestEntry]
    ) -> list[ManifestFile]:
        """Write entries of one spec and content into as many manifests as the target size asks for."""
        remaining = iter(entries)
        return [self._write_manifest(spec_id, content, first, remaining) for first in remaining]

    def _write_manifest(
        self, spec_id: int, content: ManifestContent, first: ManifestEntry, remaining: Iterator[ManifestEntry]
    ) -> ManifestFile:
        metadata = self.table.metadata
        spec = metadata.specs()[spec_id]
        partition = partition_type(metadata, spec)
        path = self._new_manifest_path()
        builder = _ManifestFileBuilder(partition)
        writer = _UniqueNamesAvroOutputFile[ManifestEntry](
            output_file=self.table.io.new_output(path),
            file_schema=manifest_entry_schema(int(metadata.format_version), content, partition),
            record_schema=manifest_entry_schema(3, ManifestContent.DELETES, partition),
            schema_name="manifest_entry",
            metadata=_manifest_header(metadata, spec, content),
        )
        target_size = target_manifest_size(metadata)
        with writer:
            block = [first]
            for entry in remaining:
                block.append(entry)
                if len(block) == _BLOCK_ENTRIES:
                    writer.write_block([builder.add_entry(entry) for entry in block])
                    block = []
                    if writer.tell() >= target_size or len(builder.partitions) >= MAX_MANIFEST_ENTRIES:
                        break
            if block:
                writer.write_block([builder.add_entry(entry) for entry in block])
            length = writer.tell()
        return builder.build_manifest_file(path, length, spec_id, content, self.snapshot_id)

    def write_manifest_copy(self, spec_id: int, content: ManifestContent, copy: ManifestCopy) -> ManifestFile:
        """Write a manifest whose entries were copied as bytes from an earlier one."""
        path = self._new_manifest_path()
        with self.table.io.new_output(path).create() as file:
            file.write(copy.data)
        metadata = self.table.metadata
        return ManifestFile.from_args(
            manifest_path=path,
            manifest_length=len(copy.data),
            partition_spec_id=spec_id,
            content=content,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=UNASSIGNED_SEQ if copy.min_sequence_number is None else copy.min_sequence_number,
            added_snapshot_id=self.snapshot_id,
            added_files_count=0,
            existing_files_count=copy.file_count,
            deleted_files_count=0,
            added_rows_count=0,
            existing_rows_count=copy.row_count,
            deleted_rows_count=0,
            partitions=summaries_of_columns(partition_type(metadata, metadata.specs()[spec_id]), copy.partition_values),
            key_metadata=None,
        )

    def write_manifest_list(
        self, manifests: Iterable[ManifestFile], parent_snapshot_id: int | None, sequence_number: int
    ) -> str:
        """Write the manifest list of one commit attempt and return its path."""
        metadata = self.table.metadata
        path = self._new_path(f"snap-{self.snapshot_id}-{next(self._attempt_numbers)}-{self._commit_id}.avro")
        with write_manifest_list(
            format_version=metadata.format_version,
            output_file=self.table.io.new_output(path),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_snapshot_id,
            sequence_number=sequence_number,
            avro_compression=_COMPRESSION_CODEC,
        ) as writer:
            writer.add_manifests(list(manifests))
        return path

    def _new_manifest_path(self) -> str:
        return self._new_path(f"{self._commit_id}-m{next(self._manifest_numbers)}.avro")

    def _new_path(self, name: str) -> str:
        metadata = self.table.metadata
        # pyiceberg's location provider is not used: the table's properties may name a class for it.
        path = f"{metadata_path(metadata)}/{metadata_file_prefix(metadata)}{name}"
        self.written_paths.append(path)
        return path


@dataclass(slots=True, eq=False)
class _ManifestFileBuilder:
    """Collects the manifest list row of a manifest from its entries."""

    partition_struct: StructType
    file_counts: dict[ManifestEntryStatus, int] = field(default_factory=dict)
    row_counts: dict[ManifestEntryStatus, int] = field(default_factory=dict)
    min_sequence_number: int | None = None
    partitions: list[Record] = field(default_factory=list)

    def add_entry(self, entry: ManifestEntry) -> ManifestEntry:
        status, file, sequence_number = entry.status, entry.data_file, entry.sequence_number
        self.file_counts[status] = self.file_counts.get(status, 0) + 1
        self.row_counts[status] = self.row_counts.get(status, 0) + file.record_count
        self.partitions.append(file.partition)
        if (
            sequence_number is not None
            and is_live_entry(entry)
            and (self.min_sequence_number is None or sequence_number < self.min_sequence_number)
        ):
            self.min_sequence_number = sequence_number
        return entry

    def build_manifest_file(
        self, path: str, length: int, spec_id: int, content: ManifestContent, snapshot_id: int
    ) -> ManifestFile:
        status = ManifestEntryStatus
        return ManifestFile.from_args(
            manifest_path=path,
            manifest_length=length,
            partition_spec_id=spec_id,
            content=content,
            # The manifest list replaces unassigned numbers by the sequence number of the commit.
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=UNASSIGNED_SEQ if self.min_sequence_number is None else self.min_sequence_number,
            added_snapshot_id=snapshot_id,
            added_files_count=self.file_counts.get(status.ADDED, 0),
            existing_files_count=self.file_counts.get(status.EXISTING, 0),
            deleted_files_count=self.file_counts.get(status.DELETED, 0),
            added_rows_count=self.row_counts.get(status.ADDED, 0),
            existing_rows_count=self.row_counts.get(status.EXISTING, 0),
            deleted_rows_count=self.row_counts.get(status.DELETED, 0),
            partitions=partition_summaries(self.partition_struct, self.partitions),
            key_metadata=None,
        )


def _manifest_header(metadata: TableMetadata, spec: PartitionSpec, content: ManifestContent) -> dict[str, str]:
    schema = find_compatible_schema(metadata, spec)
    return {
        "schema": schema.model_dump_json(),
        "schema-id": str(schema.schema_id),
        "partition-spec": to_json(spec.fields).decode(),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(metadata.format_version),
        "content": _CONTENT_NAMES[content],
        AVRO_CODEC_KEY: _COMPRESSION_CODEC,
    }


R = TypeVar("R", bound=StructProtocol)


class _UniqueNamesAvroOutputFile(AvroOutputFile[R]):
    """An Avro file whose schema defines no type name twice.

    pyiceberg names a decimal type after its digits, so two partition fields of one decimal type would make a schema
    that Avro readers refuse.
    """

    def _write_header(self) -> None:
        schema = AvroSchemaConversion().iceberg_to_avro(self.file_schema, schema_name=self.schema_name)
        _make_type_names_unique(schema, set())
        header = AvroFileHeader(MAGIC, {**self.metadata, _SCHEMA_KEY: json.dumps(schema)}, self.sync_bytes)
        construct_writer(META_SCHEMA).write(self.encoder, header)


def _make_type_names_unique(schema: Any, used_names: set[str]) -> None:
    """Rename the `fixed` types of an Avro schema in place so that each name is used once."""
    if isinstance(schema, list):
        for part in schema:
            _make_type_names_unique(part, used_names)
    elif isinstance(schema, dict):
        if schema.get("type") == "fixed":
            schema["name"] = _unique_name(schema["name"], used_names)
        for part in schema.values():
            _make_type_names_unique(part, used_names)


def _unique_name(name: str, used_names: set[str]) -> str:
    unique_name, number = name, 1
    while unique_name in used_names:
        number += 1
        unique_name = f"{name}_{number}"
    used_names.add(unique_name)
    return unique_name
