"""The files that one snapshot adds and removes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry

from partita.formats.iceberg.transaction.data_files import referenced_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

ReadConflictCheck: TypeAlias = "Callable[[Table, list[ManifestEntry]], bool]"


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotChange:
    """The files that one snapshot adds and removes, with what the commit has to check.

    `operation` is "append", "overwrite", "delete", "row_delta" or "replace". Added files carry their spec id; a file
    without one is of spec 0. `removed_data_files` and `removed_delete_files` are paths. `referenced_data_files` are the
    data files that added position-delete files reference. `read_conflict_check` tells whether files that a concurrent
    commit added or removed are among what the operation read; None if it read nothing, or if that doesn't matter.
    `summary_properties` go into the snapshot summary. `transaction` is an application id and its version: a version
    that the table has seen is not committed again. `affected_manifests` are the manifests of the base snapshot that
    list the removed and referenced data files; None if they are unknown and have to be searched for.
    """

    operation: str
    added_files: Sequence[DataFile] = ()
    removed_data_files: frozenset[str] = frozenset()
    removed_delete_files: frozenset[str] = frozenset()
    referenced_data_files: frozenset[str] = frozenset()
    read_conflict_check: ReadConflictCheck | None = None
    summary_properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    affected_manifests: frozenset[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the change adds and removes no file."""
        return not (self.added_files or self.removed_data_files or self.removed_delete_files)

    @property
    def added_data_files(self) -> list[DataFile]:
        """The data files among the added files."""
        return [file for file in self.added_files if file.content == DataFileContent.DATA]

    @property
    def added_delete_files(self) -> list[DataFile]:
        """The delete files among the added files."""
        return [file for file in self.added_files if file.content != DataFileContent.DATA]

    @property
    def required_data_files(self) -> frozenset[str]:
        """The data files that must still be in the table, because added delete files reference them."""
        paths = (referenced_path(file) for file in self.added_delete_files)
        return self.referenced_data_files | {path for path in paths if path is not None}

    @property
    def is_blind_append(self) -> bool:
        """Return whether no concurrent commit can conflict with the change."""
        return self.read_conflict_check is None and not (
            self.removed_data_files or self.removed_delete_files or self.required_data_files
        )
