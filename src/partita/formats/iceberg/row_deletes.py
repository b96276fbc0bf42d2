"""Reading the row positions that position-delete files and deletion vectors delete.

Position-delete files never change, so each is read once per process. Deletion vectors (specification, "Deletion
Vectors"; Puffin, `deletion-vector-v1`) are read and never written.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from partita.cache import LruCache
from partita.errors import TableError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_POSITION_DELETE_COLUMNS = ["file_path", "pos"]
_MAX_CACHED_ROWS = 2_000_000
"""Rows of position-delete files that stay in memory."""
_position_delete_cache: LruCache[tuple[str, int], pa.Table] = LruCache(_MAX_CACHED_ROWS)
_MAX_THREADS = 16
"""Position-delete files that are read at the same time."""
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"


def read_position_delete_files(io: FileIO, files: Sequence[tuple[str, int]]) -> list[pa.Table]:
    """Read position-delete files, given by path and size, as tables of `file_path` and `pos`."""
    cached_positions = [_position_delete_cache.get(file) for file in files]
    missing = [file for file, rows in zip(files, cached_positions, strict=True) if rows is None]
    if len(missing) <= 1:
        tables = iter([_read_position_delete_file(io, *file) for file in missing])
    else:
        with ThreadPoolExecutor(min(_MAX_THREADS, len(missing))) as threads:
            tables = iter(list(threads.map(lambda file: _read_position_delete_file(io, *file), missing)))
    return [next(tables) if rows is None else rows for rows in cached_positions]


def _read_position_delete_file(io: FileIO, path: str, size: int) -> pa.Table:
    with io.new_input(path).open() as file:
        # Arrow's own threads are off: several files are read at once, and would wait for each other.
        table = pq.read_table(
            file, columns=_POSITION_DELETE_COLUMNS, read_dictionary=_POSITION_DELETE_COLUMNS[:1], use_threads=False
        )
    rows = pa.table({"file_path": table["file_path"].unify_dictionaries(), "pos": table["pos"].cast(pa.int64())})
    return _position_delete_cache.put((path, size), rows, rows.num_rows)


def read_deletion_vector(io: FileIO, entry: Mapping[str, Any]) -> np.ndarray:
    """Read the row positions of a deletion vector, ascending; `entry` has the path and the offset of its blob."""
    offset, size = entry["content_offset"], entry["content_size_in_bytes"]
    if offset is None or size is None:
        raise TableError(f"the deletion vector in {entry['path']} has no content_offset or content_size_in_bytes")
    with io.new_input(entry["path"]).open() as file:
        file.seek(offset)
        blob = file.read(size)
    return decode_deletion_vector(blob, entry["path"])


def decode_deletion_vector(blob: bytes, path: str) -> np.ndarray:
    """Decode the blob of a deletion vector; raise `TableError` if it is damaged."""
    length = int.from_bytes(blob[:4], "big")
    body, checksum = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if len(blob) != length + 8 or body[:4] != _VECTOR_MAGIC or zlib.crc32(body).to_bytes(4, "big") != checksum:
        raise TableError(f"the deletion vector in {path} is damaged")
    return np.array(BitMap64.deserialize(body[4:]).to_array(), np.int64)
