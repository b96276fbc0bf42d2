"""Casts of Arrow arrays to nested types with required fields.

In a null struct, Spark makes every field null, also a required one. Arrow's cast and its Parquet writer reject that, so
such a field gets a placeholder value, which no reader sees.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def cast_array(array: Any, data_type: pa.DataType) -> Any:
    """Cast an array or a chunked array; raise `pa.ArrowInvalid` if a value does not fit or a required field is null."""
    if not has_required_field(data_type):
        return array if array.type == data_type else array.cast(data_type)
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([cast_array(chunk, data_type) for chunk in array.chunks], data_type)
    # Java leaves out the offsets of an empty array of lists; `take` creates them.
    return _cast_nested(array.take(pa.array(np.arange(len(array)))), data_type)


def has_required_field(data_type: pa.DataType) -> bool:
    """Return whether a struct at any depth of the type has a required field."""
    if pa.types.is_struct(data_type):
        return any(not f.nullable or has_required_field(f.type) for f in data_type)
    if pa.types.is_map(data_type):
        return has_required_field(data_type.key_type) or has_required_field(data_type.item_type)
    return _is_list(data_type) and has_required_field(data_type.value_type)


def relax_required_fields(data_type: pa.DataType) -> pa.DataType:
    """Return the type with all fields of its structs nullable."""
    if not has_required_field(data_type):
        return data_type
    if pa.types.is_struct(data_type):
        return pa.struct([_relax_field(f).with_nullable(True) for f in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_relax_field(data_type.key_field), _relax_field(data_type.item_field))
    list_type = pa.large_list if pa.types.is_large_list(data_type) else pa.list_
    return list_type(_relax_field(data_type.value_field))


def _relax_field(field: pa.Field) -> pa.Field:
    return field.with_type(relax_required_fields(field.type))


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def _cast_nested(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_struct(data_type):
        return _cast_struct(array, data_type)
    if pa.types.is_map(data_type):
        return _cast_map(array, data_type)
    if _is_list(data_type):
        values = cast_array(array.flatten(), data_type.value_type)
        return _list_array_class(data_type).from_arrays(
            _list_offsets(array), values, type=data_type, mask=array.is_null()
        )
    return array.cast(data_type)


def _cast_struct(array: pa.StructArray, data_type: pa.StructType) -> pa.Array:
    if [f.name for f in array.type] != [f.name for f in data_type]:
        raise pa.ArrowInvalid(f"the fields of {array.type} are not those of {data_type}")
    children = []
    for index, f in enumerate(data_type):
        child = cast_array(array.field(index), f.type)
        children.append(child if f.nullable else _fill_required_field(child, array, f))
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=array.is_null())


def _fill_required_field(child: pa.Array, parent: pa.Array, field: pa.Field) -> pa.Array:
    """Return the values of a required field, with a placeholder where the struct is null."""
    if not child.null_count:
        return child
    missing = child.is_null().to_numpy(zero_copy_only=False)
    if (missing & parent.is_valid().to_numpy(zero_copy_only=False)).any():
        raise pa.ArrowInvalid(f"field {field.name!r} is required but has nulls")
    values = pa.concat_arrays([child, pa.array([_placeholder_value(field.type)], field.type)])
    return values.take(pa.array(np.where(missing, len(child), np.arange(len(child)))))


def _placeholder_value(data_type: pa.DataType) -> Any:
    if isinstance(data_type, pa.BaseExtensionType):
        return _placeholder_value(data_type.storage_type)
    if pa.types.is_struct(data_type):
        return {f.name: None if f.nullable else _placeholder_value(f.type) for f in data_type}
    if pa.types.is_nested(data_type):
        return []
    if pa.types.is_fixed_size_binary(data_type):
        return bytes(data_type.byte_width)
    if pa.types.is_decimal(data_type):
        return Decimal(0)
    if pa.types.is_boolean(data_type):
        return False
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return ""
    return b"" if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type) else 0


def _cast_map(array: pa.MapArray, data_type: pa.MapType) -> pa.Array:
    pair = pa.struct([pa.field("key", array.type.key_type, nullable=False), pa.field("value", array.type.item_type)])
    list_array = array.cast(pa.list_(pair))
    pairs = list_array.flatten()
    keys = cast_array(pairs.field(0), data_type.key_type)
    items = cast_array(pairs.field(1), data_type.item_type)
    return pa.MapArray.from_arrays(_list_offsets(list_array), keys, items, type=data_type, mask=array.is_null())


def _list_array_class(data_type: pa.DataType) -> Any:
    return pa.LargeListArray if pa.types.is_large_list(data_type) else pa.ListArray


def _list_offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of the lists in the values of all non-null lists."""
    wide = pa.int64() if pa.types.is_large_list(array.type) else pa.int32()
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), wide)
