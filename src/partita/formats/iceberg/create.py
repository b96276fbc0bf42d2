"""Creating Iceberg tables in a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.partitioning import PartitionSpec as IcebergSpec
from pyiceberg.transforms import parse_transform

from partita.algebra.schema import Schema, check_distinct_names
from partita.algebra.spec import PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.errors import TableError, UnsupportedFeature
from partita.formats.iceberg.catalogs import table_identifier, translate_catalog_errors
from partita.formats.iceberg.columns import field_ids, schema_to_iceberg
from partita.formats.iceberg.import_guard import check_no_class_properties

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_CREATABLE_FORMAT_VERSIONS = ("1", "2")


def create_table(  # noqa: PLR0913, PLR0917 - the properties of a new table
    catalog: Catalog,
    name: str,
    location: str,
    schema: Schema,
    functions: Sequence[PartitionFunction],
    properties: Mapping[str, str],
) -> Table:
    """Create a table, and its namespace if needed.

    `format-version` among the properties is 1 or 2. Raises `UnsupportedFeature` for other versions and `TableExists` if
    the catalog has a table of that name.
    """
    version = properties.get("format-version", "2")
    if version not in _CREATABLE_FORMAT_VERSIONS:
        raise UnsupportedFeature((f"format version {version}",), "creating")
    check_no_class_properties(properties)
    if any(character in location for character in "?#"):
        raise TableError(f"an Iceberg table can't be at {location}: for other readers, ? and # end a path")
    check_distinct_names(schema.names)
    spec = PartitionSpec.of(functions, schema, "iceberg")
    columns = schema_to_iceberg(schema)
    column_ids = field_ids(columns)
    fields = [
        IcebergField(column_ids[f.source], f.field_id, parse_transform(str(f.transform)), f.name) for f in spec.fields
    ]
    with translate_catalog_errors(name):
        _create_namespaces(catalog, table_identifier(name)[:-1])
        return catalog.create_table(
            table_identifier(name),
            columns,
            location=location,
            partition_spec=IcebergSpec(*fields, spec_id=0),
            properties={**properties, "format-version": version},
        )


def _create_namespaces(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    for depth in range(1, len(namespace) + 1):
        if not catalog.namespace_exists(namespace[:depth]):
            try:
                catalog.create_namespace(namespace[:depth])
            except NamespaceAlreadyExistsError:
                continue
