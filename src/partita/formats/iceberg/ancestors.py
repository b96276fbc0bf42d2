"""The history of a snapshot, by the parents that metadata names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from partita.errors import TableError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


def known_ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot, its parent and so on, as far as the metadata has them; one that comes twice is a `TableError`."""
    known = {each.snapshot_id: each for each in metadata.snapshots}
    seen: set[int] = set()
    while snapshot is not None:
        if snapshot.snapshot_id in seen:
            raise TableError(
                f"snapshot {snapshot.snapshot_id} is its own ancestor in the metadata of {metadata.location}; restore "
                "a metadata file from before"
            )
        seen.add(snapshot.snapshot_id)
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else known.get(parent)
