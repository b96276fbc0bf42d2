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

from partita.errors import TableError
from partita.formats.dictionaries import with_dictionary
from partita.storage import Storage

ROW_GROUP_ROWS = 1_000_000
FILE_BYTES = 256 * 2**20
"""When a file is full: this many bytes on disk."""


@dataclass(frozen=True, slots=True)
class Floats:
    """What a floating column holds: how many nulls, the ends of all that is not NaN, and how many are."""

    nulls: int = 0
    least: float | None = None
    greatest: float | None = None
    nans: int = 0

    def and_of(self, column: pa.ChunkedArray) -> Floats:
        """The same with more values."""
        found = (*pc.min_max(column).as_py().values(), self.least, self.greatest)
        ends = [end for end in found if end is not None and not math.isnan(end)]
        nans = self.nans + (pc.sum(pc.is_nan(column)).as_py() or 0)
        return Floats(self.nulls + column.null_count, min(ends, default=None), max(ends, default=None), nans)


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """What a finished file says of itself, and `floats` of the columns that have no statistics in it."""

    metadata: pq.FileMetaData
    floats: Mapping[str, Floats]


def column_chunks(metadata: pq.FileMetaData) -> dict[str, list[Any]]:
    """The chunks of each column by its path in the file, one a row group."""
    found: dict[str, list[Any]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(row_group.num_columns):
            column = row_group.column(at)
            found.setdefault(column.path_in_schema, []).append(column)
    return found


Describe = Callable[[Footer], str]
"""A format's own description of a file."""


@dataclass(slots=True, eq=False)
class ParquetSink:
    """A Parquet file that grows by row groups; `settings` are pyarrow's. Its first rows say how columns are encoded."""

    storage: Storage
    path: str
    schema: pa.Schema
    describe: Describe
    settings: Mapping[str, Any] = field(default_factory=dict)
    floats: dict[str, Floats] = field(default_factory=dict)
    file: pa.NativeFile = field(init=False)
    writer: pq.ParquetWriter | None = None
    footers: list[pq.FileMetaData] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.storage.open_output(self.path)

    def write(self, rows: pa.Table) -> None:
        """Add a row group, or more; rows are cast to the file's types, and a loss is an error."""
        if rows.schema != self.schema:
            columns = [
                c if c.type == f.type else c.cast(f.type) for c, f in zip(rows.columns, self.schema, strict=True)
            ]
            rows = pa.table(columns, schema=self.schema)
        for f in self.schema:
            if pa.types.is_floating(f.type):
                self.floats[f.name] = self.floats.get(f.name, Floats()).and_of(rows[f.name])
        if self.writer is None:
            self.writer = self._begun(rows)
        self.writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)

    def _begun(self, rows: pa.Table) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self.file, self.schema, version="2.6", coerce_timestamps="us", use_dictionary=with_dictionary(rows),
            metadata_collector=self.footers, write_statistics=_measured(self.schema),
            **{"compression": "snappy", **self.settings},
        )  # fmt: skip

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its size."""
        return bool(self.file.tell() >= FILE_BYTES)

    def close(self) -> dict[str, object]:
        """Finish the file and tell of it."""
        writer = self.writer or self._begun(self.schema.empty_table())
        writer.close()
        size = self.file.tell()
        self.file.close()
        metadata = self.footers[0]
        return {
            "path": self.path,
            "rows": metadata.num_rows,
            "bytes": size,
            "modified": time.time_ns() // 1_000_000,
            "details": self.describe(Footer(metadata, self.floats)),
        }

    def abort(self) -> None:
        """Drop the file."""
        self.file.close()
        self.storage.delete([self.path])


def pieces(storage: Storage, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in order, as that schema has them; a column that the file lacks is null."""
    # INT96 spans more years than nanoseconds do, and Spark writes no finer than microseconds.
    with pq.ParquetFile(storage.open_input(path), coerce_int96_timestamp_unit="us") as file:
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
    """The name of a column in a file: by its id where both have one, else the same but for case, as Spark finds it."""
    number = (field.metadata or {}).get(_ID)
    if number is not None:
        for found in stored:
            if (found.metadata or {}).get(_ID) == number:
                return str(found.name)
    if field.name in stored.names:
        return str(field.name)
    alike = [name for name in stored.names if name.casefold() == field.name.casefold()]
    if len(alike) > 1:
        raise TableError(f"column {field.name!r} could be {' or '.join(alike)} in a file")
    return alike[0] if alike else None


def _as(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    return array.cast(type_)


def _measured(fields: Iterable[pa.Field], above: str = "") -> list[str]:
    """The columns that get statistics in the file: none that is floating.

    Parquet's leave NaN out, and Spark, to which it is the greatest, would skip row groups that hold what it looks for.
    """
    paths: list[str] = []
    for f in fields:
        if pa.types.is_struct(f.type):
            paths += _measured(f.type, f"{above}{f.name}.")
        elif not pa.types.is_nested(f.type) and not pa.types.is_floating(f.type):
            paths.append(f"{above}{f.name}")
    return paths
