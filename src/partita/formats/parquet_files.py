"""Parquet files, written and copied with pyarrow: what Delta and Iceberg share."""

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
"""When a file is full: this many bytes on disk."""


@dataclass(frozen=True, slots=True)
class FloatStatistics:
    """What a floating column holds: how many nulls, the ends of all that is not NaN, and how many are."""

    null_count: int = 0
    min_value: float | None = None
    max_value: float | None = None
    nan_count: int = 0

    def with_values(self, column: pa.ChunkedArray) -> FloatStatistics:
        """The same with more values."""
        found = (*pc.min_max(column).as_py().values(), self.min_value, self.max_value)
        ends = [end for end in found if end is not None and not math.isnan(end)]
        nans = self.nan_count + (pc.sum(pc.is_nan(column)).as_py() or 0)
        return FloatStatistics(
            self.null_count + column.null_count, min(ends, default=None), max(ends, default=None), nans
        )


@dataclass(frozen=True, slots=True, eq=False)
class FileFooter:
    """What a finished file says of itself, and `floats` of the columns that have no statistics in it."""

    metadata: pq.FileMetaData
    float_statistics: Mapping[str, FloatStatistics]


def column_chunks(metadata: pq.FileMetaData) -> dict[str, list[Any]]:
    """The chunks of each column by its path in the file, one a row group."""
    found: dict[str, list[Any]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(row_group.num_columns):
            column = row_group.column(at)
            found.setdefault(column.path_in_schema, []).append(column)
    return found


StatisticsEncoder = Callable[[FileFooter], str]
"""A format's own description of a file."""


@dataclass(slots=True, eq=False)
class ParquetSink:
    """A Parquet file that grows by row groups; `settings` are pyarrow's. Its first rows say how columns are encoded."""

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
        """Add a row group, or more; rows are cast to the file's types, and a loss is an error."""
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
        """Whether the file has reached its size."""
        return bool(self.file.tell() >= TARGET_FILE_BYTES)

    def close(self) -> dict[str, object]:
        """Finish the file and tell of it."""
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
        """Drop the file."""
        self.file.close()
        self.storage.delete([self.path])


def read_row_groups(storage: Storage, path: str, schema: pa.Schema, *, by_id: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in order, as that schema has them; a column that the file lacks is null.

    Fields at every depth are found by their ids, or else by their names without regard to case, as Spark finds them.
    """
    # INT96 spans more years than nanoseconds do, and Spark writes no finer than microseconds.
    with pq.ParquetFile(storage.open_input(path), coerce_int96_timestamp_unit="us") as file:
        stored = file.schema_arrow
        found = [_find_field(stored, field, by_id=by_id) for field in schema]
        columns = [field.name for field in found if field is not None]
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns)
            arrays = [
                pa.nulls(table.num_rows, wanted.type)
                if field is None
                else _cast_stored_array(table[field.name].combine_chunks(), field.type, wanted.type, by_id=by_id)
                for wanted, field in zip(schema, found, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _find_field(stored: Iterable[pa.Field], wanted: pa.Field, *, by_id: bool) -> pa.Field | None:
    fields = list(stored)
    number = field_id(wanted) if by_id else None
    if number is not None:
        return next((field for field in fields if field_id(field) == number), None)
    same = [field for field in fields if field.name == wanted.name]
    alike = same or [field for field in fields if field.name.casefold() == wanted.name.casefold()]
    if len(alike) > 1:
        raise TableError(f"column {wanted.name!r} could be {' or '.join(f.name for f in alike)} in a file")
    return alike[0] if alike else None


def _cast_stored_array(array: pa.Array, stored_type: pa.DataType, wanted_type: pa.DataType, *, by_id: bool) -> pa.Array:
    """An array of a file's type as the wanted one, also where fields inside of it are required."""
    return cast_array(
        _cast_nested_array(array, stored_type, relax_required_fields(wanted_type), by_id=by_id), wanted_type
    )


def _cast_nested_array(array: pa.Array, stored_type: pa.DataType, wanted_type: pa.DataType, *, by_id: bool) -> pa.Array:
    """An array of a file's type as the wanted one; the fields of structs are found as columns are.

    Arrow would find them by their exact names, and make null of the others.
    """
    if not pa.types.is_nested(wanted_type) or (stored_type == wanted_type and not by_id):
        return array if array.type == wanted_type else array.cast(wanted_type)
    if array.offset:
        array = pa.concat_arrays([array.slice(0, 0), array])
    if pa.types.is_struct(wanted_type):
        children = []
        for field in wanted_type:
            own = _find_field(stored_type, field, by_id=by_id)
            children.append(
                pa.nulls(len(array), field.type)
                if own is None
                else _cast_nested_array(
                    array.field(stored_type.get_field_index(own.name)), own.type, field.type, by_id=by_id
                )
            )
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted_type), mask=mask)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_map(wanted_type):
        keys = _cast_nested_array(array.keys, stored_type.key_type, wanted_type.key_type, by_id=by_id)
        items = _cast_nested_array(array.items, stored_type.item_type, wanted_type.item_type, by_id=by_id)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted_type, mask=mask)
    values = _cast_nested_array(array.values, stored_type.value_type, wanted_type.value_type, by_id=by_id)
    return pa.ListArray.from_arrays(array.offsets, values, type=wanted_type, mask=mask)


def _statistics_columns(fields: Iterable[pa.Field], path_prefix: str = "") -> list[str]:
    """The columns that get statistics in the file: none that is floating.

    Parquet's leave NaN out, and Spark, to which it is the greatest, would skip row groups that hold what it looks for.
    """
    paths: list[str] = []
    for f in fields:
        if pa.types.is_struct(f.type):
            paths += _statistics_columns(f.type, f"{path_prefix}{f.name}.")
        elif not pa.types.is_nested(f.type) and not pa.types.is_floating(f.type):
            paths.append(f"{path_prefix}{f.name}")
    return paths
