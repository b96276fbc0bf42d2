"""Casts of Arrow arrays to types with required fields inside.

Spark gives a field of a null struct as null, also where the field is required. Arrow's own cast and its Parquet writer
take that for a violation, so such a field gets a value that nobody reads.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def cast_array(array: Any, data_type: pa.DataType) -> Any:
    """Cast an array or a chunked array; a value that does not fit and a required field that is null are errors."""
    if not has_required_field(data_type):
        return array if array.type == data_type else array.cast(data_type)
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([cast_array(chunk, data_type) for chunk in array.chunks], data_type)
    # Java leaves out the offsets of lists that hold nothing; `take` makes them.
    return _cast_nested(array.take(pa.array(np.arange(len(array)))), data_type)


def has_required_field(data_type: pa.DataType) -> bool:
    """Whether a struct somewhere inside of the type has a field that may not be null."""
    if pa.types.is_struct(data_type):
        return any(not f.nullable or has_required_field(f.type) for f in data_type)
    if pa.types.is_map(data_type):
        return has_required_field(data_type.key_type) or has_required_field(data_type.item_type)
    return _is_list(data_type) and has_required_field(data_type.value_type)


def relax_required_fields(data_type: pa.DataType) -> pa.DataType:
    """The type with every field of its structs nullable."""
    if not has_required_field(data_type):
        return data_type
    if pa.types.is_struct(data_type):
        return pa.struct([_relaxed_field(f).with_nullable(True) for f in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_relaxed_field(data_type.key_field), _relaxed_field(data_type.item_field))
    listed = pa.large_list if pa.types.is_large_list(data_type) else pa.list_
    return listed(_relaxed_field(data_type.value_field))


def _relaxed_field(field: pa.Field) -> pa.Field:
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
        return _list_type(data_type).from_arrays(_offsets(array), values, type=data_type, mask=array.is_null())
    return array.cast(data_type)


def _cast_struct(array: pa.StructArray, data_type: pa.StructType) -> pa.Array:
    if [f.name for f in array.type] != [f.name for f in data_type]:
        raise pa.ArrowInvalid(f"{array.type} has other fields than {data_type}")
    children = []
    for at, f in enumerate(data_type):
        child = cast_array(array.field(at), f.type)
        children.append(child if f.nullable else _filled(child, array, f))
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=array.is_null())


def _filled(child: pa.Array, parent: pa.Array, field: pa.Field) -> pa.Array:
    """The values of a required field, with some value where the struct itself is null."""
    if not child.null_count:
        return child
    missing = child.is_null().to_numpy(zero_copy_only=False)
    if (missing & parent.is_valid().to_numpy(zero_copy_only=False)).any():
        raise pa.ArrowInvalid(f"field {field.name!r} is required, and has nulls")
    filled = pa.concat_arrays([child, pa.array([_some_value(field.type)], field.type)])
    return filled.take(pa.array(np.where(missing, len(child), np.arange(len(child)))))


def _some_value(data_type: pa.DataType) -> Any:
    if isinstance(data_type, pa.BaseExtensionType):
        return _some_value(data_type.storage_type)
    if pa.types.is_struct(data_type):
        return {f.name: None if f.nullable else _some_value(f.type) for f in data_type}
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
    listed = array.cast(pa.list_(pair))
    pairs = listed.flatten()
    keys = cast_array(pairs.field(0), data_type.key_type)
    items = cast_array(pairs.field(1), data_type.item_type)
    return pa.MapArray.from_arrays(_offsets(listed), keys, items, type=data_type, mask=array.is_null())


def _list_type(data_type: pa.DataType) -> Any:
    return pa.LargeListArray if pa.types.is_large_list(data_type) else pa.ListArray


def _offsets(array: pa.Array) -> pa.Array:
    """Where each list begins among the values of all lists that are not null."""
    wide = pa.int64() if pa.types.is_large_list(array.type) else pa.int32()
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), wide)
