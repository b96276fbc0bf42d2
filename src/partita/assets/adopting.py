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
from partita.errors import KeyValueError, TableExists
from partita.formats.opening import open_table
from partita.formats.table import Table
from partita.status.workspace import ADOPTED, FOLDER
from partita.storage import Storage

_KEPT = ("name", "type", "uri", "warehouse", "jdbc.schema-version", "catalog-impl", "py-catalog-impl")
"""What is kept of a catalog's settings; anything else may be a secret."""


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


def adopted_table(storage: Storage, name: str) -> Table | None:
    """The table that was adopted under a name."""
    data = storage.get(_path(name))
    if data is None:
        return None
    kept = json.loads(data)
    return open_table(kept["uri"], format=kept["format"], catalog=kept["catalog"], name=name)


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


def _public(value: str) -> str:
    """A setting without the user and the password of a URI."""
    return re.sub(r"(?<=://)[^/@]*@", "", value)


def _path(name: str) -> str:
    return f"{FOLDER}/{ADOPTED}/{name}.json"
