"""Position-delete files, each read once: they never change."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_COLUMNS = ["file_path", "pos"]
_HELD_ROWS = 2_000_000
"""So many rows of files stay in memory, those that were asked for last."""

_held: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
_lock = Lock()


def positions(io: FileIO, path: str, size: int) -> pa.Table:
    """The rows that a file of so many bytes marks as gone: `file_path` and `pos`."""
    with _lock:
        if (path, size) in _held:
            _held.move_to_end((path, size))
            return _held[path, size]
    with io.new_input(path).open() as file:
        # Threads of its own would wait for each other: several files are read at once.
        read = pq.read_table(file, columns=_COLUMNS, read_dictionary=_COLUMNS[:1], use_threads=False)
    rows = pa.table({"file_path": read["file_path"].unify_dictionaries(), "pos": read["pos"].cast(pa.int64())})
    with _lock:
        _held[path, size] = rows
        while sum(table.num_rows for table in _held.values()) > _HELD_ROWS:
            _held.popitem(last=False)
    return rows
