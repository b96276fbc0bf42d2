"""Folders of Parquet files, written with pyarrow alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import partita as pt
from partita.formats.parquet.state import ParquetTableVersion, load_table_version
from partita.formats.table_change import WRITTEN_FILE_SCHEMA
from partita.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_file(path: Path, modified: int | None = None, /, **columns: object) -> Path:
    """Write a file with some columns; with `modified` it is that many seconds from 1970 old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    if modified is not None:
        os.utime(path, (modified, modified))
    return path


def open_folder(folder: Path) -> pt.Table:
    return pt.open_table(str(folder), format="parquet")


def load_version(folder: Path | str) -> ParquetTableVersion:
    return load_table_version(Storage.from_uri(folder))


def bounds_of(folder: Path, name: str) -> dict[str, list[Any]]:
    """Return the lower and the upper bounds, the null counts and the row counts of a column, by file."""
    statistics = load_version(folder).statistics([name], None)[name]
    arrays = {kind: getattr(statistics, kind) for kind in ("lower", "upper", "null_count", "row_count")}
    return {kind: [] if array is None else array.to_pylist() for kind, array in arrays.items()}


def stage_files(version: ParquetTableVersion, rows_by_partition: Mapping[tuple[str | None, ...], pa.Table]) -> pa.Table:
    """Stage a file for each partition, as executors do."""
    target, written = version.write_target(), []
    for partition, rows in rows_by_partition.items():
        sink = target.open_sink(partition, "00000-0")
        sink.write(rows)
        written.append({**sink.close(), "partition": list(partition)})
    return pa.Table.from_pylist(written, WRITTEN_FILE_SCHEMA)


def visible_rows(folder: Path) -> list[dict[str, object]]:
    """Return what pyarrow reads of a folder, which knows nothing of Partita."""
    import pyarrow.dataset as ds

    rows: list[dict[str, object]] = ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
    return rows
