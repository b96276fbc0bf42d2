"""Manifest lists as Arrow tables (specification, "Manifest Lists")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import one_array
from partita.formats.iceberg.manifests.avro import read_avro
from partita.formats.iceberg.manifests.cache import cached

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

_SUMMARY = pa.struct(
    [("contains_null", pa.bool_()), ("contains_nan", pa.bool_()), ("lower", pa.binary()), ("upper", pa.binary())]
)
_SUMMARY_IDS = (509, 518, 510, 511)

MANIFESTS = pa.schema(
    [
        ("path", pa.string()),
        ("length", pa.int64()),
        ("spec_id", pa.int32()),
        ("content", pa.int32()),
        ("sequence_number", pa.int64()),
        ("min_sequence_number", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("added_files", pa.int32()),
        ("existing_files", pa.int32()),
        ("deleted_files", pa.int32()),
        ("partitions", pa.list_(_SUMMARY)),
        ("encrypted", pa.bool_()),
    ]
)
"""A row for each manifest. `content` is 0 for data and 1 for deletes; counts are null where the list doesn't say."""

_IDS = dict(
    zip(MANIFESTS.names, (500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 507, 519), strict=True),
)
_DEFAULTS = {"spec_id": 0, "content": 0, "sequence_number": 0, "min_sequence_number": 0, "encrypted": False}
"""What version 1 leaves out."""


def manifest_list(io: FileIO, snapshot: Snapshot) -> pa.Table:
    """The manifests of a snapshot, in their order."""
    location = snapshot.manifest_list
    return cached(f"list {snapshot.snapshot_id} {location}", lambda: _columns(read_avro(io, location)))


def _columns(records: pa.Table) -> pa.Table:
    return pa.table([_column(records, field) for field in MANIFESTS], schema=MANIFESTS)


def _column(records: pa.Table, field: pa.Field) -> pa.Array:
    name = f"f{_IDS[field.name]}"
    if name not in records.column_names:
        column = pa.nulls(records.num_rows, field.type)
    elif field.name == "encrypted":
        return one_array(records[name]).is_valid()
    elif field.name == "partitions":
        return _summaries(one_array(records[name]))
    else:
        column = one_array(records[name]).cast(field.type)
    default = _DEFAULTS.get(field.name)
    return column if default is None else pc.fill_null(column, default)


def _summaries(lists: pa.Array) -> pa.Array:
    """The summaries of partition fields, under the names above."""
    structs = lists.values
    found = {f.name: structs.field(at) for at, f in enumerate(structs.type)}
    fields = [
        found.get(f"f{number}", pa.nulls(len(structs), f.type))
        for number, f in zip(_SUMMARY_IDS, _SUMMARY, strict=True)
    ]
    named = pa.StructArray.from_arrays(fields, fields=list(_SUMMARY))
    return pa.ListArray.from_arrays(lists.offsets, named, mask=lists.is_null()).cast(MANIFESTS.field("partitions").type)
