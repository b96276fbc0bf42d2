"""Planning the manifests of the next snapshot: new, rewritten without removed files, merged, and carried over.

Each manifest is of one spec and one content. Manifests written for one commit attempt are used again in the next where
the manifests that they were made from are still listed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import TableProperties

from partita.formats.iceberg.manifests.data_files import (
    group_files_by_spec,
    partition_sort_key,
    referenced_path,
    to_v3_data_file,
)
from partita.formats.iceberg.manifests.entries import existing_entry, new_manifest_entry
from partita.formats.iceberg.manifests.lookup import EntriesByManifest, ManifestLookup, file_paths
from partita.formats.iceberg.manifests.schema import MANIFEST_COUNT_POSITIONS
from partita.formats.iceberg.manifests.write import MAX_MANIFEST_ENTRIES, ManifestWriter, target_manifest_size
from partita.formats.iceberg.properties import int_property

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from partita.formats.iceberg.snapshot_change import SnapshotChange

ManifestKind: TypeAlias = tuple[int, ManifestContent]
"""The spec id and the content of a manifest."""
ManifestFiles: TypeAlias = list[ManifestFile]


@dataclass(frozen=True, slots=True, eq=False)
class ManifestPlan:
    """The manifests of the next snapshot, and the files that it removes."""

    manifests: list[ManifestFile]
    removed_files: list[DataFile]


@dataclass(slots=True, eq=False)
class ManifestPlanner:
    """Plans the manifests of one change, once per commit attempt."""

    change: SnapshotChange
    lookup: ManifestLookup
    writer: ManifestWriter
    _added_cache: ManifestFiles | None = None
    _manifest_cache: dict[tuple[str, ...], ManifestFiles] = field(default_factory=dict)

    def plan(self, current_snapshot: Snapshot | None) -> ManifestPlan:
        """Return the plan of a snapshot on top of the current one."""
        manifests = self.lookup.live_manifests(current_snapshot)
        data_manifests = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
        delete_manifests = [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]
        removed_entries = {
            manifest.manifest_path: self.lookup.entries_of_paths(manifest, self.change.removed_data_files)
            for manifest in data_manifests
        }
        removed_data_files = [entry.data_file for entries in removed_entries.values() for entry in entries]
        removed_delete_paths = self.change.removed_delete_files | self._dangling_delete_files(
            delete_manifests, removed_data_files
        )
        partition_hints = [*removed_data_files, *self.change.added_delete_files]
        removed_entries |= self.lookup.find_entries(delete_manifests, removed_delete_paths, partition_hints)
        changed_manifests = [manifest for manifest in manifests if removed_entries.get(manifest.manifest_path)]
        carried_over = [manifest for manifest in manifests if not removed_entries.get(manifest.manifest_path)]
        added_manifests = self._write_added_manifests()
        snapshot_manifests = [
            *added_manifests,
            *self._rewrite_manifests(changed_manifests, removed_entries),
            *self._merge_manifests(carried_over, added_manifests),
        ]
        removed_files = [
            entry.data_file for manifest in changed_manifests for entry in removed_entries[manifest.manifest_path]
        ]
        return ManifestPlan([self._with_counts(manifest) for manifest in snapshot_manifests], removed_files)

    def _dangling_delete_files(
        self, delete_manifests: Sequence[ManifestFile], removed_data_files: Sequence[DataFile]
    ) -> frozenset[str]:
        """Return the delete files that reference only a removed data file; they are of the same partition as it."""
        return frozenset(
            entry.data_file.file_path
            for manifest in self.lookup.manifests_of_partitions(delete_manifests, removed_data_files)
            for entry in self.lookup.live_entries(manifest)
            if referenced_path(entry.data_file) in self.change.removed_data_files
        )

    def _write_added_manifests(self) -> ManifestFiles:
        if self._added_cache is None:
            manifests: ManifestFiles = []
            for content, files in (
                (ManifestContent.DATA, self.change.added_data_files),
                (ManifestContent.DELETES, self.change.added_delete_files),
            ):
                for spec_id, group in group_files_by_spec(map(to_v3_data_file, files)).items():
                    # Files of one partition stay together, so that partition summaries are narrow.
                    entries = [
                        new_manifest_entry(file, ManifestEntryStatus.ADDED, self.writer.snapshot_id)
                        for file in sorted(group, key=partition_sort_key)
                    ]
                    manifests += self.writer.write_manifests(spec_id, content, entries)
            self._added_cache = manifests
        return self._added_cache

    def _rewrite_manifests(
        self, manifests: Sequence[ManifestFile], removed_entries: EntriesByManifest
    ) -> ManifestFiles:
        rewritten_manifests: ManifestFiles = []
        for kind, group in _group_by_kind(manifests).items():
            not_copied = []
            for manifest in group:
                copied_manifests = self._copy_manifest(kind, manifest, removed_entries[manifest.manifest_path])
                if copied_manifests is None:
                    not_copied.append(manifest)
                else:
                    rewritten_manifests += copied_manifests
            rewritten_manifests += self._reencode_manifests(kind, not_copied, removed_entries)
            rewritten_manifests += self._write_deleted_manifests(kind, group, removed_entries)
        return rewritten_manifests

    def _copy_manifest(
        self, kind: ManifestKind, manifest: ManifestFile, removed_entries: Sequence[ManifestEntry]
    ) -> ManifestFiles | None:
        """Copy the remaining entries of a large manifest as bytes; None if that is not possible."""
        key = ("copied", manifest.manifest_path)
        if key not in self._manifest_cache:
            copies = self.lookup.copies_without_files(manifest, file_paths(removed_entries))
            if copies is None:
                return None
            self._manifest_cache[key] = [self.writer.write_manifest_copy(*kind, copy) for copy in copies]
        return self._manifest_cache[key]

    def _reencode_manifests(
        self, kind: ManifestKind, group: Sequence[ManifestFile], removed_entries: EntriesByManifest
    ) -> ManifestFiles:
        """Decode the remaining entries of manifests and write them again."""
        key = ("rewritten", *(manifest.manifest_path for manifest in group))
        if key not in self._manifest_cache:
            removed_paths = frozenset().union(
                *(file_paths(removed_entries[manifest.manifest_path]) for manifest in group)
            )
            live_entries = (entry for manifest in group for entry in self.lookup.live_entries(manifest))
            entries = [
                existing_entry(entry) for entry in live_entries if entry.data_file.file_path not in removed_paths
            ]
            self._manifest_cache[key] = self.writer.write_manifests(*kind, entries)
        return self._manifest_cache[key]

    def _write_deleted_manifests(
        self, kind: ManifestKind, group: Sequence[ManifestFile], removed_entries: EntriesByManifest
    ) -> ManifestFiles:
        key = ("deleted", *(manifest.manifest_path for manifest in group))
        if key not in self._manifest_cache:
            entries = [
                new_manifest_entry(entry.data_file, ManifestEntryStatus.DELETED, self.writer.snapshot_id, entry)
                for manifest in group
                for entry in removed_entries[manifest.manifest_path]
            ]
            self._manifest_cache[key] = self.writer.write_manifests(*kind, entries)
        return self._manifest_cache[key]

    def _merge_manifests(
        self, manifests: Sequence[ManifestFile], added_manifests: Sequence[ManifestFile]
    ) -> ManifestFiles:
        added_kinds = {_manifest_kind(manifest) for manifest in added_manifests}
        merged_manifests: ManifestFiles = []
        for kind, group in _group_by_kind(manifests).items():
            for bin_, is_merged in merge_bins(self.writer.table.metadata, group, adds_manifest=kind in added_kinds):
                merged_manifests += self._merge_bin(kind, bin_) if is_merged else bin_
        return merged_manifests

    def _merge_bin(self, kind: ManifestKind, bin_: Sequence[ManifestFile]) -> ManifestFiles:
        key = ("merged", *(manifest.manifest_path for manifest in bin_))
        if key not in self._manifest_cache:
            entries = [existing_entry(entry) for manifest in bin_ for entry in self.lookup.live_entries(manifest)]
            self._manifest_cache[key] = self.writer.write_manifests(*kind, entries)
        return self._manifest_cache[key]

    def _with_counts(self, manifest: ManifestFile) -> ManifestFile:
        """Count the files and rows of a manifest from a version 1 list that lacks the counts version 2 requires."""
        has_counts = None not in [manifest[index] for index in MANIFEST_COUNT_POSITIONS]
        if self.writer.table.metadata.format_version == 1 or has_counts:
            return manifest
        entries_by_status: dict[ManifestEntryStatus, list[ManifestEntry]] = {status: [] for status in _COUNTED_STATUSES}
        for entry in self.lookup.entries(manifest):
            entries_by_status[entry.status].append(entry)
        groups = entries_by_status.values()
        counts = [*map(len, groups), *(sum(entry.data_file.record_count for entry in group) for group in groups)]
        counted_manifest = ManifestFile(*(manifest[index] for index in range(len(manifest))))
        for index, value in zip(MANIFEST_COUNT_POSITIONS, counts, strict=True):
            counted_manifest[index] = value
        return counted_manifest


_COUNTED_STATUSES = (ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED)
"""The statuses in the order of the counts of a manifest list row."""


def _manifest_kind(manifest: ManifestFile) -> ManifestKind:
    return manifest.partition_spec_id, manifest.content


def _group_by_kind(manifests: Iterable[ManifestFile]) -> dict[ManifestKind, list[ManifestFile]]:
    groups: dict[ManifestKind, list[ManifestFile]] = {}
    for manifest in manifests:
        groups.setdefault(_manifest_kind(manifest), []).append(manifest)
    return dict(sorted(groups.items()))


# --- merging small manifests


def merge_bins(
    metadata: TableMetadata, manifests: Sequence[ManifestFile], *, adds_manifest: bool
) -> Iterator[tuple[list[ManifestFile], bool]]:
    """Pack manifests of one kind, newest first, into bins of the target size; yield each with whether to merge it.

    The bin of the newest manifests is merged once it has `commit.manifest.min-count-to-merge` of them, counting the
    manifest that the commit itself adds (`adds_manifest`). The other bins are full and don't grow any more.
    """
    # Merging is on unless the table says otherwise, as Iceberg documents it.
    if metadata.properties.get(TableProperties.MANIFEST_MERGE_ENABLED, "true").casefold() != "true":
        yield list(manifests), False
        return
    min_count = int_property(metadata.properties, TableProperties.MANIFEST_MIN_MERGE_COUNT, 100)
    for index, bin_ in enumerate(_pack_bins(manifests, target_manifest_size(metadata))):
        is_waiting = index == 0 and len(bin_) + adds_manifest < min_count
        yield bin_, len(bin_) > 1 and not is_waiting


def _pack_bins(manifests: Sequence[ManifestFile], target_size: int) -> list[list[ManifestFile]]:
    """Pack from the oldest manifest on, so that full bins stay the same when newer manifests come."""
    bins: list[list[ManifestFile]] = []
    bin_size = 0
    for manifest in reversed(manifests):
        # A manifest is full by bytes or by entries, whichever limit is nearer.
        size = max(manifest.manifest_length, _entry_count(manifest) * target_size // MAX_MANIFEST_ENTRIES)
        if bins and bin_size + size <= target_size:
            bins[-1].append(manifest)
            bin_size += size
        else:
            bins.append([manifest])
            bin_size = size
    return [bin_[::-1] for bin_ in reversed(bins)]


def _entry_count(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
