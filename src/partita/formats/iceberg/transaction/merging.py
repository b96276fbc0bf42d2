"""Which small manifests become one: those of one spec and content that lie together and fit the target size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import TableProperties

from partita.formats.iceberg.properties import number_in
from partita.formats.iceberg.transaction.manifests import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata

_ENABLED = TableProperties.MANIFEST_MERGE_ENABLED
_TARGET = TableProperties.MANIFEST_TARGET_SIZE_BYTES
_LEAST = TableProperties.MANIFEST_MIN_MERGE_COUNT


def bins(
    metadata: TableMetadata, manifests: Sequence[ManifestFile], *, brings: bool
) -> Iterator[tuple[list[ManifestFile], bool]]:
    """The manifests, newest first, in groups of at most the target size, and whether each is to be merged.

    The group of the newest waits until it has enough, counting the one that the commit itself `brings`; the others
    are full, and grow no more.
    """
    properties = metadata.properties
    # Merging is on unless the table says otherwise, as in Iceberg's own documentation.
    if properties.get(_ENABLED, "true").casefold() != "true":
        yield list(manifests), False
        return
    target, least = number_in(properties, _TARGET, 8 << 20), number_in(properties, _LEAST, 100)
    packed = list(_packed(manifests, target))
    for at, group in enumerate(packed):
        waits = at == 0 and len(group) + brings < least
        yield group, len(group) > 1 and not waits


def _entries(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _packed(manifests: Sequence[ManifestFile], target: int) -> Iterator[list[ManifestFile]]:
    """Filled from the oldest, so that full groups stay as they are when newer manifests come."""
    groups: list[list[ManifestFile]] = []
    size = 0
    for manifest in reversed(manifests):
        # Which of both is nearer to the most that a manifest holds: its bytes, or its entries.
        length = max(manifest.manifest_length, _entries(manifest) * target // MOST_ENTRIES)
        if groups and size + length <= target:
            groups[-1].append(manifest)
            size += length
        else:
            groups.append([manifest])
            size = length
    return (group[::-1] for group in reversed(groups))
