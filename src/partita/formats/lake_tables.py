"""Open tables, and create and find those of a lake, whatever their format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.errors import TableError, TableExists, TableMissing
from partita.formats.arguments import partition_functions_of
from partita.formats.format import CatalogProperties, TableAddress, TableFormat
from partita.formats.nested_tables import nested_table_folders, table_formats_in, table_formats_of_folder
from partita.formats.registry import table_format, table_formats
from partita.formats.table import Table
from partita.storage import Storage


def open_table(  # noqa: PLR0913 - each by its name
    uri: str,
    *,
    format: str,  # noqa: A002
    options: Mapping[str, str] | None = None,
    catalog: CatalogProperties | None = None,
    name: str | None = None,
    location: str | None = None,
    time_zone: str = "UTC",
) -> Table:
    """Open an existing table, whoever created it.

    Args:
        uri: the folder of the table, on a disk or in an object store; the name of an Iceberg table in its
            catalog, as in `open_table("db.t", catalog={"type": "sql", "uri": "..."}, format="iceberg")`.
        format: the name of the table's format.
        options: settings of the object store, by obstore's names.
        catalog: properties of the catalog of an Iceberg table, by pyiceberg's names.
        name: the name of the table in messages; by default the last part of `uri`.
        location: the folder of an Iceberg table whose metadata file is not in the folder `metadata` of its location. It
            confirms that this folder is the table's own: without it nothing is committed to the table and none of its
            files are deleted.
        time_zone: the time zone of dates and times without one in predicates, if no Spark session runs.

    Raises:
        TableMissing: there is no table.
        TableError: the table's metadata can't be read.
        UnsupportedFeature: the table needs a feature that Partita doesn't support.
    """
    own_format = table_format(format)
    try:
        store = own_format.open(uri, options=options, catalog=catalog, location=location)
        table = own_format.table(name or own_format.default_name(uri), store, time_zone)
        _ = table.schema  # raise now if the table can't be read
    except TableMissing as error:
        raise TableMissing(error.uri, _way_out_of_missing(own_format, uri, options)) from error
    return table


def _way_out_of_missing(own_format: TableFormat, uri: str, options: Mapping[str, str] | None) -> str:
    """Return what to do where there is no table of a format: use the format whose files are there, if any."""
    if own_format.table_subfolder is None:
        return "check the name and the catalog"
    found_formats = table_formats_of_folder(Storage.from_uri(uri, options))
    if not found_formats:
        return "check the path"
    return " or ".join(f"it has the files of a table in format={format_.name!r}" for format_ in found_formats)


def new_table_spec(schema: object, format_: str, partition_by: Sequence[PartitionFunction | str]) -> PartitionSpec:
    """Return the partition spec that a new table would have."""
    own_format = table_format(format_)
    return own_format.new_spec(schema, partition_functions_of(partition_by, "partition_by"))


_CATALOG_HINT = (
    "it is an Iceberg table, which only its catalog finds: Lake(..., catalog="
    '{"name": "ice", "type": "rest", "uri": "https://..."})'
)

TABLE_NAME_PART = re.compile(r"\w[\w-]*")
"""A word of a table's name, and the name of its folder."""


@dataclass(frozen=True, slots=True)
class LakeTables:
    """The tables of a lake: each in a folder by its name, some formats in a catalog as well."""

    storage: Storage
    catalog: CatalogProperties | None = None
    time_zone: str = "UTC"

    def create_table(
        self,
        name: str,
        schema: object,
        format_: str,
        partition_by: Sequence[PartitionFunction | str],
        properties: Mapping[str, str],
    ) -> Table:
        """Create a table; raises `TableExists` if the name is taken, in whatever format."""
        own_format = table_format(format_)
        functions = partition_functions_of(partition_by, "partition_by")
        self.check_name_is_free(name)
        self._check_not_nested(name, own_format)
        store = own_format.create(self._address(name), schema, functions, properties)
        return own_format.table(name, store, self.time_zone)

    def check_name_is_free(self, name: str) -> None:
        """Raise `TableExists` if the lake has a table of that name, in whatever format."""
        table = self._find_or_none(name)
        if table is not None:
            raise TableExists(table.uri)

    def _check_not_nested(self, name: str, own_format: TableFormat) -> None:
        """Raise `TableError` if one table would lie in the folder of another, whose clean-up would delete its files.

        Folders with the format's `leaf_suffix` may be there: leaves that other writers made before the table.
        """
        parts = name.split(".")
        parents = (".".join(parts[:depth]) for depth in range(1, len(parts)))
        parent = next((parent for parent in parents if self._find_or_none(parent)), None)
        if parent is not None:
            raise TableError(f"{name} would lie in the folder of the table {parent}; choose a name outside of it")
        folder = self._table_folder(name)
        paths = [path for path, _ in folder.list_paths()]
        for other_format in map(table_format, sorted(table_formats_in(paths))):
            if other_format.table_subfolder is not None:
                continue
            if self._find_or_none(name) is not None:  # created in between
                raise TableExists(folder.uri)
            raise TableError(
                f"the folder {folder.uri} has the metadata of an {other_format.title} table that isn't called {name} "
                "in the catalog: one that was renamed or dropped, or is in another catalog. Choose another name, or "
                "remove the folder if nothing needs that table any more"
            )
        suffix = own_format.leaf_suffix
        nested_folders = sorted(f for f in nested_table_folders(paths) if suffix is None or not f.endswith(suffix))
        if nested_folders:
            raise TableError(
                f"the folder of {name} has the table {name}.{nested_folders[0].replace('/', '.')} in it; "
                "choose another name"
            )

    def find_table(self, name: str) -> Table:
        """Return the table of that name; raises `TableMissing` if there is none."""
        table = self._find_or_none(name)
        if table is None:
            has_no_catalog = self.catalog is None and not self.storage.is_local
            hint = f", unless {_CATALOG_HINT}" if has_no_catalog else ""
            raise TableMissing(self._table_folder(name).uri, f"create_table makes one{hint}")
        return table

    def table_names(self, excluded_folder: str) -> set[str]:
        """Return the names of all tables; `excluded_folder` is a folder that has none.

        Tables are folders that have a format's subfolder, and those that a catalog lists. No folder of a table is
        looked into, so it takes one listing for each folder above them.
        """
        formats = table_formats()
        names = {name for format_ in formats for name in format_.catalog_table_names(self.storage, self.catalog)}
        subfolders = frozenset(f.table_subfolder for f in formats if f.table_subfolder is not None)
        return names | set(self._folder_table_names("", subfolders, frozenset({*names, excluded_folder})))

    def _folder_table_names(
        self, folder: str, table_subfolders: frozenset[str], skipped_names: frozenset[str]
    ) -> Iterator[str]:
        """Return the names of tables in a folder and below it; skipped names are not listed."""
        name = folder.replace("/", ".")
        if name in skipped_names:
            return
        subfolders = self.storage.list_folders(folder)
        if folder and not table_subfolders.isdisjoint(subfolders):
            yield name
            return
        for subfolder in subfolders:
            if TABLE_NAME_PART.fullmatch(subfolder):
                path = f"{folder}/{subfolder}" if folder else subfolder
                yield from self._folder_table_names(path, table_subfolders, skipped_names)

    def _find_or_none(self, name: str) -> Table | None:
        for own_format in table_formats():
            store = own_format.find(self._address(name))
            if store is not None:
                return own_format.table(name, store, self.time_zone)
        return None

    def _address(self, name: str) -> TableAddress:
        return TableAddress(name, self._table_folder(name), self.storage, self.catalog)

    def _table_folder(self, name: str) -> Storage:
        return self.storage.with_uri("/".join([self.storage.uri, *name.split(".")]))
