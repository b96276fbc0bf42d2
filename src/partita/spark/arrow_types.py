"""Arrow types that Spark has: for each Arrow type the narrowest of them that holds all of its values."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as arrow_types

from partita.errors import SchemaError


def spark_arrow_type(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type of Spark's that holds the values of a type; Spark has microseconds, nothing finer."""
    if type_ in _WIDENED_TYPES:
        return _WIDENED_TYPES[type_]
    if arrow_types.is_fixed_size_binary(type_):
        return pa.binary()
    if arrow_types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if arrow_types.is_time(type_):
        return pa.time64("us")
    if arrow_types.is_decimal(type_) and type_.precision <= _MAX_DECIMAL_PRECISION:
        return pa.decimal128(type_.precision, type_.scale)
    if arrow_types.is_dictionary(type_):
        return spark_arrow_type(type_.value_type)
    if arrow_types.is_struct(type_):
        return pa.struct([f.with_type(spark_arrow_type(f.type)) for f in _struct_fields(type_)])
    if arrow_types.is_map(type_):
        return pa.map_(spark_arrow_type(type_.key_type), spark_arrow_type(type_.item_type))
    if any(is_kind(type_) for is_kind in _LIST_TYPE_CHECKS):
        return pa.list_(type_.value_field.with_type(spark_arrow_type(type_.value_type)))
    return type_


def cast_to_spark_types(rows: pa.Table) -> pa.Table:
    """Cast rows to types that Spark has; raise `SchemaError` for a value that none of them holds."""
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        target_type = spark_arrow_type(column.type)
        try:
            columns.append(column if column.type == target_type else column.cast(target_type))
        except pa.ArrowException as error:
            raise SchemaError(
                f"column {name!r} is {column.type}, and has values that no type of Spark holds: {error}"
            ) from error
    return pa.table(columns, names=rows.column_names) if columns else rows


def _struct_fields(type_: pa.StructType) -> list[pa.Field]:
    return [type_.field(index) for index in range(type_.num_fields)]


_MAX_DECIMAL_PRECISION = 38
_LIST_TYPE_CHECKS = (
    arrow_types.is_list,
    arrow_types.is_large_list,
    arrow_types.is_fixed_size_list,
    arrow_types.is_list_view,
    arrow_types.is_large_list_view,
)
_WIDENED_TYPES = {
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
