"""Which manifests the next snapshot lists: new ones, those rewritten without what goes, merged ones, and the rest.

Each is of one spec and one content. What was written for one attempt is used again in the next where the manifests it
was made from are still there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile

from partita.formats.iceberg.transaction.grouping import group_files_by_spec
from partita.formats.iceberg.transaction.manifests import Output, content_of, entry_of, is_live, read_entries
from partita.formats.iceberg.transaction.merging import bins
from partita.formats.iceberg.transaction.partition_summaries import may_hold
from partita.formats.iceberg.transaction.partitions import partition_of, place_of
from partita.formats.iceberg.transaction.pointers import referenced_path, widened
from partita.formats.iceberg.transaction.probing import may_mention
from partita.formats.iceberg.transaction.schemas import partition_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Record

    from partita.formats.iceberg.transaction.changes import Changes

Kind: TypeAlias = tuple[int, ManifestContent]
"""What a manifest is of: a spec, and data or deletes."""
Made: TypeAlias = list[ManifestFile]
Going: TypeAlias = dict[ManifestContent, frozenset[str]]
"""The paths of data and of delete files that go."""
_LARGE = 500
"""Entries that take longer to decode than to look for a path in their bytes."""


@dataclass(slots=True, eq=False)
class Entries:
    """The entries of a table's manifests, each manifest read once."""

    table: Table
    _read: dict[str, list[ManifestEntry]] = field(default_factory=dict)

    def of(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """All entries of a manifest, with those that are deleted."""
        path = manifest.manifest_path
        if path not in self._read:
            spec = self.table.metadata.specs()[manifest.partition_spec_id]
            self._read[path] = read_entries(self.table.io, manifest, spec)
        return self._read[path]

    def live(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The entries whose files are a part of the table."""
        return [entry for entry in self.of(manifest) if is_live(entry)]

    def of_paths(self, manifest: ManifestFile, paths: frozenset[str]) -> list[ManifestEntry]:
        """The live entries of files at some paths; a large manifest that has none isn't decoded."""
        is_large = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0) > _LARGE
        path = manifest.manifest_path
        if not paths or (is_large and path not in self._read and not may_mention(self.table.io, path, paths)):
            return []
        return [entry for entry in self.live(manifest) if entry.data_file.file_path in paths]

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot that have any live file."""
        listed = [] if snapshot is None else snapshot.manifests(self.table.io)
        return [each for each in listed if each.has_added_files() or each.has_existing_files()]

    def files(self, snapshot: Snapshot | None) -> Iterable[DataFile]:
        """Every live file of a snapshot, deletes too."""
        return (entry.data_file for each in self.manifests(snapshot) for entry in self.live(each))


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
        going = self._going(listed)
        losing = [each for each in listed if self._loses(each, going)]
        lost = {each.manifest_path for each in losing}
        kept = [each for each in listed if each.manifest_path not in lost]
        removed = [entry for each in losing for entry in self.entries.live(each) if self._goes(entry, going)]
        added = self._added_manifests()
        manifests = [*added, *self._rewritten(losing, going), *self._merged(kept, added)]
        return Plan([self._counted(each) for each in manifests], [entry.data_file for entry in removed])

    def _loses(self, manifest: ManifestFile, going: Going) -> bool:
        return bool(self.entries.of_paths(manifest, going.get(manifest.content, frozenset())))

    @staticmethod
    def _goes(entry: ManifestEntry, going: Going) -> bool:
        return entry.data_file.file_path in going[content_of(entry.data_file)]

    def _going(self, listed: Sequence[ManifestFile]) -> Going:
        """The paths that go, with deletes that point into nothing but a data file that goes."""
        removed = self.changes.removed
        if not removed and not self.changes.removed_deletes:
            return {}
        dangling = {
            entry.data_file.file_path
            for each in listed
            if removed and each.content == ManifestContent.DELETES
            for entry in self.entries.live(each)
            if referenced_path(entry.data_file) in removed
        }
        return {ManifestContent.DATA: removed, ManifestContent.DELETES: self.changes.removed_deletes | dangling}

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

    def _rewritten(self, losing: Sequence[ManifestFile], going: Going) -> Made:
        made: Made = []
        for kind, group in _by_kind(losing).items():
            key = ("rewritten", *(each.manifest_path for each in group))
            if key not in self._made:
                live = [entry for each in group for entry in self.entries.live(each)]
                staying = [existing(entry) for entry in live if not self._goes(entry, going)]
                leaving = [self._deleted(entry) for entry in live if self._goes(entry, going)]
                written = self.output.write_manifests(*kind, staying)
                self._made[key] = written + self.output.write_manifests(*kind, leaving)
            made += self._made[key]
        return made

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
    likely = _likely(entries.table, listed, near)
    chosen = {each.manifest_path for each in likely}
    found: dict[str, DataFile] = {}
    for group in (likely, [each for each in listed if each.manifest_path not in chosen]):
        for each in group:
            found |= {entry.data_file.file_path: entry.data_file for entry in entries.of_paths(each, paths)}
        if len(found) == len(paths):
            break
    return found


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
