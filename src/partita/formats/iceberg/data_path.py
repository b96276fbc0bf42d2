"""Where a table's data files are: in its own folder, or in the one that `write.data.path` names.

Such a folder may be that of several tables, whose files nothing tells apart. So the names of new files begin there with
the table's id, and what a failed writer left can be told from what is another table's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

DATA_PATH = "write.data.path"


def data_path(metadata: TableMetadata) -> str:
    """The folder of new data files, as manifests name it."""
    return (metadata.properties.get(DATA_PATH) or f"{metadata.location.rstrip('/')}/data").rstrip("/")


def owner_of(metadata: TableMetadata) -> str:
    """How the names of the table's new files begin."""
    return f"{metadata.table_uuid}-" if metadata.properties.get(DATA_PATH) else ""
