"""Schemas and specs from Arrow and Spark schemas, and conversion between Arrow types and logical types.

| Arrow | logical |
|---|---|
| int8 to int64, uint8 to uint32 | byte to long; unsigned as the next wider signed type, as in Spark |
| uint64 | decimal(20,0), as in Spark |
| timestamp in s, ms or us | timestamp with a zone, timestamp_ntz without |
| date32, date64; time32, time64 in us | date; time |
| decimal of up to 38 digits | decimal |
| string, binary, list, each also large or as a view | string, binary, list |
| fixed_size_binary(n); arrow.uuid | fixed(n); uuid |
| dictionary | the type of its values |
| nanoseconds, float16, intervals, unions, other extensions | other: kept, but never computed with |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
from pyarrow import types as arrow_types

from partita.algebra import spec_text
from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.spec import PartitionSpec
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
    ListType,
    LogicalType,
    MapType,
    StructType,
    TypeKind,
    decimal_type,
    fixed_type,
    list_type,
    map_type,
    other_type,
    struct_type,
)
from partita.errors import SchemaError


def to_schema(source: object) -> Schema:
    """Convert an Arrow or Spark schema, a mapping of names to types, or an object with such a `.schema`.

    A Spark `StructType` is converted through its JSON, so that pyspark is not imported. Raises `SchemaError` for any
    other object.
    """
    if isinstance(source, pa.Schema):
        return Schema(tuple(_logical_field(f) for f in source))
    if isinstance(source, Schema | Mapping):
        return Schema.of(source)
    if callable(getattr(source, "jsonValue", None)):
        return schema_from_json(cast("Any", source).jsonValue())
    inner = getattr(source, "schema", None)
    return to_schema(inner) if isinstance(inner, pa.Schema) or hasattr(inner, "jsonValue") else Schema.of(source)  # type: ignore[arg-type] # it raises SchemaError


def parse_spec(source: str | Sequence[object], schema: object, *, family: str, spec_id: int = 0) -> PartitionSpec:
    """Parse a partition spec and check each function against the type of its column.

    Args:
        source: text such as `day(ts), bucket(16, user_id), truncate(3, name) AS letters, country`; or the JSON of
            `lance.partitioning.partition_columns`, as text or as a list.
        schema: a `Schema`, an Arrow or Spark schema, or a mapping from names to types.
        family: "iceberg" or "lance".
        spec_id: the id of the spec.

    Raises:
        SpecFormatError: the text or the JSON is not a spec.
        TransformError: a function does not take the type of its column.
    """
    return spec_text.parse_spec(source, to_schema(schema), family, spec_id)


def to_logical_type(type_: pa.DataType) -> LogicalType:
    """Return the logical type of an Arrow type (see the module docstring)."""
    primitive = _PRIMITIVE_TYPES.get(type_)
    if primitive is not None:
        return primitive
    for matches, convert in _TYPE_RULES:
        if matches(type_):
            return convert(type_)
    return other_type(str(type_))


def to_arrow_type(type_: LogicalType) -> pa.DataType:
    """Return the Arrow type for a logical type; raise `SchemaError` for an `OtherType`."""
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pa.binary(type_.length)
    if isinstance(type_, StructType):
        return pa.struct([pa.field(f.name, to_arrow_type(f.type), f.nullable) for f in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(to_arrow_type(type_.element))
    if isinstance(type_, MapType):
        return pa.map_(to_arrow_type(type_.key), to_arrow_type(type_.value))
    if type_.kind not in _ARROW_TYPES:
        raise SchemaError(f"Arrow has no type for {type_}")
    return _ARROW_TYPES[type_.kind]


_ARROW_TYPES = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIME: pa.time64("us"),
    TypeKind.TIMESTAMP: pa.timestamp("us", "UTC"),
    TypeKind.TIMESTAMP_NTZ: pa.timestamp("us"),
    TypeKind.STRING: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.UUID: pa.uuid(),
    TypeKind.NULL: pa.null(),
}

_PRIMITIVE_TYPES = {
    pa.bool_(): BOOLEAN,
    pa.int8(): BYTE,
    pa.int16(): SHORT,
    pa.int32(): INT,
    pa.int64(): LONG,
    pa.uint8(): SHORT,
    pa.uint16(): INT,
    pa.uint32(): LONG,
    pa.uint64(): decimal_type(20, 0),
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


def _logical_field(field: pa.Field) -> Field:
    return Field(field.name, to_logical_type(field.type), field.nullable)


def _timestamp_type(type_: pa.DataType) -> LogicalType:
    if type_.unit == "ns":
        return other_type(str(type_))
    return TIMESTAMP_NTZ if type_.tz is None else TIMESTAMP


def _decimal_type(type_: pa.DataType) -> LogicalType:
    has_arrow_precision = type_.precision <= 38 and 0 <= type_.scale <= type_.precision
    return decimal_type(type_.precision, type_.scale) if has_arrow_precision else other_type(str(type_))


def _is_list_type(type_: pa.DataType) -> bool:
    return any(is_kind(type_) for is_kind in _LIST_CHECKS)


_LIST_CHECKS = (
    arrow_types.is_list,
    arrow_types.is_large_list,
    arrow_types.is_fixed_size_list,
    arrow_types.is_list_view,
    arrow_types.is_large_list_view,
)

_TYPE_RULES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], LogicalType]], ...] = (
    (arrow_types.is_timestamp, _timestamp_type),
    (arrow_types.is_decimal, _decimal_type),
    (arrow_types.is_fixed_size_binary, lambda t: fixed_type(t.byte_width)),
    (arrow_types.is_dictionary, lambda t: to_logical_type(t.value_type)),
    (arrow_types.is_map, lambda t: map_type(to_logical_type(t.key_type), to_logical_type(t.item_type))),
    (arrow_types.is_struct, lambda t: struct_type(*(_logical_field(f) for f in t))),
    (_is_list_type, lambda t: list_type(to_logical_type(t.value_type))),
)
