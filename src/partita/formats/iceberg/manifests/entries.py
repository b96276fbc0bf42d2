"""Manifest entries and manifest list rows as pyiceberg's objects, with no field lost: what a commit writes again.

They are made from the Arrow records that `avro.py` decodes. Partition values are pyiceberg's: dates and times as
integers, UUIDs and fixed values as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    PARTITION_FIELD_SUMMARY_TYPE,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.typedef import Record

from partita.arrow.buffers import dense_array
from partita.errors import TableError
from partita.formats.iceberg.manifests.avro import read_container_and_records
from partita.formats.iceberg.manifests.schema import (
    CONTENT_ID,
    DATA,
    DATA_FILE_FIELDS,
    DATA_FILE_ID,
    FILE_SEQUENCE_NUMBER_ID,
    FORMAT_ID,
    PARTITION_ID,
    SEQUENCE_NUMBER_ID,
    SNAPSHOT_ID,
    STATUS_ID,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField

_LIST_FIELDS = MANIFEST_LIST_FILE_SCHEMAS[2].fields
_SUMMARIES_ID, _MANIFEST_CONTENT_ID = 507, 517


def read_manifest_entries(io: FileIO, manifest: ManifestFile, spec: PartitionSpec | None = None) -> list[ManifestEntry]:
    """Read all entries of a manifest, deleted ones included, with inherited values filled in.

    With `spec`, partition values are in the order of its fields, whatever order the file has. Raises `TableError` where
    the file is not a manifest.
    """
    _, records = read_container_and_records(io, manifest.manifest_path)
    return entries_from_records(records, manifest, spec)


def entries_from_records(
    records: pa.Table, manifest: ManifestFile, spec: PartitionSpec | None = None
) -> list[ManifestEntry]:
    """Return the entries of decoded records of a manifest (see `read_manifest_entries`)."""
    try:
        columns = {name: dense_array(records[name]) for name in records.column_names}
        files = _data_files(columns[f"f{DATA_FILE_ID}"], manifest, spec)
        statuses = [ManifestEntryStatus(value) for value in columns[f"f{STATUS_ID}"].to_pylist()]
        snapshot_ids, sequence_numbers, file_sequence_numbers = (
            columns[f"f{field_id}"].to_pylist() if f"f{field_id}" in columns else [None] * records.num_rows
            for field_id in (SNAPSHOT_ID, SEQUENCE_NUMBER_ID, FILE_SEQUENCE_NUMBER_ID)
        )
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TableError(f"the entries of manifest {manifest.manifest_path} are broken: {error}") from error
    entries = map(ManifestEntry, statuses, snapshot_ids, sequence_numbers, file_sequence_numbers, files)
    return [_inherit_sequence_numbers(entry, manifest) for entry in entries]


def read_manifest_files(io: FileIO, location: str) -> list[ManifestFile]:
    """Read the manifests of a manifest list, in order."""
    _, records = read_container_and_records(io, location)
    try:
        columns = {name: dense_array(records[name]) for name in records.column_names}
        values = [_list_column(columns, field, records.num_rows) for field in _LIST_FIELDS]
    except (LookupError, TypeError, ValueError) as error:
        raise TableError(f"{location} is not a manifest list: {error}") from error
    return list(map(ManifestFile, *values))


def read_snapshot_manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """Read the manifests of a snapshot."""
    return read_manifest_files(io, snapshot.manifest_list)


def manifests_by_path(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    """Read the manifests of several snapshots, keyed by path."""
    return {
        manifest.manifest_path: manifest for snapshot in snapshots for manifest in read_snapshot_manifests(io, snapshot)
    }


def is_live_entry(entry: ManifestEntry) -> bool:
    """Return whether the entry's file is part of the table."""
    return entry.status != ManifestEntryStatus.DELETED


def new_manifest_entry(
    file: DataFile, status: ManifestEntryStatus, snapshot_id: int | None, previous_entry: ManifestEntry | None = None
) -> ManifestEntry:
    """Return an entry of a file; sequence numbers come from `previous_entry`, and a new file has none yet."""
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=None if previous_entry is None else previous_entry.sequence_number,
        file_sequence_number=None if previous_entry is None else previous_entry.file_sequence_number,
        data_file=file,
    )


def existing_entry(entry: ManifestEntry) -> ManifestEntry:
    """Return the entry with status EXISTING, and the snapshot id and sequence numbers that it has."""
    return new_manifest_entry(entry.data_file, ManifestEntryStatus.EXISTING, entry.snapshot_id, entry)


# --- columns to objects


def _data_files(structs: pa.StructArray, manifest: ManifestFile, spec: PartitionSpec | None) -> list[DataFile]:
    fields = {field.name: structs.field(index) for index, field in enumerate(structs.type)}
    columns = [
        _partitions(fields.get(f"f{PARTITION_ID}"), len(structs), manifest, spec)
        if field.field_id == PARTITION_ID
        else _data_file_column(fields, field, len(structs))
        for field in DATA_FILE_FIELDS
    ]
    files = list(map(DataFile, *columns))
    for file in files:
        file.spec_id = manifest.partition_spec_id
    return files


def _data_file_column(fields: dict[str, pa.Array], field: NestedField, length: int) -> list[Any]:
    array = fields.get(f"f{field.field_id}")
    if field.field_id == CONTENT_ID:
        values = [DATA] * length if array is None else array.to_pylist()
        return [DataFileContent(DATA if value is None else value) for value in values]
    if array is None:
        if field.required:
            raise LookupError(f"there is no field {field.name}")
        return [None] * length
    if field.field_id == FORMAT_ID:
        return [FileFormat(value) for value in array.to_pylist()]
    return _dicts(array) if _is_map(array) else array.to_pylist()


def _is_map(array: pa.Array) -> bool:
    """Return whether an array holds maps: Iceberg writes maps with integer keys as Avro arrays of key and value."""
    is_list_of_structs = pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type)
    return bool(is_list_of_structs or pa.types.is_map(array.type))


def _dicts(maps: pa.Array) -> list[dict[Any, Any] | None]:
    keys, items = maps.values.field(0).to_pylist(), maps.values.field(1).to_pylist()
    offsets = maps.offsets.to_pylist()
    return [
        None if is_null else dict(zip(keys[start:stop], items[start:stop], strict=True))
        for is_null, start, stop in zip(maps.is_null().to_pylist(), offsets[:-1], offsets[1:], strict=True)
    ]


def _partitions(
    structs: pa.StructArray | None, length: int, manifest: ManifestFile, spec: PartitionSpec | None
) -> list[Record]:
    # A partition struct without fields takes no bytes, and has no Arrow column.
    written_ids = [] if structs is None else [int(field.name.removeprefix("f")) for field in structs.type]
    columns = [] if structs is None else [plain_values(structs.field(index)) for index in range(len(written_ids))]
    if spec is not None:
        order = _partition_order(manifest, written_ids, [field.field_id for field in spec.fields])
        columns = [columns[index] for index in order]
    return [Record(*values) for values in zip(*columns, strict=True)] if columns else [Record() for _ in range(length)]


def _partition_order(manifest: ManifestFile, written_ids: Sequence[int], spec_ids: Sequence[int]) -> Sequence[int]:
    """Return the position in the file's partitions of each field of the spec."""
    if set(spec_ids) <= set(written_ids):
        return [written_ids.index(field_id) for field_id in spec_ids]
    # Writers of version 1 numbered partition fields by position, so there only the position counts.
    if len(written_ids) == len(spec_ids):
        return range(len(spec_ids))
    raise TableError(f"the partitions in manifest {manifest.manifest_path} don't fit spec {manifest.partition_spec_id}")


def plain_values(values: pa.Array) -> list[Any]:
    """Return partition values as pyiceberg's records hold them: dates and times as integers."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz))
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    plain: list[Any] = values.to_pylist()
    return plain


def _inherit_sequence_numbers(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """Fill in what an entry inherits (specification, "Sequence Number Inheritance").

    Only added files inherit sequence numbers; in version 1 all of them are 0.
    """
    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
        entry.snapshot_id = manifest.added_snapshot_id
    if manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED:
        if entry.sequence_number is None:
            entry.sequence_number = manifest.sequence_number
        if entry.file_sequence_number is None:
            entry.file_sequence_number = manifest.sequence_number
    elif entry.sequence_number is None and is_live_entry(entry):
        raise TableError(
            f"manifest {manifest.manifest_path} lists the existing file {entry.data_file.file_path} without its "
            "sequence number"
        )
    return entry


def _list_column(columns: dict[str, pa.Array], field: NestedField, length: int) -> list[Any]:
    array = columns.get(f"f{field.field_id}")
    if array is None:
        if field.required and field.initial_default is None and field.field_id not in _OPTIONAL_IN_V1:
            raise LookupError(f"there is no field {field.name}")
        return [field.initial_default] * length
    if field.field_id == _MANIFEST_CONTENT_ID:
        return [ManifestContent(value) for value in array.to_pylist()]
    if field.field_id == _SUMMARIES_ID:
        return _summaries(array)
    values: list[Any] = array.to_pylist()
    return values


_OPTIONAL_IN_V1 = frozenset({504, 505, 506, 512, 513, 514})
"""The field ids of the counts of a manifest list."""


def _summaries(lists: pa.Array) -> list[list[PartitionFieldSummary] | None]:
    structs = lists.values
    fields = {field.name: structs.field(index).to_pylist() for index, field in enumerate(structs.type)}
    missing = [None] * len(structs)
    columns = [fields.get(f"f{field.field_id}", missing) for field in PARTITION_FIELD_SUMMARY_TYPE.fields]
    summaries = list(map(PartitionFieldSummary, *columns))
    offsets = lists.offsets.to_pylist()
    return [
        None if is_null else summaries[start:stop]
        for is_null, start, stop in zip(lists.is_null().to_pylist(), offsets[:-1], offsets[1:], strict=True)
    ]
