"""Lance as a table format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from partita.algebra.transforms import TransformFamily
from partita.formats.capabilities import FIXED_PARTITIONING, NO_TEXT_LENGTHS, Gap, Operation
from partita.formats.format import FolderFormat, TableAddress
from partita.storage import Storage

if TYPE_CHECKING:
    from partita.algebra.spec import PartitionSpec
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.lance.store import LanceTableStore
    from partita.formats.store import TableStore
    from partita.formats.table import Table


class LanceFormat(FolderFormat):
    """Partitioned tables on Lance namespaces."""

    name = "lance"
    title = "Lance"
    family = TransformFamily.LANCE
    gaps: ClassVar[Mapping[Operation, Gap]] = {
        Operation.EVOLVE: FIXED_PARTITIONING,
        Operation.EXPIRE_SNAPSHOTS: Gap(
            "keeps the versions of its leaves until a cleanup", "use cleanup, which deletes old versions of leaves"
        ),
        Operation.TEXT_LENGTHS: NO_TEXT_LENGTHS,
    }
    folder_marker = "__manifest/|_versions/"
    marker_folders = ("__manifest", "_versions")
    table_subfolder = "__manifest"
    leaf_suffix = ".lance"

    def new_spec(self, schema: object, functions: Sequence[PartitionFunction]) -> PartitionSpec:
        """Return the partition spec of a new table, by the Arrow types that it would store."""
        from partita.algebra.spec import PartitionSpec
        from partita.arrow.schema import to_schema
        from partita.formats.lance.create import arrow_schema

        return PartitionSpec.of(functions, to_schema(arrow_schema(schema)), "lance")

    def create(
        self,
        address: TableAddress,
        schema: object,
        functions: Sequence[PartitionFunction],
        properties: Mapping[str, str],
    ) -> LanceTableStore:
        """Create the root namespace and the first entry of the log."""
        from partita.formats.lance.create import create_table
        from partita.formats.lance.store import LanceTableStore

        create_table(address.folder, schema, functions, properties)
        return LanceTableStore.open_and_recover(address.folder)

    def _open_store(self, folder: Storage) -> LanceTableStore:
        from partita.formats.lance.store import LanceTableStore

        return LanceTableStore.open_and_recover(folder)

    def _has_table(self, folder: Storage) -> bool:
        """Return whether a folder has a namespace."""
        from partita.formats.lance.namespace import has_namespace

        return has_namespace(folder)

    def table(self, name: str, store: TableStore, time_zone: str) -> Table:
        """Return the table with what only Lance has: search, indexes, partitions as data sets."""
        from partita.formats.lance.lance_table import LanceTable
        from partita.formats.lance.store import LanceTableStore

        if not isinstance(store, LanceTableStore):
            raise TypeError(f"{type(store).__name__} is not the store of a Lance table")
        return LanceTable(name, store, time_zone)


LANCE = LanceFormat()
