"""Which manifests the next snapshot lists: new ones, those rewritten without what goes, merged ones, and the rest.

Each is of one spec and one content. What was written for one attempt is used again in the next where the manifests it
was made from are still there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile

from partita.formats.iceberg.transaction.copying import Copy, NotCopied, OpenedManifest, open_manifest
from partita.formats.iceberg.transaction.grouping import group_files_by_spec
from partita.formats.iceberg.transaction.manifests import (
    MOST_ENTRIES,
    InMemoryFile,
    Output,
    decode_entries,
    entry_of,
    is_live,
    listed_manifests,
    read_entries,
)
from partita.formats.iceberg.transaction.merging import bins
from partita.formats.iceberg.transaction.partition_summaries import may_hold
from partita.formats.iceberg.transaction.partitions import partition_of, place_of
from partita.formats.iceberg.transaction.pointers import referenced_path, widened
from partita.formats.iceberg.transaction.probing import may_mention
from partita.formats.iceberg.transaction.schemas import partition_type
from partita.formats.iceberg.transaction.summary import totals_of_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Record

    from partita.formats.iceberg.transaction.changes import Changes

Kind: TypeAlias = tuple[int, ManifestContent]
"""What a manifest is of: a spec, and data or deletes."""
Made: TypeAlias = list[ManifestFile]
Leaving: TypeAlias = dict[str, list[ManifestEntry]]
"""The entries of files that go, by the path of their manifest."""
_FEW_FILES = 10_000
"""So many files are counted one by one where a summary doesn't say their totals."""
_LARGE = 500
"""Entries that take longer to decode than to look for a path in their bytes, or to copy."""


@dataclass(eq=False)
class Entries:
    """The entries of a table's manifests, each manifest read once.

    `listed` are the manifests of snapshot `base` that list data files of the change, where that is known: no other data
    manifest of that snapshot is opened then.
    """

    table: Table
    base: int | None = None
    listed: frozenset[str] | None = None
    _read: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    _opened: dict[str, OpenedManifest | None] = field(default_factory=dict)
    _found: dict[tuple[str, frozenset[str]], list[ManifestEntry]] = field(default_factory=dict)

    def of(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """All entries of a manifest, with those that are deleted."""
        path = manifest.manifest_path
        if path not in self._read:
            self._read[path] = read_entries(self.table.io, manifest, self._spec(manifest))
        return self._read[path]

    def live(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The entries whose files are a part of the table."""
        return [entry for entry in self.of(manifest) if is_live(entry)]

    def of_paths(self, manifest: ManifestFile, paths: frozenset[str]) -> list[ManifestEntry]:
        """The live entries of files at some paths; of a large manifest, no others are decoded."""
        if not paths or self._lists_none(manifest):
            return []
        key = manifest.manifest_path, paths
        if key not in self._found:
            self._found[key] = self._look_for(manifest, paths)
        return self._found[key]

    def copies_without(self, manifest: ManifestFile, paths: frozenset[str]) -> list[Copy] | None:
        """What is live in a manifest but for files at some paths, copied as bytes; None where that can't be done."""
        opened = self._opened_manifest(manifest)
        try:
            return None if opened is None else list(opened.copies_without(opened.rows_of(paths), MOST_ENTRIES))
        except NotCopied:
            return None

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot that have any live file."""
        listed = [] if snapshot is None else listed_manifests(self.table.io, snapshot)
        return [each for each in listed if each.has_added_files() or each.has_existing_files()]

    def totals(self, snapshot: Snapshot | None) -> dict[str, int]:
        """The totals of a snapshot (`summary`); of many files, without the size that only their manifests tell."""
        manifests = self.manifests(snapshot)
        data = [each for each in manifests if each.content == ManifestContent.DATA]
        counts = [[each[at] for at in _COUNTS] for each in data]
        is_known = all(None not in each for each in counts)
        if not is_known or sum(added + existing for added, existing, *_ in counts) <= _FEW_FILES:
            return totals_of_files(entry.data_file for each in manifests for entry in self.live(each))
        deletes = [each for each in manifests if each.content == ManifestContent.DELETES]
        totals = totals_of_files(entry.data_file for each in deletes for entry in self.live(each))
        del totals["total-files-size"]
        totals["total-data-files"] = sum(added + existing for added, existing, *_ in counts)
        totals["total-records"] = sum(added + existing for _, _, _, added, existing, _ in counts)
        return totals

    def _spec(self, manifest: ManifestFile) -> PartitionSpec:
        return self.table.metadata.specs()[manifest.partition_spec_id]

    def _lists_none(self, manifest: ManifestFile) -> bool:
        """Whether a manifest is known to list no data file of the change."""
        path, is_data = manifest.manifest_path, manifest.content == ManifestContent.DATA
        return is_data and self.listed is not None and path not in self.listed and path in self._of_base

    @cached_property
    def _of_base(self) -> frozenset[str]:
        """The manifests of the base snapshot."""
        base = None if self.base is None else self.table.metadata.snapshot_by_id(self.base)
        return frozenset(each.manifest_path for each in self.manifests(base))

    def _look_for(self, manifest: ManifestFile, paths: frozenset[str]) -> list[ManifestEntry]:
        path = manifest.manifest_path
        is_read = not _is_large(manifest) or path in self._read
        is_expected = path in self._opened or path in (self.listed or ())
        if not is_read and not is_expected and not may_mention(self.table.io, path, paths):
            return []
        opened = None if is_read else self._opened_manifest(manifest)
        if opened is not None:
            try:
                rows = opened.rows_of(paths)
                file = InMemoryFile(path, opened.with_rows(rows)) if rows else None
                return [] if file is None else decode_entries(file, manifest, self._spec(manifest))
            except NotCopied:
                self._opened[path] = None
        return [entry for entry in self.live(manifest) if entry.data_file.file_path in paths]

    def _opened_manifest(self, manifest: ManifestFile) -> OpenedManifest | None:
        """A large manifest whose entries can be copied as bytes."""
        path = manifest.manifest_path
        if path not in self._opened and _is_large(manifest) and path not in self._read:
            version = int(self.table.metadata.format_version)
            try:
                self._opened[path] = open_manifest(self.table.io, manifest, self._spec(manifest), version)
            except NotCopied:
                self._opened[path] = None
        return self._opened.get(path)


def _is_large(manifest: ManifestFile) -> bool:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0) > _LARGE


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The manifests of the next snapshot, and the files that it takes away."""

    manifests: list[ManifestFile]
    removed: list[DataFile]


@dataclass(slots=True, eq=False)
class Planner:
    """Plans one change, as often as it takes."""

    changes: Changes
    entries: Entries
    output: Output
    _added: Made | None = None
    _made: dict[tuple[str, ...], Made] = field(default_factory=dict)

    def plan(self, head: Snapshot | None) -> Plan:
        """The plan on top of a snapshot."""
        listed = self.entries.manifests(head)
        data = [each for each in listed if each.content == ManifestContent.DATA]
        deletes = [each for each in listed if each.content == ManifestContent.DELETES]
        leaving = {each.manifest_path: self.entries.of_paths(each, self.changes.removed) for each in data}
        gone = [entry.data_file for found in leaving.values() for entry in found]
        near = [*gone, *self.changes.added_deletes]
        going = self.changes.removed_deletes | self._dangling(deletes, gone)
        leaving |= entries_of(self.entries, deletes, going, near)
        losing = [each for each in listed if leaving.get(each.manifest_path)]
        kept = [each for each in listed if not leaving.get(each.manifest_path)]
        added = self._added_manifests()
        manifests = [*added, *self._rewritten(losing, leaving), *self._merged(kept, added)]
        removed = [entry.data_file for each in losing for entry in leaving[each.manifest_path]]
        return Plan([self._counted(each) for each in manifests], removed)

    def _dangling(self, deletes: Sequence[ManifestFile], gone: Sequence[DataFile]) -> frozenset[str]:
        """The delete files that point into nothing but a data file that goes: they are of its partition."""
        return frozenset(
            entry.data_file.file_path
            for each in _likely(self.entries.table, deletes, gone)
            for entry in self.entries.live(each)
            if referenced_path(entry.data_file) in self.changes.removed
        )

    def _added_manifests(self) -> Made:
        if self._added is None:
            made: Made = []
            for content, files in (
                (ManifestContent.DATA, self.changes.added_data),
                (ManifestContent.DELETES, self.changes.added_deletes),
            ):
                for spec_id, group in group_files_by_spec(map(widened, files)).items():
                    # Files of a partition lie together, so that summaries tell manifests apart.
                    ordered = sorted(group, key=place_of)
                    new = [entry_of(file, ManifestEntryStatus.ADDED, self.output.snapshot_id) for file in ordered]
                    made += self.output.write_manifests(spec_id, content, new)
            self._added = made
        return self._added

    def _rewritten(self, losing: Sequence[ManifestFile], leaving: Leaving) -> Made:
        made: Made = []
        for kind, group in _by_kind(losing).items():
            decoded = []
            for each in group:
                copied = self._copied(kind, each, leaving[each.manifest_path])
                made += copied or ()
                decoded += [each] if copied is None else []
            made += self._encoded(kind, decoded, leaving)
            made += self._deleted_manifests(kind, group, leaving)
        return made

    def _copied(self, kind: Kind, manifest: ManifestFile, leaving: Sequence[ManifestEntry]) -> Made | None:
        """What stays of a large manifest, copied as bytes."""
        key = ("copied", manifest.manifest_path)
        if key not in self._made:
            copies = self.entries.copies_without(manifest, _paths(leaving))
            if copies is None:
                return None
            self._made[key] = [self.output.write_copy(*kind, copy) for copy in copies]
        return self._made[key]

    def _encoded(self, kind: Kind, group: Sequence[ManifestFile], leaving: Leaving) -> Made:
        """What stays of manifests, decoded and encoded."""
        key = ("rewritten", *(each.manifest_path for each in group))
        if key not in self._made:
            going = frozenset().union(*(_paths(leaving[each.manifest_path]) for each in group))
            live = (entry for each in group for entry in self.entries.live(each))
            staying = [existing(entry) for entry in live if entry.data_file.file_path not in going]
            self._made[key] = self.output.write_manifests(*kind, staying)
        return self._made[key]

    def _deleted_manifests(self, kind: Kind, group: Sequence[ManifestFile], leaving: Leaving) -> Made:
        key = ("deleted", *(each.manifest_path for each in group))
        if key not in self._made:
            deleted = [self._deleted(entry) for each in group for entry in leaving[each.manifest_path]]
            self._made[key] = self.output.write_manifests(*kind, deleted)
        return self._made[key]

    def _deleted(self, entry: ManifestEntry) -> ManifestEntry:
        return entry_of(entry.data_file, ManifestEntryStatus.DELETED, self.output.snapshot_id, entry)

    def _merged(self, kept: Sequence[ManifestFile], added: Sequence[ManifestFile]) -> Made:
        fresh = {_kind(each) for each in added}
        made: Made = []
        for kind, group in _by_kind(kept).items():
            for bin_, merges in bins(self.output.table.metadata, group, brings=kind in fresh):
                made += self._merge(kind, bin_) if merges else bin_
        return made

    def _merge(self, kind: Kind, group: Sequence[ManifestFile]) -> Made:
        key = ("merged", *(each.manifest_path for each in group))
        if key not in self._made:
            live = [existing(entry) for each in group for entry in self.entries.live(each)]
            self._made[key] = self.output.write_manifests(*kind, live)
        return self._made[key]

    def _counted(self, manifest: ManifestFile) -> ManifestFile:
        """A manifest from a list of version 1 may lack the counts that version 2 requires."""
        if self.output.table.metadata.format_version == 1 or None not in [manifest[at] for at in _COUNTS]:
            return manifest
        by_status = {
            status: [e for e in self.entries.of(manifest) if e.status == status] for status in ManifestEntryStatus
        }
        groups = [by_status[status] for status in _STATUSES]
        counts = [*map(len, groups), *(sum(e.data_file.record_count for e in group) for group in groups)]
        full = ManifestFile(*(manifest[at] for at in range(len(manifest))))
        for at, number in zip(_COUNTS, counts, strict=True):
            full[at] = number
        return full


_STATUSES = (ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED)
_COUNTS = range(7, 13)
"""The places of the counts in a `ManifestFile`: files added, existing and deleted, and their rows."""


def existing(entry: ManifestEntry) -> ManifestEntry:
    """The entry as one that an earlier snapshot made, with the numbers that it had there."""
    return entry_of(entry.data_file, ManifestEntryStatus.EXISTING, entry.snapshot_id, entry)


def located(
    entries: Entries, snapshot: Snapshot | None, paths: frozenset[str], near: Iterable[DataFile]
) -> dict[str, DataFile]:
    """The live data files of those paths; manifests that may list the partitions of `near` are read first."""
    listed = [each for each in entries.manifests(snapshot) if each.content == ManifestContent.DATA]
    found = entries_of(entries, listed, paths, near)
    return {entry.data_file.file_path: entry.data_file for own in found.values() for entry in own}


def entries_of(
    entries: Entries, manifests: Sequence[ManifestFile], paths: frozenset[str], near: Iterable[DataFile]
) -> Leaving:
    """The live entries of files at some paths, by manifest, until all paths are found.

    Manifests that may list the partitions of `near` are read first.
    """
    likely = _likely(entries.table, manifests, near)
    chosen = {each.manifest_path for each in likely}
    found: Leaving = {}
    missing = set(paths)
    for each in [*likely, *(each for each in manifests if each.manifest_path not in chosen)]:
        if not missing:
            break
        found[each.manifest_path] = entries.of_paths(each, paths)
        missing -= _paths(found[each.manifest_path])
    return found


def _paths(entries: Iterable[ManifestEntry]) -> frozenset[str]:
    return frozenset(entry.data_file.file_path for entry in entries)


def _likely(table: Table, manifests: Sequence[ManifestFile], near: Iterable[DataFile]) -> Made:
    """The manifests that may list a file of one of the partitions of `near`."""
    specs = table.metadata.specs()
    partitions = {partition_of(file): file.partition for file in near}
    types = {spec_id: partition_type(table.metadata, specs[spec_id]) for spec_id, _ in partitions}
    wanted: dict[int, list[Record]] = {spec_id: [] for spec_id in types}
    for (spec_id, _), partition in partitions.items():
        wanted[spec_id].append(partition)
    return [
        each
        for each in manifests
        if any(
            may_hold(each.partitions, types[each.partition_spec_id], partition)
            for partition in wanted.get(each.partition_spec_id, ())
        )
    ]


def _kind(manifest: ManifestFile) -> Kind:
    return manifest.partition_spec_id, manifest.content


def _by_kind(manifests: Iterable[ManifestFile]) -> dict[Kind, list[ManifestFile]]:
    groups: dict[Kind, list[ManifestFile]] = {}
    for each in manifests:
        groups.setdefault(_kind(each), []).append(each)
    return dict(sorted(groups.items()))
