"""Spark's types as Partita's, and columns found by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.types import LogicalType
from partita.errors import UnknownColumn

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def to_schema(schema: spark_types.StructType) -> Schema:
    """The columns of a Spark schema."""
    return schema_from_json(schema.jsonValue())


def to_logical(data_type: DataType) -> LogicalType:
    """The logical type of a Spark type.

    A string whose collation is not the order of its bytes, `char(n)`, whose values Spark pads, and whatever Partita has
    no arithmetic for are other types under Spark's name.
    """
    return to_schema(spark_types.StructType([spark_types.StructField("c", data_type)])).fields[0].type


def from_json(json: Mapping[str, Any]) -> spark_types.StructType:
    """The Spark schema of a struct's JSON."""
    return spark_types.StructType.fromJson(dict(json))


def find_column(schema: spark_types.StructType, name: str) -> tuple[Column, DataType]:
    """The column of that name, found as `Schema.find` does, and its Spark type; `a.b` goes into structs."""
    found = to_schema(schema).find(name).name
    column: Column | None = None
    node: DataType = schema
    while found and isinstance(node, spark_types.StructType):
        whole = [f for f in node.fields if found == f.name]
        step = (whole or [f for f in node.fields if found.startswith(f.name + ".")])[0]
        column = F.col(quoted(step.name)) if column is None else column.getField(step.name)
        node, found = step.dataType, found[len(step.name) + 1 :]
    if column is None:
        raise UnknownColumn(name, tuple(schema.fieldNames()))
    return column, node


def quoted(name: str) -> str:
    """A name as Spark reads it whatever it holds."""
    return f"`{name.replace('`', '``')}`"


def type_sql(data_type: DataType) -> str:
    """A type in SQL, whatever the names of its fields hold."""
    if isinstance(data_type, spark_types.StructType):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {type_sql(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, spark_types.ArrayType):
        return f"ARRAY<{type_sql(data_type.elementType)}>"
    if isinstance(data_type, spark_types.MapType):
        return f"MAP<{type_sql(data_type.keyType)}, {type_sql(data_type.valueType)}>"
    return data_type.simpleString()
