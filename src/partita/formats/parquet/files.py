"""The data files of a folder: which files of a listing they are, their partitions, and where new ones are written.

| in the folder | what it is |
|---|---|
| a file whose name, or that of a folder above it, begins with `.`, or with `_` and has no `=` | ignored |
| a file whose name ends in `._COPYING_` | ignored: Hadoop is still writing it |
| a file with no bytes | ignored: it has no rows |
| `*.parquet`, `*.parq`, `*.pq`, or any other file that begins with `PAR1` | a data file |
| any other file | ignored, but a folder of nothing else is refused |
| a file whose path isn't UTF-8 | refused: no engine but Python finds it |
| a symbolic link | refused: a listing doesn't follow it, and its rows would be lost |
| the metadata of a table in another format, here or below | refused, with the name of the format |
| partition folders of other columns than those of the first file | refused |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from partita.algebra.types import Field
from partita.cache import LruCache
from partita.errors import TableError
from partita.formats.nested_tables import nested_table_folders, table_formats_in
from partita.formats.parquet.commit import FolderFile, staged_path
from partita.formats.parquet.create import check_distinct_columns
from partita.formats.parquet.values import folder_texts, partition_folder
from partita.formats.parquet_files import ParquetSink
from partita.formats.registry import table_format
from partita.storage import Storage, StoredFile

_PARQUET_NAME = re.compile(r"\.(parquet|parq|pq)$", re.IGNORECASE)
_PARQUET_MAGIC = b"PAR1"
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""What Python makes of a byte in a name that isn't UTF-8."""
_MAX_THREADS = 32
_HUDI_FOLDER = ".hoodie/"
_is_parquet_cache: LruCache[tuple[str, FolderFile], bool] = LruCache(100_000)


@dataclass(frozen=True, slots=True)
class PartitionedFiles:
    """Data files, sorted by path, with the names of their partition columns and the texts of each column, by file."""

    files: tuple[FolderFile, ...]
    partition_names: tuple[str, ...]
    texts: tuple[pa.Array, ...]


def find_data_files(
    storage: Storage, stored_files: Sequence[StoredFile], visible_files: Sequence[FolderFile], format_name: str
) -> PartitionedFiles:
    """Return the data files among the visible files of a listing, as the head of this module says.

    Raises `TableError` for what it refuses.
    """
    _check_other_formats(storage, [file.path for file in stored_files], format_name)
    visible = [file for file in visible_files if file.size or file.is_link]
    link = next((file.path for file in visible if file.is_link), None)
    if link is not None:
        raise TableError(
            f"{link} in {storage.uri} is a symbolic link, which is not followed; put the files it leads to in its place"
        )
    undecoded_path = next((file.path for file in visible if _LONE_SURROGATE.search(file.path)), None)
    if undecoded_path is not None:
        raise TableError(f"{undecoded_path!r} in {storage.uri} has a name that is not UTF-8; rename it")
    files = _parquet_files(storage, visible)
    if visible and not files:
        raise TableError(
            f"{storage.uri} has no Parquet files, only others such as {visible[0].path}; open the folder that has "
            "them, or convert these to Parquet"
        )
    names, texts = _partition_texts(storage, files)
    return PartitionedFiles(tuple(files), names, texts)


def _check_other_formats(storage: Storage, paths: Sequence[str], format_name: str) -> None:
    other_names = sorted(table_formats_in(paths) - {format_name})
    if other_names:
        raise TableError(
            f"{storage.uri} is a table of {table_format(other_names[0]).title}, of whose files only its metadata says "
            f"which count; open it with format={other_names[0]!r}"
        )
    if any(path.startswith(_HUDI_FOLDER) for path in paths):
        raise TableError(f"{storage.uri} is a table of Hudi, which Partita doesn't read; export it to plain Parquet")
    nested_folder = min(nested_table_folders(path for path in paths if not path.startswith((".", "_"))), default=None)
    if nested_folder is not None:
        raise TableError(f"{storage.uri} has another table in it, {nested_folder}; open that one, or move it elsewhere")


def _parquet_files(storage: Storage, files: Sequence[FolderFile]) -> list[FolderFile]:
    """Return the Parquet files; those whose names don't say it are opened, many at once."""
    unnamed_files = [file for file in files if not _PARQUET_NAME.search(file.path)]
    if not unnamed_files:
        return list(files)
    with ThreadPoolExecutor(min(_MAX_THREADS, len(unnamed_files))) as threads:
        answers = threads.map(lambda file: _has_parquet_magic(storage, file), unnamed_files)
        other_paths = {file.path for file, is_parquet in zip(unnamed_files, answers, strict=True) if not is_parquet}
    return [file for file in files if file.path not in other_paths]


def _has_parquet_magic(storage: Storage, file: FolderFile) -> bool:
    key = (storage.uri, file)
    is_parquet = _is_parquet_cache.get(key)
    if is_parquet is not None:
        return is_parquet
    with storage.open_input(file.location) as stream:
        return _is_parquet_cache.put(key, stream.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC, 1)


def _partition_texts(storage: Storage, files: Sequence[StoredFile]) -> tuple[tuple[str, ...], tuple[pa.Array, ...]]:
    """Return the partition columns, and the texts of each column by file; each folder is parsed once."""
    pairs_by_folder: dict[str, tuple[tuple[str, str | None], ...]] = {}
    names: tuple[str, ...] | None = None
    for file in files:
        folder = file.path.rpartition("/")[0]
        if folder in pairs_by_folder:
            continue
        pairs = folder_texts(folder)
        own_names = None if pairs is None else tuple(name for name, _ in pairs)
        if names is None and own_names is not None:
            check_distinct_columns(own_names, f"the folder {folder} in {storage.uri}")
            names = own_names
        if pairs is None or own_names is None or casefold_names(own_names) != casefold_names(names or ()):
            raise TableError(
                f"the files of {storage.uri} are not partitioned alike: {files[0].path} and {file.path}; "
                "open the folders apart from each other"
            )
        pairs_by_folder[folder] = pairs
    rows = [pairs_by_folder[file.path.rpartition("/")[0]] for file in files]
    columns = tuple(pa.array([row[i][1] for row in rows], pa.string()) for i in range(len(names or ())))
    return names or (), columns


def casefold_names(names: Iterable[str]) -> list[str]:
    """Return names in the form in which they are compared without regard to case."""
    return [name.casefold() for name in names]


@dataclass(frozen=True, slots=True)
class ParquetTarget:
    """Where new files are staged: in the folders of their partitions, below that of one write."""

    storage: Storage
    stored_schema: pa.Schema
    partition_fields: tuple[Field, ...]
    write_id: str

    def open_sink(self, partition: tuple[str | None, ...], task: str) -> ParquetSink:
        """Open a new file in a partition."""
        folder = partition_folder(partition, self.partition_fields)
        name = f"part-{task}-{self.write_id}.c{uuid4().hex[:12]}.snappy.parquet"
        path = staged_path(f"{folder}/{name}" if folder else name, self.write_id)
        return ParquetSink(self.storage, path, self.stored_schema, lambda _: "")
