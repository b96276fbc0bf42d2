"""Which columns of a Parquet file get a dictionary: those that are smaller with one.

By itself pyarrow gives every column one, also where hardly a value comes twice. Such a column is larger than without,
and slower to read, for each value is decoded and then looked up (parquet-java leaves those plain too).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_LEAST, _MOST, _QUARTER = 4_096, 65_536, 4
"""The first quarter of the rows is looked at, but no fewer rows and no more than that; fewer say too little."""


def with_dictionary(rows: pa.Table) -> list[str]:
    """The columns of a file that begins with those rows, by their paths in it; all of them where the rows are few."""
    sample = rows.slice(0, min(_MOST, max(_LEAST, rows.num_rows // _QUARTER)))
    return [path for field in rows.schema for path in _paths(field, field.name, sample[field.name])]


def _paths(field: pa.Field, path: str, column: pa.ChunkedArray) -> Iterator[str]:
    if pa.types.is_nested(field.type):
        yield from _leaves(field.type, path)
    elif len(column) < _LEAST or _is_smaller(column):
        yield path


def _leaves(type_: pa.DataType, path: str) -> Iterator[str]:
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
        yield from _leaves(below, f"{path}.{name}")


def _is_smaller(column: pa.ChunkedArray) -> bool:
    """Whether the distinct values, and a number for each row, take fewer bits than the values."""
    count = len(column) - column.null_count
    if count == 0:
        return True
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    distinct, width = pc.count_distinct(column).as_py(), _width(column)
    return bool(distinct * width + count * (distinct - 1).bit_length() < count * width)


def _width(column: pa.ChunkedArray) -> float:
    """The bits of a value without a dictionary; decimals that fit into a long are stored as one."""
    if pa.types.is_decimal(column.type) and column.type.precision <= _LONG_DIGITS:
        return 64
    return 8 * float(column.nbytes) / len(column)


_LONG_DIGITS = 18
