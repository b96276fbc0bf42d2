"""Logical types of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from partita.errors import SchemaError


class TypeKind(StrEnum):
    """The kind of a type, without its parameters."""

    BOOLEAN = "boolean"
    BYTE = "byte"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    STRING = "string"
    BINARY = "binary"
    FIXED = "fixed"
    UUID = "uuid"
    NULL = "void"
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"
    OTHER = "other"


INTEGER_KINDS = frozenset({TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG})
FLOAT_KINDS = frozenset({TypeKind.FLOAT, TypeKind.DOUBLE})
TIMESTAMP_KINDS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_NTZ})
BINARY_KINDS = frozenset({TypeKind.BINARY, TypeKind.FIXED})
NESTED_KINDS = frozenset({TypeKind.STRUCT, TypeKind.LIST, TypeKind.MAP})
INTEGER_BITS = {TypeKind.BYTE: 8, TypeKind.SHORT: 16, TypeKind.INT: 32, TypeKind.LONG: 64}


@dataclass(frozen=True, slots=True)
class LogicalType:
    """A type without parameters; types with parameters are subclasses."""

    kind: TypeKind

    def __str__(self) -> str:
        return self.kind.value


@dataclass(frozen=True, slots=True)
class DecimalType(LogicalType):
    """A decimal with `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class FixedType(LogicalType):
    """Exactly `length` bytes."""

    length: int

    def __str__(self) -> str:
        return f"fixed({self.length})"


@dataclass(frozen=True, slots=True)
class VarcharType(LogicalType):
    """A string of at most `length` characters in Delta tables; other formats have plain strings instead."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class CharType(LogicalType):
    """A string of at most `length` characters that is padded with spaces to that length when read and compared."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True, slots=True)
class StructType(LogicalType):
    """Named fields, in order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{f.name}:{f.type}' for f in self.fields)}>"


@dataclass(frozen=True, slots=True)
class ListType(LogicalType):
    """A list of elements of one type."""

    element: LogicalType

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(LogicalType):
    """A map; the order of its entries is not kept."""

    key: LogicalType
    value: LogicalType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class OtherType(LogicalType):
    """A type that Partita keeps but never computes with, under its foreign name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a schema, or a field of a struct."""

    name: str
    type: LogicalType
    nullable: bool = True


def decimal_type(precision: int, scale: int) -> DecimalType:
    """Return `decimal(precision, scale)`; raise `SchemaError` if it exceeds 38 digits."""
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise SchemaError(f"decimal({precision},{scale}): the precision must be 1 to 38, the scale 0 to the precision")
    return DecimalType(TypeKind.DECIMAL, precision, scale)


def fixed_type(length: int) -> FixedType:
    """Return `fixed(length)`."""
    return FixedType(TypeKind.FIXED, length)


def varchar_type(length: int) -> VarcharType:
    """Return `varchar(length)`."""
    return VarcharType(TypeKind.STRING, length)


def char_type(length: int) -> CharType:
    """Return `char(length)`."""
    return CharType(TypeKind.STRING, length)


def struct_type(*fields: Field) -> StructType:
    """Return a struct of the given fields."""
    return StructType(TypeKind.STRUCT, fields)


def list_type(element: LogicalType) -> ListType:
    """Return a list with elements of the given type."""
    return ListType(TypeKind.LIST, element)


def map_type(key: LogicalType, value: LogicalType) -> MapType:
    """Return a map with keys and values of the given types."""
    return MapType(TypeKind.MAP, key, value)


def other_type(name: str) -> OtherType:
    """Return a type that Partita never computes with."""
    return OtherType(TypeKind.OTHER, name)


def nested_types(type_: LogicalType) -> Iterator[LogicalType]:
    """Yield a type and the types in it, at each depth."""
    yield type_
    children: tuple[LogicalType, ...] = ()
    if isinstance(type_, StructType):
        children = tuple(field.type for field in type_.fields)
    elif isinstance(type_, ListType):
        children = (type_.element,)
    elif isinstance(type_, MapType):
        children = (type_.key, type_.value)
    for child in children:
        yield from nested_types(child)


BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE = (
    LogicalType(k)
    for k in (
        TypeKind.BOOLEAN,
        TypeKind.BYTE,
        TypeKind.SHORT,
        TypeKind.INT,
        TypeKind.LONG,
        TypeKind.FLOAT,
        TypeKind.DOUBLE,
    )
)
DATE, TIME, TIMESTAMP, TIMESTAMP_NTZ, STRING, BINARY, UUID_TYPE, NULL = (
    LogicalType(k)
    for k in (
        TypeKind.DATE,
        TypeKind.TIME,
        TypeKind.TIMESTAMP,
        TypeKind.TIMESTAMP_NTZ,
        TypeKind.STRING,
        TypeKind.BINARY,
        TypeKind.UUID,
        TypeKind.NULL,
    )
)
