"""Which Python classes pyiceberg may import: only those that the user's own configuration names (ADR 25).

pyiceberg imports the classes that `py-io-impl`, `s3.retry-strategy-impl` or `write.py-location-provider.impl` name, and
takes such properties from table metadata and from the answers of a REST catalog as readily as from its configuration.
A writer of metadata could run code that way. So a catalog that Partita opens ignores properties that name
classes, unless they come from the user's configuration: `catalog={...}`, `partita.toml`, or pyiceberg's own file and
environment.
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

LOCATION_PROVIDER_PROPERTY = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
_CLASS_PROPERTIES = frozenset({"py-io-impl", "py-catalog-impl", "s3.retry-strategy-impl", LOCATION_PROVIDER_PROPERTY})
_AUTH_PROPERTY = "auth"
"""The authentication settings of a REST catalog, whose `impl` is a class."""


def is_class_property(property_name: str) -> bool:
    """Return whether a property names a class: `py-io-impl`, `write.py-location-provider.impl`."""
    return property_name.casefold().endswith("impl")


def without_class_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that name no class."""
    return {name: value for name, value in properties.items() if not is_class_property(name) and name != _AUTH_PROPERTY}


def with_configured_classes(properties: Mapping[str, Any], own_properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties with the class names of the user's configuration, and no others."""
    class_properties = {
        name: value for name, value in own_properties.items() if is_class_property(name) or name == _AUTH_PROPERTY
    }
    return {**without_class_properties(properties), **class_properties}


def check_no_class_properties(properties: Mapping[str, str]) -> None:
    """Raise `TableError` if a property of a new table names a class that pyiceberg would import."""
    for name in _CLASS_PROPERTIES & set(properties):
        raise TableError(
            f"the property {name} names a class, and metadata never imports code; the configuration of the catalog may "
            "name it"
        )


def check_no_location_provider(properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedFeature` for writes to a table whose properties name a location provider class."""
    if properties.get(LOCATION_PROVIDER_PROPERTY):
        raise UnsupportedFeature((f"the property {LOCATION_PROVIDER_PROPERTY}, which names code to run",), "writing to")


def load_guarded_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Load the catalog of a configuration; it imports no class that only metadata or a server names."""
    own_properties: dict[str, Any] = dict(merge_config(Config().get_catalog_config(name) or {}, dict(properties)))
    if _is_rest_catalog(name, own_properties, properties):
        catalog: Catalog = _guarded_rest_catalog(name, own_properties)
    else:
        catalog = load_catalog(name, **properties)
    return guard_catalog(catalog, own_properties)


def _guarded_rest_catalog(name: str, own_properties: Mapping[str, Any]) -> Catalog:
    """Return a REST catalog that takes class names from its configuration, and not from its server's answer."""
    # The REST client is slow to import, and only REST catalogs need it.
    from pyiceberg.catalog.rest import RestCatalog

    class GuardedRestCatalog(RestCatalog):
        def _fetch_config(self) -> None:
            user_properties = dict(self.properties)
            super()._fetch_config()
            # pyiceberg creates the session again from these, with the class that authenticates.
            self.properties = with_configured_classes(self.properties, user_properties)

    return GuardedRestCatalog(name, **own_properties)


def _is_rest_catalog(name: str, own_properties: Mapping[str, Any], user_properties: Mapping[str, str]) -> bool:
    if user_properties.get("py-catalog-impl"):
        return False
    catalog_type = own_properties.get("type") or infer_catalog_type(name, dict(own_properties))
    return str(getattr(catalog_type, "value", catalog_type)).casefold() == "rest"


def guard_catalog(catalog: Catalog, own_properties: Mapping[str, Any]) -> Catalog:
    """Make a catalog ignore properties that name classes, except those of its configuration."""
    catalog.properties = with_configured_classes(catalog.properties, own_properties)
    _guard_file_io(catalog)
    _guard_location_provider(catalog)
    return catalog


def _guard_file_io(catalog: Catalog) -> None:
    """Wrap the method that creates a FileIO: pyiceberg has no other place where a table's properties come in."""
    load = catalog._load_file_io  # noqa: SLF001 - see above

    def load_file_io(properties: Mapping[str, Any] | None = None, location: str | None = None) -> FileIO:
        return load(without_class_properties(properties or {}), location)

    setattr(catalog, "_load_file_io", load_file_io)  # noqa: B010 - mypy takes no assignment to a method


def _guard_location_provider(catalog: Catalog) -> None:
    """Wrap the method that stages a commit's metadata: pyiceberg imports the table's location provider there."""
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
        staged_table: StagedTable = stage(current, name, requirements, updates)
        return staged_table

    setattr(catalog, "_update_and_stage_table", update_and_stage_table)  # noqa: B010 - as above
