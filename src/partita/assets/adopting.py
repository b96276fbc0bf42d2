"""Adopted tables: those that lie elsewhere, and that a lake has as sources under a name.

```text
_partita/adopted/<name>.json   where the table is, in which format, and its catalog without secrets
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta

from partita.algebra.freshness import Freshness
from partita.algebra.partition_sets import NOT_PARTITIONED, PartitionSet, dynamic
from partita.algebra.spec import PartitionSpec
from partita.assets.asset import Asset, source
from partita.assets.holding import Holding
from partita.errors import KeyValueError, TableError, TableExists, value_repr
from partita.formats.opening import open_table
from partita.formats.table import Table
from partita.status.workspace import ADOPTED, FOLDER
from partita.storage import Storage
from partita.untrusted import parse_json_object

_KEPT = ("name", "type", "uri", "warehouse", "jdbc.schema-version")
"""What is kept of a catalog's settings; anything else may be a secret, or the name of code to run."""


def adopt(  # noqa: PLR0913, PLR0917 - what there is to say of a table
    storage: Storage,
    name: str,
    uri: str,
    format_: str,
    partitions: PartitionSet | None,
    catalog: Mapping[str, str] | None,
    freshness: timedelta | Freshness | None,
) -> Asset:
    """Note where a table is; the source that it makes. A name that stands for another table is refused."""
    if catalog is not None and (not isinstance(catalog, Mapping) or not all(map(_is_setting, catalog.items()))):
        raise TableError(f"a catalog is texts by name, as pyiceberg has them, not {value_repr(catalog)}")
    _check_no_class(catalog)
    kept = None if catalog is None else {name: _public(catalog[name]) for name in _KEPT if name in catalog}
    where = uri if format_ == "iceberg" else Storage.at(uri).uri
    table = open_table(where, format=format_, catalog=catalog, name=name)
    wanted = _partitions(table.spec) if partitions is None else partitions
    Holding.of(name, wanted, table.spec)
    data = json.dumps({"uri": where, "format": format_, "catalog": kept}, sort_keys=True).encode()
    if not storage.put_new(_path(name), data) and storage.get(_path(name)) != data:
        raise TableExists(f"{name} (adopted)")
    return source(name, partitions=wanted, freshness=freshness)


def is_adopted(storage: Storage, name: str) -> bool:
    """Whether a table was adopted under a name."""
    return storage.exists(_path(name))


def adopted_table(storage: Storage, name: str, time_zone: str = "UTC") -> Table | None:
    """The table that was adopted under a name."""
    data = storage.get(_path(name))
    if data is None:
        return None
    uri, format_, catalog = _read_place(data, _path(name))
    _check_no_class(catalog)
    return open_table(uri, format=format_, catalog=catalog, name=name, time_zone=time_zone)


def _read_place(data: bytes, path: str) -> tuple[str, str, dict[str, str] | None]:
    """Where an adopted table is, in which format and catalog; a file that doesn't say it is refused by its path."""
    try:
        kept = parse_json_object(data)
    except ValueError as error:
        raise TableError(f"{path} can't be read: {error}; adopt the table again") from error
    uri, format_, catalog = kept.get("uri"), kept.get("format"), kept.get("catalog")
    is_catalog = isinstance(catalog, dict) and all(isinstance(value, str) for value in catalog.values())
    if not isinstance(uri, str) or not isinstance(format_, str) or not (catalog is None or is_catalog):
        raise TableError(f"{path} doesn't say where its table is: it needs uri, format and catalog; adopt it again")
    return uri, format_, catalog


def _check_no_class(catalog: Mapping[str, str] | None) -> None:
    """Refuse settings of a catalog that name code to run: others may write to a lake's files."""
    for setting in catalog or {}:
        if setting.casefold().endswith("impl"):
            raise TableError(
                f"{setting} names a class, and a lake keeps no names of code to run; give the catalog as that of the "
                "lake, Lake(..., catalog={...}), or open the table with pt.open_table"
            )


def adopted_names(storage: Storage) -> set[str]:
    """The names of all adopted tables."""
    paths = (path.rpartition("/")[2] for path, _ in storage.list(f"{FOLDER}/{ADOPTED}"))
    return {path.removesuffix(".json") for path in paths if path.endswith(".json")}


def _partitions(spec: PartitionSpec) -> PartitionSet:
    """Dimensions for the partition fields, whose values come from the table."""
    found = NOT_PARTITIONED
    for field in spec.fields:
        try:
            found *= dynamic(field.name)
        except KeyValueError as error:
            raise KeyValueError(field.name, f"{error.reason}; say which partitions the source has") from None
    return found


def _is_setting(pair: tuple[object, object]) -> bool:
    return all(isinstance(one, str) for one in pair)


def _public(value: str) -> str:
    """A setting without the user and the password of a URI."""
    return re.sub(r"(?<=://)[^/@]*@", "", value)


def _path(name: str) -> str:
    return f"{FOLDER}/{ADOPTED}/{name}.json"
