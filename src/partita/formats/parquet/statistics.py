"""Statistics of columns and numbers of rows, from footers.

| in the footer | bounds |
|---|---|
| a row group without bounds, unless all of its values are null | none for the file |
| a text or bytes that were truncated | still bounds: a writer rounds the greatest up |
| a text whose bytes aren't UTF-8, a date or a time beyond the year 9999 | none |
| NaN | none; no upper bound holds for a floating column (`partita.arrow.prune`) |
| timestamps of 96 bits, dates and timestamps of Spark 2 | none |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from partita.algebra.schema import Schema
from partita.algebra.types import NESTED_KINDS, TIMESTAMP_KINDS, Field, TypeKind
from partita.arrow.prune import ColumnStatistics
from partita.arrow.schema import to_arrow_type
from partita.formats.parquet.commit import FolderFile
from partita.formats.parquet.footers import Footer, read_footers, stored_name, stored_type
from partita.storage import Storage

_CALENDAR_KINDS = TIMESTAMP_KINDS | {TypeKind.DATE}


def row_counts(storage: Storage, files: Sequence[FolderFile]) -> pa.Array:
    """Return the number of rows of each file."""
    return pa.array([footer.metadata.num_rows for footer in read_footers(storage, files)], pa.int64())


def file_statistics(storage: Storage, files: Sequence[FolderFile], columns: Schema) -> dict[str, ColumnStatistics]:
    """Return the statistics of columns that aren't nested, by name; no footer is read if there are none.

    Raises `TableError` if the table's type doesn't hold that of a file.
    """
    fields = [field for field in columns if field.type.kind not in NESTED_KINDS]
    footers = read_footers(storage, files) if fields else []
    counts = pa.array([footer.metadata.num_rows for footer in footers], pa.int64())
    statistics = {}
    for field in fields:
        rows = [_file_bounds(field, footer, file, storage.uri) for footer, file in zip(footers, files, strict=True)]
        lower, upper = (_bounds_array([row[side] for row in rows], field) for side in (0, 1))
        statistics[field.name] = ColumnStatistics(lower, upper, pa.array([row[2] for row in rows], pa.int64()), counts)
    return statistics


_UNKNOWN = (None, None, None)
_Bounds = tuple[Any, Any, int | None]
"""The least and the greatest value, and the number of nulls; None is unknown."""


def _file_bounds(field: Field, footer: Footer, file: FolderFile, uri: str) -> _Bounds:
    name = stored_name(field.name, footer)
    if name is None or stored_type(field, name, footer, file, uri).kind is TypeKind.NULL:
        return None, None, footer.metadata.num_rows
    if name not in footer.positions or (footer.has_old_calendar and field.type.kind in _CALENDAR_KINDS):
        return _UNKNOWN
    metadata, position = footer.metadata, footer.positions[name]
    chunks = [metadata.row_group(group).column(position) for group in range(metadata.num_row_groups)]
    groups = [_chunk_bounds(chunk) for chunk in chunks]
    nulls = [null_count for _, _, null_count in groups]
    null_count = None if None in nulls else sum(filter(None, nulls))
    value_bounds = [g for g, chunk in zip(groups, chunks, strict=True) if g[2] is None or g[2] < chunk.num_values]
    if not value_bounds or any(least is None or greatest is None for least, greatest, _ in value_bounds):
        return None, None, null_count
    return min(least for least, _, _ in value_bounds), max(greatest for _, greatest, _ in value_bounds), null_count


def _chunk_bounds(chunk: Any) -> _Bounds:
    statistics = chunk.statistics
    if statistics is None:
        return _UNKNOWN
    null_count = statistics.null_count if statistics.has_null_count else None
    if not statistics.has_min_max:
        return None, None, null_count
    try:
        least, greatest = statistics.min, statistics.max
        is_ordered = bool(least <= greatest)
    except (ValueError, OverflowError, TypeError, pa.ArrowException, NotImplementedError):
        return None, None, null_count
    return (least, greatest, null_count) if is_ordered else (None, None, null_count)


def _bounds_array(values: Sequence[Any], field: Field) -> pa.Array:
    type_ = to_arrow_type(field.type)
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return pa.array([_value_or_none(value, type_) for value in values], type_)


def _value_or_none(value: Any, type_: pa.DataType) -> Any:
    try:
        return pa.scalar(value, type_).as_py()
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return None
