"""A folder in an object store, reached through obstore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from partita.errors import StorageError
from partita.storage.arrow_files import FileReader, FileWriter
from partita.storage.interface import Storage, StoredFile

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore.store import ObjectStore


@dataclass(frozen=True, slots=True)
class ObjectStorage(Storage):
    """A folder in an object store."""

    @property
    def is_local(self) -> bool:
        return False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        with self.translate_errors("write", path):
            try:
                self._store.put(path, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def put(self, path: str, data: bytes) -> None:
        with self.translate_errors("write", path):
            self._store.put(path, data, mode="overwrite")

    def get(self, path: str) -> bytes | None:
        with self.translate_errors("read", path):
            try:
                return bytes(self._store.get(path).bytes())
            except FileNotFoundError:
                return None

    def move(self, path: str, new_path: str) -> None:
        with self.translate_errors("move", path), suppress(FileNotFoundError):
            self._store.copy(path, new_path)
            self._store.delete(path)

    def exists(self, path: str) -> bool:
        with self.translate_errors("find", path):
            try:
                self._store.head(path)
            except FileNotFoundError:
                return False
            return True

    def list_folders(self, prefix: str = "") -> Sequence[str]:
        with self.translate_errors("list", prefix):
            folders = self._store.list_with_delimiter(prefix or None)["common_prefixes"]
            return sorted(path.rstrip("/").rpartition("/")[2] for path in folders)

    def list_paths(self, prefix: str = "", after: str = "") -> Iterator[tuple[str, int]]:
        with self.translate_errors("list", prefix):
            chunks = self._store.list(prefix or None, offset=after or None)
            entries = ((entry["path"], entry["size"]) for chunk in chunks for entry in chunk)
            return iter(sorted(entry for entry in entries if entry[0] > after))

    def list_files(self, prefix: str = "") -> Sequence[StoredFile]:
        with self.translate_errors("list", prefix):
            files = (
                StoredFile(entry["path"], entry["size"], entry["last_modified"].timestamp())
                for chunk in self._store.list(prefix or None)
                for entry in chunk
            )
            return sorted(files, key=lambda file: file.path)

    def list_links(self, prefix: str = "") -> Sequence[str]:  # noqa: ARG002
        return []

    def modified_time(self, path: str) -> float:
        with self.translate_errors("find", path):
            return self._store.head(path)["last_modified"].timestamp()

    def delete(self, paths: Iterable[str]) -> None:
        names = list(paths)
        if not names:
            return
        with self.translate_errors("delete", ", ".join(names[:3])):
            try:
                self._store.delete(names)
            except FileNotFoundError:
                # Google's store raises it for one missing object and deletes none of the others.
                for name in names:
                    with suppress(FileNotFoundError):
                        self._store.delete(name)

    def open_input(self, path: str) -> pa.NativeFile:
        import pyarrow as pa
        from obstore import open_reader

        with self.translate_errors("read", path):
            return pa.PythonFile(FileReader(open_reader(self._store, path), path, self), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        import pyarrow as pa
        from obstore import open_writer

        with self.translate_errors("write", path):
            if self.exists(path):
                raise FileExistsError("the file exists")
            file = open_writer(self._store, path)
            return pa.PythonFile(FileWriter(file, path, self, file.close), mode="w")

    def _uri_with_account(self) -> str:
        scheme, _, rest = self.uri.partition("://")
        if scheme != "az":
            return self.uri
        options = {name.lower(): value for name, value in self.options}
        account = next((options[name] for name in _ACCOUNT_OPTIONS if name in options), None)
        if account is None:
            raise StorageError(f"{self.uri} needs the option {_ACCOUNT_OPTIONS[0]}; or give it as abfss://")
        container, _, folder = rest.partition("/")
        return f"abfss://{container}@{account}.dfs.core.windows.net/{folder}"

    @property
    def _store(self) -> ObjectStore:
        return open_object_store(self.uri, self.options)

    def _foreign_errors(self) -> tuple[type[Exception], ...]:
        from obstore.exceptions import BaseError

        return OSError, ValueError, BaseError


_ACCOUNT_OPTIONS = ("azure_storage_account_name", "account_name")


@lru_cache(maxsize=64)
def open_object_store(uri: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    """Return obstore's store of a URI. It is shared within the process, because it holds the connections."""
    from obstore.store import from_url

    config: Any = {}
    client_options: Any = {}
    for name, value in options:
        option = name.lower().removeprefix("aws_")
        # Other tools take these as options of the store; obstore panics if it finds them there.
        if option in _HTTP_CLIENT_OPTIONS:
            client_options[option] = value
        else:
            config[name.lower()] = value
    return from_url(uri, config=config or None, client_options=client_options or None)


_HTTP_CLIENT_OPTIONS = frozenset(
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
"""Options of the HTTP client, which obstore takes separately from those of the store."""
