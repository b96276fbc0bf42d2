"""Spark's types as Partita's, and columns found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.algebra import types
from partita.algebra.schema import Schema
from partita.algebra.types import Field, LogicalType
from partita.errors import UnknownColumn

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_ATOMS: dict[type[DataType], LogicalType] = {
    spark_types.BooleanType: types.BOOLEAN,
    spark_types.ByteType: types.BYTE,
    spark_types.ShortType: types.SHORT,
    spark_types.IntegerType: types.INT,
    spark_types.LongType: types.LONG,
    spark_types.FloatType: types.FLOAT,
    spark_types.DoubleType: types.DOUBLE,
    spark_types.DateType: types.DATE,
    spark_types.TimeType: types.TIME,
    spark_types.TimestampType: types.TIMESTAMP,
    spark_types.TimestampNTZType: types.TIMESTAMP_NTZ,
    spark_types.VarcharType: types.STRING,
    spark_types.BinaryType: types.BINARY,
    spark_types.NullType: types.NULL,
}


def to_schema(schema: spark_types.StructType) -> Schema:
    """The columns of a Spark schema."""
    return Schema(_fields(schema))


def to_logical(data_type: DataType) -> LogicalType:
    """The logical type of a Spark type.

    A string whose collation is not the order of its bytes, `char(n)`, whose values Spark pads, and whatever Partita has
    no arithmetic for are other types under Spark's name.
    """
    atom = _ATOMS.get(type(data_type))
    if atom is not None:
        return atom
    if isinstance(data_type, spark_types.DecimalType):
        return types.decimal(data_type.precision, data_type.scale)
    if type(data_type) is spark_types.StringType and is_binary_collation(data_type):
        return types.STRING
    if isinstance(data_type, spark_types.StructType):
        return types.struct_of(*_fields(data_type))
    if isinstance(data_type, spark_types.ArrayType):
        return types.list_of(to_logical(data_type.elementType))
    if isinstance(data_type, spark_types.MapType):
        return types.map_of(to_logical(data_type.keyType), to_logical(data_type.valueType))
    return types.other(data_type.simpleString())


def is_binary_collation(data_type: spark_types.StringType) -> bool:
    """Whether strings of that type are equal just where their bytes are."""
    return data_type.collation == "UTF8_BINARY"


def find_column(schema: spark_types.StructType, name: str) -> tuple[Column, DataType]:
    """The column of that name, found as `Schema.find` does, and its Spark type; `a.b` goes into structs."""
    found = to_schema(schema).find(name).name
    column: Column | None = None
    node: DataType = schema
    while found and isinstance(node, spark_types.StructType):
        step = next(f for f in node.fields if found == f.name or found.startswith(f.name + "."))
        column = F.col(quoted(step.name)) if column is None else column.getField(step.name)
        node, found = step.dataType, found[len(step.name) + 1 :]
    if column is None:
        raise UnknownColumn(name, tuple(schema.fieldNames()))
    return column, node


def quoted(name: str) -> str:
    """A name as Spark reads it whatever it holds."""
    return f"`{name.replace('`', '``')}`"


def _fields(schema: spark_types.StructType) -> tuple[Field, ...]:
    return tuple(Field(f.name, to_logical(f.dataType), f.nullable) for f in schema.fields)
