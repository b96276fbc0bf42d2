"""Tables found, made and opened by where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.arrow.schema import to_schema
from partita.errors import TableError, TableExists, TableMissing, value_repr
from partita.formats import FORMATS
from partita.formats.arguments import functions_of
from partita.formats.lance.names import LEAF
from partita.formats.nesting import formats_in, tables_below
from partita.formats.store import Store
from partita.formats.table import Table
from partita.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as IcebergCatalog

Catalog = Mapping[str, str]


def open_table(  # noqa: PLR0913 - each by its name
    uri: str,
    *,
    format: str,  # noqa: A002
    options: Mapping[str, str] | None = None,
    catalog: Catalog | None = None,
    name: str | None = None,
    location: str | None = None,
    time_zone: str = "UTC",
) -> Table:
    """A table that exists, whoever made it.

    A Delta or a Lance table is found by where it is, and `options` are those of its object store. An Iceberg table is
    found by its name in a `catalog`: `open_table("db.t", catalog={"type": "sql", "uri": "..."}, format="iceberg")`.
    `location` confirms the folder of an Iceberg table whose metadata files are elsewhere: files are deleted there.
    `time_zone` is that of predicates where no Spark session runs.
    """
    if format == "iceberg":
        if not isinstance(catalog, Mapping):
            raise TableError(
                'an Iceberg table is found in a catalog; say which, as in catalog={"name": "ice", "type": "rest", '
                '"uri": "https://..."}'
            )
        from partita.formats.iceberg.catalogs import load, open_existing_catalog
        from partita.formats.iceberg.store import IcebergStore

        table = Table(name or uri, IcebergStore(load(open_existing_catalog(catalog), uri), location), time_zone)
    else:
        _check(format)
        if location is not None:
            raise TableError(f"a {format} table is found by where it is, so location says nothing; leave it out")
        folder = Storage.at(uri, options)
        own = name or PurePosixPath(uri).name
        table = Table(own, _delta(folder), time_zone) if format == "delta" else _lance(own, folder, time_zone)
    table.schema  # noqa: B018 - what can't be read is refused here
    return table


def new_spec(schema: object, format_: str, partition_by: Sequence[PartitionFunction | str]) -> PartitionSpec:
    """The spec that a new table would have."""
    _check(format_)
    functions = functions_of(partition_by, "partition_by")
    if format_ == "delta":
        from partita.formats.delta.creation import new_spec as delta_spec

        return delta_spec(to_schema(schema), functions)
    if format_ == "lance":
        from partita.formats.lance.creation import arrow_schema

        return PartitionSpec.of(functions, to_schema(arrow_schema(schema)), "lance")
    return PartitionSpec.of(functions, to_schema(schema), "iceberg")


_IN_A_CATALOG = (
    "it is an Iceberg table, which only its catalog finds: Lake(..., catalog="
    '{"name": "ice", "type": "rest", "uri": "https://..."})'
)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a lake: each in a folder by its name, and those of Iceberg in a catalog as well."""

    storage: Storage
    catalog: Catalog | None = None
    time_zone: str = "UTC"

    def create(
        self,
        name: str,
        schema: object,
        format_: str,
        partition_by: Sequence[PartitionFunction | str],
        properties: Mapping[str, str],
    ) -> Table:
        """A new table; a name that is taken, in whatever format, is `TableExists`."""
        _check(format_)
        functions = functions_of(partition_by, "partition_by")
        if self._found(name) is not None:
            raise TableExists(self._folder(name).uri)
        self._check_apart(name, LEAF if format_ == "lance" else None)
        if format_ == "iceberg":
            self._check_named_folders(name, properties)
        if format_ == "lance":
            from partita.formats.lance.creation import create

            create(self._folder(name), schema, functions, properties)
            return _lance(name, self._folder(name), self.time_zone)
        make = self._create_delta if format_ == "delta" else self._create_iceberg
        return Table(name, make(name, to_schema(schema), functions, properties), self.time_zone)

    def _check_apart(self, name: str, own: str | None) -> None:
        """No table lies in the folder of another, whose clean-up would take it for leavings.

        `own` is how folders end that would be the table's own: leaves that others laid out before it was made.
        """
        parts = name.split(".")
        above = next((a for a in (".".join(parts[:at]) for at in range(1, len(parts))) if self._found(a)), None)
        if above is not None:
            raise TableError(f"{name} would lie in the folder of the table {above}; choose a name outside of it")
        paths = [path for path, _ in self._folder(name).list()]
        if "iceberg" in formats_in(paths):
            if self._found(name) is not None:  # made in between
                raise TableExists(self._folder(name).uri)
            raise TableError(
                f"the folder {self._folder(name).uri} has the metadata of an Iceberg table that isn't called {name} in "
                "the catalog: one that was renamed or dropped, or is in another catalog. Choose another name, or "
                "remove the folder if nothing needs that table any more"
            )
        found = tables_below(paths)
        below = sorted(folder for folder in found if own is None or not folder.endswith(own))
        if below:
            raise TableError(
                f"the folder of {name} has the table {name}.{below[0].replace('/', '.')} in it; choose another name"
            )

    def _check_named_folders(self, name: str, properties: Mapping[str, str]) -> None:
        """Refuse properties that would put files of a new table into the folder of another."""
        from partita.formats.containment import Place
        from partita.formats.iceberg.places import FOLDER_PROPERTIES

        own, lake = Place.at(self._folder(name).uri), Place.at(self.storage.uri)
        for key in FOLDER_PROPERTIES:
            folder = Place.at(properties[key]) if properties.get(key) else None
            below = None if folder is None or folder == own else lake.relative(folder.root)
            if folder is None or below is None or own.relative(folder.root) is not None:
                continue
            parts = below.split("/")
            for depth in range(1, len(parts) + 1):
                other = Storage("/".join([self.storage.uri, *parts[:depth]]), self.storage.options)
                if _is_table(other):
                    raise TableError(
                        f"{key} of {name} would put files into the folder of the table at {other.uri}, whose clean-up "
                        "would take them for leavings; choose a folder outside of it"
                    )

    def find(self, name: str) -> Table:
        """The table of that name, in the format that it is in."""
        found = self._found(name)
        if found is None:
            is_blind = self.catalog is None and not self.storage.is_local
            raise TableMissing(self._folder(name).uri, _IN_A_CATALOG if is_blind else "")
        return found

    def _found(self, name: str) -> Table | None:
        folder = self._folder(name)
        if next(folder.list("_delta_log"), None) is not None:
            return Table(name, _delta(folder), self.time_zone)
        iceberg = self._found_iceberg(name)
        if iceberg is not None:
            return Table(name, iceberg, self.time_zone)
        from partita.formats.lance.namespace import is_there

        return _lance(name, folder, self.time_zone) if is_there(folder) else None

    def _create_delta(
        self, name: str, schema: Schema, functions: Sequence[PartitionFunction], properties: Mapping[str, str]
    ) -> Store:
        from partita.formats.delta.creation import create
        from partita.formats.delta.log import DeltaLog

        folder = self._folder(name)
        create(DeltaLog(folder), schema, functions, properties)
        return _delta(folder)

    def _create_iceberg(
        self, name: str, schema: Schema, functions: Sequence[PartitionFunction], properties: Mapping[str, str]
    ) -> Store:
        from partita.formats.iceberg.catalogs import create, lake_catalog, open_catalog
        from partita.formats.iceberg.store import IcebergStore

        catalog = lake_catalog(self.storage) if self.catalog is None else open_catalog(self.catalog)
        uri = self._folder(name).uri
        location = f"file://{uri}" if self.storage.is_local else uri
        return IcebergStore(create(catalog, name, location, schema, functions, properties), uri)

    def _found_iceberg(self, name: str) -> Store | None:
        catalog = self.iceberg_catalog()
        if catalog is None:
            return None
        from partita.formats.iceberg.catalogs import load
        from partita.formats.iceberg.store import IcebergStore

        try:
            return IcebergStore(load(catalog, name), self._folder(name).uri)
        except TableMissing:
            return None

    def iceberg_catalog(self) -> IcebergCatalog | None:
        """Where the Iceberg tables are kept; None where there is no catalog yet."""
        from partita.formats.iceberg.catalogs import CATALOG_FILE, lake_catalog, open_catalog

        if self.catalog is not None:
            return open_catalog(self.catalog)
        return lake_catalog(self.storage) if self.storage.is_local and self.storage.exists(CATALOG_FILE) else None

    def _folder(self, name: str) -> Storage:
        return Storage("/".join([self.storage.uri, *name.split(".")]), self.storage.options)


def _is_table(folder: Storage) -> bool:
    """Whether a folder is that of a table, by one look for each format."""
    marks = ("_delta_log", "metadata", "__manifest", "_versions")
    return any(formats_in(path for path, _ in folder.list(mark)) for mark in marks)


def _delta(folder: Storage) -> Store:
    from partita.formats.delta.store import DeltaStore

    return DeltaStore(folder)


def _lance(name: str, folder: Storage, time_zone: str) -> Table:
    from partita.formats.lance.store import LanceStore
    from partita.formats.lance.table import LanceTable

    return LanceTable(name, LanceStore.opened(folder), time_zone)


def _check(format_: str) -> None:
    if format_ not in FORMATS:
        raise TableError(f"there is no format {value_repr(format_)} yet; there is {', '.join(FORMATS)}")
