"""Tables found, made and opened by where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from partita.algebra.functions import identity
from partita.algebra.transforms import PartitionFunction
from partita.arrow.schema import to_schema
from partita.errors import TableError, TableMissing
from partita.formats.delta.creation import create as create_delta
from partita.formats.delta.log import DeltaLog
from partita.formats.delta.store import DeltaStore
from partita.formats.lance.creation import create as create_lance
from partita.formats.lance.namespace import is_there as is_lance
from partita.formats.lance.store import LanceStore
from partita.formats.lance.table import LanceTable
from partita.formats.store import Store
from partita.formats.table import Table
from partita.storage import Storage

_STORES: Mapping[str, Callable[[Storage], Store]] = {"delta": DeltaStore, "lance": LanceStore.opened}


def open_table(
    uri: str,
    *,
    format: str,  # noqa: A002
    options: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Table:
    """A table that exists, whoever made it; `options` are those of its object store."""
    table = as_table(name or PurePosixPath(uri).name, _store(format)(Storage.at(uri, options)))
    table.schema  # noqa: B018 - what can't be read is refused here
    return table


def create_table(
    storage: Storage,
    schema: object,
    format_: str,
    partition_by: Sequence[PartitionFunction | str],
    properties: Mapping[str, str],
) -> Store:
    """A new table in a folder."""
    store = _store(format_)(storage)
    functions = [identity(given) if isinstance(given, str) else given for given in partition_by]
    if format_ == "lance":
        create_lance(storage, schema, functions, properties)
    else:
        create_delta(DeltaLog(storage), to_schema(schema), functions, properties)
    return store


def as_table(name: str, store: Store) -> Table:
    """The table of a store, with what its format can do beside."""
    return LanceTable(name, store) if isinstance(store, LanceStore) else Table(name, store)


def find_table(storage: Storage) -> Store:
    """The table in a folder, in the format that its files say."""
    if next(storage.list("_delta_log"), None) is not None:
        return DeltaStore(storage)
    if is_lance(storage):
        return LanceStore.opened(storage)
    raise TableMissing(storage.uri)


def _store(format_: str) -> Callable[[Storage], Store]:
    if format_ not in _STORES:
        raise TableError(f"there is no format {format_!r} yet; there is {', '.join(_STORES)}")
    return _STORES[format_]
