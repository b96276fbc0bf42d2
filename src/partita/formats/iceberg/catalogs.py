"""Which catalog an Iceberg table is in, and how tables are found and made there.

A lake on a local disk has a catalog of its own: the SQLite file `catalog.db` in its folder, which Spark's JDBC catalog
shares when it is called by the same name and has `jdbc.schema-version` V1. Any other catalog that pyiceberg knows is
reached by its configuration: `{"name": "ice", "type": "rest", "uri": "https://..."}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.partitioning import PartitionSpec as IcebergSpec
from pyiceberg.transforms import parse_transform

from partita.algebra.schema import Schema, check_distinct
from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.errors import PartitaError, StorageError, TableError, TableExists, TableMissing, UnsupportedFeature
from partita.formats.iceberg.classes import check_new_properties, open_guarded
from partita.formats.iceberg.columns import field_ids, from_schema
from partita.storage import Storage
from partita.untrusted import first_line

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

CATALOG_NAME = "partita"
"""What a lake's own catalog is called; a catalog of another name doesn't see its tables."""

CATALOG_FILE = "catalog.db"
_NAMESPACE = "default"
"""The namespace of a name without dots: every table of a catalog is in one."""
_VERSIONS = ("1", "2")


def open_catalog(config: Mapping[str, str]) -> Catalog:
    """The catalog of a configuration: pyiceberg's names and their values, and `name`."""
    properties = {name: value for name, value in config.items() if name != "name"}
    name = config.get("name", CATALOG_NAME)
    with translated(f"catalog {name!r}"):
        return open_guarded(name, properties)


def open_existing_catalog(config: Mapping[str, str]) -> Catalog:
    """The catalog of a configuration that has tables already: neither its database nor its tables in SQL are made."""
    uri = str(config.get("uri", ""))
    file = unquote(uri.removeprefix(_SQLITE).partition("?")[0]) if uri.startswith(_SQLITE) else ""
    with translated(f"catalog {config.get('name', CATALOG_NAME)!r}"):
        if file and not file.startswith((":memory:", "file:")) and not Path(file).exists():
            raise TableError(f"the catalog's database {file} doesn't exist; correct the catalog's uri")
    in_sql = config.get("type", "sql") == "sql"
    return open_catalog({**config, "init_catalog_tables": "false"} if in_sql else config)


_SQLITE = "sqlite:///"


def lake_catalog(storage: Storage) -> Catalog:
    """The catalog inside of a lake, made where there is none yet; a lake on an object store can't have one."""
    if not storage.is_local:
        raise TableError(
            f"{storage.uri} is an object store, where no catalog can live; name the one that its tables are in: "
            'catalog={"name": "ice", "type": "rest", "uri": "https://..."}, or any other that pyiceberg knows'
        )
    with translated(f"the catalog of {storage.uri}"):
        Path(storage.uri).mkdir(parents=True, exist_ok=True)
        uri = _sqlite(f"{storage.uri}/{CATALOG_FILE}")
        return open_guarded(CATALOG_NAME, {"type": "sql", "uri": uri, "warehouse": storage.uri})


def identifier(name: str) -> tuple[str, ...]:
    """The parts of a table's name, its namespace first."""
    parts = tuple(name.split("."))
    if not all(parts):
        raise TableError(f"{name!r} is not a table's name; it is parts with dots between them, such as sales.orders")
    return parts if len(parts) > 1 else (_NAMESPACE, *parts)


def load(catalog: Catalog, name: str) -> Table:
    """The table of that name, as its catalog has it now."""
    with translated(name):
        return catalog.load_table(identifier(name))


def reloaded(table: Table) -> Table:
    """The table as its catalog has it now; the same, unread, where a catalog in SQL says that it is where it was."""
    catalog = table.catalog
    # A class of somebody else's may have its own way to load.
    in_sql = type(catalog).__module__ == "pyiceberg.catalog.sql"
    if in_sql and _location(cast("SqlCatalog", catalog), table.name()) == table.metadata_location:
        return table
    return catalog.load_table(table.name())


def _location(catalog: SqlCatalog, name: tuple[str, ...]) -> str | None:
    """Where a catalog has the metadata of what it knows by that name, a table or not."""
    # A quarter of a second, which only those pay who have such a catalog.
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    asked = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == Catalog.namespace_to_string(name[:-1]),
        IcebergTables.table_name == name[-1],
    )
    with catalog.engine.connect() as connection:
        return connection.scalar(asked)


def metadata_locations(catalog: Catalog) -> dict[tuple[str, ...], str] | None:
    """Where a catalog in SQL has the metadata of its tables, in one question; None of any other catalog."""
    if type(catalog).__module__ != "pyiceberg.catalog.sql":
        return None
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    sql = cast("SqlCatalog", catalog)
    asked = select(IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name
    )
    with translated(f"catalog {catalog.name!r}"), sql.engine.connect() as connection:
        rows = connection.execute(asked).all()
    return {(*namespace.split("."), name): location for namespace, name, location in rows if location is not None}


def names_in(catalog: Catalog) -> Iterator[str]:
    """The names of all tables of a catalog, as `load` takes them."""
    with translated(f"catalog {catalog.name!r}"):
        waiting: list[tuple[str, ...]] = list(catalog.list_namespaces())
        while waiting:
            namespace = waiting.pop()
            waiting += catalog.list_namespaces(namespace)
            for found in catalog.list_tables(namespace):
                yield ".".join(found[1:] if found[:-1] == (_NAMESPACE,) else found)


def create(  # noqa: PLR0913, PLR0917 - what a table is made of
    catalog: Catalog,
    name: str,
    location: str,
    schema: Schema,
    functions: Sequence[PartitionFunction],
    properties: Mapping[str, str],
) -> Table:
    """A new table; its namespace is made where there is none. `format-version` among the properties is 1 or 2."""
    version = properties.get("format-version", "2")
    if version not in _VERSIONS:
        raise UnsupportedFeature((f"format version {version}",), "creating")
    check_new_properties(properties)
    if any(mark in location for mark in "?#"):
        raise TableError(f"an Iceberg table can't lie at {location}: to other readers, ? and # end a path")
    check_distinct(schema.names)
    spec = PartitionSpec.of(functions, schema, "iceberg")
    columns = from_schema(schema)
    ids = field_ids(columns)
    fields = [IcebergField(ids[f.source], f.field_id, parse_transform(str(f.transform)), f.name) for f in spec.fields]
    with translated(name):
        _make_namespaces(catalog, identifier(name)[:-1])
        return catalog.create_table(
            identifier(name),
            columns,
            location=location,
            partition_spec=IcebergSpec(*fields, spec_id=0),
            properties={**properties, "format-version": version},
        )


def _make_namespaces(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    for depth in range(1, len(namespace) + 1):
        if not catalog.namespace_exists(namespace[:depth]):
            try:
                catalog.create_namespace(namespace[:depth])
            except NamespaceAlreadyExistsError:
                continue


def _sqlite(path: str) -> str:
    """A path as SQLAlchemy's URI; a writer waits for another for a minute."""
    return f"{_SQLITE}{quote(path) if set('?%') & set(path) else path}?timeout=60"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Errors of pyiceberg, and of what it stands on, as Partita's."""
    try:
        yield
    except PartitaError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise TableMissing(what) from error
    except TableAlreadyExistsError as error:
        raise TableExists(what) from error
    except NotInstalledError as error:
        raise TableError(f"{what}: {_first_line(error)}") from error
    except (RESTError, OSError) as error:
        raise StorageError(f"{what}: {_first_line(error)}") from error
    except (NoSuchPropertyException, ValidationError, ValueError) as error:
        unknown = _UNKNOWN_TYPE.search(str(error))
        if unknown is not None:
            raise UnsupportedFeature((f"the type {unknown['name'] or unknown['inner']}",), "reading") from error
        raise TableError(f"{what}: {_reason(error)}") from error
    except Exception as error:
        # Metadata that others wrote can be wrong in any way, and clients of catalogs have errors of their own.
        is_client = not _CLIENTS.isdisjoint(kind.__module__.partition(".")[0] for kind in type(error).__mro__)
        if is_client:
            raise StorageError(f"{what}: {_first_line(error)}") from error
        raise TableError(f"{what} can't be read: {first_line(error)}") from error


_CLIENTS = frozenset({"sqlalchemy", "thrift", "hive_metastore", "botocore", "google"})
"""What pyiceberg asks databases, Hive, Glue and BigQuery with: slow to import, or not installed."""


_UNKNOWN_TYPE = re.compile(r"Unsupported field type: '(?P<name>[^']+)'|Type not recognized: (?P<inner>\w+)")
"""How pyiceberg says that a schema has a type that it doesn't know, such as `variant` of version 3."""


def _reason(error: Exception) -> str:
    """What is wrong with metadata: pydantic says where on the second line of its text, and what on the third."""
    first, *rest = str(error).splitlines() or [""]
    if not re.match(r"\d+ validation errors? for", first) or not rest:
        return first
    place, wrong = rest[0].strip(), rest[1].strip().partition(" [type=")[0] if len(rest) > 1 else ""
    return f"the metadata is not as the specification has it, at {place}: {wrong}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
