"""Required fields of nested types: conditions that find violations, and the same types with every field nullable.

Spark refuses to cast a nullable value to a type with a required field inside, even if every row has a value. Rows are
therefore cast to the type with nullable fields, and nulls in required fields are found by conditions on the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from partita.spark.sql_text import column_sql, quote_identifier


@dataclass(frozen=True, slots=True)
class RequiredField:
    """A field that may not be null, and the condition in SQL that is true where a row violates it.

    `path` names fields as Iceberg does: `items.element.price`, `tags.value`. `violation` is false or null for a valid
    row. It is text and not a Column, because each step of a Column is a call to the JVM.
    """

    path: str
    violation: str


def required_fields(schema: StructType) -> list[RequiredField]:
    """List the required fields of a schema at every depth; a struct that is null doesn't violate its fields."""
    return [
        RequiredField(".".join(path), _violation_sql(column_sql(path[0]), path[1:], types))
        for path, types in _required_paths(schema)
    ]


def required_fields_of_null_structs(schema: StructType) -> list[RequiredField]:
    """List the required fields of a schema at every depth; a struct that is null violates its required fields.

    This is the meaning of NOT NULL inside of a nullable struct in Delta.
    """
    return [
        RequiredField(".".join(path), _violation_or_null_struct_sql(column_sql(path[0]), path[1:], types))
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


def relax_nested_nullability(schema: StructType) -> StructType:
    """Make every field inside of the columns nullable; Spark's `toArrow` fails on a null struct otherwise."""
    return StructType([StructField(f.name, relax_nullability(f.dataType), f.nullable, f.metadata) for f in schema])


_RequiredPath = tuple[tuple[str, ...], tuple[DataType, ...]]
"""The names from a column down to a field, and for each name after the first the type that has it."""


def _required_paths(schema: StructType) -> Iterator[_RequiredPath]:
    for f in schema.fields:
        yield from _required_paths_below((f.name,), (), f)


def _required_paths_below(
    path: tuple[str, ...], types: tuple[DataType, ...], field: StructField
) -> Iterator[_RequiredPath]:
    if not field.nullable:
        yield path, types
    for child in _child_fields(field.dataType):
        yield from _required_paths_below((*path, child.name), (*types, field.dataType), child)


def _child_fields(data_type: DataType) -> Sequence[StructField]:
    """Return the fields, the element, or the key and value of a nested type, named as in Iceberg."""
    if isinstance(data_type, StructType):
        return data_type.fields
    if isinstance(data_type, ArrayType):
        return [StructField("element", data_type.elementType, data_type.containsNull)]
    if isinstance(data_type, MapType):
        key = StructField("key", data_type.keyType, nullable=True)  # Spark itself refuses null keys.
        return [key, StructField("value", data_type.valueType, data_type.valueContainsNull)]
    return []


def _violation_sql(value: str, path: Sequence[str], types: Sequence[DataType]) -> str:
    """Return a condition that is true if the field on the path is null and the value that has it is not."""
    if not path:
        return f"{value} IS NULL"
    if isinstance(types[0], StructType):
        violation = _violation_sql(f"{value}.{quote_identifier(path[0])}", path[1:], types[1:])
        return violation if path[1:] else f"({value} IS NOT NULL AND {violation})"
    item = f"item{len(path)}"
    return f"exists({_items_sql(value, path[0], types[0])}, {item} -> {_violation_sql(item, path[1:], types[1:])})"


def _violation_or_null_struct_sql(value: str, path: Sequence[str], types: Sequence[DataType]) -> str:
    """Return a condition that is true if the field on the path is null; a null array or map has no items to violate."""
    if not path:
        return f"{value} IS NULL"
    if isinstance(types[0], StructType):
        return _violation_or_null_struct_sql(f"{value}.{quote_identifier(path[0])}", path[1:], types[1:])
    item = f"item{len(path)}"
    violation = _violation_or_null_struct_sql(item, path[1:], types[1:])
    return f"exists({_items_sql(value, path[0], types[0])}, {item} -> {violation})"


def _items_sql(value: str, part: str, data_type: DataType) -> str:
    """Return the elements of an array, or the keys or the values of a map, as an array."""
    if isinstance(data_type, ArrayType):
        return value
    return f"map_keys({value})" if part == "key" else f"map_values({value})"
