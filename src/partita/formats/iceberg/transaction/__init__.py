"""Changing an Iceberg table whose partitioning evolves, without a JVM.

    validation -> conflicts -> plan -> summary -> commit          evolution: a new partition spec

A change may add files of any spec of the table; each is listed in a manifest of its own spec, and one operation is one
snapshot. pyiceberg provides catalogs, metadata and Avro. Its snapshot producer is not used, because it lists every
added file under the default spec.
"""

from partita.formats.iceberg.transaction.change import SnapshotChange
from partita.formats.iceberg.transaction.commit import commit_snapshot
from partita.formats.iceberg.transaction.data_files import group_entries_by_spec, group_files_by_spec
from partita.formats.iceberg.transaction.evolution import evolve_spec
from partita.formats.iceberg.transaction.summary import has_transaction
from partita.formats.iceberg.transaction.validation import check_writable, validate_data_file

__all__ = [
    "SnapshotChange",
    "check_writable",
    "commit_snapshot",
    "evolve_spec",
    "group_entries_by_spec",
    "group_files_by_spec",
    "has_transaction",
    "validate_data_file",
]
