"""Which Python classes pyiceberg may import: those that the user's own configuration names (ADR 0025).

pyiceberg imports what `py-io-impl`, `s3.retry-strategy-impl` or `write.py-location-provider.impl` name, and takes such
properties from table metadata and from a REST catalog's answers as readily as from its configuration. Whoever can write
metadata could run code that way. So a catalog that Partita opens ignores properties that name classes, unless they come
from the configuration that the user gave: `catalog={...}`, `partita.toml`, or pyiceberg's own file and environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog, infer_catalog_type, load_catalog
from pyiceberg.table import TableProperties
from pyiceberg.utils.config import Config, merge_config

from partita.errors import TableError, UnsupportedFeature

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

LOCATION_PROVIDER = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
_IMPORTED = frozenset({"py-io-impl", "py-catalog-impl", "s3.retry-strategy-impl", LOCATION_PROVIDER})
_AUTH = "auth"
"""The settings of a REST catalog's authentication, whose `impl` is a class."""


def names_class(property_name: str) -> bool:
    """Whether the value of a property is the name of a class: `py-io-impl`, `write.py-location-provider.impl`."""
    return property_name.casefold().endswith("impl")


def without_classes(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that name no class."""
    return {name: value for name, value in properties.items() if not names_class(name) and name != _AUTH}


def with_own_classes(properties: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """The properties, with the names of classes that the user's configuration has and no others."""
    own = {name: value for name, value in configured.items() if names_class(name) or name == _AUTH}
    return {**without_classes(properties), **own}


def check_new_properties(properties: Mapping[str, str]) -> None:
    """Refuse properties of a new table that pyiceberg would import a class for."""
    for name in _IMPORTED & set(properties):
        raise TableError(
            f"the property {name} names a class, and metadata never imports code; the configuration of the catalog may "
            "name it"
        )


def check_no_location_provider(properties: Mapping[str, str]) -> None:
    """Refuse to write to a table whose properties name a class for the places of its files."""
    if properties.get(LOCATION_PROVIDER):
        raise UnsupportedFeature((f"the property {LOCATION_PROVIDER}, which names code to run",), "writing to")


def open_guarded(name: str, properties: Mapping[str, str]) -> Catalog:
    """The catalog of a configuration, which imports no class that only metadata or a server names."""
    configured: dict[str, Any] = dict(merge_config(Config().get_catalog_config(name) or {}, dict(properties)))
    if _is_rest(name, configured, properties):
        from partita.formats.iceberg.rest import GuardedRestCatalog

        catalog: Catalog = GuardedRestCatalog(name, **configured)
    else:
        catalog = load_catalog(name, **properties)
    return guard(catalog, configured)


def _is_rest(name: str, configured: Mapping[str, Any], given: Mapping[str, str]) -> bool:
    if given.get("py-catalog-impl"):
        return False
    kind = configured.get("type") or infer_catalog_type(name, dict(configured))
    return str(getattr(kind, "value", kind)).casefold() == "rest"


def guard(catalog: Catalog, configured: Mapping[str, Any]) -> Catalog:
    """Let a catalog ignore properties that name classes, but for those of its configuration."""
    catalog.properties = with_own_classes(catalog.properties, configured)
    _guard_io(catalog)
    _guard_locations(catalog)
    return catalog


def _guard_io(catalog: Catalog) -> None:
    """Wrap what makes a FileIO: pyiceberg has no other place where a table's properties come in."""
    load = catalog._load_file_io  # noqa: SLF001 - see above

    def load_file_io(properties: Mapping[str, Any] | None = None, location: str | None = None) -> FileIO:
        return load(without_classes(properties or {}), location)

    setattr(catalog, "_load_file_io", load_file_io)  # noqa: B010 - mypy takes no assignment to a method


def _guard_locations(catalog: Catalog) -> None:
    """Wrap what makes a commit's metadata: pyiceberg imports the newest metadata's location provider there."""
    stage = getattr(catalog, "_update_and_stage_table", None)
    if stage is None:
        return

    def update_and_stage_table(
        current: Table | None, name: Any, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> StagedTable:
        if current is not None:
            check_no_location_provider(current.metadata.properties)
        for update in updates:
            check_no_location_provider(getattr(update, "updates", None) or {})
        staged: StagedTable = stage(current, name, requirements, updates)
        return staged

    setattr(catalog, "_update_and_stage_table", update_and_stage_table)  # noqa: B010 - as above
