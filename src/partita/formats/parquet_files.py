"""Parquet files, written and copied with pyarrow: what the formats share that have them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partita.arrow.required_fields import cast_array, relax_required_fields
from partita.errors import TableError
from partita.formats.dictionary_encoding import dictionary_columns
from partita.formats.field_ids import field_id
from partita.storage import Storage

ROW_GROUP_ROWS = 1_000_000
TARGET_FILE_BYTES = 256 * 2**20
"""Bytes on disk from which on a file is full."""


@dataclass(frozen=True, slots=True)
class FloatStatistics:
    """Statistics of a float column: null count, minimum and maximum of the values that are not NaN, and NaN count."""

    null_count: int = 0
    min_value: float | None = None
    max_value: float | None = None
    nan_count: int = 0

    def with_values(self, column: pa.ChunkedArray) -> FloatStatistics:
        """Return these statistics extended by the values of a column."""
        bounds = (*pc.min_max(column).as_py().values(), self.min_value, self.max_value)
        ends = [end for end in bounds if end is not None and not math.isnan(end)]
        nans = self.nan_count + (pc.sum(pc.is_nan(column)).as_py() or 0)
        return FloatStatistics(
            self.null_count + column.null_count, min(ends, default=None), max(ends, default=None), nans
        )


@dataclass(frozen=True, slots=True, eq=False)
class FileFooter:
    """The footer of a finished file, and the statistics of its float columns, which the footer lacks."""

    metadata: pq.FileMetaData
    float_statistics: Mapping[str, FloatStatistics]


def column_chunks(metadata: pq.FileMetaData) -> dict[str, list[Any]]:
    """Return the column chunks of each column, one per row group, by its path in the file."""
    chunks: dict[str, list[Any]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in range(row_group.num_columns):
            column = row_group.column(index)
            chunks.setdefault(column.path_in_schema, []).append(column)
    return chunks


StatisticsEncoder = Callable[[FileFooter], str]
"""Encodes the footer of a file as the `details` of its `WRITTEN_FILE_SCHEMA` row."""


@dataclass(slots=True, eq=False)
class ParquetSink:
    """Writes a Parquet file row group by row group; its first rows decide which columns are dictionary-encoded.

    `writer_options` are those of pyarrow's `ParquetWriter`.
    """

    storage: Storage
    path: str
    schema: pa.Schema
    encode_statistics: StatisticsEncoder
    writer_options: Mapping[str, Any] = field(default_factory=dict)
    float_statistics: dict[str, FloatStatistics] = field(default_factory=dict)
    file: pa.NativeFile = field(init=False)
    writer: pq.ParquetWriter | None = None
    footers: list[pq.FileMetaData] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.storage.open_output(self.path)

    def write(self, rows: pa.Table) -> None:
        """Write rows as one or more row groups; raise if they can't be cast to the file's types without loss."""
        if rows.schema != self.schema:
            columns = [cast_array(c, f.type) for c, f in zip(rows.columns, self.schema, strict=True)]
            rows = pa.table(columns, schema=self.schema)
        for f in self.schema:
            if pa.types.is_floating(f.type):
                self.float_statistics[f.name] = self.float_statistics.get(f.name, FloatStatistics()).with_values(
                    rows[f.name]
                )
        if self.writer is None:
            self.writer = self._open_writer(rows)
        self.writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)

    def _open_writer(self, rows: pa.Table) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self.file, self.schema, version="2.6", coerce_timestamps="us", use_dictionary=dictionary_columns(rows),
            metadata_collector=self.footers, write_statistics=_statistics_columns(self.schema),
            **{"compression": "snappy", **self.writer_options},
        )  # fmt: skip

    @property
    def is_full(self) -> bool:
        """Whether the file has reached `TARGET_FILE_BYTES`."""
        return bool(self.file.tell() >= TARGET_FILE_BYTES)

    def close(self) -> dict[str, object]:
        """Finish the file and return its row of `WRITTEN_FILE_SCHEMA`, without the partition."""
        writer = self.writer or self._open_writer(self.schema.empty_table())
        writer.close()
        size = self.file.tell()
        self.file.close()
        metadata = self.footers[0]
        return {
            "path": self.path,
            "rows": metadata.num_rows,
            "bytes": size,
            "modified": time.time_ns() // 1_000_000,
            "details": self.encode_statistics(FileFooter(metadata, self.float_statistics)),
        }

    def abort(self) -> None:
        """Delete the unfinished file."""
        self.file.close()
        self.storage.delete([self.path])


def read_row_groups(storage: Storage, path: str, schema: pa.Schema, *, by_id: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file in order, cast to a schema; a column that the file lacks is null.

    With `by_id`, fields that have an id are found by it, at every depth; others by name, ignoring case as Spark does.
    """
    # Nanoseconds can't represent all years of INT96, and Spark writes microseconds at most.
    with pq.ParquetFile(storage.open_input(path), coerce_int96_timestamp_unit="us") as file:
        file_schema = file.schema_arrow
        file_fields = [_find_field(file_schema, field, by_id=by_id) for field in schema]
        columns = [field.name for field in file_fields if field is not None]
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns)
            arrays = [
                pa.nulls(table.num_rows, target_field.type)
                if field is None
                else _cast_stored_array(table[field.name].combine_chunks(), field.type, target_field.type, by_id=by_id)
                for target_field, field in zip(schema, file_fields, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _find_field(file_fields: Iterable[pa.Field], target_field: pa.Field, *, by_id: bool) -> pa.Field | None:
    fields = list(file_fields)
    id_ = field_id(target_field) if by_id else None
    if id_ is not None:
        return next((field for field in fields if field_id(field) == id_), None)
    matches = [field for field in fields if field.name == target_field.name]
    candidates = matches or [field for field in fields if field.name.casefold() == target_field.name.casefold()]
    if len(candidates) > 1:
        raise TableError(f"column {target_field.name!r} could be {' or '.join(f.name for f in candidates)} in a file")
    return candidates[0] if candidates else None


def _cast_stored_array(array: pa.Array, stored_type: pa.DataType, target_type: pa.DataType, *, by_id: bool) -> pa.Array:
    """Cast an array of a file to another type, also if fields inside of that are required."""
    return cast_array(
        _cast_nested_array(array, stored_type, relax_required_fields(target_type), by_id=by_id), target_type
    )


def _cast_nested_array(array: pa.Array, stored_type: pa.DataType, target_type: pa.DataType, *, by_id: bool) -> pa.Array:
    """Cast an array of a file to another type; fields of structs are found as columns are (`read_row_groups`).

    Arrow's cast would find them by their exact names, and make the others null.
    """
    if not pa.types.is_nested(target_type) or (stored_type == target_type and not by_id):
        return array if array.type == target_type else array.cast(target_type)
    if array.offset:
        array = pa.concat_arrays([array.slice(0, 0), array])
    if pa.types.is_struct(target_type):
        children = []
        for field in target_type:
            stored_field = _find_field(stored_type, field, by_id=by_id)
            children.append(
                pa.nulls(len(array), field.type)
                if stored_field is None
                else _cast_nested_array(
                    array.field(stored_type.get_field_index(stored_field.name)),
                    stored_field.type,
                    field.type,
                    by_id=by_id,
                )
            )
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target_type), mask=mask)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_map(target_type):
        keys = _cast_nested_array(array.keys, stored_type.key_type, target_type.key_type, by_id=by_id)
        items = _cast_nested_array(array.items, stored_type.item_type, target_type.item_type, by_id=by_id)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target_type, mask=mask)
    values = _cast_nested_array(array.values, stored_type.value_type, target_type.value_type, by_id=by_id)
    return pa.ListArray.from_arrays(array.offsets, values, type=target_type, mask=mask)


def _statistics_columns(fields: Iterable[pa.Field], path_prefix: str = "") -> list[str]:
    """Return the paths of the columns that get statistics in the file: all but float columns.

    Parquet's statistics ignore NaN. To Spark NaN is the greatest value, so it would skip row groups that have matches.
    """
    paths: list[str] = []
    for f in fields:
        if pa.types.is_struct(f.type):
            paths += _statistics_columns(f.type, f"{path_prefix}{f.name}.")
        elif not pa.types.is_nested(f.type) and not pa.types.is_floating(f.type):
            paths.append(f"{path_prefix}{f.name}")
    return paths
