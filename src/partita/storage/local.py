"""A folder on a local disk: atomic and durable writes, and no way out of the folder through a path or a link."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from partita.errors import StorageError
from partita.storage.arrow_files import FileWriter
from partita.storage.interface import Storage, StoredFile

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class LocalStorage(Storage):
    """A folder on a local disk."""

    @property
    def is_local(self) -> bool:
        return True

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self.translate_errors("write", path):
            file = self._resolve_path(path)
            temporary = _write_temporary_file(file, data)
            try:
                # A rename would replace an existing file; a link fails.
                os.link(temporary, file)
            except FileExistsError:
                return False
            finally:
                temporary.unlink()
            _sync_folder(file.parent)
            return True

    def put(self, path: str, data: bytes) -> None:
        with self.translate_errors("write", path):
            file = self._resolve_path(path)
            temporary = _write_temporary_file(file, data)
            try:
                temporary.replace(file)
            except OSError:
                temporary.unlink()
                raise
            _sync_folder(file.parent)

    def get(self, path: str) -> bytes | None:
        with self.translate_errors("read", path):
            try:
                return self._resolve_path(path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def move(self, path: str, new_path: str) -> None:
        with self.translate_errors("move", path):
            target = self._resolve_new_file(new_path)
            with suppress(FileNotFoundError):
                self._resolve_path(path).rename(target)
            _sync_folder(target.parent)

    def exists(self, path: str) -> bool:
        with self.translate_errors("find", path):
            return self._resolve_path(path).is_file()

    def list_folders(self, prefix: str = "") -> Sequence[str]:
        with self.translate_errors("list", prefix):
            try:
                with os.scandir(self._resolve_path(prefix)) as entries:
                    return sorted(entry.name for entry in entries if entry.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def list_paths(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, int]]:
        files: list[tuple[str, int]] = []
        with self.translate_errors("list", prefix):
            for path, entry in _walk_entries(self._resolve_path(prefix), prefix):
                if path > after and not (entry.is_symlink() and entry.is_dir()):
                    with suppress(FileNotFoundError):  # deleted meanwhile, or a broken link
                        files.append((path, entry.stat().st_size))
        return iter(sorted(files))

    def list_files(self, prefix: str = "") -> Sequence[StoredFile]:
        files: list[StoredFile] = []
        with self.translate_errors("list", prefix):
            for path, entry in _walk_entries(self._resolve_path(prefix), prefix):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    stat = entry.stat(follow_symlinks=False)
                    files.append(StoredFile(path, stat.st_size, stat.st_mtime, entry.is_symlink()))
        return sorted(files, key=lambda file: file.path)

    def list_links(self, prefix: str = "") -> Sequence[str]:
        with self.translate_errors("list", prefix):
            return [path for path, entry in _walk_entries(self._resolve_path(prefix), prefix) if entry.is_symlink()]

    def modified_time(self, path: str) -> float:
        with self.translate_errors("find", path):
            return self._resolve_path(path).stat().st_mtime

    def arrival_time(self, file: StoredFile) -> float:
        """Return when a file came to its path: by a write, or by a move of the file or of a folder above it.

        The inode of a folder changes when the folder is moved, and with the folder's time when an entry comes or goes.
        """
        with self.translate_errors("find", file.path):
            path = self._resolve_path(file.path)
            try:
                file_status, folder_statuses = path.lstat(), [folder.stat() for folder in self._folders_of(path)]
            except FileNotFoundError:
                return file.modified_time
            move_times = [status.st_ctime for status in folder_statuses if status.st_ctime > status.st_mtime]
            return max(file.modified_time, file_status.st_ctime, *move_times)

    def _folders_of(self, path: Path) -> list[Path]:
        """Return the folders above a file, up to this one."""
        depth = len(path.relative_to(self.uri).parts)
        return list(path.parents)[:depth]

    def delete(self, paths: Iterable[str]) -> None:
        names = tuple(paths)
        with self.translate_errors("delete", ", ".join(names[:3])):
            for name in names:
                self._resolve_path(name)  # refuses paths outside of the folder
            unlink_files(self.uri, names)

    def open_input(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        with self.translate_errors("read", path):
            return pa.OSFile(str(self._resolve_path(path)), "rb")

    def open_output(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        with self.translate_errors("write", path):
            file = self._resolve_new_file(path).open("xb")

            def close_file() -> None:
                _sync_file(file)
                file.close()

            return pa.PythonFile(FileWriter(file, path, self, close_file), mode="w")

    def _resolve_path(self, path: str) -> Path:
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise StorageError(f"{path!r} is not a path inside of {self.uri}")
        return Path(self.uri, path)

    def _resolve_new_file(self, path: str) -> Path:
        """Create the folder of a new file; refuse one that a symbolic link would put outside of this folder."""
        file = self._resolve_path(path)
        root, parent = os.path.realpath(self.uri), os.path.realpath(file.parent)
        if not f"{parent}/".startswith(f"{root.rstrip('/')}/"):
            raise StorageError(f"{path!r} is behind a symbolic link that leads out of {self.uri}; remove the link")
        _create_folder(file.parent)
        return file


_TEMPORARY_PREFIX = ".partita-"


def _write_temporary_file(file: Path, data: bytes) -> Path:
    """Write a complete file into the same folder, under a name that listings leave out."""
    _create_folder(file.parent)
    temporary = file.parent / f"{_TEMPORARY_PREFIX}{uuid4()}"
    try:
        with temporary.open("xb") as out:
            out.write(data)
            _sync_file(out)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _create_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _create_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_file(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unlink_files(root: str, paths: Iterable[str]) -> None:
    """Delete files below a folder, without following a symbolic link on the way to any of them.

    Each folder is opened relative to its parent, so a folder that another process replaces by a link meanwhile is not
    followed either. If the file itself is a link, the link is deleted and not its target.
    """
    try:
        root_fd = os.open(root, _OPEN_FOLDER_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        for folder, files in groupby(sorted(paths), key=lambda path: path.rpartition("/")[0]):
            folder_fd = _open_folder(root_fd, folder)
            if folder_fd is None:
                continue
            try:
                for path in files:
                    with suppress(FileNotFoundError):
                        os.unlink(path.rpartition("/")[2], dir_fd=folder_fd)
            finally:
                os.close(folder_fd)
    finally:
        os.close(root_fd)


_OPEN_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY


def _open_folder(root_fd: int, folder: str) -> int | None:
    """Open a folder below another; return None if it doesn't exist or a symbolic link is on the way to it."""
    descriptor = os.dup(root_fd)
    for name in filter(None, folder.split("/")):
        try:
            child = os.open(name, _OPEN_FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return None
        finally:
            os.close(descriptor)
        descriptor = child
    return descriptor


def _walk_entries(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every file and link below a folder with its path; links to folders are not followed."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = f"{prefix.rstrip('/')}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk_entries(Path(entry.path), path)
        elif not entry.name.startswith(_TEMPORARY_PREFIX):
            yield path, entry
