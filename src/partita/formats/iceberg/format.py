"""Iceberg as a table format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from partita.algebra.transforms import TransformFamily
from partita.errors import TableError, TableMissing
from partita.formats.capabilities import NO_TEXT_LENGTHS, NO_VECTOR_INDEX, Gap, Operation
from partita.formats.format import CatalogProperties, TableAddress, TableFormat
from partita.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from partita.algebra.spec import PartitionSpec
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.iceberg.store import IcebergTableStore


class IcebergFormat(TableFormat):
    """Tables that a catalog lists: one of the user's, or a SQLite file in a lake on a local disk."""

    name = "iceberg"
    title = "Iceberg"
    family = TransformFamily.ICEBERG
    gaps: ClassVar[Mapping[Operation, Gap]] = {
        Operation.TEXT_LENGTHS: NO_TEXT_LENGTHS,
        Operation.VECTOR_SEARCH: NO_VECTOR_INDEX,
    }
    folder_marker = r"metadata/[^/]+\.metadata\.json(?:\.gz)?$"
    marker_folders = ("metadata",)

    def new_spec(self, schema: object, functions: Sequence[PartitionFunction]) -> PartitionSpec:
        """Return the partition spec of a new table."""
        from partita.algebra.spec import PartitionSpec
        from partita.arrow.schema import to_schema

        return PartitionSpec.of(functions, to_schema(schema), "iceberg")

    def create(
        self,
        address: TableAddress,
        schema: object,
        functions: Sequence[PartitionFunction],
        properties: Mapping[str, str],
    ) -> IcebergTableStore:
        """Create the table in the lake's catalog, in the folder of its name."""
        from partita.arrow.schema import to_schema
        from partita.formats.iceberg.catalogs import lake_catalog, open_catalog
        from partita.formats.iceberg.create import create_table
        from partita.formats.iceberg.store import IcebergTableStore

        _check_folder_properties(address, properties)
        catalog = lake_catalog(address.lake) if address.catalog is None else open_catalog(address.catalog)
        uri = address.folder.uri
        location = f"file://{uri}" if address.folder.is_local else uri
        table = create_table(catalog, address.name, location, to_schema(schema), functions, properties)
        return IcebergTableStore(table, uri)

    def find(self, address: TableAddress) -> IcebergTableStore | None:
        """Return the table that the lake's catalog has under that name."""
        catalog = _lake_catalog(address.lake, address.catalog)
        if catalog is None:
            return None
        from partita.formats.iceberg.catalogs import load_table
        from partita.formats.iceberg.store import IcebergTableStore

        try:
            return IcebergTableStore(load_table(catalog, address.name), address.folder.uri)
        except TableMissing:
            return None

    def open(
        self,
        uri: str,
        *,
        options: Mapping[str, str] | None,  # noqa: ARG002 - the catalog has those of the object store
        catalog: CatalogProperties | None,
        location: str | None,
    ) -> IcebergTableStore:
        """Open the table that a catalog has under that name; `location` confirms its folder."""
        if not isinstance(catalog, Mapping):
            raise TableError(
                'an Iceberg table is found in a catalog; say which, as in catalog={"name": "ice", "type": "rest", '
                '"uri": "https://..."}'
            )
        from partita.formats.iceberg.catalogs import load_table, open_existing_catalog
        from partita.formats.iceberg.store import IcebergTableStore

        return IcebergTableStore(load_table(open_existing_catalog(catalog), uri), location)

    def canonical_uri(self, uri: str) -> str:
        """Return the name in the catalog."""
        return uri

    def default_name(self, uri: str) -> str:
        """Return the name in the catalog."""
        return uri

    def catalog_table_names(self, lake: Storage, catalog: CatalogProperties | None) -> Iterable[str]:
        """Return the names of all tables of the lake's catalog."""
        lake_catalog = _lake_catalog(lake, catalog)
        if lake_catalog is None:
            return ()
        from partita.formats.iceberg.catalogs import catalog_table_names

        return catalog_table_names(lake_catalog)


def _lake_catalog(lake: Storage, catalog: CatalogProperties | None) -> Catalog | None:
    """Return the catalog of a lake's Iceberg tables; None if there is none yet."""
    from partita.formats.iceberg.catalogs import CATALOG_FILE, lake_catalog, open_catalog

    if catalog is not None:
        return open_catalog(catalog)
    return lake_catalog(lake) if lake.is_local and lake.exists(CATALOG_FILE) else None


def _check_folder_properties(address: TableAddress, properties: Mapping[str, str]) -> None:
    """Raise `TableError` if properties would put files of a new table into the folder of another."""
    from partita.formats.containment import FolderLocation
    from partita.formats.iceberg.locations import FOLDER_PROPERTIES
    from partita.formats.nested_tables import is_table_folder

    table_location = FolderLocation.from_uri(address.folder.uri)
    lake_location = FolderLocation.from_uri(address.lake.uri)
    for key in FOLDER_PROPERTIES:
        folder = FolderLocation.from_uri(properties[key]) if properties.get(key) else None
        if folder is None or folder == table_location or table_location.relative_path(folder.root) is not None:
            continue
        below_lake = lake_location.relative_path(folder.root)
        parts = [] if below_lake is None else below_lake.split("/")
        for depth in range(1, len(parts) + 1):
            other = address.lake.with_uri("/".join([address.lake.uri, *parts[:depth]]))
            if is_table_folder(other):
                raise TableError(
                    f"{key} of {address.name} would put files into the folder of the table at {other.uri}, whose "
                    "clean-up would delete them as orphans; choose a folder outside of it"
                )


ICEBERG = IcebergFormat()
