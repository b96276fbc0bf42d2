"""Spark's types as Partita's, and columns found by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.types import LogicalType
from partita.errors import SchemaError, UnknownColumn

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def to_schema(schema: spark_types.StructType) -> Schema:
    """The columns of a Spark schema."""
    return schema_from_json(schema.jsonValue())


def to_logical(data_type: DataType) -> LogicalType:
    """The logical type of a Spark type.

    A string whose collation is not the order of its bytes, and whatever Partita has no arithmetic for, are other types
    under Spark's name.
    """
    return to_schema(spark_types.StructType([spark_types.StructField("c", data_type)])).fields[0].type


def from_json(json: Mapping[str, Any]) -> spark_types.StructType:
    """The Spark schema of a struct's JSON; a collation that Spark doesn't have is a `SchemaError`."""
    # pyspark changes the collations of what it reads, so it gets a copy.
    return spark_types.StructType.fromJson(_with_collations(json, ""))


def _with_collations(json: Any, column: str) -> Any:
    """A copy of a type's JSON, with collations as pyspark takes them: `provider.NAME`, without a version."""
    if isinstance(json, list):
        return [_with_collations(item, column) for item in json]
    if not isinstance(json, Mapping):
        return json
    name = column or str(json.get("name", ""))
    return {
        key: {path: _collation(str(value), name) for path, value in item.items()}
        if key == _COLLATIONS and isinstance(item, Mapping)
        else _with_collations(item, name)
        for key, item in json.items()
    }


_COLLATIONS = "__COLLATIONS"
_PROVIDERS = ("spark", "icu")


def _collation(text: str, column: str) -> str:
    parts = text.split(".")
    if parts[0].lower() not in _PROVIDERS:
        parts = ["spark" if parts[0].upper().startswith("UTF8_") else "icu", *parts]
    if len(parts) == 1 or (len(parts) > 2 and not all(part.isdigit() for part in parts[2:])):
        raise SchemaError(f"column {column!r} has the collation {text!r}, which Spark doesn't have; drop the column")
    return f"{parts[0].lower()}.{parts[1]}"


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
    # What TIMESTAMP means is for the session to say (`spark.sql.timestampType`).
    return "TIMESTAMP_LTZ" if isinstance(data_type, spark_types.TimestampType) else data_type.simpleString()


def cast_sql(value: str, data_type: DataType) -> str:
    """A cast of an expression in SQL to a type, whose fields are all nullable as in every type in SQL."""
    return f"CAST({value} AS {type_sql(data_type)})"


def select_sql(rows: DataFrame, columns: Iterable[tuple[str, str]]) -> DataFrame:
    """Select expressions in SQL, each with the name that its column gets.

    Each step of a Column is a call to the JVM: for hundreds of columns texts take a tenth of the time.
    """
    expressions, names = zip(*columns, strict=True)
    if any("$" in name for name in names):
        # In a text, Spark puts settings in place of what stands after it in braces.
        return rows.selectExpr(*expressions).toDF(*names)
    named = (f"{sql} AS {quoted(name)}" for sql, name in zip(expressions, names, strict=True))
    return rows.selectExpr(*named)


def has_columns(schema: spark_types.StructType, columns: Sequence[tuple[str, DataType]]) -> bool:
    """Whether a schema has exactly these columns in this order, so that rows of it need no select with casts.

    False for nested types, where a cast in SQL makes every field nullable, and for columns with metadata, which a cast
    removes.
    """
    return len(schema.fields) == len(columns) and all(
        f.name == name and f.dataType == data_type and not f.metadata and not isinstance(data_type, _NESTED)
        for f, (name, data_type) in zip(schema.fields, columns, strict=True)
    )


_NESTED = (spark_types.ArrayType, spark_types.MapType, spark_types.StructType)


def text_sql(value: str) -> str:
    """A text in SQL; what else may stand in quotes, and what it means there, is for the session to say."""
    return f"'{value}'" if _PLAIN(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


_PLAIN = re.compile(r"[A-Za-z0-9_/:.=%+ -]*").fullmatch


def column_sql(name: str, side: str = "") -> str:
    """A column in SQL, whatever its name holds; `side` is what stands before it, such as `t.`.

    In a text, Spark puts settings in place of what stands in braces after a dollar, but not inside of a literal in hex.
    """
    text = f"{side}{quoted(name)}"
    return f"IDENTIFIER({text_sql(text)})" if "${" in name else text
