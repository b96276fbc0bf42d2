"""Manifests as one Arrow table of their live or changed entries (specification, "Manifests")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
from partita.arrow.buffers import dense_array, null_mask
from partita.errors import TableError, UnsupportedFeature
from partita.formats.containment import check_no_parent_segments
from partita.formats.iceberg.manifests import cache
from partita.formats.iceberg.manifests.avro import decode_by_schema, read_avro, read_containers
from partita.formats.iceberg.manifests.schema import (
    ADDED,
    CHANGED_ENTRY_COLUMNS,
    CONTENT_ID,
    DATA,
    DATA_FILE_FIELD_IDS,
    DATA_FILE_ID,
    DELETED,
    EXISTING,
    FILE_SEQUENCE_NUMBER_ID,
    KEY_METADATA_ID,
    MANIFEST_ENTRY_SCHEMA,
    MANIFEST_READ_COLUMNS,
    PARTITION_ID,
    PARTITION_PREFIX,
    SEQUENCE_NUMBER_ID,
    SNAPSHOT_ID,
    STATUS_ID,
)
from partita.formats.iceberg.specs import is_source_dropped, partition_arrow_type

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


def read_live_entries(io: FileIO, manifests: pa.Table, history: SpecHistory) -> pa.Table:
    """Read the live files of manifests, in order, with inherited values filled in (`MANIFEST_ENTRY_SCHEMA`).

    `manifests` are rows of `MANIFEST_FILE_SCHEMA`, of which `MANIFEST_READ_COLUMNS` are enough.
    """
    return _concat_entries(manifests, lambda spec_manifests: _read_manifests(io, spec_manifests), history)


def read_changed_entries(io: FileIO, manifests: pa.Table, history: SpecHistory) -> pa.Table:
    """Read the files that manifests list as added or deleted: `CHANGED_ENTRY_COLUMNS` and the partition columns.

    `snapshot_id` is the snapshot of the manifest. Nothing is cached, except large manifests whose files were all added:
    those are read like any that a plan needs.
    """
    is_small = manifests["added_files"].to_numpy(zero_copy_only=False) <= _LARGE_MANIFEST_FILES
    count_columns = [manifests["existing_files"], manifests["deleted_files"]]
    is_all_added = ~is_small & np.all(
        [pc.fill_null(pc.equal(counts, 0), False).to_numpy() for counts in count_columns], axis=0
    )
    fields = [*CHANGED_ENTRY_COLUMNS, *(PARTITION_PREFIX + name for name in partition_columns(history))]
    tables = (
        [read_live_entries(io, manifests.filter(pa.array(is_all_added)), history).select(fields)]
        if is_all_added.any()
        else []
    )
    small_manifests = _manifests_from_table(manifests.filter(pa.array(~is_all_added)))
    for start in range(0, len(small_manifests), _MANIFEST_BATCH_SIZE):
        group = small_manifests[start : start + _MANIFEST_BATCH_SIZE]
        containers = read_containers(io, [manifest.path for manifest in group])
        for manifest_indices, records in decode_by_schema(containers):
            record_counts = [containers[index].record_count for index in manifest_indices]
            tables += _changed_entries(records, [group[index] for index in manifest_indices], record_counts, history)
    if not tables:
        return read_live_entries(io, manifests.slice(0, 0), history).select(fields)
    return pa.concat_tables(tables, promote_options="permissive")


_LARGE_MANIFEST_FILES = 1000
"""A manifest with more files is decoded as a whole, and cached."""
_MANIFEST_BATCH_SIZE = 256
"""Small manifests that are decoded together."""


def _changed_entries(
    records: pa.Table, manifests: Sequence[_ListedManifest], record_counts: Sequence[int], history: SpecHistory
) -> Iterator[pa.Table]:
    """Yield a table per spec of what manifests added or deleted; `record_counts` are their numbers of records."""
    if _DATA_FILE_COLUMN not in records.column_names:
        raise TableError(f"{manifests[0].path} is not a manifest: its entries have no data file")
    manifest_indices = np.repeat(np.arange(len(manifests)), record_counts)
    spec_ids = np.array([manifest.spec_id for manifest in manifests])[manifest_indices]
    snapshot_ids = np.array([manifest.snapshot_id for manifest in manifests], np.int64)[manifest_indices]
    entry_snapshot_ids = pc.fill_null(_int64_column(records, SNAPSHOT_ID), pa.scalar(-1, pa.int64())).to_numpy()
    is_inherited = null_mask(_int64_column(records, SNAPSHOT_ID))
    is_changed = (records[_STATUS_COLUMN].to_numpy() != EXISTING) & (
        is_inherited | (entry_snapshot_ids == snapshot_ids)
    )
    for spec_id in np.unique(spec_ids[is_changed]).tolist():
        rows = np.flatnonzero(is_changed & (spec_ids == spec_id))
        file = _struct_fields(dense_array(records[_DATA_FILE_COLUMN]).take(pa.array(rows)))
        content = (
            pc.fill_null(file[_CONTENT_COLUMN].cast(pa.int32()), DATA)
            if _CONTENT_COLUMN in file
            else _constant_array(DATA, len(rows))
        )
        partition = _struct_fields(file[_PARTITION_COLUMN]) if _PARTITION_COLUMN in file else {}
        flat_entries = pa.table(
            {"content": content} | {f"{PARTITION_PREFIX}{name}": values for name, values in partition.items()}
        )
        columns = {
            "snapshot_id": pa.array(snapshot_ids[rows]),
            "content": content,
            "spec_id": _constant_array(spec_id, len(rows)),
        }
        yield pa.table(columns | _partition_values(flat_entries, manifests[manifest_indices[rows[0]]], history))


def _constant_array(value: int, length: int) -> pa.Array:
    return pa.array(np.full(length, value, np.int32))


def _manifests_from_table(manifests: pa.Table) -> list[_ListedManifest]:
    listed_manifests = [
        _ListedManifest(index, is_encrypted=row.pop("encrypted"), **row)
        for index, row in enumerate(manifests.select(MANIFEST_READ_COLUMNS).to_pylist())
    ]
    if any(manifest.is_encrypted for manifest in listed_manifests):
        raise UnsupportedFeature(("encrypted manifests",), "reading")
    return listed_manifests


def _concat_entries(
    manifests: pa.Table, read_manifests: Callable[[Sequence[_ListedManifest]], Sequence[pa.Table]], history: SpecHistory
) -> pa.Table:
    listed_manifests = _manifests_from_table(manifests)
    partition_types = partition_columns(history)
    paths = pa.array([manifest.path for manifest in listed_manifests], pa.string())
    decoded_manifests = zip(listed_manifests, read_manifests(listed_manifests), strict=True)
    tables = [
        _entries_of_manifest(manifest, entries, history, partition_types, paths)
        for manifest, entries in decoded_manifests
        if entries.num_rows
    ]
    schema = _entries_schema(partition_types, tables)
    return pa.concat_tables([_cast_to_schema(table, schema) for table in tables]) if tables else schema.empty_table()


def partition_columns(history: SpecHistory) -> dict[str, pa.DataType | None]:
    """Return the partition columns of a table with their Arrow types; None if only the manifests know the type."""
    columns: dict[str, pa.DataType | None] = {}
    for spec in history.specs:
        for field in spec.fields:
            columns.setdefault(history.column_name(spec, field), partition_arrow_type(field))
    return columns


@dataclass(frozen=True, slots=True)
class _ListedManifest:
    index: int
    path: str
    length: int
    spec_id: int
    sequence_number: int
    snapshot_id: int
    is_encrypted: bool

    @property
    def cache_key(self) -> str:
        return f"manifest {self.snapshot_id} {self.sequence_number} {self.spec_id} {self.length} {self.path}"


def _read_manifests(io: FileIO, manifests: Sequence[_ListedManifest]) -> list[pa.Table]:
    """Read manifests; those that aren't cached are opened several at once."""
    tables = [cache.get_table(manifest.cache_key) for manifest in manifests]
    missing = [index for index, table in enumerate(tables) if table is None]
    if missing:
        with ThreadPoolExecutor(_MAX_THREADS) as pool:
            decoded_manifests = pool.map(
                lambda index: _flatten_entries(read_avro(io, manifests[index].path), manifests[index]), missing
            )
            for index, table in zip(missing, decoded_manifests, strict=True):
                tables[index] = cache.put_table(manifests[index].cache_key, table)
        cache.evict_periodically()
    return tables


_MAX_THREADS = 8

# --- entries of one manifest, as they are cached

_PARTITION_COLUMN, _KEY_METADATA_COLUMN = f"f{PARTITION_ID}", f"f{KEY_METADATA_ID}"
_STATUS_COLUMN, _DATA_FILE_COLUMN, _CONTENT_COLUMN = f"f{STATUS_ID}", f"f{DATA_FILE_ID}", f"f{CONTENT_ID}"


def _flatten_entries(records: pa.Table, manifest: _ListedManifest) -> pa.Table:
    """Return the live entries of a manifest, with partition columns named by field id.

    They have the columns of `MANIFEST_ENTRY_SCHEMA` except the last.
    """
    if _DATA_FILE_COLUMN not in records.column_names:
        raise TableError(f"{manifest.path} is not a manifest: its entries have no data file")
    records = records.filter(pc.not_equal(records[_STATUS_COLUMN], DELETED)).combine_chunks()
    file = _struct_fields(dense_array(records[_DATA_FILE_COLUMN]))
    if _KEY_METADATA_COLUMN in file and file[_KEY_METADATA_COLUMN].null_count < records.num_rows:
        raise UnsupportedFeature(("encrypted data files",), "reading")
    columns = {
        "spec_id": pa.array(np.full(records.num_rows, manifest.spec_id, np.int32)),
        "snapshot_id": pc.fill_null(_int64_column(records, SNAPSHOT_ID), manifest.snapshot_id),
        "sequence_number": _sequence_numbers(records, SEQUENCE_NUMBER_ID, manifest),
        "file_sequence_number": _sequence_numbers(records, FILE_SEQUENCE_NUMBER_ID, manifest),
    }
    for name, field_id in DATA_FILE_FIELD_IDS.items():
        type_ = MANIFEST_ENTRY_SCHEMA.field(name).type
        columns[name] = (
            _cast_array(file[f"f{field_id}"], type_) if f"f{field_id}" in file else pa.nulls(records.num_rows, type_)
        )
    check_no_parent_segments(columns["path"], f"the manifest {manifest.path}")
    columns["content"] = pc.fill_null(columns["content"], DATA)
    partition = _struct_fields(file[_PARTITION_COLUMN]) if _PARTITION_COLUMN in file else {}
    ordered_columns = {name: columns[name] for name in MANIFEST_ENTRY_SCHEMA.names[:-1]}
    return pa.table(ordered_columns | {f"{PARTITION_PREFIX}{name}": values for name, values in partition.items()})


def _sequence_numbers(records: pa.Table, field_id: int, manifest: _ListedManifest) -> pa.Array:
    """Return sequence numbers with inherited ones filled in, for added entries and all entries of version 1."""
    stored_numbers = _int64_column(records, field_id)
    if manifest.sequence_number == 0:
        return pc.fill_null(stored_numbers, 0)
    is_added = pc.equal(dense_array(records[_STATUS_COLUMN]), ADDED)
    sequence_numbers = pc.coalesce(
        stored_numbers, pc.if_else(is_added, manifest.sequence_number, pa.scalar(None, pa.int64()))
    )
    is_missing = pc.and_(sequence_numbers.is_null(), pc.not_equal(dense_array(records[_STATUS_COLUMN]), DELETED))
    if field_id == SEQUENCE_NUMBER_ID and is_missing.true_count:
        raise TableError(f"{manifest.path} lists an existing file without its sequence number")
    return sequence_numbers


def _int64_column(records: pa.Table, field_id: int) -> pa.Array:
    name = f"f{field_id}"
    if name not in records.column_names:
        return pa.nulls(records.num_rows, pa.int64())
    return dense_array(records[name]).cast(pa.int64())


def _struct_fields(structs: pa.StructArray) -> dict[str, pa.Array]:
    """Return the fields of structs that are never null."""
    return {field.name: structs.field(index) for index, field in enumerate(structs.type)}


def _cast_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_map(type_):
        return array.cast(type_)
    pairs = array.values
    keys, values = pairs.field(0).cast(type_.key_type), pairs.field(1).cast(type_.item_type)
    entries = pa.StructArray.from_arrays([keys, values], fields=[type_.key_field, type_.item_field])
    validity = array.buffers()[0]
    return pa.Array.from_buffers(
        type_, len(array), [validity, array.buffers()[1]], offset=array.offset, children=[entries]
    )


# --- entries with the partition columns of the table


def _entries_of_manifest(
    manifest: _ListedManifest,
    flat_entries: pa.Table,
    history: SpecHistory,
    partition_types: Mapping[str, Any],
    paths: pa.Array,
) -> pa.Table:
    entry_count = flat_entries.num_rows
    manifest_indices = pa.array(np.full(entry_count, manifest.index, np.int32))
    arrays = [
        *flat_entries.columns[: len(MANIFEST_ENTRY_SCHEMA) - 1],
        pa.DictionaryArray.from_arrays(manifest_indices, paths, safe=False),
    ]
    arrays += _partition_values(flat_entries, manifest, history).values()
    return pa.table(
        arrays, names=[*MANIFEST_ENTRY_SCHEMA.names, *(PARTITION_PREFIX + name for name in partition_types)]
    )


def _partition_values(flat_entries: pa.Table, manifest: _ListedManifest, history: SpecHistory) -> dict[str, Any]:
    """Return the partition columns of entries of one spec; columns of other specs' fields are null."""
    spec = history.spec(manifest.spec_id)
    values = {
        history.column_name(spec, f): _partition_column(flat_entries, f, spec, history, manifest) for f in spec.fields
    }
    return {
        PARTITION_PREFIX + name: values[name] if name in values else pa.nulls(flat_entries.num_rows, type_ or pa.null())
        for name, type_ in partition_columns(history).items()
    }


def _partition_column(
    flat_entries: pa.Table, field: PartitionField, spec: PartitionSpec, history: SpecHistory, manifest: _ListedManifest
) -> pa.ChunkedArray | pa.Array:
    type_ = partition_arrow_type(field)
    name = f"{PARTITION_PREFIX}f{field.field_id}"
    if field.transform.is_void:
        return pa.nulls(flat_entries.num_rows, type_ or pa.null())
    if name not in flat_entries.column_names:
        if is_source_dropped(field, history):
            return pa.nulls(flat_entries.num_rows, type_ or pa.null())
        raise TableError(
            f"{manifest.path} has no values of partition field {field.name!r}, which spec {spec.spec_id} has"
        )
    try:
        return cast_partition_values(flat_entries[name], type_)
    except pa.ArrowException as error:
        raise TableError(
            f"{manifest.path}: values of partition field {field.name!r} are no {type_}: {error}"
        ) from error


def cast_partition_values(values: Any, type_: pa.DataType | None) -> Any:
    """Cast partition values to a type; timestamps keep their integer, whether or not they have a zone."""
    if type_ is None or values.type == type_:
        return values
    if pa.types.is_timestamp(type_) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(type_)
    return values.cast(type_)


def _entries_schema(partition_types: Mapping[str, pa.DataType | None], tables: Sequence[pa.Table]) -> pa.Schema:
    """Return the schema of all entries; a partition column without a type takes the first that a manifest has."""
    fields = list(MANIFEST_ENTRY_SCHEMA)
    for name, type_ in partition_types.items():
        manifest_types = (t.schema.field(PARTITION_PREFIX + name).type for t in tables)
        column_type = type_ or next((f for f in manifest_types if not pa.types.is_null(f)), pa.string())
        fields.append(pa.field(PARTITION_PREFIX + name, column_type))
    return pa.schema(fields)


def _cast_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast the partition columns to the schema; the other columns have its types already."""
    first_partition = len(MANIFEST_ENTRY_SCHEMA)
    return table if table.schema.types[first_partition:] == schema.types[first_partition:] else table.cast(schema)
