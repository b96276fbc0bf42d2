"""Which columns of a Parquet file get a dictionary: those that are smaller with one.

By itself pyarrow gives every column one, also where hardly a value comes twice. Such a column is larger than without,
and slower to read, for each value is decoded and then looked up (parquet-java leaves those plain too).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_MIN_SAMPLE_ROWS, _MAX_SAMPLE_ROWS, _SAMPLE_DIVISOR = 4_096, 65_536, 4
"""The first quarter of the rows is looked at, but no fewer rows and no more than that; fewer say too little."""


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The columns of a file that begins with those rows, by their paths in it; all of them where the rows are few."""
    sample = rows.slice(0, min(_MAX_SAMPLE_ROWS, max(_MIN_SAMPLE_ROWS, rows.num_rows // _SAMPLE_DIVISOR)))
    return [path for field in rows.schema for path in _dictionary_paths(field, field.name, sample[field.name])]


def _dictionary_paths(field: pa.Field, path: str, column: pa.ChunkedArray) -> Iterator[str]:
    if pa.types.is_nested(field.type):
        yield from _leaf_paths(field.type, path)
    elif len(column) < _MIN_SAMPLE_ROWS or _is_smaller_encoded(column):
        yield path


def _leaf_paths(type_: pa.DataType, path: str) -> Iterator[str]:
    """What is in a column, by the names that Parquet has for lists and maps ("Nested Types")."""
    if pa.types.is_map(type_):
        inner = [("key_value.key", type_.key_type), ("key_value.value", type_.item_type)]
    elif pa.types.is_struct(type_):
        inner = [(f.name, f.type) for f in type_]
    elif pa.types.is_nested(type_):
        inner = [("list.element", type_.value_type)]
    else:
        yield path
        return
    for name, below in inner:
        yield from _leaf_paths(below, f"{path}.{name}")


def _is_smaller_encoded(column: pa.ChunkedArray) -> bool:
    """Whether the distinct values, and a number for each row, take fewer bits than the values."""
    count = len(column) - column.null_count
    if count == 0:
        return True
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    distinct, width = pc.count_distinct(column).as_py(), _value_bits(column)
    return bool(distinct * width + count * (distinct - 1).bit_length() < count * width)


def _value_bits(column: pa.ChunkedArray) -> float:
    """The bits of a value without a dictionary; decimals that fit into a long are stored as one."""
    if pa.types.is_decimal(column.type) and column.type.precision <= _MAX_LONG_DIGITS:
        return 64
    return 8 * float(column.nbytes) / len(column)


_MAX_LONG_DIGITS = 18
