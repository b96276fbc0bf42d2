"""A table format: what opens, finds and creates tables, and what the format can't do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from partita.algebra.transforms import TransformFamily
from partita.errors import TableError, UnsupportedOperation
from partita.formats.capabilities import Gap, Operation
from partita.storage import Storage

if TYPE_CHECKING:
    from partita.algebra.spec import PartitionSpec
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.store import TableStore
    from partita.formats.table import Table

CatalogProperties = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A table of a lake: its name, its folder, the lake's folder, and the lake's catalog, if it has one."""

    name: str
    folder: Storage
    lake: Storage
    catalog: CatalogProperties | None = None


class TableFormat(ABC):
    """One format; importing it imports none of the format's libraries.

    `folder_marker` is a regular expression that matches, from its start, a path relative to a table's folder that only
    tables of this format have; `marker_folders` are the subfolders of these paths. `table_subfolder` is the subfolder
    by which a listing of a lake's folders finds tables; None if only a catalog finds them. `leaf_suffix` ends the names
    of folders that look like tables and are parts of one. `plain_file_suffix` ends the names of files that make a
    folder a table without a marker.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    family: ClassVar[TransformFamily]
    gaps: ClassVar[Mapping[Operation, Gap]]
    folder_marker: ClassVar[str]
    marker_folders: ClassVar[tuple[str, ...]]
    table_subfolder: ClassVar[str | None] = None
    leaf_suffix: ClassVar[str | None] = None
    plain_file_suffix: ClassVar[str | None] = None

    def supports(self, operation: Operation) -> bool:
        """Return whether tables of this format can do an operation."""
        return operation not in self.gaps

    def require(self, operation: Operation) -> None:
        """Raise `UnsupportedOperation` if tables of this format can't do an operation."""
        if operation in self.gaps:
            raise self.unsupported_operation(operation)

    def unsupported_operation(self, operation: Operation) -> UnsupportedOperation:
        """Return the error for an operation for which the format declares a gap."""
        gap = self.gaps[operation]
        return UnsupportedOperation(self.title, operation.value, gap.reason, gap.way_out)

    def can_partition_by(self, function: PartitionFunction) -> bool:
        """Return whether tables of this format can have that partition field, if its column has a type that fits."""
        return function.transform.is_identity or self.supports(Operation.TRANSFORM_PARTITIONING)

    @abstractmethod
    def new_spec(self, schema: object, functions: Sequence[PartitionFunction]) -> PartitionSpec:
        """Return the partition spec that a new table would have."""

    @abstractmethod
    def create(
        self,
        address: TableAddress,
        schema: object,
        functions: Sequence[PartitionFunction],
        properties: Mapping[str, str],
    ) -> TableStore:
        """Create a table in a lake; raises `TableExists` if there is one."""

    @abstractmethod
    def find(self, address: TableAddress) -> TableStore | None:
        """Return the table of a lake; None if there is none of this format."""

    @abstractmethod
    def open(
        self,
        uri: str,
        *,
        options: Mapping[str, str] | None,
        catalog: CatalogProperties | None,
        location: str | None,
    ) -> TableStore:
        """Open a table that `pt.open_table` describes."""

    def table(self, name: str, store: TableStore, time_zone: str) -> Table:
        """Return the public table over a store of this format."""
        from partita.formats.table import Table

        return Table(name, store, time_zone)

    def field_renaming_call(self, uri: str, new_names: Mapping[str, str]) -> str | None:  # noqa: ARG002 - most can't
        """Return the call that renames the partition fields of a table; None if they keep their names.

        `new_names` has the new name of each field by its name, in the order of the spec; some are unchanged.
        """
        if not self.supports(Operation.EVOLVE):
            return None
        changed_names = {name: new_name for name, new_name in new_names.items() if new_name != name}
        return f"evolve(rename={changed_names!r}) on the table, for partitions that are written from then on"

    def canonical_uri(self, uri: str) -> str:
        """Return what `open` takes for a table, independent of the current directory."""
        return Storage.from_uri(uri).uri

    def default_name(self, uri: str) -> str:
        """Return the name of a table that is opened without one."""
        return PurePosixPath(uri).name

    def catalog_table_names(self, lake: Storage, catalog: CatalogProperties | None) -> Iterable[str]:  # noqa: ARG002 - most have no catalog
        """Return the names of the lake's tables that only a catalog lists."""
        return ()


class FolderFormat(TableFormat):
    """A format whose tables are found by what is in their folder."""

    table_subfolder: ClassVar[str]

    @abstractmethod
    def _open_store(self, folder: Storage) -> TableStore:
        """Open the table in a folder."""

    def _has_table(self, folder: Storage) -> bool:
        """Return whether a folder is a table of this format."""
        return next(folder.list_paths(self.table_subfolder), None) is not None

    def find(self, address: TableAddress) -> TableStore | None:
        """Return the table in the folder of that name; None if there is none of this format."""
        return self._open_store(address.folder) if self._has_table(address.folder) else None

    def open(
        self,
        uri: str,
        *,
        options: Mapping[str, str] | None,
        catalog: CatalogProperties | None,  # noqa: ARG002 - a folder says where the table is
        location: str | None,
    ) -> TableStore:
        """Open the table in a folder."""
        if location is not None:
            raise TableError(f"a {self.name} table is found by its folder, so location has no effect; leave it out")
        return self._open_store(Storage.from_uri(uri, options))
