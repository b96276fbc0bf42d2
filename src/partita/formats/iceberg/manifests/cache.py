"""The cache of decoded manifests and manifest lists, which never change, as Arrow streams in files.

The files are in `manifests` of the user's cache folder, or of the folder that `PARTITA_CACHE` names; `off` disables
them. They are memory-mapped, so only the columns that are used are read. A file that is missing, truncated or of
another key is written again, and the least recently used files are deleted when there are too many. A folder that can't
be written costs only time. Changed bytes within a file are not noticed: that would need reading all of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pyarrow as pa

from partita.cache import LruCache

MAX_DISK_BYTES = 4 * 2**30
"""The largest size of the folder."""
MAX_MEMORY_BYTES = 2**30
"""Bytes that one process keeps; most of it is mapped, and not in memory until it is used."""

_CACHE_VERSION = b"2"
"""The version of the layout of the tables, which is part of the file names."""


_memory_cache: LruCache[str, pa.Table] = LruCache(MAX_MEMORY_BYTES)
# Listing the folder takes a tenth of a second for some thousand files, so it isn't done on every write.
_next_eviction = SimpleNamespace(bytes_left=0)


def get_or_create(key: str, create: Callable[[], pa.Table]) -> pa.Table:
    """Return the table of a key, created if it isn't cached."""
    table = get_table(key)
    return put_table(key, create()) if table is None else table


def get_table(key: str) -> pa.Table | None:
    """Return the cached table of a key; None if there is none."""
    table = _memory_cache.get(key)
    if table is None:
        table, size = _read_table(key)
        if table is not None:
            _memory_cache.put(key, table, size)
    return table


def put_table(key: str, table: pa.Table) -> pa.Table:
    """Cache a table and return it."""
    _write_table(key, table)
    _next_eviction.bytes_left -= table.nbytes
    return _memory_cache.put(key, table, table.nbytes)


def clear_memory() -> None:
    """Drop what this process keeps in memory; the files stay."""
    _memory_cache.clear()


def evict_periodically() -> None:
    """Evict files the first time that this process adds one, then after every sixteenth of the folder's limit."""
    if _next_eviction.bytes_left <= 0:
        _next_eviction.bytes_left = MAX_DISK_BYTES // 16
        evict_files()


def evict_files() -> None:
    """Delete the least recently used files until the folder is no larger than `MAX_DISK_BYTES`."""
    folder = _cache_folder()
    if folder is None:
        return
    files = sorted(_stat_files(folder))
    folder_size = sum(file_size for _, file_size, _ in files)
    for _, file_size, path in files:
        if folder_size <= MAX_DISK_BYTES:
            return
        with suppress(OSError):
            path.unlink()
            folder_size -= file_size


def _cache_folder() -> Path | None:
    return _cache_folder_from(*(os.environ.get(name, "") for name in ("PARTITA_CACHE", "XDG_CACHE_HOME", "HOME")))


@lru_cache(maxsize=8)
def _cache_folder_from(configured_folder: str, xdg_cache_home: str, home: str) -> Path | None:
    if configured_folder == "off":
        return None
    if configured_folder:
        return Path(configured_folder, "manifests")
    # A relative path must be ignored (XDG Base Directory Specification).
    root = Path(xdg_cache_home) if xdg_cache_home.startswith("/") else Path(home or "~", ".cache").expanduser()
    return root / "partita" / "manifests"


def _cache_file(key: str) -> str | None:
    folder = _cache_folder()
    return None if folder is None else f"{folder}/{sha256(_CACHE_VERSION + key.encode()).hexdigest()[:40]}.arrows"


def _read_table(key: str) -> tuple[pa.Table | None, int]:
    """Read the table in the file of a key; return it with the size of the file."""
    file = _cache_file(key)
    if file is None:
        return None, 0
    try:
        mapped_file = pa.memory_map(file)
        # The Arrow file format has its schema at the end, and takes two to three times as long to open.
        table = pa.ipc.open_stream(mapped_file).read_all()
        table.validate()
        is_valid = table.schema.metadata == _schema_metadata(key, table.num_rows)
        os.utime(file)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None, 0
    return table.replace_schema_metadata() if is_valid else None, mapped_file.size()


def _write_table(key: str, table: pa.Table) -> None:
    folder, file = _cache_folder(), _cache_file(key)
    if folder is None or file is None:
        return
    temporary_file = folder / f"{uuid4()}.part"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        schema = table.schema.with_metadata(_schema_metadata(key, table.num_rows))
        with pa.OSFile(str(temporary_file), "wb") as stream, pa.ipc.new_stream(stream, schema) as writer:
            writer.write_table(table)
        temporary_file.replace(file)
    except OSError:
        with suppress(OSError):
            temporary_file.unlink()


def _schema_metadata(key: str, row_count: int) -> dict[bytes, bytes]:
    """Return the schema metadata of a file; the row count detects a stream that was truncated between two batches."""
    return {b"key": key.encode(), b"rows": str(row_count).encode()}


_CACHE_FILE_NAME = re.compile(r"[0-9a-f]{40}\.arrows|[0-9a-f-]{36}\.part")


def _stat_files(folder: Path) -> Iterable[tuple[float, int, Path]]:
    with suppress(OSError):
        for entry in os.scandir(folder):
            if not _CACHE_FILE_NAME.fullmatch(entry.name):
                continue  # the user chose the folder, and may have other files there
            with suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                yield stat.st_mtime, stat.st_size, Path(entry.path)
