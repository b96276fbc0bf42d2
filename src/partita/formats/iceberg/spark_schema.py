"""An Iceberg schema as Spark's, in Spark's JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyiceberg import types as iceberg

from partita.errors import UnsupportedFeature
from partita.formats.field_ids import SPARK_FIELD_ID

_NAMES: dict[type[iceberg.IcebergType], str] = {
    iceberg.BooleanType: "boolean", iceberg.IntegerType: "integer", iceberg.LongType: "long",
    iceberg.FloatType: "float", iceberg.DoubleType: "double", iceberg.DateType: "date",
    iceberg.TimestampType: "timestamp_ntz", iceberg.TimestamptzType: "timestamp", iceberg.StringType: "string",
    iceberg.BinaryType: "binary",
}  # fmt: skip


def spark_json(fields: Iterable[iceberg.NestedField], *, by_id: bool, doing: str) -> dict[str, Any]:
    """The struct of some columns; with `by_id`, each field says its id, by which it is found in files.

    A type that Spark doesn't have is an `UnsupportedFeature` for what is being done.
    """
    return _struct(fields, _Context(doing, by_id))


class _Context:
    def __init__(self, doing: str, by_id: bool) -> None:
        self.doing = doing
        self.by_id = by_id


def _struct(fields: Iterable[iceberg.NestedField], context: _Context, above: str = "") -> dict[str, Any]:
    return {"type": "struct", "fields": [_field(f, context, above) for f in fields]}


def _field(field: iceberg.NestedField, context: _Context, above: str) -> dict[str, Any]:
    name = f"{above}{field.name}"
    return {
        "name": field.name,
        "type": _type(field.field_type, context, name),
        # Files are read as they are: a required column that is null in one is for the engine that wrote it.
        "nullable": context.by_id or not field.required,
        "metadata": {SPARK_FIELD_ID: field.field_id} if context.by_id else {},
    }


def _type(type_: iceberg.IcebergType, context: _Context, name: str) -> Any:
    if isinstance(type_, iceberg.DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    if isinstance(type_, iceberg.StructType):
        return _struct(type_.fields, context, f"{name}.")
    if isinstance(type_, iceberg.ListType):
        element = _type(type_.element_type, context, f"{name}.element")
        return {"type": "array", "elementType": element, "containsNull": context.by_id or not type_.element_required}
    if isinstance(type_, iceberg.MapType):
        key, value = (_type(t, context, f"{name}.{part}") for t, part in
                      ((type_.key_type, "key"), (type_.value_type, "value")))  # fmt: skip
        is_nullable = context.by_id or not type_.value_required
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": is_nullable}
    if type(type_) not in _NAMES:
        raise UnsupportedFeature((f"the type {type_} of column {name!r}, which Spark doesn't have",), context.doing)
    return _NAMES[type(type_)]
