"""The schema and the partition type of a spec, also when its source columns have been dropped since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import VoidTransform
from pyiceberg.types import IcebergType, IntegerType, NestedField, StructType

from partita.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata


def find_compatible_schema(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The current schema where it has every column that the spec partitions by, else the newest one that has."""
    for schema in _newest_first(metadata):
        if all(_type_in(schema, field) is not None for field in spec.fields if not _is_void(field)):
            return schema
    raise SchemaError(
        f"no schema of the table has all columns that partition spec {spec.spec_id} is made of; "
        "schemas that old specs need must stay in the table's metadata"
    )


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> StructType:
    """The struct of the spec's values, every field optional: a void field is null whatever its column says."""
    schema = find_compatible_schema(metadata, spec)
    fields = (NestedField(f.field_id, f.name, _result_type(metadata, schema, f), required=False) for f in spec.fields)
    return StructType(*fields)


def _result_type(metadata: TableMetadata, schema: Schema, field: PartitionField) -> IcebergType:
    found = _type_in(schema, field)
    if found is None:
        anywhere = (_type_in(older, field) for older in _newest_first(metadata))
        # What is always null may be of any type.
        found = next((type_ for type_ in anywhere if type_ is not None), IntegerType())
    return field.transform.result_type(found)


def _type_in(schema: Schema, field: PartitionField) -> IcebergType | None:
    try:
        return schema.find_type(field.source_id)
    except ValueError:
        return None


def _is_void(field: PartitionField) -> bool:
    return isinstance(field.transform, VoidTransform)


def _newest_first(metadata: TableMetadata) -> Iterator[Schema]:
    yield metadata.schema()
    yield from sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
