"""Files of a storage as the Python file objects that `pa.PythonFile` reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partita.storage.interface import Storage


class FileReader:
    """An open file that pyarrow reads with random access."""

    def __init__(self, file: Any, path: str, storage: Storage) -> None:
        self._file = file
        self._path = path
        self._storage = storage
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read that many bytes from the current position, or all that are left."""
        with self._storage.translate_errors("read", self._path):
            return bytes(self._file.read(None if size < 0 else size))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position and return it."""
        position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        """Return the current position."""
        position: int = self._file.tell()
        return position

    def readable(self) -> bool:
        """Return True, which pyarrow checks."""
        return True

    def seekable(self) -> bool:
        """Return True, which pyarrow checks."""
        return True

    def close(self) -> None:
        """Mark the file as closed."""
        self.closed = True


class FileWriter:
    """An open new file that pyarrow writes. `close_file` makes it durable and closes it."""

    def __init__(self, file: Any, path: str, storage: Storage, close_file: Callable[[], None]) -> None:
        self._file = file
        self._path = path
        self._storage = storage
        self._close_file = close_file
        self._bytes_written = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        """Append bytes and return how many there were."""
        with self._storage.translate_errors("write", self._path):
            self._file.write(data)
        self._bytes_written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._bytes_written

    def writable(self) -> bool:
        """Return True, which pyarrow checks."""
        return True

    def flush(self) -> None:
        """Do nothing: only `close` makes a file durable."""

    def close(self) -> None:
        """Make the file durable and close it; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        with self._storage.translate_errors("write", self._path):
            self._close_file()
