"""Manifest lists as Arrow tables (specification, "Manifest Lists")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import one_array
from partita.formats.containment import check_no_dots
from partita.formats.iceberg.manifests.avro import decode_together, read_all_parts, read_avro
from partita.formats.iceberg.manifests.cache import cached

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    check_no_dots(pa.array([location]), f"snapshot {snapshot.snapshot_id}")

    def read() -> pa.Table:
        manifests = _columns(read_avro(io, location))
        check_no_dots(manifests["path"], f"the manifest list {location}")
        return manifests

    return cached(f"list {snapshot.snapshot_id} {location}", read)


def own_manifests(io: FileIO, snapshots: Sequence[Snapshot]) -> pa.Table:
    """The manifests that snapshots added themselves and in which a file may be added or deleted, in their order.

    Manifests of existing files alone, which a snapshot wrote anew, are left out. Nothing is kept.
    """
    found = [MANIFESTS.empty_table()]
    for start in range(0, len(snapshots), _TOGETHER):
        group = snapshots[start : start + _TOGETHER]
        locations = [snapshot.manifest_list for snapshot in group]
        check_no_dots(pa.array(locations), "a snapshot")
        files = read_all_parts(io, locations)
        for places, records in decode_together(files):
            listed = _columns(records)
            check_no_dots(listed["path"], f"a manifest list such as {files[places[0]].location}")
            sizes = [files[at].size for at in places]
            ids = pa.array(np.repeat([group[at].snapshot_id for at in places], sizes), pa.int64())
            changes = pc.or_(_may_be_some(listed["added_files"]), _may_be_some(listed["deleted_files"]))
            found.append(listed.filter(pc.and_(pc.equal(listed["snapshot_id"], ids), changes)))
    return pa.concat_tables(found)


_TOGETHER = 256
"""So many lists are decoded at once."""


def _may_be_some(counts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.not_equal(counts, 0), True)


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
