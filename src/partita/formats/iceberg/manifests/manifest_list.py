"""Manifest lists as Arrow tables (specification, "Manifest Lists")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import dense_array
from partita.formats.containment import check_no_parent_segments
from partita.formats.iceberg.manifests.avro import decode_by_schema, read_avro, read_containers
from partita.formats.iceberg.manifests.cache import get_or_create
from partita.formats.iceberg.manifests.schema import (
    FIELD_SUMMARY_IDS,
    FIELD_SUMMARY_TYPE,
    MANIFEST_FILE_FIELD_IDS,
    MANIFEST_FILE_SCHEMA,
    V1_MANIFEST_DEFAULTS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot


def read_manifest_list(io: FileIO, snapshot: Snapshot) -> pa.Table:
    """Read the manifests of a snapshot as rows of `MANIFEST_FILE_SCHEMA`, in order."""
    location = snapshot.manifest_list
    check_no_parent_segments(pa.array([location]), f"snapshot {snapshot.snapshot_id}")

    def read_manifests() -> pa.Table:
        manifests = _manifest_table(read_avro(io, location))
        check_no_parent_segments(manifests["path"], f"the manifest list {location}")
        return manifests

    return get_or_create(f"list {snapshot.snapshot_id} {location}", read_manifests)


def read_added_manifests(io: FileIO, snapshots: Sequence[Snapshot]) -> pa.Table:
    """Read the manifests that snapshots added themselves and that may list an added or deleted file, in order.

    Manifests that a snapshot rewrote with existing files only are left out. Nothing is cached.
    """
    tables = [MANIFEST_FILE_SCHEMA.empty_table()]
    for start in range(0, len(snapshots), _LIST_BATCH_SIZE):
        group = snapshots[start : start + _LIST_BATCH_SIZE]
        locations = [snapshot.manifest_list for snapshot in group]
        check_no_parent_segments(pa.array(locations), "a snapshot")
        containers = read_containers(io, locations)
        for list_indices, records in decode_by_schema(containers):
            manifests = _manifest_table(records)
            check_no_parent_segments(
                manifests["path"], f"a manifest list such as {containers[list_indices[0]].location}"
            )
            record_counts = [containers[index].record_count for index in list_indices]
            list_snapshot_ids = pa.array(
                np.repeat([group[index].snapshot_id for index in list_indices], record_counts), pa.int64()
            )
            may_have_changes = pc.or_(
                _may_be_nonzero(manifests["added_files"]), _may_be_nonzero(manifests["deleted_files"])
            )
            tables.append(
                manifests.filter(pc.and_(pc.equal(manifests["snapshot_id"], list_snapshot_ids), may_have_changes))
            )
    return pa.concat_tables(tables)


_LIST_BATCH_SIZE = 256
"""Manifest lists that are decoded together."""


def _may_be_nonzero(counts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.not_equal(counts, 0), True)


def _manifest_table(records: pa.Table) -> pa.Table:
    return pa.table([_manifest_column(records, field) for field in MANIFEST_FILE_SCHEMA], schema=MANIFEST_FILE_SCHEMA)


def _manifest_column(records: pa.Table, field: pa.Field) -> pa.Array:
    name = f"f{MANIFEST_FILE_FIELD_IDS[field.name]}"
    if name not in records.column_names:
        column = pa.nulls(records.num_rows, field.type)
    elif field.name == "encrypted":
        return dense_array(records[name]).is_valid()
    elif field.name == "partitions":
        return _field_summaries(dense_array(records[name]))
    else:
        column = dense_array(records[name]).cast(field.type)
    default = V1_MANIFEST_DEFAULTS.get(field.name)
    return column if default is None else pc.fill_null(column, default)


def _field_summaries(lists: pa.Array) -> pa.Array:
    """Return the partition field summaries with the field names of `FIELD_SUMMARY_TYPE`."""
    structs = lists.values
    columns = {field.name: structs.field(index) for index, field in enumerate(structs.type)}
    fields = [
        columns.get(f"f{field_id}", pa.nulls(len(structs), field.type))
        for field_id, field in zip(FIELD_SUMMARY_IDS, FIELD_SUMMARY_TYPE, strict=True)
    ]
    renamed_array = pa.StructArray.from_arrays(fields, fields=list(FIELD_SUMMARY_TYPE))
    return pa.ListArray.from_arrays(lists.offsets, renamed_array, mask=lists.is_null()).cast(
        MANIFEST_FILE_SCHEMA.field("partitions").type
    )
