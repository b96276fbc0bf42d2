"""The interface of a folder that tables live in.

Paths are relative to the folder and plain text, with no URI encoding. A local disk accepts every name; an object store
refuses control characters and empty segments, as the `object_store` crate does.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from partita.errors import StorageError, value_repr
from partita.storage.hadoop import hadoop_location

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a folder: its path, its size in bytes, and when it was last written in seconds since 1970.

    `is_link` is true for a symbolic link to a file or a folder; its size and time are those of the link itself.
    """

    path: str
    size: int
    modified_time: float
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Storage(ABC):
    """A folder, and the options with which its store is reached. `Storage.from_uri` opens one.

    `uri` is an absolute path, or a URI such as `s3://bucket/folder`; `options` are pairs of obstore's option names and
    their values. Every method raises `StorageError` when the disk or the store fails.
    """

    uri: str
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def from_uri(uri: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Storage:
        """Return the storage of a local path, of a `file:` URI, or of a URI that obstore supports."""
        # Both modules import this one.
        from partita.storage.local import LocalStorage
        from partita.storage.object_store import ObjectStorage

        text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
        if not isinstance(text, str):
            raise StorageError(f"a folder must be a path or a URI, not {value_repr(uri)}")
        if "\0" in text or _LONE_SURROGATE.search(text):
            raise StorageError(f"{text!r} is not a path: it has a NUL, or is not Unicode")
        settings = {} if options is None else options
        if not isinstance(settings, Mapping) or not all(isinstance(t, str) for pair in settings.items() for t in pair):
            raise StorageError(f"the options of a store map names to strings, not {value_repr(options)}")
        location = _normalize_uri(text)
        storage_class = LocalStorage if location.startswith("/") else ObjectStorage
        return storage_class(location, tuple(sorted(settings.items())))

    def with_uri(self, uri: str) -> Self:
        """Return the storage of another folder in the same store, reached with the same options."""
        return replace(self, uri=uri)

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether the folder is on a local disk."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a new file atomically. Return False, and change nothing, if the file exists."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a file atomically, replacing the file at that path if there is one."""

    @abstractmethod
    def get(self, path: str) -> bytes | None:
        """Return the bytes of a file, or None if it doesn't exist."""

    @abstractmethod
    def move(self, path: str, new_path: str) -> None:
        """Move a file to a path where there is none, in one step on a disk and by a copy in an object store.

        A file that doesn't exist is skipped: another process may have moved it.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file at that path."""

    @abstractmethod
    def list_folders(self, prefix: str = "") -> Sequence[str]:
        """Return the sorted names of the direct subfolders of a folder; a missing folder has none."""

    @abstractmethod
    def list_paths(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, int]]:
        """Return path and size of every file below a folder, sorted by path.

        Only paths greater than `after`, itself a path, are returned. A missing folder has no files. Symbolic links to
        folders are not followed.
        """

    @abstractmethod
    def list_files(self, prefix: str = "") -> Sequence[StoredFile]:
        """Return every file and every symbolic link below a folder, sorted by path."""

    @abstractmethod
    def list_links(self, prefix: str = "") -> Sequence[str]:
        """Return the paths of the symbolic links below a folder; an object store has none."""

    @abstractmethod
    def modified_time(self, path: str) -> float:
        """Return when a file was last written, in seconds since 1970."""

    def arrival_time(self, file: StoredFile) -> float:
        """Return when a file came to its path, in seconds since 1970, as far as the store tells that."""
        return file.modified_time

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files. Missing files, and files behind a symbolic link, are skipped."""

    @abstractmethod
    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for pyarrow to read, with random access."""

    @abstractmethod
    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for pyarrow to write; it is durable once closed. An existing file is refused."""

    def hadoop_location(self, path: str = "") -> str:
        """Return the location that Hadoop takes for a file in this folder, or for the folder."""
        root = hadoop_location(self._uri_with_account())
        return f"{root.rstrip('/')}/{path}" if path else root

    def _uri_with_account(self) -> str:
        """Return the URI of the folder, with the account of the store if other programs need it."""
        return self.uri

    @contextmanager
    def translate_errors(self, operation: str, path: str) -> Iterator[None]:
        """Raise errors of the disk or of obstore as a `StorageError` that names the operation and the path."""
        try:
            yield
        except StorageError:
            raise
        except self._foreign_errors() as error:
            # obstore's messages continue with Rust structs after the first line.
            reason = str(error).partition("\n")[0]
            raise StorageError(f"can't {operation} {path!r} in {self.uri}: {reason}") from error

    def _foreign_errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that the disk or the store raises."""
        return OSError, ValueError


_LONE_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Surrogates that are no part of a character; those from U+DC80 to U+DCFF stand for non-UTF-8 bytes of local names."""


def _normalize_uri(uri: str) -> str:
    """Return an absolute path for a local folder, else the URI without a trailing slash and with `s3` for `s3a`."""
    scheme, separator, rest = uri.partition("://")
    if uri.startswith("file:/") and not uri.startswith("file://"):
        # Hadoop writes local paths this way, without URI encoding.
        return os.path.abspath(uri.removeprefix("file:"))  # noqa: PTH100 - Path.resolve would follow links
    if not separator or "/" in scheme:
        return os.path.abspath(uri)  # noqa: PTH100 - the same
    if scheme == "file":
        return os.path.abspath(unquote(urlsplit(uri).path))  # noqa: PTH100 - the same
    return f"{'s3' if scheme == 's3a' else scheme}://{rest.rstrip('/')}"
