"""Choose the columns of a Parquet file that are dictionary-encoded: those that are smaller with a dictionary.

By default pyarrow encodes every column. A column whose values hardly repeat is larger with a dictionary, and slower to
read, since each value is decoded and then looked up (parquet-java stores such columns plain too).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_MIN_SAMPLE_ROWS, _MAX_SAMPLE_ROWS, _SAMPLE_DIVISOR = 4_096, 65_536, 4
"""The sample is the first quarter of the rows, within these limits; fewer rows than the minimum decide nothing."""


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Return the paths of the columns to encode in a file that begins with these rows; all if the rows are few."""
    sample = rows.slice(0, min(_MAX_SAMPLE_ROWS, max(_MIN_SAMPLE_ROWS, rows.num_rows // _SAMPLE_DIVISOR)))
    return [path for field in rows.schema for path in _dictionary_paths(field, field.name, sample[field.name])]


def _dictionary_paths(field: pa.Field, path: str, column: pa.ChunkedArray) -> Iterator[str]:
    if pa.types.is_nested(field.type):
        yield from _leaf_paths(field.type, path)
    elif len(column) < _MIN_SAMPLE_ROWS or _is_smaller_encoded(column):
        yield path


def _leaf_paths(type_: pa.DataType, path: str) -> Iterator[str]:
    """Yield the paths of the leaf columns of a type, with Parquet's names for lists and maps ("Nested Types")."""
    if pa.types.is_map(type_):
        inner_types = [("key_value.key", type_.key_type), ("key_value.value", type_.item_type)]
    elif pa.types.is_struct(type_):
        inner_types = [(f.name, f.type) for f in type_]
    elif pa.types.is_nested(type_):
        inner_types = [("list.element", type_.value_type)]
    else:
        yield path
        return
    for name, inner_type in inner_types:
        yield from _leaf_paths(inner_type, f"{path}.{name}")


def _is_smaller_encoded(column: pa.ChunkedArray) -> bool:
    """Whether the distinct values and an index for each row take fewer bits than the plain values."""
    count = len(column) - column.null_count
    if count == 0:
        return True
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    distinct_count, value_bits = pc.count_distinct(column).as_py(), _value_bits(column)
    return bool(distinct_count * value_bits + count * (distinct_count - 1).bit_length() < count * value_bits)


def _value_bits(column: pa.ChunkedArray) -> float:
    """Return the number of bits of a plain value; a decimal that fits into a long is stored as one."""
    if pa.types.is_decimal(column.type) and column.type.precision <= _MAX_LONG_DIGITS:
        return 64
    return 8 * float(column.nbytes) / len(column)


_MAX_LONG_DIGITS = 18
