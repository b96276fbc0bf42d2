"""Iceberg's schemas as Partita's and as Arrow's, to and fro.

Columns are found by their ids: names change, and may come back as those of other columns.

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
from partita.arrow.schema import to_arrow
from partita.errors import SchemaError
from partita.formats.field_ids import FIELD_ID


def to_schema(schema: IcebergSchema) -> Schema:
    """The columns of an Iceberg schema, under their current names."""
    return Schema(tuple(_field(f) for f in schema.fields))


def to_logical(type_: iceberg.IcebergType) -> LogicalType:
    """The logical type of an Iceberg type (see the module's head)."""
    plain = _LOGICAL.get(type(type_))
    if plain is not None:
        return plain
    if isinstance(type_, iceberg.DecimalType):
        return decimal(type_.precision, type_.scale)
    if isinstance(type_, iceberg.FixedType):
        return fixed(len(type_))
    if isinstance(type_, iceberg.StructType):
        return struct_of(*(_field(f) for f in type_.fields))
    if isinstance(type_, iceberg.ListType):
        return list_of(to_logical(type_.element_type))
    if isinstance(type_, iceberg.MapType):
        return map_of(to_logical(type_.key_type), to_logical(type_.value_type))
    return other(str(type_))


def from_schema(schema: Schema) -> IcebergSchema:
    """A new Iceberg schema of these columns, with ids from 1: columns first, then what is inside of them."""
    ids = count(1)
    numbered = [(next(ids), f) for f in schema]
    return IcebergSchema(*(_nested_field(number, f, ids) for number, f in numbered))


def field_ids(schema: IcebergSchema) -> dict[str, int]:
    """The id of each column by its name; what is inside of one is behind a dot: `a.b`, `list.element`, `map.value`."""
    return dict(index_by_name(schema))


def stored_schema(schema: IcebergSchema) -> IcebergSchema:
    """The schema under the names that Partita's data files have: the table's, but for names with a `${`.

    Hadoop takes that for a variable in the schema that Spark hands to its Parquet reader. Such names are sanitised as
    Iceberg's own writers do, and differ from those of their siblings.
    """
    if not any("${" in name for name in schema.column_names):
        return schema
    return IcebergSchema(*_stored_struct(schema.as_struct()).fields)


def _stored_struct(struct: iceberg.StructType) -> iceberg.StructType:
    taken = {f.name.lower() for f in struct.fields}
    fields = []
    for f in struct.fields:
        name = f.name
        if "${" in name:
            name = make_compatible_name(name)
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
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


def stored_arrow(schema: IcebergSchema) -> pa.Schema:
    """The Arrow schema of data files, with the id of every field at every level, and null only where it may be."""
    return pa.schema([_arrow_field(f) for f in stored_schema(schema).fields])


def arrow_type(type_: iceberg.IcebergType) -> pa.DataType:
    """The Arrow type of an Iceberg type in data files; one that Partita doesn't compute with is a `SchemaError`."""
    if isinstance(type_, iceberg.StructType):
        return pa.struct([_arrow_field(f) for f in type_.fields])
    if isinstance(type_, iceberg.ListType):
        return pa.list_(_arrow_field(type_.element_field))
    if isinstance(type_, iceberg.MapType):
        return pa.map_(_arrow_field(type_.key_field), _arrow_field(type_.value_field))
    return to_arrow(to_logical(type_))


_LOGICAL: dict[type[iceberg.IcebergType], LogicalType] = {
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

_ICEBERG: dict[Kind, Callable[[], iceberg.IcebergType]] = {
    **{type_.kind: make for make, type_ in _LOGICAL.items()},
    Kind.BYTE: iceberg.IntegerType,
    Kind.SHORT: iceberg.IntegerType,
}


def _field(field: iceberg.NestedField) -> Field:
    return Field(field.name, to_logical(field.field_type), not field.required)


def _nested_field(number: int, field: Field, ids: Iterator[int]) -> iceberg.NestedField:
    try:
        type_ = _from_logical(field.type, ids)
    except SchemaError as error:
        raise SchemaError(f"column {field.name!r}: {error}") from None
    return iceberg.NestedField(number, field.name, type_, required=not field.nullable)


def _from_logical(type_: LogicalType, ids: Iterator[int]) -> iceberg.IcebergType:
    if isinstance(type_, DecimalType):
        return iceberg.DecimalType(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return iceberg.FixedType(type_.length)
    if isinstance(type_, StructType):
        numbered = [(next(ids), f) for f in type_.fields]
        return iceberg.StructType(*(_nested_field(number, f, ids) for number, f in numbered))
    if isinstance(type_, ListType):
        return iceberg.ListType(next(ids), _from_logical(type_.element, ids), element_required=False)
    if isinstance(type_, MapType):
        key, value = next(ids), next(ids)
        return iceberg.MapType(
            key, _from_logical(type_.key, ids), value, _from_logical(type_.value, ids), value_required=False
        )
    if type_.kind not in _ICEBERG:
        raise SchemaError(f"Iceberg has no type for {type_}")
    return _ICEBERG[type_.kind]()


def _arrow_field(field: iceberg.NestedField) -> pa.Field:
    number = {FIELD_ID: str(field.field_id).encode()}
    return pa.field(field.name, arrow_type(field.field_type), not field.required, number)
