"""Manifest lists and manifests: the one place that reads and writes them.

avro             Avro files as Arrow records, columns named by field id
schema           field ids, Arrow schemas, the entry schema that is written
manifest_list    manifest lists as Arrow tables
read             live and changed entries as Arrow tables (planning, change feed)
entries          the same records as pyiceberg's objects (commits, maintenance)
data_files       spec, partition and referenced data file of pyiceberg's `DataFile`
lookup           the manifests of a snapshot, and the entries of given paths in them
plan             the manifests of the next snapshot
write            manifests and manifest lists of a commit
copy             large manifests copied as bytes without some entries; paths found in bytes
evaluator        which manifests a predicate or a partition selection needs
partition_summaries   what a manifest list says of the partitions of a manifest
cache            decoded manifests kept on disk and in memory
"""

from partita.formats.iceberg.manifests.manifest_list import read_added_manifests, read_manifest_list
from partita.formats.iceberg.manifests.read import read_changed_entries, read_live_entries
from partita.formats.iceberg.manifests.schema import (
    DATA,
    EQUALITY_DELETES,
    MANIFEST_ENTRY_SCHEMA,
    MANIFEST_FILE_SCHEMA,
    MANIFEST_READ_COLUMNS,
    PARTITION_PREFIX,
    POSITION_DELETES,
)

__all__ = [
    "DATA",
    "EQUALITY_DELETES",
    "MANIFEST_ENTRY_SCHEMA",
    "MANIFEST_FILE_SCHEMA",
    "MANIFEST_READ_COLUMNS",
    "PARTITION_PREFIX",
    "POSITION_DELETES",
    "read_added_manifests",
    "read_changed_entries",
    "read_live_entries",
    "read_manifest_list",
]
