"""Parquet files, written and copied with pyarrow: what Delta and Iceberg share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partita.storage import Storage

ROW_GROUP_ROWS = 1_000_000
FILE_BYTES = 256 * 2**20
"""When a file is full: this many bytes on disk."""


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """What a finished file says of itself; `nans` are the columns with NaN, which Parquet's statistics leave out."""

    metadata: pq.FileMetaData
    nans: frozenset[str]


Describe = Callable[[Footer], str]
"""A format's own description of a file."""


@dataclass(slots=True, eq=False)
class ParquetSink:
    """A Parquet file that grows by row groups."""

    storage: Storage
    path: str
    schema: pa.Schema
    describe: Describe
    nans: set[str] = field(default_factory=set)
    file: pa.NativeFile = field(init=False)
    writer: pq.ParquetWriter = field(init=False)
    footers: list[pq.FileMetaData] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.storage.open_output(self.path)
        self.writer = pq.ParquetWriter(
            self.file, self.schema, compression="snappy", version="2.6", coerce_timestamps="us",
            metadata_collector=self.footers,
        )  # fmt: skip

    def write(self, rows: pa.Table) -> None:
        """Add a row group, or more; rows are cast to the file's types, and a loss is an error."""
        if rows.schema != self.schema:
            columns = [
                c if c.type == f.type else c.cast(f.type) for c, f in zip(rows.columns, self.schema, strict=True)
            ]
            rows = pa.table(columns, schema=self.schema)
        self.nans.update(name for name in rows.column_names if name not in self.nans and _has_nan(rows[name]))
        self.writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its size."""
        return bool(self.file.tell() >= FILE_BYTES)

    def close(self) -> dict[str, object]:
        """Finish the file and tell of it."""
        self.writer.close()
        size = self.file.tell()
        self.file.close()
        metadata = self.footers[0]
        return {
            "path": self.path,
            "rows": metadata.num_rows,
            "bytes": size,
            "modified": time.time_ns() // 1_000_000,
            "details": self.describe(Footer(metadata, frozenset(self.nans))),
        }

    def abort(self) -> None:
        """Drop the file."""
        self.file.close()
        self.storage.delete([self.path])


def pieces(storage: Storage, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in order, as that schema has them; a column that the file lacks is null."""
    with pq.ParquetFile(storage.open_input(path)) as file:
        names = [_name_in(file.schema_arrow, field) for field in schema]
        columns = [name for name in names if name is not None]
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns)
            arrays = [
                pa.nulls(table.num_rows, f.type) if name is None else _as(table[name].combine_chunks(), f.type)
                for f, name in zip(schema, names, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


_ID = b"PARQUET:field_id"


def _name_in(stored: pa.Schema, field: pa.Field) -> str | None:
    """The name of a column in a file: by its id where both have one, else the same; None where it isn't there."""
    number = (field.metadata or {}).get(_ID)
    if number is not None:
        for found in stored:
            if (found.metadata or {}).get(_ID) == number:
                return str(found.name)
    return field.name if field.name in stored.names else None


def _as(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(type_):
        # Spark's INT96 is read as nanoseconds, without a zone; it holds no more than microseconds.
        return array.cast(pa.timestamp("us", array.type.tz)).cast(type_)
    return array.cast(type_)


def _has_nan(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())
