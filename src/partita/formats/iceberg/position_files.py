"""Position-delete files, each read once: they never change."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from partita.kept import Kept

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_COLUMNS = ["file_path", "pos"]
_HELD_ROWS = 2_000_000
"""So many rows of files stay in memory."""
_held: Kept[tuple[str, int], pa.Table] = Kept(_HELD_ROWS)
_THREADS = 16
"""Files that are read at once."""


def positions_of(io: FileIO, files: Sequence[tuple[str, int]]) -> list[pa.Table]:
    """The rows that files, by path and size, mark as gone: `file_path` and `pos`; several are read at once."""
    held = [_held.find(file) for file in files]
    missing = [file for file, rows in zip(files, held, strict=True) if rows is None]
    if len(missing) <= 1:
        read = iter([_read(io, *file) for file in missing])
    else:
        with ThreadPoolExecutor(min(_THREADS, len(missing))) as threads:
            read = iter(list(threads.map(lambda file: _read(io, *file), missing)))
    return [next(read) if rows is None else rows for rows in held]


def _read(io: FileIO, path: str, size: int) -> pa.Table:
    with io.new_input(path).open() as file:
        # Threads of its own would wait for each other: several files are read at once.
        read = pq.read_table(file, columns=_COLUMNS, read_dictionary=_COLUMNS[:1], use_threads=False)
    rows = pa.table({"file_path": read["file_path"].unify_dictionaries(), "pos": read["pos"].cast(pa.int64())})
    return _held.keep((path, size), rows, rows.num_rows)
