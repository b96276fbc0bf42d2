"""Iceberg schemas as Spark's JSON schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyiceberg import types as iceberg

from partita.errors import UnsupportedFeature
from partita.formats.field_ids import SPARK_FIELD_ID

_SPARK_TYPE_NAMES: dict[type[iceberg.IcebergType], str] = {
    iceberg.BooleanType: "boolean", iceberg.IntegerType: "integer", iceberg.LongType: "long",
    iceberg.FloatType: "float", iceberg.DoubleType: "double", iceberg.DateType: "date",
    iceberg.TimestampType: "timestamp_ntz", iceberg.TimestamptzType: "timestamp", iceberg.StringType: "string",
    iceberg.BinaryType: "binary",
}  # fmt: skip


def spark_struct_json(fields: Iterable[iceberg.NestedField], *, by_id: bool, action: str) -> dict[str, Any]:
    """Return the Spark struct of some columns; with `by_id`, each field has its id, by which it is found in files.

    Raises `UnsupportedFeature`, naming the `action`, for a type that Spark lacks.
    """
    return _struct_json(fields, _SparkSchemaContext(action, by_id))


class _SparkSchemaContext:
    def __init__(self, action: str, by_id: bool) -> None:
        self.action = action
        self.by_id = by_id


def _struct_json(
    fields: Iterable[iceberg.NestedField], context: _SparkSchemaContext, parent_path: str = ""
) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field_json(f, context, parent_path) for f in fields]}


def _field_json(field: iceberg.NestedField, context: _SparkSchemaContext, parent_path: str) -> dict[str, Any]:
    name = f"{parent_path}{field.name}"
    return {
        "name": field.name,
        "type": _type_json(field.field_type, context, name),
        # Files are read as they are: nulls in a required column are left to the engine that wrote them.
        "nullable": context.by_id or not field.required,
        "metadata": {SPARK_FIELD_ID: field.field_id} if context.by_id else {},
    }


def _type_json(type_: iceberg.IcebergType, context: _SparkSchemaContext, column_path: str) -> Any:
    if isinstance(type_, iceberg.DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    if isinstance(type_, iceberg.StructType):
        return _struct_json(type_.fields, context, f"{column_path}.")
    if isinstance(type_, iceberg.ListType):
        element = _type_json(type_.element_type, context, f"{column_path}.element")
        return {"type": "array", "elementType": element, "containsNull": context.by_id or not type_.element_required}
    if isinstance(type_, iceberg.MapType):
        key, value = (_type_json(t, context, f"{column_path}.{part}") for t, part in
                      ((type_.key_type, "key"), (type_.value_type, "value")))  # fmt: skip
        is_nullable = context.by_id or not type_.value_required
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": is_nullable}
    if type(type_) not in _SPARK_TYPE_NAMES:
        raise UnsupportedFeature(
            (f"the type {type_} of column {column_path!r}, which Spark doesn't have",), context.action
        )
    return _SPARK_TYPE_NAMES[type(type_)]
