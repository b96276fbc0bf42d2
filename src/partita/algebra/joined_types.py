"""The type that holds the values of two types without loss, at each depth of nested ones.

| one and the other | joined |
|---|---|
| a type, and itself or nulls without a type | that type |
| byte, short, int, long | the longest of the two |
| float or double, and byte, short, int, float or double | double |
| two decimals, or one and byte, short, int or long | the decimal with the digits of both, up to 38 |
| date and timestamp_ntz | timestamp_ntz |
| two structs | a struct with the fields of both, by their names without regard to case |
| any others | none |

Engines write nulls without a type where they have seen no value: pandas, for example, for a column of `None`.
"""

from __future__ import annotations

from dataclasses import replace

from partita.algebra.types import (
    DOUBLE,
    FLOAT_KINDS,
    INT,
    INTEGER_KINDS,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP_NTZ,
    DecimalType,
    Field,
    ListType,
    LogicalType,
    MapType,
    StructType,
    TypeKind,
    decimal_type,
    list_type,
    map_type,
    struct_type,
)


def joined_type(first: LogicalType, second: LogicalType) -> LogicalType | None:
    """Return the type that holds the values of both; None if none does. Fields of the first struct are in front."""
    if first == second or second.kind is TypeKind.NULL:
        return first
    if first.kind is TypeKind.NULL:
        return second
    if isinstance(first, StructType) and isinstance(second, StructType):
        return _joined_struct(first, second)
    if isinstance(first, ListType) and isinstance(second, ListType):
        element = joined_type(first.element, second.element)
        return None if element is None else list_type(element)
    if isinstance(first, MapType) and isinstance(second, MapType):
        key, value = joined_type(first.key, second.key), joined_type(first.value, second.value)
        return None if key is None or value is None else map_type(key, value)
    if isinstance(first, DecimalType) or isinstance(second, DecimalType):
        return _joined_decimal(_decimal_of(first), _decimal_of(second))
    kinds = {first.kind, second.kind}
    return next((type_ for type_, held_kinds in _HELD_KINDS.items() if kinds <= held_kinds), None)


_MAX_PRECISION = 38
_INTEGER_DIGITS = {TypeKind.BYTE: 3, TypeKind.SHORT: 5, TypeKind.INT: 10, TypeKind.LONG: 19}
_HELD_KINDS = {
    SHORT: {TypeKind.BYTE, TypeKind.SHORT},
    INT: {TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT},
    LONG: INTEGER_KINDS,
    DOUBLE: INTEGER_KINDS - {TypeKind.LONG} | FLOAT_KINDS,
    TIMESTAMP_NTZ: {TypeKind.DATE, TypeKind.TIMESTAMP_NTZ},
}


def _decimal_of(type_: LogicalType) -> DecimalType | None:
    """Return a decimal itself, and the decimal that holds all integers of a type; None for other types."""
    if isinstance(type_, DecimalType):
        return type_
    digits = _INTEGER_DIGITS.get(type_.kind)
    return None if digits is None else decimal_type(digits, 0)


def _joined_decimal(first: DecimalType | None, second: DecimalType | None) -> LogicalType | None:
    """Return the decimal with the digits of both; None if there is none."""
    if first is None or second is None:
        return None
    scale = max(first.scale, second.scale)
    precision = scale + max(first.precision - first.scale, second.precision - second.scale)
    return decimal_type(precision, scale) if precision <= _MAX_PRECISION else None


def _joined_struct(first: StructType, second: StructType) -> LogicalType | None:
    """Return a struct with the fields of both; None if a field has types that none holds."""
    fields = {field.name.casefold(): field for field in first.fields}
    for field in second.fields:
        other = fields.setdefault(field.name.casefold(), field)
        wider_type = joined_type(other.type, field.type)
        if wider_type is None:
            return None
        fields[field.name.casefold()] = Field(other.name, wider_type, other.nullable or field.nullable)
    return struct_type(*fields.values())


def replace_void_with_string(type_: LogicalType) -> LogicalType:
    """Return a type with strings in place of nulls without a type."""
    if isinstance(type_, StructType):
        return struct_type(*(replace(field, type=replace_void_with_string(field.type)) for field in type_.fields))
    if isinstance(type_, ListType):
        return list_type(replace_void_with_string(type_.element))
    if isinstance(type_, MapType):
        return map_type(replace_void_with_string(type_.key), replace_void_with_string(type_.value))
    return STRING if type_.kind is TypeKind.NULL else type_
