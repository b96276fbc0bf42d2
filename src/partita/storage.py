"""A folder that tables live in: on a local disk, or in an object store through obstore.

Paths are relative to the folder and plain text, with no URI encoding. A local disk keeps every name as it is; an object
store refuses control characters and empty segments, as `object_store` does.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from partita.errors import StorageError, value_repr

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore.store import ObjectStore


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a folder: its path there, size in bytes, and when it was last written in seconds from 1970.

    `is_link` is true of a symbolic link, to a file or to a folder; size and time are those of the link.
    """

    path: str
    size: int
    modified: float
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Storage:
    """A folder, and the settings with which its store is reached; `Storage.at` makes one.

    `uri` is an absolute path, or a URI such as `s3://bucket/folder`; `options` are obstore's names and their values.
    Whatever goes wrong below is a `StorageError`.
    """

    uri: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def at(cls, uri: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Self:
        """The folder of a local path, relative or not, of a `file:` URI, or of a URI that obstore knows."""
        place = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
        if not isinstance(place, str):
            raise StorageError(f"a folder is a path or a URI, not {value_repr(uri)}")
        if "\0" in place or _SURROGATE.search(place):
            raise StorageError(f"{place!r} is not a path: it has a NUL, or is not Unicode")
        given = {} if options is None else options
        if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
            raise StorageError(f"options of a store are texts by name, not {value_repr(options)}")
        return cls(_normalised(place), tuple(sorted(given.items())))

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a local disk."""
        return self.uri.startswith("/")

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file that isn't there yet, all of it or nothing; False where there is one already."""
        with self._translated("write", path):
            return _link_new(self._file(path), data) if self.is_local else _create(self._store(), path, data)

    def put(self, path: str, data: bytes) -> None:
        """Write a file, all of it or nothing, in place of what is there."""
        with self._translated("write", path):
            if self.is_local:
                _replace(self._file(path), data)
            else:
                self._store().put(path, data, mode="overwrite")

    def get(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none."""
        with self._translated("read", path):
            try:
                if self.is_local:
                    return self._file(path).read_bytes()
                return bytes(self._store().get(path).bytes())
            except (FileNotFoundError, NotADirectoryError):
                return None

    def exists(self, path: str) -> bool:
        """Whether there is a file of that path."""
        with self._translated("find", path):
            if self.is_local:
                return self._file(path).is_file()
            try:
                self._store().head(path)
            except FileNotFoundError:
                return False
            return True

    def folders(self, prefix: str = "") -> Sequence[str]:
        """The names of the folders right in a folder, sorted; one that doesn't exist has none."""
        with self._translated("list", prefix):
            if self.is_local:
                return sorted(_folders_in(self._file(prefix)))
            found = self._store().list_with_delimiter(prefix or None)["common_prefixes"]
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def list(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, int]]:
        """Path and size of every file in a folder and in those below it, in the order of the paths.

        Only paths greater than `after`, which is a path itself. A folder that doesn't exist has no files. Links to
        folders are not followed.
        """
        with self._translated("list", prefix):
            found = (
                _walked(self._file(prefix), prefix, after) if self.is_local else _listed(self._store(), prefix, after)
            )
            return iter(sorted((path, size) for path, size in found if path > after))

    def files(self, prefix: str = "") -> Sequence[StoredFile]:
        """Every file and every symbolic link in a folder and in those below it, in the order of the paths."""
        with self._translated("list", prefix):
            found = _files_below(self._file(prefix), prefix) if self.is_local else _objects(self._store(), prefix)
            return sorted(found, key=lambda file: file.path)

    def links(self, prefix: str = "") -> Sequence[str]:
        """The paths of the symbolic links in a folder and in those below it; an object store has none."""
        if not self.is_local:
            return []
        with self._translated("list", prefix):
            return [path for path, entry in _entries_below(self._file(prefix), prefix) if entry.is_symlink()]

    def modified(self, path: str) -> float:
        """When a file was last written, in seconds from 1970."""
        with self._translated("find", path):
            if self.is_local:
                return self._file(path).stat().st_mtime
            return self._store().head(path)["last_modified"].timestamp()

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those that don't exist are passed over, and so are those behind a symbolic link."""
        names = tuple(paths)
        with self._translated("delete", ", ".join(names[:3])):
            if self.is_local:
                for name in names:
                    self._file(name)  # checks the path
                unlink_below(self.uri, names)
            elif names:
                _delete(self._store(), names)

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, open for pyarrow to read from any place in it."""
        import pyarrow as pa

        with self._translated("read", path):
            if self.is_local:
                return pa.OSFile(str(self._file(path)), "rb")
            return pa.PythonFile(_Reading(self._store(), path, self), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file, open for pyarrow to write; on disk once it is closed. A file that exists is refused."""
        import pyarrow as pa
        from obstore import open_writer

        with self._translated("write", path):
            if self.is_local:
                return pa.PythonFile(_Writing(self._new_file(path), path, self), mode="w")
            if self.exists(path):
                raise FileExistsError("the file exists")
            return pa.PythonFile(_Writing(open_writer(self._store(), path), path, self), mode="w")

    def location(self, path: str = "") -> str:
        """The path as Spark's Hadoop layer takes it: plain on a local disk, else a URI with Hadoop's scheme."""
        root = self.uri if self.is_local else self._hadoop_root()
        return f"{root.rstrip('/')}/{path}" if path else root

    def _hadoop_root(self) -> str:
        scheme, _, rest = self.uri.partition("://")
        if scheme != "az":
            return f"{'s3a' if scheme == 's3' else scheme}://{rest}"
        given = {name.lower(): value for name, value in self.options}
        account = next((given[name] for name in _ACCOUNTS if name in given), None)
        if account is None:
            raise StorageError(f"{self.uri} needs the option {_ACCOUNTS[0]}; or give it as abfss://")
        container, _, folder = rest.partition("/")
        return f"abfss://{container}@{account}.dfs.core.windows.net/{folder}"

    def _store(self) -> ObjectStore:
        return _store(self.uri, self.options)

    def _file(self, path: str) -> Path:
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise StorageError(f"{path!r} is not a path inside of {self.uri}")
        return Path(self.uri, path)

    def _new_file(self, path: str) -> Any:
        """A new file, open; one that would lie outside of the folder, behind a link, is refused."""
        file = self._file(path)
        root, above = os.path.realpath(self.uri), os.path.realpath(file.parent)
        if not f"{above}/".startswith(f"{root.rstrip('/')}/"):
            raise StorageError(f"{path!r} is behind a symbolic link that leads out of {self.uri}; remove the link")
        _make_folder(file.parent)
        return file.open("xb")

    @contextmanager
    def _translated(self, doing: str, path: str) -> Iterator[None]:
        """Foreign errors as `StorageError`s that say what was done to which path."""
        from obstore.exceptions import BaseError

        try:
            yield
        except StorageError:
            raise
        except (OSError, BaseError, ValueError) as error:
            # obstore puts its own structs behind the first line.
            reason = str(error).partition("\n")[0]
            raise StorageError(f"can't {doing} {path!r} in {self.uri}: {reason}") from error


_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Half of a character; those in between stand for bytes of a name on a local disk that are not UTF-8."""
_ACCOUNTS = ("azure_storage_account_name", "account_name")
_TEMPORARY = ".partita-"


def _normalised(uri: str) -> str:
    scheme, colon, rest = uri.partition("://")
    if uri.startswith("file:/") and not uri.startswith("file://"):
        # So Hadoop writes a path, and encodes nothing in it.
        return os.path.abspath(uri.removeprefix("file:"))  # noqa: PTH100 - as below
    if not colon or "/" in scheme:
        return os.path.abspath(uri)  # noqa: PTH100 - Path.absolute keeps the dots, Path.resolve follows links
    if scheme == "file":
        return os.path.abspath(unquote(urlsplit(uri).path))  # noqa: PTH100 - the same
    return f"{'s3' if scheme == 's3a' else scheme}://{rest.rstrip('/')}"


@lru_cache(maxsize=64)
def _store(uri: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    """The store of a URI; one for each process, for it holds the connections."""
    from obstore.store import from_url

    config: Any = {}
    client: Any = {}
    for name, value in options:
        bare = name.lower().removeprefix("aws_")
        # Others count these as the store's own; obstore panics where they are.
        if bare in _OF_CLIENTS:
            client[bare] = value
        else:
            config[name.lower()] = value
    return from_url(uri, config=config or None, client_options=client or None)


_OF_CLIENTS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""Options of the HTTP client, which obstore takes apart from those of the store."""


# --- object stores


def _create(store: ObjectStore, path: str, data: bytes) -> bool:
    from obstore.exceptions import AlreadyExistsError

    try:
        store.put(path, data, mode="create", use_multipart=False)
    except AlreadyExistsError:
        return False
    return True


def _listed(store: ObjectStore, prefix: str, after: str) -> Iterator[tuple[str, int]]:
    for chunk in store.list(prefix or None, offset=after or None):
        yield from ((found["path"], found["size"]) for found in chunk)


def _objects(store: ObjectStore, prefix: str) -> Iterator[StoredFile]:
    for chunk in store.list(prefix or None):
        yield from (StoredFile(each["path"], each["size"], each["last_modified"].timestamp()) for each in chunk)


def _delete(store: ObjectStore, paths: tuple[str, ...]) -> None:
    try:
        store.delete(list(paths))
    except FileNotFoundError:
        # Google's store says so of one, and leaves the others.
        for path in paths:
            with suppress(FileNotFoundError):
                store.delete(path)


class _Reading:
    """An object as the file that `pa.PythonFile` reads."""

    def __init__(self, store: ObjectStore, path: str, storage: Storage) -> None:
        from obstore import open_reader

        self._file = open_reader(store, path)
        self._path = path
        self._storage = storage
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        with self._storage._translated("read", self._path):  # noqa: SLF001 - of this module
            return bytes(self._file.read(None if size < 0 else size))

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class _Writing:
    """A file or an object as the file that `pa.PythonFile` writes; durable once closed."""

    def __init__(self, file: Any, path: str, storage: Storage) -> None:
        self._file = file
        self._path = path
        self._storage = storage
        self._written = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        with self._storage._translated("write", self._path):  # noqa: SLF001 - of this module
            self._file.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is on disk before `close`."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with self._storage._translated("write", self._path):  # noqa: SLF001 - of this module
            if self._storage.is_local:
                _sync(self._file)
            self._file.close()


# --- the local disk


def _link_new(file: Path, data: bytes) -> bool:
    temporary = _written_aside(file, data)
    try:
        # A link, for a rename replaces what is there.
        os.link(temporary, file)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    _sync_folder(file.parent)
    return True


def _replace(file: Path, data: bytes) -> None:
    temporary = _written_aside(file, data)
    try:
        temporary.replace(file)
    except OSError:
        temporary.unlink()
        raise
    _sync_folder(file.parent)


def _written_aside(file: Path, data: bytes) -> Path:
    """A complete file in the same folder, under a name that no listing shows."""
    _make_folder(file.parent)
    temporary = file.parent / f"{_TEMPORARY}{uuid4()}"
    try:
        with temporary.open("xb") as out:
            out.write(data)
            _sync(out)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unlink_below(root: str, paths: Iterable[str]) -> None:
    """Delete files given by their paths below a folder, and follow no symbolic link on the way to any of them.

    Each folder is opened from the one above it, so that one that another process replaces by a link meanwhile is not
    followed either. A file that is itself a link is deleted, and not what it points to.
    """
    try:
        top = os.open(root, _FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        for folder, files in groupby(sorted(paths), key=lambda path: path.rpartition("/")[0]):
            handle = _open_below(top, folder)
            if handle is None:
                continue
            try:
                for path in files:
                    with suppress(FileNotFoundError):
                        os.unlink(path.rpartition("/")[2], dir_fd=handle)
            finally:
                os.close(handle)
    finally:
        os.close(top)


_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY


def _open_below(top: int, folder: str) -> int | None:
    """A handle of a folder below another; None where there is none, or a link is on the way to it."""
    handle = os.dup(top)
    for name in filter(None, folder.split("/")):
        try:
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return None
        finally:
            os.close(handle)
        handle = below
    return handle


def _walked(folder: Path, prefix: str, after: str) -> Iterator[tuple[str, int]]:
    for path, entry in _entries_below(folder, prefix):
        if path > after and not (entry.is_symlink() and entry.is_dir()):
            with suppress(FileNotFoundError):  # deleted since, or a link to nothing
                yield path, entry.stat().st_size


def _files_below(folder: Path, prefix: str) -> Iterator[StoredFile]:
    for path, entry in _entries_below(folder, prefix):
        with suppress(FileNotFoundError):  # deleted since
            found = entry.stat(follow_symlinks=False)
            yield StoredFile(path, found.st_size, found.st_mtime, entry.is_symlink())


def _entries_below(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file in a folder and in those below it; links to folders are not followed."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = f"{prefix.rstrip('/')}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _entries_below(Path(entry.path), path)
        elif not entry.name.startswith(_TEMPORARY):
            yield path, entry


def _folders_in(folder: Path) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from (entry.name for entry in entries if entry.is_dir())
