"""Files that others brought into a table as they were: without the ids of columns, or without some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from partita.errors import UnsupportedFeature

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

NAME_MAPPING = "schema.name-mapping.default"
"""The property of a table that may have such files."""

_AT_ONCE = 8


def check_have_ids(io: FileIO, paths: Sequence[str]) -> None:
    """Refuse files whose columns could be found by name alone; only their footers are read, and each once."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for path, has_ids in zip(paths, pool.map(lambda path: _has_ids(io, path), paths), strict=True):
            if not has_ids:
                what = f"files without field ids, such as {path}; rewrite them with the engine that added them"
                raise UnsupportedFeature((what,), "reading")


def check_have_column(io: FileIO, paths: Sequence[str], field_id: int, name: str) -> None:
    """Refuse files that leave out a column because their partition says its value."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for path, ids in zip(paths, pool.map(lambda path: _ids(io, path), paths), strict=True):
            if field_id not in ids:
                what = f"files that leave out their partition's column {name!r}, such as {path}; rewrite them with the "
                raise UnsupportedFeature((f"{what}engine that added them",), "reading")


def _has_ids(io: FileIO, path: str) -> bool:
    return None not in _ids(io, path)


@lru_cache(maxsize=100_000)
def _ids(io: FileIO, path: str) -> frozenset[int | None]:
    """The ids of a file's columns; None among them where one has none."""
    with io.new_input(path).open() as file:
        schema = pq.read_schema(file)
    found = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
    return frozenset(None if text is None else int(text) for text in found)
