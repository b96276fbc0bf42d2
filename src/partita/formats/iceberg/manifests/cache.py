"""What was decoded once, kept as Arrow streams in files: manifests and manifest lists never change.

The files are in `manifests` of the user's cache folder, or of the folder that `PARTITA_CACHE` names; `off` keeps none.
They are mapped into memory, so that only the columns that are looked at are read. A file that is missing, was cut off
or is another's is made anew, and the ones that were used longest ago go when there are too many; a folder that can't be
written costs time and nothing else. Bytes that change within a file are not noticed: all of it would have to be read.
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

from partita.kept import Kept

DISK_BYTES = 4 * 2**30
"""How large the folder may grow."""
MEMORY_BYTES = 2**30
"""How much one process keeps; most of it is mapped, and not in memory before it is looked at."""

_FORM = b"2"
"""The form of the tables in the files; another form is another name."""


_kept: Kept[str, pa.Table] = Kept(MEMORY_BYTES)
# Listing the folder takes a tenth of a second for some thousand files, so not every change does it.
_next_eviction = SimpleNamespace(bytes_left=0)


def cached(key: str, make: Callable[[], pa.Table]) -> pa.Table:
    """The table of that key, made where it isn't known yet."""
    table = found(key)
    return keep(key, make()) if table is None else table


def found(key: str) -> pa.Table | None:
    """The table of that key, or None where it has to be made."""
    table = _kept.find(key)
    if table is None:
        table, size = _read(key)
        if table is not None:
            _kept.keep(key, table, size)
    return table


def keep(key: str, table: pa.Table) -> pa.Table:
    """Keep a table that was made; it is given back."""
    _write(key, table)
    _next_eviction.bytes_left -= table.nbytes
    return _kept.keep(key, table, table.nbytes)


def forget() -> None:
    """Drop what this process keeps; the files stay."""
    _kept.clear()


def evict_sometimes() -> None:
    """Evict files the first time that this process adds one, and then after every sixteenth of the folder's limit."""
    if _next_eviction.bytes_left <= 0:
        _next_eviction.bytes_left = DISK_BYTES // 16
        evict()


def evict(limit: int = DISK_BYTES) -> None:
    """Remove the files that were used longest ago until the folder is no larger than that."""
    folder = _folder()
    if folder is None:
        return
    found = sorted(_sized(folder))
    size = sum(bytes_ for _, bytes_, _ in found)
    for _, bytes_, path in found:
        if size <= limit:
            return
        with suppress(OSError):
            path.unlink()
            size -= bytes_


def _folder() -> Path | None:
    return _folder_by(*(os.environ.get(name, "") for name in ("PARTITA_CACHE", "XDG_CACHE_HOME", "HOME")))


@lru_cache(maxsize=8)
def _folder_by(chosen: str, cache: str, home: str) -> Path | None:
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen, "manifests")
    # A path that isn't absolute is to be ignored (XDG Base Directory Specification).
    root = Path(cache) if cache.startswith("/") else Path(home or "~", ".cache").expanduser()
    return root / "partita" / "manifests"


def _file(key: str) -> str | None:
    folder = _folder()
    return None if folder is None else f"{folder}/{sha256(_FORM + key.encode()).hexdigest()[:40]}.arrows"


def _read(key: str) -> tuple[pa.Table | None, int]:
    """The table in the file of that key, and how large the file is."""
    file = _file(key)
    if file is None:
        return None, 0
    try:
        mapped = pa.memory_map(file)
        # A file of Arrow's own form has its schema at the end, and takes two to three times as long to open.
        table = pa.ipc.open_stream(mapped).read_all()
        table.validate()
        is_right = table.schema.metadata == _about(key, table.num_rows)
        os.utime(file)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return None, 0
    return table.replace_schema_metadata() if is_right else None, mapped.size()


def _write(key: str, table: pa.Table) -> None:
    folder, file = _folder(), _file(key)
    if folder is None or file is None:
        return
    aside = folder / f"{uuid4()}.part"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        schema = table.schema.with_metadata(_about(key, table.num_rows))
        with pa.OSFile(str(aside), "wb") as out, pa.ipc.new_stream(out, schema) as to:
            to.write_table(table)
        aside.replace(file)
    except OSError:
        with suppress(OSError):
            aside.unlink()


def _about(key: str, rows: int) -> dict[bytes, bytes]:
    """What the schema in a file says of it; a stream that was cut off may end as one that wasn't, with fewer rows."""
    return {b"key": key.encode(), b"rows": str(rows).encode()}


_OWN_NAME = re.compile(r"[0-9a-f]{40}\.arrows|[0-9a-f-]{36}\.part")


def _sized(folder: Path) -> Iterable[tuple[float, int, Path]]:
    with suppress(OSError):
        for entry in os.scandir(folder):
            if not _OWN_NAME.fullmatch(entry.name):
                continue  # the user chose the folder, and may have put more there
            with suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                yield stat.st_mtime, stat.st_size, Path(entry.path)
