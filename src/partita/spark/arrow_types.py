"""Arrow's types as those that Spark has: the narrowest that holds every value, or a refusal."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as arrow_types

from partita.errors import SchemaError


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type of Spark's that holds all values of an Arrow type; moments to the microsecond, which is all it has."""
    if type_ in _WIDER:
        return _WIDER[type_]
    if arrow_types.is_fixed_size_binary(type_):
        return pa.binary()
    if arrow_types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if arrow_types.is_time(type_):
        return pa.time64("us")
    if arrow_types.is_decimal(type_) and type_.precision <= _DIGITS:
        return pa.decimal128(type_.precision, type_.scale)
    if arrow_types.is_dictionary(type_):
        return plain_type(type_.value_type)
    if arrow_types.is_struct(type_):
        return pa.struct([f.with_type(plain_type(f.type)) for f in _fields(type_)])
    if arrow_types.is_map(type_):
        return pa.map_(plain_type(type_.key_type), plain_type(type_.item_type))
    if any(is_kind(type_) for is_kind in _LISTS):
        return pa.list_(type_.value_field.with_type(plain_type(type_.value_type)))
    return type_


def plain_rows(rows: pa.Table) -> pa.Table:
    """The rows in types that Spark has; a value that none of them holds is a `SchemaError`."""
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        wanted = plain_type(column.type)
        try:
            columns.append(column if column.type == wanted else column.cast(wanted))
        except pa.ArrowException as error:
            raise SchemaError(f"column {name!r} is {column.type}, of which Spark has no type: {error}") from error
    return pa.table(columns, names=rows.column_names) if columns else rows


def _fields(type_: pa.StructType) -> list[pa.Field]:
    return [type_.field(at) for at in range(type_.num_fields)]


_DIGITS = 38
_LISTS = (
    arrow_types.is_list,
    arrow_types.is_large_list,
    arrow_types.is_fixed_size_list,
    arrow_types.is_list_view,
    arrow_types.is_large_list_view,
)
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
