"""Manifests: reading their entries with nothing lost, and writing them for one spec each.

Specification, "Manifests". An entry that is added leaves its sequence numbers to the manifest list; one that exists or
is deleted says them. What pyiceberg's own writer does another way: partition fields are optional (a void field of a
required column is null), `referenced_data_file` is kept in version 2, equality ids are ints, the header has `schema-id`
and the content, and entries share blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic_core import to_json
from pyiceberg.avro.codecs import AVRO_CODEC_KEY, AvroCompressionCodec
from pyiceberg.io import InputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest_list,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from partita.errors import PartitaError, TableError
from partita.formats.iceberg.manifests.avro import read_records
from partita.formats.iceberg.places import metadata_owner, metadata_path
from partita.formats.iceberg.properties import number_in
from partita.formats.iceberg.transaction.avro import ExactFile, NamedOnce
from partita.formats.iceberg.transaction.partition_summaries import column_summaries, partition_summaries
from partita.formats.iceberg.transaction.schemas import find_compatible_schema, partition_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO, InputStream
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from partita.formats.iceberg.transaction.copying import Copy

_BLOCK = 250
"""Entries in a block; the size of a manifest is looked at after each."""
MOST_ENTRIES = 10_000
"""Entries in a manifest, however small they are: whoever takes one file away writes all the others anew."""
_CODEC: AvroCompressionCodec = "deflate"
"""What Iceberg's own writers compress manifests with, whatever the table says of its data files."""
_NAMES = {ManifestContent.DATA: "data", ManifestContent.DELETES: "deletes"}


def read_entries(io: FileIO, manifest: ManifestFile, spec: PartitionSpec | None = None) -> list[ManifestEntry]:
    """All entries, those that are deleted too, with what they inherit from their manifest.

    The partition is in the order of the spec's fields where a spec is given, whatever the file's order is.
    """
    # pyiceberg's compiled decoder reads past the end of what is broken, so it is decoded in another way before.
    parts, _ = read_records(io, manifest.manifest_path)
    try:
        return decode_entries(InMemoryFile(manifest.manifest_path, parts.in_one_block()), manifest, spec)
    except (ArithmeticError, EOFError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, PartitaError):
            raise
        raise TableError(f"the entries of manifest {manifest.manifest_path} are broken: {error}") from error


def listed_manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """All manifests of a snapshot's manifest list."""
    read_records(io, snapshot.manifest_list)  # As of entries.
    return snapshot.manifests(io)


def manifests_by_path(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """All manifests of some snapshots, each once, by their paths."""
    return {each.manifest_path: each for snapshot in snapshots for each in listed_manifests(io, snapshot)}


def decode_entries(file: InputFile, manifest: ManifestFile, spec: PartitionSpec | None = None) -> list[ManifestEntry]:
    """The same of a file that has entries of the manifest."""
    with ExactFile[ManifestEntry](
        file,
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        order = None if spec is None else _order(manifest, reader.schema, spec)
        return [_inherited(entry, manifest, order) for entry in reader]


class InMemoryFile(InputFile):
    """A file whose bytes are known."""

    def __init__(self, location: str, data: bytes) -> None:
        super().__init__(location)
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        """Always."""
        return True

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - of the interface
        """The bytes."""
        return BytesIO(self._data)


def is_live(entry: ManifestEntry) -> bool:
    """Whether the file is a part of the table."""
    return entry.status != ManifestEntryStatus.DELETED


def content_of(file: DataFile) -> ManifestContent:
    """The kind of manifest that lists the file."""
    return ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES


def entry_of(
    file: DataFile, status: ManifestEntryStatus, snapshot_id: int | None, like: ManifestEntry | None = None
) -> ManifestEntry:
    """An entry of a file: a new one has no sequence numbers yet, any other has those of the entry before it."""
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=None if like is None else like.sequence_number,
        file_sequence_number=None if like is None else like.file_sequence_number,
        data_file=file,
    )


@dataclass(slots=True, eq=False)
class Output:
    """Where the manifests and the manifest lists of one commit go; `written` are the paths of all of them."""

    table: Table
    snapshot_id: int
    written: list[str] = field(default_factory=list)
    _commit: str = field(default_factory=lambda: str(uuid4()))
    _numbers: Iterator[int] = field(default_factory=count)
    _attempts: Iterator[int] = field(default_factory=count)

    def write_manifests(
        self, spec_id: int, content: ManifestContent, entries: Sequence[ManifestEntry]
    ) -> list[ManifestFile]:
        """The entries, all of one spec and content, in as many manifests as the table's target size asks for."""
        rest = iter(entries)
        return [self._write_manifest(spec_id, content, first, rest) for first in rest]

    def _write_manifest(
        self, spec_id: int, content: ManifestContent, first: ManifestEntry, rest: Iterator[ManifestEntry]
    ) -> ManifestFile:
        metadata = self.table.metadata
        spec = metadata.specs()[spec_id]
        partition = partition_type(metadata, spec)
        path = self._new_path(f"{self._commit}-m{next(self._numbers)}.avro")
        tally = _Tally(partition)
        writer = NamedOnce[ManifestEntry](
            output_file=self.table.io.new_output(path),
            file_schema=_entry_schema(int(metadata.format_version), content, partition),
            record_schema=_entry_schema(3, ManifestContent.DELETES, partition),
            schema_name="manifest_entry",
            metadata=_header(metadata, spec, content),
        )
        target = _setting(metadata, TableProperties.MANIFEST_TARGET_SIZE_BYTES, 8 << 20)
        with writer:
            block = [first]
            for entry in rest:
                block.append(entry)
                if len(block) == _BLOCK:
                    writer.write_block([tally.counted(each) for each in block])
                    block = []
                    if writer.tell() >= target or len(tally.partitions) >= MOST_ENTRIES:
                        break
            if block:
                writer.write_block([tally.counted(each) for each in block])
            length = writer.tell()
        return tally.manifest(path, length, spec_id, content, self.snapshot_id)

    def write_copy(self, spec_id: int, content: ManifestContent, copy: Copy) -> ManifestFile:
        """A manifest of entries of an earlier one."""
        path = self._new_path(f"{self._commit}-m{next(self._numbers)}.avro")
        with self.table.io.new_output(path).create() as file:
            file.write(copy.data)
        metadata = self.table.metadata
        return ManifestFile.from_args(
            manifest_path=path,
            manifest_length=len(copy.data),
            partition_spec_id=spec_id,
            content=content,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=UNASSIGNED_SEQ if copy.lowest is None else copy.lowest,
            added_snapshot_id=self.snapshot_id,
            added_files_count=0,
            existing_files_count=copy.files,
            deleted_files_count=0,
            added_rows_count=0,
            existing_rows_count=copy.rows,
            deleted_rows_count=0,
            partitions=column_summaries(partition_type(metadata, metadata.specs()[spec_id]), copy.partitions),
            key_metadata=None,
        )

    def write_list(self, manifests: Iterable[ManifestFile], parent: int | None, sequence_number: int) -> str:
        """The manifest list of one attempt to commit; its path."""
        metadata = self.table.metadata
        path = self._new_path(f"snap-{self.snapshot_id}-{next(self._attempts)}-{self._commit}.avro")
        with write_manifest_list(
            format_version=metadata.format_version,
            output_file=self.table.io.new_output(path),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            avro_compression=_CODEC,
        ) as writer:
            writer.add_manifests(list(manifests))
        return path

    def _new_path(self, name: str) -> str:
        metadata = self.table.metadata
        # Not by pyiceberg's location provider: the table's properties may name a class for it.
        path = f"{metadata_path(metadata)}/{metadata_owner(metadata)}{name}"
        self.written.append(path)
        return path


@dataclass(slots=True, eq=False)
class _Tally:
    """What the manifest list says of a manifest."""

    partition: StructType
    files: dict[ManifestEntryStatus, int] = field(default_factory=dict)
    rows: dict[ManifestEntryStatus, int] = field(default_factory=dict)
    lowest: int | None = None
    partitions: list[Record] = field(default_factory=list)

    def counted(self, entry: ManifestEntry) -> ManifestEntry:
        status, file, number = entry.status, entry.data_file, entry.sequence_number
        self.files[status] = self.files.get(status, 0) + 1
        self.rows[status] = self.rows.get(status, 0) + file.record_count
        self.partitions.append(file.partition)
        if number is not None and is_live(entry) and (self.lowest is None or number < self.lowest):
            self.lowest = number
        return entry

    def manifest(
        self, path: str, length: int, spec_id: int, content: ManifestContent, snapshot_id: int
    ) -> ManifestFile:
        added, existing, deleted = (
            ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED,
        )  # fmt: skip
        return ManifestFile.from_args(
            manifest_path=path,
            manifest_length=length,
            partition_spec_id=spec_id,
            content=content,
            # The manifest list puts the commit's number in place of these.
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=UNASSIGNED_SEQ if self.lowest is None else self.lowest,
            added_snapshot_id=snapshot_id,
            added_files_count=self.files.get(added, 0),
            existing_files_count=self.files.get(existing, 0),
            deleted_files_count=self.files.get(deleted, 0),
            added_rows_count=self.rows.get(added, 0),
            existing_rows_count=self.rows.get(existing, 0),
            deleted_rows_count=self.rows.get(deleted, 0),
            partitions=partition_summaries(self.partition, self.partitions),
            key_metadata=None,
        )


def _inherited(entry: ManifestEntry, manifest: ManifestFile, order: list[int] | None) -> ManifestEntry:
    """Specification, "Sequence Number Inheritance": only what was added inherits; in version 1 all numbers are 0."""
    file = entry.data_file
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    if manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED:
        if entry.sequence_number is None:
            entry.sequence_number = manifest.sequence_number
        if entry.file_sequence_number is None:
            entry.file_sequence_number = manifest.sequence_number
    elif entry.sequence_number is None and is_live(entry):
        raise TableError(f"manifest {manifest.manifest_path} does not say the sequence number of {file.file_path}")
    file.spec_id = manifest.partition_spec_id
    if order is not None:
        file[_PARTITION] = Record(*(file.partition[at] for at in order))
    return entry


_PARTITION = next(at for at, each in enumerate(DATA_FILE_TYPE[3].fields) if each.field_id == 102)


def _order(manifest: ManifestFile, schema: Schema, spec: PartitionSpec) -> list[int] | None:
    """Where in the file's partitions each field of the spec is; None where they are in its order already."""
    partition = schema.find_type(102)
    written = [each.field_id for each in partition.fields] if isinstance(partition, StructType) else []
    wanted = [each.field_id for each in spec.fields]
    # Version 1 numbered fields by their place, so that there the place alone counts.
    if written == wanted or (len(written) == len(wanted) and not set(wanted) <= set(written)):
        return None
    if not set(wanted) <= set(written):
        raise TableError(f"the partitions in manifest {manifest.manifest_path} don't fit spec {spec.spec_id}")
    return [written.index(field_id) for field_id in wanted]


def _entry_schema(version: int, content: ManifestContent, partition: StructType) -> Schema:
    known: Any = version
    fields = list(data_file_with_partition(partition, known).fields)
    fields = [_EQUALITY_IDS if each.field_id == _EQUALITY_IDS.field_id else each for each in fields]
    if version == 2 and content == ManifestContent.DELETES:
        fields.append(_REFERENCED)
    return manifest_entry_schema_with_data_file(known, StructType(*fields))


_REFERENCED = next(each for each in DATA_FILE_TYPE[3].fields if each.field_id == 143)
_EQUALITY_IDS = NestedField(
    field_id=135,
    name="equality_ids",
    field_type=ListType(element_id=136, element_type=IntegerType(), element_required=True),
    required=False,
    doc="Field ids used to determine row equality in equality delete files.",
)


def _header(metadata: TableMetadata, spec: PartitionSpec, content: ManifestContent) -> dict[str, str]:
    schema = find_compatible_schema(metadata, spec)
    return {
        "schema": schema.model_dump_json(),
        "schema-id": str(schema.schema_id),
        "partition-spec": to_json(spec.fields).decode(),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(metadata.format_version),
        "content": _NAMES[content],
        AVRO_CODEC_KEY: _CODEC,
    }


def _setting(metadata: TableMetadata, name: str, default: int) -> int:
    return number_in(metadata.properties, name, default)
