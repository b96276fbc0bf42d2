"""Adopted tables: tables outside of the lake's folder that the lake knows as sources by a name.

```text
_partita/adopted/<name>.json   the table's URI, its format, and its catalog without secrets
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta

from partita.algebra.freshness import FreshnessPolicy
from partita.algebra.partition_sets import UNPARTITIONED, PartitionSet, dynamic
from partita.algebra.spec import PartitionSpec
from partita.assets.asset import Asset, source
from partita.assets.dimension_fields import DimensionFields
from partita.errors import KeyValueError, TableError, TableExists, TableMissing, value_repr
from partita.formats.lake_tables import open_table
from partita.formats.registry import table_format
from partita.formats.table import Table
from partita.status.workspace import ADOPTED_FOLDER, METADATA_FOLDER
from partita.storage import Storage
from partita.untrusted_input import parse_json_object

_STORED_CATALOG_SETTINGS = ("name", "type", "uri", "warehouse", "jdbc.schema-version")
"""The settings of a catalog that are stored; others may be a secret, or the name of code to run."""


def adopt_table(  # noqa: PLR0913, PLR0917 - the properties of a source
    storage: Storage,
    name: str,
    uri: str,
    format_name: str,
    partitions: PartitionSet | None,
    catalog: Mapping[str, str] | None,
    freshness: timedelta | FreshnessPolicy | None,
) -> Asset:
    """Record where a table is, and return it as a source. Raise `TableExists` if another table has the name.

    Without `partitions`, every partition field of the table is a dynamic dimension.
    """
    if catalog is not None and (not isinstance(catalog, Mapping) or not all(map(_is_text_pair, catalog.items()))):
        raise TableError(f"a catalog maps pyiceberg's property names to strings, not {value_repr(catalog)}")
    _check_no_class_settings(catalog)
    settings = (
        None
        if catalog is None
        else {name: _without_credentials(catalog[name]) for name in _STORED_CATALOG_SETTINGS if name in catalog}
    )
    location = table_format(format_name).canonical_uri(uri)
    table = open_table(location, format=format_name, catalog=catalog, name=name)
    dimensions = _dynamic_partitions(table.spec, format_name, location) if partitions is None else partitions
    DimensionFields.of(name, dimensions, table.spec)
    data = json.dumps({"uri": location, "format": format_name, "catalog": settings}, sort_keys=True).encode()
    if not storage.put_if_absent(_adoption_path(name), data) and storage.get(_adoption_path(name)) != data:
        raise TableExists(f"{name} (adopted)")
    return source(name, partitions=dimensions, freshness=freshness)


def is_adopted(storage: Storage, name: str) -> bool:
    """Return whether a table was adopted by this name."""
    return storage.exists(_adoption_path(name))


def adopted_table(storage: Storage, name: str, time_zone: str = "UTC") -> Table | None:
    """Open the table that was adopted by a name; None if there is none. Raise `TableMissing` if it is gone."""
    data = storage.get(_adoption_path(name))
    if data is None:
        return None
    uri, format_, catalog = _parse_table_location(data, _adoption_path(name))
    _check_no_class_settings(catalog)
    try:
        return open_table(uri, format=format_, catalog=catalog, name=name, time_zone=time_zone)
    except TableMissing as error:
        raise TableMissing(
            error.uri,
            f"{name} was adopted from there: bring it back, or delete {_adoption_path(name)} in the lake and adopt it "
            "from where it is now",
        ) from error


def _parse_table_location(data: bytes, path: str) -> tuple[str, str, dict[str, str] | None]:
    """Return URI, format and catalog of an adopted table. Raise `TableError` for a damaged file."""
    try:
        document = parse_json_object(data)
    except ValueError as error:
        raise TableError(f"{path} can't be read: {error}; delete it, and adopt the table again") from error
    uri, format_, catalog = document.get("uri"), document.get("format"), document.get("catalog")
    is_catalog = isinstance(catalog, dict) and all(isinstance(value, str) for value in catalog.values())
    if not isinstance(uri, str) or not isinstance(format_, str) or not (catalog is None or is_catalog):
        raise TableError(
            f"{path} doesn't say where its table is: it needs uri, format and catalog; delete it, and adopt the table "
            "again"
        )
    return uri, format_, catalog


def _check_no_class_settings(catalog: Mapping[str, str] | None) -> None:
    """Raise `TableError` for a setting that names code to run: others may write to a lake's files."""
    for setting in catalog or {}:
        if setting.casefold().endswith("impl"):
            raise TableError(
                f"{setting} names a class, and a lake stores no names of code to run; use the catalog as that of the "
                "lake, Lake(..., catalog={...}), or open the table with pt.open_table"
            )


def adopted_table_names(storage: Storage) -> set[str]:
    """Return the names of all adopted tables."""
    paths = (path.rpartition("/")[2] for path, _ in storage.list_paths(f"{METADATA_FOLDER}/{ADOPTED_FOLDER}"))
    return {path.removesuffix(".json") for path in paths if path.endswith(".json")}


def _dynamic_partitions(spec: PartitionSpec, format_name: str, uri: str) -> PartitionSet:
    """Return a dynamic dimension for each partition field. Raise `KeyValueError` for a name that no dimension has."""
    partitions = UNPARTITIONED
    invalid_name: KeyValueError | None = None
    for field in spec.fields:
        try:
            partitions *= dynamic(field.name)
        except KeyValueError as error:
            invalid_name = invalid_name or error
    if invalid_name is None:
        return partitions
    new_names = {name: name if name in partitions.names else _dimension_name(name) for name in spec.names}
    renaming_call = table_format(format_name).field_renaming_call(uri, new_names)
    other_dimensions = " * ".join(f"pt.dynamic({name!r})" for name in partitions.names) or "pt.PartitionSet(())"
    raise KeyValueError(
        invalid_name.name,
        f"{invalid_name.reason}; {'' if renaming_call is None else f'call {renaming_call}, or '}"
        f"leave it out of the source's dimensions with partitions={other_dimensions}",
    )


def _dimension_name(name: str) -> str:
    """Return the name of a dimension that resembles the name of a column."""
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).lstrip("_0123456789") or "field"


def _is_text_pair(pair: tuple[object, object]) -> bool:
    return all(isinstance(text, str) for text in pair)


def _without_credentials(value: str) -> str:
    """Return a setting without the user and the password of a URI in it."""
    return re.sub(r"(?<=://)[^/@]*@", "", value)


def _adoption_path(name: str) -> str:
    return f"{METADATA_FOLDER}/{ADOPTED_FOLDER}/{name}.json"
