"""Manifest lists and manifests, read as Arrow tables.

avro -> cache -> listing, entries        summaries: which manifests a predicate needs
"""

from partita.formats.iceberg.manifests.entries import (
    DATA,
    ENTRIES,
    EQUALITY_DELETES,
    OPENED,
    PARTITION,
    POSITION_DELETES,
    live_entries,
)
from partita.formats.iceberg.manifests.listing import MANIFESTS, manifest_list

__all__ = [
    "DATA",
    "ENTRIES",
    "EQUALITY_DELETES",
    "MANIFESTS",
    "OPENED",
    "PARTITION",
    "POSITION_DELETES",
    "live_entries",
    "manifest_list",
]
