"""Converting Iceberg schemas to and from Partita's, and to Arrow's.

Columns are found by their ids: names change, and may be reused by other columns.

| Iceberg | logical | Arrow, in data files |
|---|---|---|
| boolean int long float double date string binary | the same | the same |
| decimal(p,s), fixed(n) | the same | decimal128, fixed_size_binary |
| time, uuid | the same | time64[us], arrow.uuid |
| timestamp, timestamptz | timestamp_ntz, timestamp | timestamp[us], with UTC where it has a zone |
| struct, list, map | the same | the same |
| timestamp_ns, timestamptz_ns, unknown, geometry, geography | other | none |

Partita's byte and short are ints in Iceberg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import index_by_name, make_compatible_name

from partita.algebra.schema import Schema
from partita.algebra.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
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
from partita.arrow.schema import to_arrow_type
from partita.errors import SchemaError
from partita.formats.field_ids import ARROW_FIELD_ID


def schema_from_iceberg(schema: IcebergSchema) -> Schema:
    """Return the columns of an Iceberg schema under their current names."""
    return Schema(tuple(_logical_field(f) for f in schema.fields))


def logical_type_from_iceberg(type_: iceberg.IcebergType) -> LogicalType:
    """Return the logical type of an Iceberg type (see the module's table)."""
    primitive = _LOGICAL_TYPES.get(type(type_))
    if primitive is not None:
        return primitive
    if isinstance(type_, iceberg.DecimalType):
        return decimal_type(type_.precision, type_.scale)
    if isinstance(type_, iceberg.FixedType):
        return fixed_type(len(type_))
    if isinstance(type_, iceberg.StructType):
        return struct_type(*(_logical_field(f) for f in type_.fields))
    if isinstance(type_, iceberg.ListType):
        return list_type(logical_type_from_iceberg(type_.element_type))
    if isinstance(type_, iceberg.MapType):
        return map_type(logical_type_from_iceberg(type_.key_type), logical_type_from_iceberg(type_.value_type))
    return other_type(str(type_))


def schema_to_iceberg(schema: Schema) -> IcebergSchema:
    """Return a new Iceberg schema with ids from 1 on: columns first, then their nested fields."""
    ids = count(1)
    fields_by_id = [(next(ids), f) for f in schema]
    return IcebergSchema(*(_iceberg_field(field_id, f, ids) for field_id, f in fields_by_id))


def field_ids(schema: IcebergSchema) -> dict[str, int]:
    """Return the id of each column by its path; nested fields follow a dot: `a.b`, `list.element`, `map.value`."""
    return dict(index_by_name(schema))


def stored_schema(schema: IcebergSchema) -> IcebergSchema:
    """Return the schema with the column names of Partita's data files: the table's, except names that contain `${`.

    Hadoop would take that for a variable in the schema that Spark hands to its Parquet reader. Such names are sanitised
    as Iceberg's own writers do, and made distinct from their siblings.
    """
    if not any("${" in name for name in schema.column_names):
        return schema
    return IcebergSchema(*_stored_struct(schema.as_struct()).fields)


def _stored_struct(struct: iceberg.StructType) -> iceberg.StructType:
    used_names = {f.name.lower() for f in struct.fields}
    fields = []
    for f in struct.fields:
        name = f.name
        if "${" in name:
            name = make_compatible_name(name)
            while name.lower() in used_names:
                name += "_"
            used_names.add(name.lower())
        fields.append(iceberg.NestedField(f.field_id, name, _stored_type(f.field_type), required=f.required))
    return iceberg.StructType(*fields)


def _stored_type(type_: iceberg.IcebergType) -> iceberg.IcebergType:
    if isinstance(type_, iceberg.StructType):
        return _stored_struct(type_)
    if isinstance(type_, iceberg.ListType):
        return iceberg.ListType(type_.element_id, _stored_type(type_.element_type), type_.element_required)
    if isinstance(type_, iceberg.MapType):
        key, value = _stored_type(type_.key_type), _stored_type(type_.value_type)
        return iceberg.MapType(type_.key_id, key, type_.value_id, value, type_.value_required)
    return type_


def stored_arrow_schema(schema: IcebergSchema) -> pa.Schema:
    """Return the Arrow schema of data files, with field ids at every level; required columns are not nullable."""
    return pa.schema([_arrow_field(f) for f in stored_schema(schema).fields])


def arrow_type(type_: iceberg.IcebergType) -> pa.DataType:
    """Return the Arrow type of an Iceberg type in data files; raise `SchemaError` for a type without one."""
    if isinstance(type_, iceberg.StructType):
        return pa.struct([_arrow_field(f) for f in type_.fields])
    if isinstance(type_, iceberg.ListType):
        return pa.list_(_arrow_field(type_.element_field))
    if isinstance(type_, iceberg.MapType):
        return pa.map_(_arrow_field(type_.key_field), _arrow_field(type_.value_field))
    return to_arrow_type(logical_type_from_iceberg(type_))


_LOGICAL_TYPES: dict[type[iceberg.IcebergType], LogicalType] = {
    iceberg.BooleanType: BOOLEAN,
    iceberg.IntegerType: INT,
    iceberg.LongType: LONG,
    iceberg.FloatType: FLOAT,
    iceberg.DoubleType: DOUBLE,
    iceberg.DateType: DATE,
    iceberg.TimeType: TIME,
    iceberg.TimestampType: TIMESTAMP_NTZ,
    iceberg.TimestamptzType: TIMESTAMP,
    iceberg.StringType: STRING,
    iceberg.UUIDType: UUID_TYPE,
    iceberg.BinaryType: BINARY,
}

_ICEBERG_TYPES: dict[TypeKind, Callable[[], iceberg.IcebergType]] = {
    **{type_.kind: make for make, type_ in _LOGICAL_TYPES.items()},
    TypeKind.BYTE: iceberg.IntegerType,
    TypeKind.SHORT: iceberg.IntegerType,
}


def _logical_field(field: iceberg.NestedField) -> Field:
    return Field(field.name, logical_type_from_iceberg(field.field_type), not field.required)


def _iceberg_field(field_id: int, field: Field, ids: Iterator[int]) -> iceberg.NestedField:
    try:
        type_ = _iceberg_type(field.type, ids)
    except SchemaError as error:
        raise SchemaError(f"column {field.name!r}: {error}") from None
    return iceberg.NestedField(field_id, field.name, type_, required=not field.nullable)


def _iceberg_type(type_: LogicalType, ids: Iterator[int]) -> iceberg.IcebergType:
    if isinstance(type_, DecimalType):
        return iceberg.DecimalType(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return iceberg.FixedType(type_.length)
    if isinstance(type_, StructType):
        fields = [(next(ids), f) for f in type_.fields]
        return iceberg.StructType(*(_iceberg_field(field_id, f, ids) for field_id, f in fields))
    if isinstance(type_, ListType):
        return iceberg.ListType(next(ids), _iceberg_type(type_.element, ids), element_required=False)
    if isinstance(type_, MapType):
        key, value = next(ids), next(ids)
        return iceberg.MapType(
            key, _iceberg_type(type_.key, ids), value, _iceberg_type(type_.value, ids), value_required=False
        )
    if type_.kind not in _ICEBERG_TYPES:
        raise SchemaError(f"Iceberg has no type for {type_}")
    return _ICEBERG_TYPES[type_.kind]()


def _arrow_field(field: iceberg.NestedField) -> pa.Field:
    metadata = {ARROW_FIELD_ID: str(field.field_id).encode()}
    return pa.field(field.name, arrow_type(field.field_type), not field.required, metadata)
