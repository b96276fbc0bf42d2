"""The catalogs of Iceberg tables: opening them, loading and listing tables, and translating their errors.

A lake on a local disk has its own catalog: the SQLite file `catalog.db` in its folder. Spark's JDBC catalog shares it
when it has the same name and `jdbc.schema-version` V1. Any other catalog that pyiceberg knows is opened by its
configuration: `{"name": "ice", "type": "rest", "uri": "https://..."}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
)

from partita.errors import PartitaError, StorageError, TableError, TableExists, TableMissing, UnsupportedFeature
from partita.formats.iceberg.import_guard import load_guarded_catalog
from partita.storage import Storage
from partita.untrusted_input import error_summary

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

CATALOG_NAME = "partita"
"""The name of a lake's own catalog; a catalog of another name doesn't see its tables."""

CATALOG_FILE = "catalog.db"
_DEFAULT_NAMESPACE = "default"
"""The namespace of a table name without dots: every table of a catalog has a namespace."""


def open_catalog(config: Mapping[str, str]) -> Catalog:
    """Open the catalog of a configuration: pyiceberg's properties, and `name`."""
    properties = {name: value for name, value in config.items() if name != "name"}
    name = config.get("name", CATALOG_NAME)
    with translate_catalog_errors(f"catalog {name!r}"):
        return load_guarded_catalog(name, properties)


def open_existing_catalog(config: Mapping[str, str]) -> Catalog:
    """Open a catalog that has tables already: neither its database nor its SQL tables are created."""
    uri = str(config.get("uri", ""))
    file = unquote(uri.removeprefix(_SQLITE_PREFIX).partition("?")[0]) if uri.startswith(_SQLITE_PREFIX) else ""
    with translate_catalog_errors(f"catalog {config.get('name', CATALOG_NAME)!r}"):
        if file and not file.startswith((":memory:", "file:")) and not Path(file).exists():
            raise TableError(f"the catalog's database {file} doesn't exist; correct the catalog's uri")
    is_sql = config.get("type", "sql") == "sql"
    return open_catalog({**config, "init_catalog_tables": "false"} if is_sql else config)


_SQLITE_PREFIX = "sqlite:///"


def lake_catalog(storage: Storage) -> Catalog:
    """Open the catalog in a lake's folder, creating it if needed; raise `TableError` for a lake on an object store."""
    if not storage.is_local:
        raise TableError(
            f"{storage.uri} is an object store, where no catalog can live; name the one that its tables are in: "
            'catalog={"name": "ice", "type": "rest", "uri": "https://..."}, or any other that pyiceberg knows'
        )
    with translate_catalog_errors(f"the catalog of {storage.uri}"):
        Path(storage.uri).mkdir(parents=True, exist_ok=True)
        uri = _sqlite_uri(f"{storage.uri}/{CATALOG_FILE}")
        return load_guarded_catalog(CATALOG_NAME, {"type": "sql", "uri": uri, "warehouse": storage.uri})


def table_identifier(name: str) -> tuple[str, ...]:
    """Split a table name into namespace and name; raise `TableError` if a part is empty."""
    parts = tuple(name.split("."))
    if not all(parts):
        raise TableError(f"{name!r} is not a table name; use parts with dots between them, such as sales.orders")
    return parts if len(parts) > 1 else (_DEFAULT_NAMESPACE, *parts)


def load_table(catalog: Catalog, name: str) -> Table:
    """Load the current metadata of a table from its catalog."""
    with translate_catalog_errors(name):
        return catalog.load_table(table_identifier(name))


def reload_table(table: Table) -> Table:
    """Load the current metadata of a table, unless an SQL catalog says that its metadata file is still the same."""
    catalog = table.catalog
    # A subclass may load tables in its own way.
    is_sql = type(catalog).__module__ == "pyiceberg.catalog.sql"
    if is_sql and _metadata_location(cast("SqlCatalog", catalog), table.name()) == table.metadata_location:
        return table
    return catalog.load_table(table.name())


def _metadata_location(catalog: SqlCatalog, name: tuple[str, ...]) -> str | None:
    """Return the metadata location that an SQL catalog has for a table."""
    # Importing SQLAlchemy takes a quarter of a second, so only users of an SQL catalog pay for it.
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    query = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == Catalog.namespace_to_string(name[:-1]),
        IcebergTables.table_name == name[-1],
    )
    with catalog.engine.connect() as connection:
        return connection.scalar(query)


def metadata_locations(catalog: Catalog) -> dict[tuple[str, ...], str] | None:
    """Return the metadata locations of all tables of an SQL catalog in one query; None for any other catalog."""
    if type(catalog).__module__ != "pyiceberg.catalog.sql":
        return None
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select

    sql_catalog = cast("SqlCatalog", catalog)
    query = select(IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name
    )
    with translate_catalog_errors(f"catalog {catalog.name!r}"), sql_catalog.engine.connect() as connection:
        rows = connection.execute(query).all()
    return {(*namespace.split("."), name): location for namespace, name, location in rows if location is not None}


def catalog_table_names(catalog: Catalog) -> Iterator[str]:
    """Yield the names of all tables of a catalog, as `load_table` takes them."""
    with translate_catalog_errors(f"catalog {catalog.name!r}"):
        namespaces: list[tuple[str, ...]] = list(catalog.list_namespaces())
        while namespaces:
            namespace = namespaces.pop()
            namespaces += catalog.list_namespaces(namespace)
            for identifier in catalog.list_tables(namespace):
                yield ".".join(identifier[1:] if identifier[:-1] == (_DEFAULT_NAMESPACE,) else identifier)


def _sqlite_uri(path: str) -> str:
    """Return a path as an SQLAlchemy URI; a writer waits up to a minute for a lock."""
    return f"{_SQLITE_PREFIX}{quote(path) if set('?%') & set(path) else path}?timeout=60"


@contextmanager
def translate_catalog_errors(subject: str) -> Iterator[None]:
    """Translate errors of pyiceberg and its clients into Partita's; `subject` names the table or the catalog."""
    try:
        yield
    except PartitaError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise TableMissing(subject) from error
    except TableAlreadyExistsError as error:
        raise TableExists(subject) from error
    except NotInstalledError as error:
        raise TableError(f"{subject}: {_first_line(error)}") from error
    except (RESTError, OSError) as error:
        raise StorageError(f"{subject}: {_first_line(error)}") from error
    except (NoSuchPropertyException, ValidationError, ValueError) as error:
        unknown = _UNKNOWN_TYPE_MESSAGE.search(str(error))
        if unknown is not None:
            raise UnsupportedFeature((f"the type {unknown['name'] or unknown['inner']}",), "reading") from error
        raise TableError(f"{subject}: {_metadata_error_reason(error)}") from error
    except Exception as error:
        # Metadata that others wrote can be wrong in any way, and clients of catalogs have errors of their own.
        is_client = not _CLIENT_PACKAGES.isdisjoint(kind.__module__.partition(".")[0] for kind in type(error).__mro__)
        if is_client:
            raise StorageError(f"{subject}: {_first_line(error)}") from error
        raise TableError(f"{subject} can't be read: {error_summary(error)}") from error


_CLIENT_PACKAGES = frozenset({"sqlalchemy", "thrift", "hive_metastore", "botocore", "google"})
"""The clients that pyiceberg uses for databases, Hive, Glue and BigQuery: slow to import, or not installed."""


_UNKNOWN_TYPE_MESSAGE = re.compile(r"Unsupported field type: '(?P<name>[^']+)'|Type not recognized: (?P<inner>\w+)")
"""pyiceberg's messages about a type that it doesn't know, such as `variant` of version 3."""


def _metadata_error_reason(error: Exception) -> str:
    """Return what is wrong with metadata: pydantic says where on the second line of its message, what on the third."""
    first, *details = str(error).splitlines() or [""]
    if not re.match(r"\d+ validation errors? for", first) or not details:
        return first
    position, problem = details[0].strip(), details[1].strip().partition(" [type=")[0] if len(details) > 1 else ""
    return f"the metadata is not as the specification has it, at {position}: {problem}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


# --- errors of a loaded table


def refresh_table(table: Table) -> None:
    """Load the current metadata into `table`; raise `TableError` if the table was replaced by another."""
    with translate_metadata_errors(table):
        try:
            table.refresh()
        except ValueError as error:
            raise TableError(
                f"{table_name(table)} was dropped and created again since it was opened; open it again"
            ) from error


@contextmanager
def translate_metadata_errors(table: Table) -> Iterator[None]:
    """Translate errors of reading and writing a table's metadata into Partita's."""
    try:
        yield
    except StorageError:
        raise
    except NoSuchTableError as error:
        raise TableMissing(table_name(table)) from error
    except OSError as error:
        raise StorageError(f"can't read or write the metadata of {table_name(table)}: {error}") from error


def table_name(table: Table) -> str:
    """Return the table's name in its catalog."""
    return ".".join(table.name())
