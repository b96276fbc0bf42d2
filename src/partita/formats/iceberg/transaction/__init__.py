"""Changing an Iceberg table whose partitioning evolves, without a JVM.

    validation -> conflicts -> planning -> manifests -> summary -> commit

Files of any spec of the table are taken, each is listed in a manifest of its own spec, and one operation is one
snapshot. pyiceberg's catalogs, metadata and Avro are the ground; its snapshot producer is not used, for it lists every
added file under the default spec.
"""

from partita.formats.iceberg.transaction.changes import Changes
from partita.formats.iceberg.transaction.commit import commit
from partita.formats.iceberg.transaction.evolution import evolve
from partita.formats.iceberg.transaction.expiry import expire_snapshots
from partita.formats.iceberg.transaction.grouping import group_entries_by_spec, group_files_by_spec
from partita.formats.iceberg.transaction.history import history
from partita.formats.iceberg.transaction.manifests import read_entries
from partita.formats.iceberg.transaction.orphans import remove_orphans
from partita.formats.iceberg.transaction.pointers import referenced_path
from partita.formats.iceberg.transaction.schemas import find_compatible_schema
from partita.formats.iceberg.transaction.validation import check_writable, validate_data_file

__all__ = [
    "Changes",
    "check_writable",
    "commit",
    "evolve",
    "expire_snapshots",
    "find_compatible_schema",
    "group_entries_by_spec",
    "group_files_by_spec",
    "history",
    "read_entries",
    "referenced_path",
    "remove_orphans",
    "validate_data_file",
]
