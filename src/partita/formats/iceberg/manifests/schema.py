"""The schemas of manifest lists and manifests: field ids of the specification, and the Arrow tables they are read into.

Avro records are decoded with the field id as column name (`f100`, see `avro.py`), so every reader and writer of this
package looks fields up by the ids below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    ManifestContent,
    ManifestEntryStatus,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

# --- manifest entries (specification, "Manifests")

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
"""Values of the `content` of a data file."""
EXISTING, ADDED, DELETED = (
    ManifestEntryStatus.EXISTING.value, ManifestEntryStatus.ADDED.value, ManifestEntryStatus.DELETED.value,
)  # fmt: skip
"""Values of the `status` of a manifest entry."""

STATUS_ID, SNAPSHOT_ID, DATA_FILE_ID, SEQUENCE_NUMBER_ID, FILE_SEQUENCE_NUMBER_ID = 0, 1, 2, 3, 4
"""Field ids of a manifest entry."""
PATH_ID, FORMAT_ID, PARTITION_ID, RECORD_COUNT_ID, KEY_METADATA_ID, CONTENT_ID = 100, 101, 102, 103, 131, 134
"""Field ids of the `data_file` struct of a manifest entry that code refers to one by one."""

_COUNT_MAP_TYPE = pa.map_(pa.int32(), pa.int64())
_BOUND_MAP_TYPE = pa.map_(pa.int32(), pa.binary())

MANIFEST_ENTRY_SCHEMA = pa.schema(
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
        ("value_counts", _COUNT_MAP_TYPE),
        ("null_value_counts", _COUNT_MAP_TYPE),
        ("nan_value_counts", _COUNT_MAP_TYPE),
        ("lower_bounds", _BOUND_MAP_TYPE),
        ("upper_bounds", _BOUND_MAP_TYPE),
        ("equality_ids", pa.list_(pa.int32())),
        ("sort_order_id", pa.int32()),
        ("first_row_id", pa.int64()),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("manifest", pa.dictionary(pa.int32(), pa.string())),
    ]
)
"""One row per live file. `sequence_number` is the data sequence number; maps are keyed by column id.

A column `partition.<name>` for each partition field follows, named by `SpecHistory.column_name`; it is null for files
of other specs. `day` is a date there; the other time transforms are the ordinals of the specification.
"""

PARTITION_PREFIX = "partition."

DATA_FILE_FIELD_IDS = {
    "content": CONTENT_ID, "path": PATH_ID, "format": FORMAT_ID, "record_count": RECORD_COUNT_ID, "file_size": 104,
    "value_counts": 109, "null_value_counts": 110, "nan_value_counts": 137, "lower_bounds": 125, "upper_bounds": 128,
    "equality_ids": 135, "sort_order_id": 140, "first_row_id": 142, "referenced_data_file": 143, "content_offset": 144,
    "content_size_in_bytes": 145,
}  # fmt: skip
"""The field id of each column of `MANIFEST_ENTRY_SCHEMA` that comes from the `data_file` struct."""

CHANGED_ENTRY_COLUMNS = ["snapshot_id", "content", "spec_id"]
"""The columns of entries that a snapshot added or deleted, before the partition columns."""

DATA_FILE_FIELDS = DATA_FILE_TYPE[3].fields
"""The fields of pyiceberg's `DataFile`, in order: descriptions of files are held as wide as version 3 has them."""
REFERENCED_POSITION = next(
    index for index, field in enumerate(DATA_FILE_FIELDS) if field.name == "referenced_data_file"
)

_REFERENCED_DATA_FILE = DATA_FILE_FIELDS[REFERENCED_POSITION]
_EQUALITY_IDS = NestedField(
    field_id=135,
    name="equality_ids",
    field_type=ListType(element_id=136, element_type=IntegerType(), element_required=True),
    required=False,
    doc="Field ids used to determine row equality in equality delete files.",
)


def manifest_entry_schema(format_version: int, content: ManifestContent, partition: StructType) -> Schema:
    """Return the Iceberg schema of the entries of a manifest that Partita writes.

    It differs from pyiceberg's in two fields: `equality_ids` are ints, and delete manifests of version 2 keep
    `referenced_data_file`.
    """
    version: Any = format_version
    fields = list(data_file_with_partition(partition, version).fields)
    fields = [_EQUALITY_IDS if field.field_id == _EQUALITY_IDS.field_id else field for field in fields]
    if format_version == 2 and content == ManifestContent.DELETES:
        fields.append(_REFERENCED_DATA_FILE)
    return manifest_entry_schema_with_data_file(version, StructType(*fields))


# --- manifest lists (specification, "Manifest Lists")

FIELD_SUMMARY_TYPE = pa.struct(
    [("contains_null", pa.bool_()), ("contains_nan", pa.bool_()), ("lower", pa.binary()), ("upper", pa.binary())]
)
FIELD_SUMMARY_IDS = (509, 518, 510, 511)
"""The field ids of `FIELD_SUMMARY_TYPE`, in order."""

MANIFEST_FILE_SCHEMA = pa.schema(
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
        ("partitions", pa.list_(FIELD_SUMMARY_TYPE)),
        ("encrypted", pa.bool_()),
    ]
)
"""One row per manifest. `content` is 0 for data and 1 for deletes; counts that the list lacks are null."""

MANIFEST_FILE_FIELD_IDS = dict(
    zip(MANIFEST_FILE_SCHEMA.names, (500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 507, 519), strict=True),
)
V1_MANIFEST_DEFAULTS = {"spec_id": 0, "content": 0, "sequence_number": 0, "min_sequence_number": 0, "encrypted": False}
"""The values of fields that version 1 of the format leaves out."""

MANIFEST_READ_COLUMNS = ["path", "length", "spec_id", "sequence_number", "snapshot_id", "encrypted"]
"""The columns of `MANIFEST_FILE_SCHEMA` that are needed to open a manifest."""
MANIFEST_COUNT_POSITIONS = range(7, 13)
"""Positions in pyiceberg's `ManifestFile`: added, existing and deleted files, then added, existing and deleted rows."""
