"""What was decoded once, kept as Arrow files: manifests and manifest lists never change.

The files are in `manifests` of the user's cache folder, or of the folder that `PARTITA_CACHE` names; `off` keeps none.
They are mapped into memory, so that only the columns that are looked at are read. A file that can't be read is made
anew, and the ones that were used longest ago go when there are too many. Whatever goes wrong with the folder costs time
and nothing else.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from uuid import uuid4

import pyarrow as pa

DISK_BYTES = 4 * 2**30
"""How large the folder may grow."""
MEMORY_BYTES = 2**30
"""How much one process keeps; most of it is mapped, and not in memory before it is looked at."""

_FORM = b"1"
"""The form of the tables in the files; another form is another name."""


def cached(key: str, make: Callable[[], pa.Table]) -> pa.Table:
    """The table of that key, made where it isn't known yet."""
    table = found(key)
    return keep(key, make()) if table is None else table


def found(key: str) -> pa.Table | None:
    """The table of that key, or None where it has to be made."""
    table = _kept.get(key)
    if table is None:
        table, size = _read(key)
        if table is not None:
            _kept.put(key, table, size)
    return table


def keep(key: str, table: pa.Table) -> pa.Table:
    """Keep a table that was made; it is given back."""
    _write(key, table)
    _kept.put(key, table, table.nbytes)
    return table


def forget() -> None:
    """Drop what this process keeps; the files stay."""
    _kept.clear()


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


class _Kept:
    """Tables by their keys, the ones that were used longest ago dropped first."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, tuple[pa.Table, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: str) -> pa.Table | None:
        with self._lock:
            if key not in self._tables:
                return None
            self._tables.move_to_end(key)
            return self._tables[key][0]

    def put(self, key: str, table: pa.Table, size: int) -> None:
        with self._lock:
            if key in self._tables:
                return
            self._tables[key] = table, size
            self._bytes += size
            while self._bytes > MEMORY_BYTES and len(self._tables) > 1:
                _, (_, gone) = self._tables.popitem(last=False)
                self._bytes -= gone

    def clear(self) -> None:
        with self._lock:
            self._tables.clear()
            self._bytes = 0


_kept = _Kept()


def _folder() -> Path | None:
    chosen = os.environ.get("PARTITA_CACHE", "")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen, "manifests")
    home = os.environ.get("XDG_CACHE_HOME", "")
    # A path that isn't absolute is to be ignored (XDG Base Directory Specification).
    root = Path(home) if home.startswith("/") else Path("~/.cache").expanduser()
    return root / "partita" / "manifests"


def _file(key: str) -> Path | None:
    folder = _folder()
    return None if folder is None else folder / f"{sha256(_FORM + key.encode()).hexdigest()[:40]}.arrow"


def _read(key: str) -> tuple[pa.Table | None, int]:
    """The table in the file of that key, and how large the file is."""
    file = _file(key)
    if file is None:
        return None, 0
    try:
        mapped = pa.memory_map(str(file))
        table = pa.ipc.open_file(mapped).read_all()
        table.validate()
        os.utime(file)
    except (OSError, pa.ArrowException):
        return None, 0
    is_right = (table.schema.metadata or {}).get(b"key") == key.encode()
    return table.replace_schema_metadata() if is_right else None, mapped.size()


def _write(key: str, table: pa.Table) -> None:
    file = _file(key)
    if file is None:
        return
    aside = file.with_name(f"{uuid4()}.part")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with pa.OSFile(str(aside), "wb") as out, pa.ipc.new_file(out, table.schema.with_metadata({"key": key})) as to:
            to.write_table(table)
        aside.replace(file)
    except OSError:
        with suppress(OSError):
            aside.unlink()


def _sized(folder: Path) -> Iterable[tuple[float, int, Path]]:
    with suppress(OSError):
        for entry in os.scandir(folder):
            with suppress(OSError):
                stat = entry.stat()
                yield stat.st_mtime, stat.st_size, Path(entry.path)
