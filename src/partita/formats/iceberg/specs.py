"""The partition specs in a table's metadata: as a `SpecHistory`, and as the struct type of their partition values.

The source column of a partition field is found by its id and has its current name. If the column was dropped, the field
has the last name of the column, made distinct from a newer column of that name: a predicate on a column must never be
answered by the partition values of another.

A field with a transform that Partita doesn't know, or of a type that it doesn't compute with, is read but never used
for pruning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.transforms import Transform as IcebergTransform
from pyiceberg.transforms import UnknownTransform as UnknownIcebergTransform
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import IcebergType, IntegerType, NestedField, StructType

from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
from partita.algebra.transforms import Transform, TransformFamily, UnknownTransform, parse_transform
from partita.algebra.types import NESTED_KINDS, LogicalType, TypeKind, other_type
from partita.arrow.schema import to_arrow_type
from partita.errors import SchemaError, UnknownColumn
from partita.formats.iceberg.columns import logical_type_from_iceberg, schema_from_iceberg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.partitioning import PartitionField as IcebergField
    from pyiceberg.partitioning import PartitionSpec as IcebergSpec
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.table.metadata import TableMetadata

_UNKNOWN_TYPE = other_type("unknown")


def spec_history(metadata: TableMetadata) -> SpecHistory:
    """Return all specs of a table, each field under the current name of its source column."""
    specs = sorted(metadata.specs().values(), key=lambda spec: spec.spec_id)
    return SpecHistory(
        schema_from_iceberg(metadata.schema()),
        tuple(_partition_spec(spec, metadata) for spec in specs),
        metadata.default_spec_id,
    )


def is_source_dropped(field: PartitionField, history: SpecHistory) -> bool:
    """Return whether the source column of a field is no longer in the table."""
    try:
        return history.schema.find_field(field.source).name != field.source
    except UnknownColumn:
        return True


def partition_arrow_type(field: PartitionField) -> pa.DataType | None:
    """Return the Arrow type of a field's values; None if only the manifests know it."""
    type_ = field.key_type(TransformFamily.ICEBERG)
    if not field.transform.is_known or type_.kind is TypeKind.OTHER:
        return None
    # Arrow can't group by extension types.
    return pa.binary(16) if type_.kind is TypeKind.UUID else to_arrow_type(type_)


def _partition_spec(spec: IcebergSpec, metadata: TableMetadata) -> PartitionSpec:
    return PartitionSpec(
        spec.spec_id, tuple(_partition_field(f, metadata) for f in spec.fields), TransformFamily.ICEBERG
    )


def _partition_field(field: IcebergField, metadata: TableMetadata) -> PartitionField:
    name, type_ = _source_column(field.source_id, metadata)
    return PartitionField(field.name, name, _partition_transform(field.transform, type_), field.field_id, type_)


def _source_column(source_id: int, metadata: TableMetadata) -> tuple[str, LogicalType]:
    current = metadata.schema()
    name = current.find_column_name(source_id)
    if name is not None:
        return name, logical_type_from_iceberg(current.find_type(source_id))
    for schema in _schemas_newest_first(metadata):
        name = schema.find_column_name(source_id)
        if name is not None:
            return _distinct_source_name(name, source_id, current), logical_type_from_iceberg(
                schema.find_type(source_id)
            )
    return f"#{source_id}", _UNKNOWN_TYPE


def _schemas_newest_first(metadata: TableMetadata) -> Iterator[IcebergSchema]:
    """Yield the current schema, then all schemas of the table from the newest on."""
    yield metadata.schema()
    yield from sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)


def _distinct_source_name(name: str, source_id: int, current_schema: IcebergSchema) -> str:
    current_names = {column.casefold() for column in current_schema.column_names}
    return f"{name}#{source_id}" if name.casefold() in current_names else name


def _partition_transform(iceberg_transform: IcebergTransform[Any, Any], type_: LogicalType) -> Transform:
    if isinstance(iceberg_transform, UnknownIcebergTransform):
        return UnknownTransform(iceberg_transform._transform)  # noqa: SLF001 - the only place where the name is
    transform = parse_transform(str(iceberg_transform))
    # Values of these types have no order, so a transform that keeps the type can't be used for pruning.
    is_unordered = type_.kind in NESTED_KINDS | {TypeKind.OTHER}
    if is_unordered and transform.keeps_source_type and not transform.is_void:
        return UnknownTransform(f"{transform} of {type_}")
    return transform


# --- partition types


def find_compatible_schema(metadata: TableMetadata, spec: IcebergSpec) -> IcebergSchema:
    """Return the current schema if it has every source column of the spec, else the newest schema that has them.

    Raises `SchemaError` if there is none.
    """
    for schema in _schemas_newest_first(metadata):
        if all(_source_type(schema, field) is not None for field in spec.fields if not _is_void(field)):
            return schema
    raise SchemaError(
        f"no schema of the table has all columns that partition spec {spec.spec_id} is made of; "
        "schemas that old specs need must stay in the table's metadata"
    )


def partition_type(metadata: TableMetadata, spec: IcebergSpec) -> StructType:
    """Return the struct type of a spec's partition values.

    Every field is optional: a void field is null even if its source column is required.
    """
    schema = find_compatible_schema(metadata, spec)
    fields = (NestedField(f.field_id, f.name, _result_type(metadata, schema, f), required=False) for f in spec.fields)
    return StructType(*fields)


def _result_type(metadata: TableMetadata, schema: IcebergSchema, field: IcebergField) -> IcebergType:
    source_type = _source_type(schema, field)
    if source_type is None:
        types = (_source_type(older, field) for older in _schemas_newest_first(metadata))
        # A void field is always null, so any type will do.
        source_type = next((type_ for type_ in types if type_ is not None), IntegerType())
    return field.transform.result_type(source_type)


def _source_type(schema: IcebergSchema, field: IcebergField) -> IcebergType | None:
    try:
        return schema.find_type(field.source_id)
    except ValueError:
        return None


def _is_void(field: IcebergField) -> bool:
    return isinstance(field.transform, VoidTransform)
