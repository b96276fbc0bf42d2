"""Finding the entries of files in a table's manifests, opening as few of them as possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.manifest import ManifestContent, ManifestEntry

from partita.formats.iceberg.manifests.avro import read_container_and_records
from partita.formats.iceberg.manifests.copy import (
    CopyableManifest,
    ManifestCopy,
    ManifestNotCopyable,
    live_rows_of,
    may_contain_paths,
    open_copyable_manifest,
)
from partita.formats.iceberg.manifests.data_files import partition_identity
from partita.formats.iceberg.manifests.entries import (
    entries_from_records,
    is_live_entry,
    read_manifest_entries,
    read_snapshot_manifests,
)
from partita.formats.iceberg.manifests.partition_summaries import may_contain_partition
from partita.formats.iceberg.manifests.schema import MANIFEST_COUNT_POSITIONS
from partita.formats.iceberg.manifests.write import MAX_MANIFEST_ENTRIES
from partita.formats.iceberg.snapshot_summary import file_totals
from partita.formats.iceberg.specs import partition_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Record

EntriesByManifest: TypeAlias = dict[str, list[ManifestEntry]]
"""Entries keyed by the path of their manifest."""
_MAX_COUNTED_FILES = 10_000
"""Files that are counted one by one where the parent's summary lacks totals."""
_LARGE_MANIFEST_ENTRIES = 500
"""Manifests with more entries are searched or copied as bytes, which is faster than decoding them."""


@dataclass(eq=False)
class ManifestLookup:
    """Reads the manifests of a table for one commit, each at most once.

    `affected_manifests` are the manifests of snapshot `base_snapshot_id` that list data files of the change, if known:
    then no other data manifest of that snapshot is opened.
    """

    table: Table
    base_snapshot_id: int | None = None
    affected_manifests: frozenset[str] | None = None
    _entries_by_path: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    _copyable_by_path: dict[str, CopyableManifest | None] = field(default_factory=dict)
    _entries_by_lookup: dict[tuple[str, frozenset[str]], list[ManifestEntry]] = field(default_factory=dict)

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Return all entries of a manifest, deleted ones included."""
        path = manifest.manifest_path
        if path not in self._entries_by_path:
            self._entries_by_path[path] = read_manifest_entries(self.table.io, manifest, self._partition_spec(manifest))
        return self._entries_by_path[path]

    def live_entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Return the entries of a manifest whose files are part of the table."""
        return [entry for entry in self.entries(manifest) if is_live_entry(entry)]

    def entries_of_paths(self, manifest: ManifestFile, paths: frozenset[str]) -> list[ManifestEntry]:
        """Return the live entries of files with one of the paths; other entries of a large manifest stay undecoded."""
        if not paths or self._is_unaffected(manifest):
            return []
        key = manifest.manifest_path, paths
        if key not in self._entries_by_lookup:
            self._entries_by_lookup[key] = self._find_entries(manifest, paths)
        return self._entries_by_lookup[key]

    def find_entries(
        self, manifests: Sequence[ManifestFile], paths: frozenset[str], partition_hints: Iterable[DataFile]
    ) -> EntriesByManifest:
        """Return the live entries of files with one of the paths, by manifest; stop once every path is found.

        Manifests that may list the partitions of `partition_hints` are read first.
        """
        hinted_manifests = self.manifests_of_partitions(manifests, partition_hints)
        hinted_paths = {manifest.manifest_path for manifest in hinted_manifests}
        entries: EntriesByManifest = {}
        missing_paths = set(paths)
        for manifest in [
            *hinted_manifests,
            *(manifest for manifest in manifests if manifest.manifest_path not in hinted_paths),
        ]:
            if not missing_paths:
                break
            entries[manifest.manifest_path] = self.entries_of_paths(manifest, paths)
            missing_paths -= file_paths(entries[manifest.manifest_path])
        return entries

    def find_data_files(
        self, snapshot: Snapshot | None, paths: frozenset[str], partition_hints: Iterable[DataFile]
    ) -> dict[str, DataFile]:
        """Return the live data files of a snapshot with one of the paths (see `find_entries`)."""
        manifests = [manifest for manifest in self.live_manifests(snapshot) if manifest.content == ManifestContent.DATA]
        entries_by_manifest = self.find_entries(manifests, paths, partition_hints)
        return {
            entry.data_file.file_path: entry.data_file for entries in entries_by_manifest.values() for entry in entries
        }

    def manifests_of_partitions(
        self, manifests: Sequence[ManifestFile], partition_hints: Iterable[DataFile]
    ) -> list[ManifestFile]:
        """Return the manifests that may list a file of the partition of one of the given files."""
        specs = self.table.metadata.specs()
        partitions = {partition_identity(file): file.partition for file in partition_hints}
        types = {spec_id: partition_type(self.table.metadata, specs[spec_id]) for spec_id, _ in partitions}
        partitions_by_spec: dict[int, list[Record]] = {spec_id: [] for spec_id in types}
        for (spec_id, _), partition in partitions.items():
            partitions_by_spec[spec_id].append(partition)
        return [
            manifest
            for manifest in manifests
            if any(
                may_contain_partition(manifest.partitions, types[manifest.partition_spec_id], partition)
                for partition in partitions_by_spec.get(manifest.partition_spec_id, ())
            )
        ]

    def copies_without_files(self, manifest: ManifestFile, paths: frozenset[str]) -> list[ManifestCopy] | None:
        """Copy the live entries of a manifest as bytes, except files with one of the paths; None if not possible."""
        copyable = self._copyable_manifest(manifest)
        if copyable is None:
            return None
        try:
            return list(copyable.copies_without_rows(copyable.live_rows_of(paths), MAX_MANIFEST_ENTRIES))
        except ManifestNotCopyable:
            return None

    def live_manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """Return the manifests of a snapshot that have a live file."""
        manifests = [] if snapshot is None else read_snapshot_manifests(self.table.io, snapshot)
        return [manifest for manifest in manifests if manifest.has_added_files() or manifest.has_existing_files()]

    def snapshot_totals(self, snapshot: Snapshot | None) -> dict[str, int]:
        """Return the totals of a snapshot's summary; `total-files-size` is left out where there are many files."""
        manifests = self.live_manifests(snapshot)
        data_manifests = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
        counts = [[manifest[index] for index in MANIFEST_COUNT_POSITIONS] for manifest in data_manifests]
        has_counts = all(None not in numbers for numbers in counts)
        if not has_counts or sum(new + existing for new, existing, *_ in counts) <= _MAX_COUNTED_FILES:
            return file_totals(entry.data_file for manifest in manifests for entry in self.live_entries(manifest))
        delete_manifests = [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]
        totals = file_totals(entry.data_file for manifest in delete_manifests for entry in self.live_entries(manifest))
        del totals["total-files-size"]
        totals["total-data-files"] = sum(new + existing for new, existing, *_ in counts)
        totals["total-records"] = sum(new + existing for _, _, _, new, existing, _ in counts)
        return totals

    def _partition_spec(self, manifest: ManifestFile) -> PartitionSpec:
        return self.table.metadata.specs()[manifest.partition_spec_id]

    def _is_unaffected(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest is known to list no data file of the change."""
        path, is_data = manifest.manifest_path, manifest.content == ManifestContent.DATA
        return (
            is_data
            and self.affected_manifests is not None
            and path not in self.affected_manifests
            and path in self._base_manifest_paths
        )

    @cached_property
    def _base_manifest_paths(self) -> frozenset[str]:
        base = None if self.base_snapshot_id is None else self.table.metadata.snapshot_by_id(self.base_snapshot_id)
        return frozenset(manifest.manifest_path for manifest in self.live_manifests(base))

    def _find_entries(self, manifest: ManifestFile, paths: frozenset[str]) -> list[ManifestEntry]:
        path = manifest.manifest_path
        if path in self._entries_by_path or not _is_large_manifest(manifest):
            return [entry for entry in self.live_entries(manifest) if entry.data_file.file_path in paths]
        is_expected = path in self._copyable_by_path or path in (self.affected_manifests or ())
        if not is_expected and not may_contain_paths(self.table.io, path, paths):
            return []
        copyable = self._copyable_manifest(manifest)
        records = read_container_and_records(self.table.io, path)[1] if copyable is None else copyable.records
        rows = live_rows_of(records, paths)
        return entries_from_records(records.take(rows), manifest, self._partition_spec(manifest)) if rows else []

    def _copyable_manifest(self, manifest: ManifestFile) -> CopyableManifest | None:
        """Return a large manifest whose entries can be copied as bytes."""
        path = manifest.manifest_path
        if path not in self._copyable_by_path and _is_large_manifest(manifest) and path not in self._entries_by_path:
            format_version = int(self.table.metadata.format_version)
            try:
                self._copyable_by_path[path] = open_copyable_manifest(
                    self.table.io, manifest, self._partition_spec(manifest), format_version
                )
            except ManifestNotCopyable:
                self._copyable_by_path[path] = None
        return self._copyable_by_path.get(path)


def file_paths(entries: Iterable[ManifestEntry]) -> frozenset[str]:
    """Return the paths of the files of some entries."""
    return frozenset(entry.data_file.file_path for entry in entries)


def _is_large_manifest(manifest: ManifestFile) -> bool:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0) > _LARGE_MANIFEST_ENTRIES
