"""Manifests as one Arrow table of what is live in them (specification, "Manifests")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
from partita.arrow.buffers import null_mask, one_array
from partita.errors import TableError, UnsupportedFeature
from partita.formats.containment import check_no_dots
from partita.formats.iceberg.manifests import cache
from partita.formats.iceberg.manifests.avro import decode_together, read_all_parts, read_avro
from partita.formats.iceberg.specs import arrow_type, is_dropped

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
"""What a file holds: `content`."""

_COUNTS = pa.map_(pa.int32(), pa.int64())
_BOUNDS = pa.map_(pa.int32(), pa.binary())

ENTRIES = pa.schema(
    [
        ("content", pa.int32()),
        ("path", pa.string()),
        ("format", pa.string()),
        ("spec_id", pa.int32()),
        ("sequence_number", pa.int64()),
        ("file_sequence_number", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("record_count", pa.int64()),
        ("file_size", pa.int64()),
        ("value_counts", _COUNTS),
        ("null_value_counts", _COUNTS),
        ("nan_value_counts", _COUNTS),
        ("lower_bounds", _BOUNDS),
        ("upper_bounds", _BOUNDS),
        ("equality_ids", pa.list_(pa.int32())),
        ("sort_order_id", pa.int32()),
        ("first_row_id", pa.int64()),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("manifest", pa.dictionary(pa.int32(), pa.string())),
    ]
)
"""A row for each live file. `sequence_number` is that of the data. Maps are by the ids of columns.

Behind these is a column `partition.<name>` for each partition field, by `SpecHistory.column_name`; it is null for files
of other specs. `day` is a date there, and the other times are the format's ordinals.
"""

PARTITION = "partition."


def live_entries(io: FileIO, manifests: pa.Table, history: SpecHistory) -> pa.Table:
    """The files that the manifests list and that are not deleted, in order, with what they inherit filled in.

    `manifests` are rows of `partita.formats.iceberg.manifests.MANIFESTS`, of which `OPENED` is enough.
    """
    return _joined(manifests, lambda listed: _decoded(io, listed), history)


def changed_entries(io: FileIO, manifests: pa.Table, history: SpecHistory) -> pa.Table:
    """The files that the manifests list as added or deleted: `CHANGED`, and the partition columns.

    `snapshot_id` is the snapshot that did it, which is that of the manifest. Nothing is kept, but for manifests of many
    files that were all added: these are read like any that a plan needs.
    """
    few = manifests["added_files"].to_numpy(zero_copy_only=False) <= _MANY
    changes = [manifests["existing_files"], manifests["deleted_files"]]
    is_plan = ~few & np.all([pc.fill_null(pc.equal(c, 0), False).to_numpy() for c in changes], axis=0)
    fields = [*CHANGED, *(PARTITION + name for name in partition_columns(history))]
    found = [live_entries(io, manifests.filter(pa.array(is_plan)), history).select(fields)] if is_plan.any() else []
    listed = _listed(manifests.filter(pa.array(~is_plan)))
    for start in range(0, len(listed), _TOGETHER):
        group = listed[start : start + _TOGETHER]
        files = read_all_parts(io, [one.path for one in group])
        for places, records in decode_together(files):
            sizes = [files[at].size for at in places]
            found += _changed(records, [group[at] for at in places], sizes, history)
    if not found:
        return live_entries(io, manifests.slice(0, 0), history).select(fields)
    return pa.concat_tables(found, promote_options="permissive")


CHANGED = ["snapshot_id", "content", "spec_id"]
_MANY = 1000
"""Files of a manifest that is decoded as a whole, and kept."""
_TOGETHER = 256
"""So many small manifests are decoded at once."""


def _changed(
    records: pa.Table, manifests: Sequence[_Manifest], sizes: Sequence[int], history: SpecHistory
) -> Iterator[pa.Table]:
    """What manifests that have so many of the records each added or deleted; a table for each spec."""
    if _DATA_FILE not in records.column_names:
        raise TableError(f"{manifests[0].path} is not a manifest: its entries have no data file")
    places = np.repeat(np.arange(len(manifests)), sizes)
    specs = np.array([one.spec_id for one in manifests])[places]
    snapshots = np.array([one.snapshot_id for one in manifests], np.int64)[places]
    made_by = pc.fill_null(_number(records, 1), pa.scalar(-1, pa.int64())).to_numpy()
    is_inherited = null_mask(_number(records, 1))
    is_changed = (records["f0"].to_numpy() != _EXISTING) & (is_inherited | (made_by == snapshots))
    for spec_id in np.unique(specs[is_changed]).tolist():
        rows = np.flatnonzero(is_changed & (specs == spec_id))
        file = _fields(one_array(records[_DATA_FILE]).take(pa.array(rows)))
        content = pc.fill_null(file["f134"].cast(pa.int32()), DATA) if "f134" in file else _filled(DATA, len(rows))
        partition = _fields(file[_PARTITION]) if _PARTITION in file else {}
        flat = pa.table({"content": content} | {f"{PARTITION}{name}": values for name, values in partition.items()})
        own = {"snapshot_id": pa.array(snapshots[rows]), "content": content, "spec_id": _filled(spec_id, len(rows))}
        yield pa.table(own | _partition_values(flat, manifests[places[rows[0]]], history))


def _filled(number: int, size: int) -> pa.Array:
    return pa.array(np.full(size, number, np.int32))


def _listed(manifests: pa.Table) -> list[_Manifest]:
    listed = [_Manifest(at, **row) for at, row in enumerate(manifests.select(OPENED).to_pylist())]
    if any(one.encrypted for one in listed):
        raise UnsupportedFeature(("encrypted manifests",), "reading")
    return listed


def _joined(
    manifests: pa.Table, read: Callable[[Sequence[_Manifest]], Sequence[pa.Table]], history: SpecHistory
) -> pa.Table:
    listed = _listed(manifests)
    columns = partition_columns(history)
    paths = pa.array([one.path for one in listed], pa.string())
    decoded = zip(listed, read(listed), strict=True)
    tables = [_entries(one, flat, history, columns, paths) for one, flat in decoded if flat.num_rows]
    schema = _schema(columns, tables)
    return pa.concat_tables([_fitted(table, schema) for table in tables]) if tables else schema.empty_table()


def partition_columns(history: SpecHistory) -> dict[str, pa.DataType | None]:
    """The partition columns of a table, with their types; None is what manifests say."""
    columns: dict[str, pa.DataType | None] = {}
    for spec in history.specs:
        for field in spec.fields:
            columns.setdefault(history.column_name(spec, field), arrow_type(field))
    return columns


OPENED = ["path", "length", "spec_id", "sequence_number", "snapshot_id", "encrypted"]
"""What has to be known of a manifest to open it: columns of `partita.formats.iceberg.manifests.MANIFESTS`."""


@dataclass(frozen=True, slots=True)
class _Manifest:
    at: int
    path: str
    length: int
    spec_id: int
    sequence_number: int
    snapshot_id: int
    encrypted: bool

    @property
    def key(self) -> str:
        return f"manifest {self.snapshot_id} {self.sequence_number} {self.spec_id} {self.length} {self.path}"


def _decoded(io: FileIO, manifests: Sequence[_Manifest]) -> list[pa.Table]:
    """What is in the manifests; those that aren't known yet are opened several at once."""
    tables = [cache.found(m.key) for m in manifests]
    missing = [at for at, table in enumerate(tables) if table is None]
    if missing:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            made = pool.map(lambda at: _flat(read_avro(io, manifests[at].path), manifests[at]), missing)
            for at, table in zip(missing, made, strict=True):
                tables[at] = cache.keep(manifests[at].key, table)
        cache.evict_sometimes()
    return tables


_AT_ONCE = 8

# --- one manifest, as it is kept

_EXISTING, _DELETED = 0, 2
"""What an entry says of its file: `status`."""

_FILE = {
    "content": 134, "path": 100, "format": 101, "record_count": 103, "file_size": 104, "value_counts": 109,
    "null_value_counts": 110, "nan_value_counts": 137, "lower_bounds": 125, "upper_bounds": 128, "equality_ids": 135,
    "sort_order_id": 140, "first_row_id": 142, "referenced_data_file": 143, "content_offset": 144,
    "content_size_in_bytes": 145,
}  # fmt: skip
_PARTITION, _KEY_METADATA, _DATA_FILE = "f102", "f131", "f2"


def _flat(records: pa.Table, manifest: _Manifest) -> pa.Table:
    """The live entries of a manifest.

    They have the columns of `ENTRIES` but for the last, and those of their partition by the fields' ids.
    """
    if _DATA_FILE not in records.column_names:
        raise TableError(f"{manifest.path} is not a manifest: its entries have no data file")
    records = records.filter(pc.not_equal(records["f0"], _DELETED)).combine_chunks()
    file = _fields(one_array(records[_DATA_FILE]))
    if _KEY_METADATA in file and file[_KEY_METADATA].null_count < records.num_rows:
        raise UnsupportedFeature(("encrypted data files",), "reading")
    columns = {
        "spec_id": pa.array(np.full(records.num_rows, manifest.spec_id, np.int32)),
        "snapshot_id": pc.fill_null(_number(records, 1), manifest.snapshot_id),
        "sequence_number": _sequence(records, 3, manifest),
        "file_sequence_number": _sequence(records, 4, manifest),
    }
    for name, number in _FILE.items():
        type_ = ENTRIES.field(name).type
        columns[name] = _as(file[f"f{number}"], type_) if f"f{number}" in file else pa.nulls(records.num_rows, type_)
    check_no_dots(columns["path"], f"the manifest {manifest.path}")
    columns["content"] = pc.fill_null(columns["content"], DATA)
    partition = _fields(file[_PARTITION]) if _PARTITION in file else {}
    ordered = {name: columns[name] for name in ENTRIES.names[:-1]}
    return pa.table(ordered | {f"{PARTITION}{name}": values for name, values in partition.items()})


_ADDED = 1


def _sequence(records: pa.Table, number: int, manifest: _Manifest) -> pa.Array:
    """Sequence numbers as the format says that they are inherited: by what was added, and by all of version 1."""
    given = _number(records, number)
    if manifest.sequence_number == 0:
        return pc.fill_null(given, 0)
    is_added = pc.equal(one_array(records["f0"]), _ADDED)
    found = pc.coalesce(given, pc.if_else(is_added, manifest.sequence_number, pa.scalar(None, pa.int64())))
    lacking = pc.and_(found.is_null(), pc.not_equal(one_array(records["f0"]), _DELETED))
    if number == _OF_DATA and lacking.true_count:
        raise TableError(f"{manifest.path} lists an existing file without its sequence number")
    return found


_OF_DATA = 3


def _number(records: pa.Table, number: int) -> pa.Array:
    name = f"f{number}"
    if name not in records.column_names:
        return pa.nulls(records.num_rows, pa.int64())
    return one_array(records[name]).cast(pa.int64())


def _fields(structs: pa.StructArray) -> dict[str, pa.Array]:
    """The fields of structs that are never null."""
    return {f.name: structs.field(at) for at, f in enumerate(structs.type)}


def _as(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_map(type_):
        return array.cast(type_)
    pairs = array.values
    keys, values = pairs.field(0).cast(type_.key_type), pairs.field(1).cast(type_.item_type)
    entries = pa.StructArray.from_arrays([keys, values], fields=[type_.key_field, type_.item_field])
    validity = array.buffers()[0]
    return pa.Array.from_buffers(
        type_, len(array), [validity, array.buffers()[1]], offset=array.offset, children=[entries]
    )


# --- what it means in its place


def _entries(
    manifest: _Manifest, flat: pa.Table, history: SpecHistory, columns: Mapping[str, Any], paths: pa.Array
) -> pa.Table:
    size = flat.num_rows
    places = pa.array(np.full(size, manifest.at, np.int32))
    arrays = [*flat.columns[: len(ENTRIES) - 1], pa.DictionaryArray.from_arrays(places, paths, safe=False)]
    arrays += _partition_values(flat, manifest, history).values()
    return pa.table(arrays, names=[*ENTRIES.names, *(PARTITION + name for name in columns)])


def _partition_values(flat: pa.Table, manifest: _Manifest, history: SpecHistory) -> dict[str, Any]:
    """The partition columns of entries of one spec; those of other specs' fields are null."""
    spec = history.spec(manifest.spec_id)
    values = {history.column_name(spec, f): _values(flat, f, spec, history, manifest) for f in spec.fields}
    return {
        PARTITION + name: values[name] if name in values else pa.nulls(flat.num_rows, type_ or pa.null())
        for name, type_ in partition_columns(history).items()
    }


def _values(
    flat: pa.Table, field: PartitionField, spec: PartitionSpec, history: SpecHistory, manifest: _Manifest
) -> pa.ChunkedArray | pa.Array:
    type_ = arrow_type(field)
    name = f"{PARTITION}f{field.field_id}"
    if field.transform.name == "void":
        return pa.nulls(flat.num_rows, type_ or pa.null())
    if name not in flat.column_names:
        if is_dropped(field, history):
            return pa.nulls(flat.num_rows, type_ or pa.null())
        raise TableError(
            f"{manifest.path} has no values of partition field {field.name!r}, which spec {spec.spec_id} has"
        )
    try:
        return typed(flat[name], type_)
    except pa.ArrowException as error:
        raise TableError(
            f"{manifest.path}: values of partition field {field.name!r} are no {type_}: {error}"
        ) from error


def typed(values: Any, type_: pa.DataType | None) -> Any:
    """Partition values as that type; a timestamp counts from 1970 whether or not it has a zone."""
    if type_ is None or values.type == type_:
        return values
    if pa.types.is_timestamp(type_) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(type_)
    return values.cast(type_)


def _schema(columns: Mapping[str, pa.DataType | None], tables: Sequence[pa.Table]) -> pa.Schema:
    """The schema of all; a column that has no type of its own takes the first that a manifest has for it."""
    fields = list(ENTRIES)
    for name, type_ in columns.items():
        found = (t.schema.field(PARTITION + name).type for t in tables)
        said = type_ or next((f for f in found if not pa.types.is_null(f)), pa.string())
        fields.append(pa.field(PARTITION + name, said))
    return pa.schema(fields)


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `ENTRIES` have their types; only those of partitions may have others."""
    place = len(ENTRIES)
    return table if table.schema.types[place:] == schema.types[place:] else table.cast(schema)
