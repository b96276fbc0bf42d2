"""Schemas of others as Partita's, and Arrow's types to and fro.

| Arrow | logical |
|---|---|
| int8 to int64, uint8 to uint32 | byte to long; an unsigned one as the next wider signed one, as Spark reads it |
| uint64 | decimal(20,0), as Spark reads it |
| timestamp in s, ms or us | timestamp with a zone, timestamp_ntz without |
| date32, date64; time32, time64 in us | date; time |
| decimal of up to 38 digits | decimal |
| string, binary, list, each also large or as a view | string, binary, list |
| fixed_size_binary(n); arrow.uuid | fixed(n); uuid |
| dictionary | the type of its values |
| nanoseconds, float16, intervals, unions, other extensions | other: carried along, never computed with |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa
from pyarrow import types as arrow_types

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NULL,
    SHORT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    UUID_TYPE,
    DecimalType,
    Field,
    FixedType,
    Kind,
    ListType,
    LogicalType,
    MapType,
    StructType,
    decimal,
    fixed,
    list_of,
    map_of,
    other,
    struct_of,
)
from partita.errors import SchemaError


def to_schema(source: object) -> Schema:
    """The schema that an Arrow or Spark schema, a mapping of names to types, or whatever has such a `.schema` says.

    A Spark `StructType` is read through its JSON, so that pyspark is not imported. Anything else is a `SchemaError`.
    """
    if isinstance(source, pa.Schema):
        return Schema(tuple(_field(f) for f in source))
    if isinstance(source, Schema | Mapping):
        return Schema.of(source)
    if callable(getattr(source, "jsonValue", None)):
        return schema_from_json(cast("Any", source).jsonValue())
    inner = getattr(source, "schema", None)
    return to_schema(inner) if isinstance(inner, pa.Schema) or hasattr(inner, "jsonValue") else Schema.of(source)  # type: ignore[arg-type] # it refuses


def to_logical(type_: pa.DataType) -> LogicalType:
    """The logical type of an Arrow type (see the module's head)."""
    atom = _ATOMS.get(type_)
    if atom is not None:
        return atom
    for matches, read in _FAMILIES:
        if matches(type_):
            return read(type_)
    return other(str(type_))


def to_arrow(type_: LogicalType) -> pa.DataType:
    """The Arrow type that holds a logical one; a type that Partita doesn't compute with is a `SchemaError`."""
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pa.binary(type_.length)
    if isinstance(type_, StructType):
        return pa.struct([pa.field(f.name, to_arrow(f.type), f.nullable) for f in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(to_arrow(type_.element))
    if isinstance(type_, MapType):
        return pa.map_(to_arrow(type_.key), to_arrow(type_.value))
    if type_.kind not in _ARROW:
        raise SchemaError(f"Arrow has no type for {type_}")
    return _ARROW[type_.kind]


_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.UUID: pa.uuid(),
    Kind.NULL: pa.null(),
}

_ATOMS = {
    pa.bool_(): BOOLEAN,
    pa.int8(): BYTE,
    pa.int16(): SHORT,
    pa.int32(): INT,
    pa.int64(): LONG,
    pa.uint8(): SHORT,
    pa.uint16(): INT,
    pa.uint32(): LONG,
    pa.uint64(): decimal(20, 0),
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.time32("s"): TIME,
    pa.time32("ms"): TIME,
    pa.time64("us"): TIME,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BINARY,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.uuid(): UUID_TYPE,
    pa.null(): NULL,
}


def _field(field: pa.Field) -> Field:
    return Field(field.name, to_logical(field.type), field.nullable)


def _timestamp(type_: pa.DataType) -> LogicalType:
    if type_.unit == "ns":
        return other(str(type_))
    return TIMESTAMP_NTZ if type_.tz is None else TIMESTAMP


def _decimal(type_: pa.DataType) -> LogicalType:
    fits = type_.precision <= 38 and 0 <= type_.scale <= type_.precision
    return decimal(type_.precision, type_.scale) if fits else other(str(type_))


def _is_list(type_: pa.DataType) -> bool:
    return any(is_kind(type_) for is_kind in _LISTS)


_LISTS = (
    arrow_types.is_list,
    arrow_types.is_large_list,
    arrow_types.is_fixed_size_list,
    arrow_types.is_list_view,
    arrow_types.is_large_list_view,
)

_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], LogicalType]], ...] = (
    (arrow_types.is_timestamp, _timestamp),
    (arrow_types.is_decimal, _decimal),
    (arrow_types.is_fixed_size_binary, lambda t: fixed(t.byte_width)),
    (arrow_types.is_dictionary, lambda t: to_logical(t.value_type)),
    (arrow_types.is_map, lambda t: map_of(to_logical(t.key_type), to_logical(t.item_type))),
    (arrow_types.is_struct, lambda t: struct_of(*(_field(f) for f in t))),
    (_is_list, lambda t: list_of(to_logical(t.value_type))),
)
