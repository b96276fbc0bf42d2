"""Spark schemas: their conversion to Partita's, columns by name, and which types can be assigned to which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructType

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.types import LogicalType
from partita.errors import SchemaError, UnknownColumn
from partita.spark.sql_text import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def to_schema(schema: StructType) -> Schema:
    """Return a Spark schema as Partita's."""
    if not isinstance(schema, StructType):
        raise SchemaError(f"a schema of Spark is a StructType, such as df.schema, not {type(schema).__name__}")
    return schema_from_json(schema.jsonValue())


def logical_type(data_type: DataType) -> LogicalType:
    """Return the logical type of a Spark type.

    A string with a collation that doesn't order by bytes, and types that Partita doesn't compute with, become other
    types under Spark's name.
    """
    return to_schema(StructType([spark_types.StructField("c", data_type)])).fields[0].type


def spark_schema_from_json(json: Mapping[str, Any]) -> StructType:
    """Return the Spark schema of a struct's JSON; raise `SchemaError` for a collation that Spark doesn't have."""
    # pyspark changes the collations of the JSON that it reads, so it gets a copy.
    return StructType.fromJson(_normalize_collations(json, ""))


def _normalize_collations(json: Any, column: str) -> Any:
    """Copy a type's JSON with collations as pyspark reads them: `provider.NAME`, without a version."""
    if isinstance(json, list):
        return [_normalize_collations(item, column) for item in json]
    if not isinstance(json, Mapping):
        return json
    name = column or str(json.get("name", ""))
    return {
        key: {path: _collation_name(str(value), name) for path, value in item.items()}
        if key == _COLLATIONS_KEY and isinstance(item, Mapping)
        else _normalize_collations(item, name)
        for key, item in json.items()
    }


_COLLATIONS_KEY = "__COLLATIONS"
_COLLATION_PROVIDERS = ("spark", "icu")


def _collation_name(text: str, column: str) -> str:
    parts = text.split(".")
    if parts[0].lower() not in _COLLATION_PROVIDERS:
        parts = ["spark" if parts[0].upper().startswith("UTF8_") else "icu", *parts]
    if len(parts) == 1 or (len(parts) > 2 and not all(part.isdigit() for part in parts[2:])):
        raise SchemaError(f"column {column!r} has the collation {text!r}, which Spark doesn't have; drop the column")
    return f"{parts[0].lower()}.{parts[1]}"


def find_column(schema: StructType, name: str) -> tuple[Column, DataType]:
    """Return the column that `Schema.find_field` finds by that name, and its Spark type; `a.b` goes into structs.

    Raises `UnknownColumn` if there is no such column, or more than one.
    """
    path = to_schema(schema).find_field(name).name
    column: Column | None = None
    data_type: DataType = schema
    while path and isinstance(data_type, StructType):
        exact = [f for f in data_type.fields if path == f.name]
        field = (exact or [f for f in data_type.fields if path.startswith(f.name + ".")])[0]
        column = F.col(quote_identifier(field.name)) if column is None else column.getField(field.name)
        data_type, path = field.dataType, path[len(field.name) + 1 :]
    if column is None:
        raise UnknownColumn(name, tuple(schema.fieldNames()))
    return column, data_type


def has_columns(schema: StructType, columns: Sequence[tuple[str, DataType]]) -> bool:
    """Whether a schema has exactly these columns in this order, so that its rows need no select with casts.

    False for nested types, because a cast in SQL makes every field nullable, and for columns with metadata, which a
    cast removes.
    """
    return len(schema.fields) == len(columns) and all(
        f.name == name and f.dataType == data_type and not f.metadata and not isinstance(data_type, _NESTED_TYPES)
        for f, (name, data_type) in zip(schema.fields, columns, strict=True)
    )


_NESTED_TYPES = (spark_types.ArrayType, spark_types.MapType, StructType)
_INTEGER_TYPES = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)


def is_assignable(source_type: DataType, target_type: DataType) -> bool:
    """Whether every value of the source type is one of the target type.

    Fields of structs must have the same names in the same order.
    """
    if isinstance(source_type, spark_types.NullType) or _type_shape(source_type) == _type_shape(target_type):
        return True
    if isinstance(source_type, StructType) and isinstance(target_type, StructType):
        return source_type.fieldNames() == target_type.fieldNames() and all(
            is_assignable(source.dataType, target.dataType)
            for source, target in zip(source_type, target_type, strict=True)
        )
    if isinstance(source_type, spark_types.ArrayType) and isinstance(target_type, spark_types.ArrayType):
        return is_assignable(source_type.elementType, target_type.elementType)
    if isinstance(source_type, spark_types.MapType) and isinstance(target_type, spark_types.MapType):
        return is_assignable(source_type.keyType, target_type.keyType) and is_assignable(
            source_type.valueType, target_type.valueType
        )
    if isinstance(source_type, _INTEGER_TYPES) and isinstance(target_type, _INTEGER_TYPES):
        return _INTEGER_TYPES.index(type(source_type)) <= _INTEGER_TYPES.index(type(target_type))
    if isinstance(source_type, spark_types.FloatType) and isinstance(target_type, spark_types.DoubleType):
        return True
    if isinstance(source_type, spark_types.DecimalType) and isinstance(target_type, spark_types.DecimalType):
        return (
            source_type.scale <= target_type.scale
            and source_type.precision - source_type.scale <= target_type.precision - target_type.scale
        )
    return False


def _type_shape(data_type: DataType) -> Any:
    """Return the type's JSON without nullability, metadata, lengths of strings and collations."""
    return _json_shape(data_type.jsonValue())


def _json_shape(json: Any) -> Any:
    if isinstance(json, dict):
        ignored_keys = {"nullable", "containsNull", "valueContainsNull", "metadata"}
        return {key: _json_shape(value) for key, value in json.items() if key not in ignored_keys}
    if isinstance(json, list):
        return [_json_shape(item) for item in json]
    return "string" if isinstance(json, str) and _STRING_SUBTYPE.fullmatch(json) else json


_STRING_SUBTYPE = re.compile(r"(var)?char\(\d+\)|string collate \w+")
"""Strings of a limited length or with a collation can be assigned to each other; the table checks the length."""
