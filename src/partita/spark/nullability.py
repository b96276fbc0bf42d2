"""Required fields of nested types: which values violate them, and the same types with every field nullable.

Spark casts no nullable value to a type with a required field inside, not even where every row has a value. Rows are
therefore cast to the relaxed type, and what the required fields forbid is checked as a condition of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from partita.spark.schema import column_sql, quoted


@dataclass(frozen=True, slots=True)
class RequiredField:
    """A field that may not be null, and the condition in SQL that is true where a row violates it.

    `path` names fields as Iceberg does: `items.element.price`, `tags.value`. `violation` is false or null where the row
    is right. It is a text and not a Column: each step of a Column is a call to the JVM, and tables have many columns.
    """

    path: str
    violation: str


def required_fields(schema: StructType) -> list[RequiredField]:
    """List the required fields of a schema at every depth; a field of a struct that is null itself is not violated."""
    return [
        RequiredField(".".join(path), _violation(column_sql(path[0]), path[1:], types))
        for path, types in _required_paths(schema)
    ]


def required_fields_of_null_structs(schema: StructType) -> list[RequiredField]:
    """List the required fields of a schema at every depth; a struct that is null violates its required fields.

    That is how Delta reads NOT NULL inside of a nullable struct.
    """
    return [
        RequiredField(".".join(path), _violation_or_null_struct(column_sql(path[0]), path[1:], types))
        for path, types in _required_paths(schema)
    ]


def relax_nullability(data_type: DataType) -> DataType:
    """Make every nested field, array element and map value of a type nullable."""
    if isinstance(data_type, StructType):
        return StructType([StructField(f.name, relax_nullability(f.dataType), True, f.metadata) for f in data_type])
    if isinstance(data_type, ArrayType):
        return ArrayType(relax_nullability(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(relax_nullability(data_type.keyType), relax_nullability(data_type.valueType), True)
    return data_type


def relax_inside(schema: StructType) -> StructType:
    """Make all that lies inside of the columns nullable; Spark's `toArrow` fails on a null struct otherwise."""
    return StructType([StructField(f.name, relax_nullability(f.dataType), f.nullable, f.metadata) for f in schema])


_Path = tuple[tuple[str, ...], tuple[DataType, ...]]
"""The names from a column down to a field, and the type that each name after the first is a part of."""


def _required_paths(schema: StructType) -> Iterator[_Path]:
    for f in schema.fields:
        yield from _paths_below((f.name,), (), f)


def _paths_below(path: tuple[str, ...], types: tuple[DataType, ...], field: StructField) -> Iterator[_Path]:
    if not field.nullable:
        yield path, types
    for child in _children(field.dataType):
        yield from _paths_below((*path, child.name), (*types, field.dataType), child)


def _children(data_type: DataType) -> Sequence[StructField]:
    """The parts of a nested type, named as Iceberg names them."""
    if isinstance(data_type, StructType):
        return data_type.fields
    if isinstance(data_type, ArrayType):
        return [StructField("element", data_type.elementType, data_type.containsNull)]
    if isinstance(data_type, MapType):
        key = StructField("key", data_type.keyType, nullable=True)  # Spark itself refuses null keys.
        return [key, StructField("value", data_type.valueType, data_type.valueContainsNull)]
    return []


def _violation(value: str, path: Sequence[str], types: Sequence[DataType]) -> str:
    """Whether a value, or what lies below it on the path, is null where its parent is not."""
    if not path:
        return f"{value} IS NULL"
    if isinstance(types[0], StructType):
        below = _violation(f"{value}.{quoted(path[0])}", path[1:], types[1:])
        return below if path[1:] else f"({value} IS NOT NULL AND {below})"
    item = f"item{len(path)}"
    return f"exists({_items(value, path[0], types[0])}, {item} -> {_violation(item, path[1:], types[1:])})"


def _violation_or_null_struct(value: str, path: Sequence[str], types: Sequence[DataType]) -> str:
    """Whether a value, or what lies below it on the path, is null; items of arrays and maps that are null have none."""
    if not path:
        return f"{value} IS NULL"
    if isinstance(types[0], StructType):
        return _violation_or_null_struct(f"{value}.{quoted(path[0])}", path[1:], types[1:])
    item = f"item{len(path)}"
    below = _violation_or_null_struct(item, path[1:], types[1:])
    return f"exists({_items(value, path[0], types[0])}, {item} -> {below})"


def _items(value: str, part: str, data_type: DataType) -> str:
    """The elements of an array, or the keys or the values of a map, as an array."""
    if isinstance(data_type, ArrayType):
        return value
    return f"map_keys({value})" if part == "key" else f"map_values({value})"
