"""Logical types, and the schema that they make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from partita.errors import SchemaError


class Kind(StrEnum):
    """What a type is, without its parameters."""

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


INTEGERS = frozenset({Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG})
FLOATS = frozenset({Kind.FLOAT, Kind.DOUBLE})
INSTANTS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
BYTES = frozenset({Kind.BINARY, Kind.FIXED})
NESTED = frozenset({Kind.STRUCT, Kind.LIST, Kind.MAP})
BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}


@dataclass(frozen=True, slots=True)
class LogicalType:
    """A type that has no parameters; the ones that do are subclasses."""

    kind: Kind

    def __str__(self) -> str:
        return self.kind.value


@dataclass(frozen=True, slots=True)
class DecimalType(LogicalType):
    """A decimal with `precision` digits, `scale` of them behind the point."""

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
    """Text of at most `length` characters; Delta has it, and the other formats take it for text."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class CharType(LogicalType):
    """Text of at most `length` characters that is read and compared with spaces behind it, up to that length."""

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
    """A list of one type of element."""

    element: LogicalType

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(LogicalType):
    """A map; Partita doesn't keep the order of its entries."""

    key: LogicalType
    value: LogicalType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class OtherType(LogicalType):
    """A type that Partita carries along but never computes with, under the name its owner gives it."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a schema, or a field of a struct."""

    name: str
    type: LogicalType
    nullable: bool = True


def decimal(precision: int, scale: int) -> DecimalType:
    """`decimal(precision, scale)`, refused outside the 38 digits that every engine has."""
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise SchemaError(f"decimal({precision},{scale}): precision is 1 to 38, scale 0 to the precision")
    return DecimalType(Kind.DECIMAL, precision, scale)


def fixed(length: int) -> FixedType:
    """`fixed(length)`."""
    return FixedType(Kind.FIXED, length)


def varchar(length: int) -> VarcharType:
    """`varchar(length)`."""
    return VarcharType(Kind.STRING, length)


def char(length: int) -> CharType:
    """`char(length)`."""
    return CharType(Kind.STRING, length)


def struct_of(*fields: Field) -> StructType:
    """A struct of these fields."""
    return StructType(Kind.STRUCT, fields)


def list_of(element: LogicalType) -> ListType:
    """A list of this element."""
    return ListType(Kind.LIST, element)


def map_of(key: LogicalType, value: LogicalType) -> MapType:
    """A map from this key to this value."""
    return MapType(Kind.MAP, key, value)


def other(name: str) -> OtherType:
    """A type that Partita has no arithmetic for."""
    return OtherType(Kind.OTHER, name)


BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE = (
    LogicalType(k) for k in (Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE)
)
DATE, TIME, TIMESTAMP, TIMESTAMP_NTZ, STRING, BINARY, UUID_TYPE, NULL = (
    LogicalType(k)
    for k in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.STRING, Kind.BINARY, Kind.UUID, Kind.NULL)
)
