"""The data files of a Delta table: where new files go, how files are copied, and their actions in the log."""

from __future__ import annotations

import os
import random
import re
import stat
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.types import FLOAT_KINDS, Field, LogicalType
from partita.errors import TableError
from partita.formats.containment import FolderLocation
from partita.formats.delta.log import DeltaMetadata, TableRoot, column_mapping_mode, is_absolute, physical_names
from partita.formats.delta.statistics import DeltaStatisticsEncoder
from partita.formats.parquet_files import ParquetSink, read_row_groups
from partita.formats.partition_texts import encode_partition, parse_partition
from partita.formats.partition_texts.uri import encode_uri
from partita.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """Where new files go: a directory for each partition, or a random prefix of `random_prefix_length` characters.

    `partition_schema` has the partition columns; directories show timestamps in `time_zone`.
    """

    storage: Storage
    stored_schema: pa.Schema
    partition_schema: Schema
    statistics_encoder: DeltaStatisticsEncoder
    time_zone: str
    random_prefix_length: int

    def open_sink(self, partition: tuple[str | None, ...], task: str) -> ParquetSink:
        """Open a new file in a partition."""
        name = f"part-{task}-{uuid4()}.c000.snappy.parquet"
        folder = (
            _random_folder_name(self.random_prefix_length)
            if self.random_prefix_length
            else self._partition_directory(partition)
        )
        path = f"{folder}/{name}" if folder else name
        return ParquetSink(self.storage, path, self.stored_schema, self.statistics_encoder)

    def _partition_directory(self, partition: tuple[str | None, ...]) -> str:
        if not partition:
            return ""
        return encode_partition(
            self.partition_values(partition), self.partition_schema, time_zone=self.time_zone
        ).directory

    def partition_values(self, partition: tuple[str | None, ...]) -> dict[str, object]:
        """Parse the texts of a partition into typed values by column."""
        return parse_partition(dict(zip(self.partition_schema.names, partition, strict=True)), self.partition_schema)


@dataclass(frozen=True, slots=True)
class DeltaCopier:
    """Copy files into new files of the same partitions, in the table's folder.

    `paths` are canonical; absolute ones, as shallow clones have, are outside of the table's folder. `by_id` says that
    columns in files are found by field id instead of by name.
    """

    target: DeltaTarget
    paths: tuple[str, ...]
    partition_texts: tuple[tuple[str | None, ...], ...]
    by_id: bool

    def read_batches(self, file: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file."""
        return read_row_groups(
            *containing_storage(self.target.storage, self.paths[file]), self.target.stored_schema, by_id=self.by_id
        )

    def file_partition_texts(self, file: int) -> tuple[str | None, ...]:
        """Return the texts of the partition of a file."""
        return self.partition_texts[file]

    def open_sink(self, file: int, task: str) -> ParquetSink:
        """Open a new file in the partition of a file."""
        return self.target.open_sink(self.partition_texts[file], task)


def containing_storage(storage: Storage, path: str) -> tuple[Storage, str]:
    """Return the folder to read a canonical path from, and the path in it: the table's folder, or that of the file."""
    if not is_absolute(path):
        return storage, path
    folder, _, name = path.rpartition("/")
    return Storage.from_uri(folder, dict(storage.options)), name


def resolve_file_paths(storage: Storage, files: pa.Table) -> list[str]:
    """Return the canonical paths of files that are to be read; `files` has `path` and `size` as the log has them.

    Raises `TableError` for a path that leaves the table's folder by `..` or by a symbolic link. Absolute paths without
    either are valid, as in shallow clones. On a local disk it also raises for a folder in the place of a file, and for
    an empty file that the log gives a size, since Spark would read no rows of them.
    """
    root, location = TableRoot.of(storage), FolderLocation.from_uri(storage.uri)
    canonical_paths = []
    for path, size in zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True):
        canonical_path = root.canonical_path(path)
        must_be_inside = not is_absolute(canonical_path) or not is_absolute(path) or _has_parent_segments(path)
        if must_be_inside and not _is_inside_folder(storage, location, canonical_path):
            raise TableError(
                f"the file {path} of the table at {storage.uri} is not read: '..' or a symbolic link in its path leads "
                "out of the table's folder; copy the file into the folder, or name it by its absolute path in the log"
            )
        _check_file(storage, canonical_path, size)
        canonical_paths.append(canonical_path)
    return canonical_paths


def _check_file(storage: Storage, canonical_path: str, size: int | None) -> None:
    """Raise `TableError` if a local path is not a file, or is empty though the log gives it a size.

    A missing file is left to Spark. Files in object stores are not checked: that would take a request for each.
    """
    folder, name = containing_storage(storage, canonical_path)
    if not folder.is_local:
        return
    file = f"{folder.uri}/{name}"
    try:
        status = os.stat(file)  # noqa: PTH116 - a str, as Storage has it
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(status.st_mode):
        raise TableError(f"a data file of the table is damaged: {file} is not a file; restore it, or the table")
    if status.st_size == 0 and size != 0:
        raise TableError(f"a data file of the table is damaged: {file} has 0 bytes; restore it, or the table")


def _has_parent_segments(path: str) -> bool:
    return ".." in re.split("/|%2[Ff]", path.replace("%2e", ".").replace("%2E", "."))


def paths_outside_folder(storage: Storage, paths: Iterable[str]) -> list[str]:
    """Return those paths of the log that are outside of the table's folder."""
    root, location = TableRoot.of(storage), FolderLocation.from_uri(storage.uri)
    return [path for path in paths if not _is_inside_folder(storage, location, root.canonical_path(path))]


def _is_inside_folder(storage: Storage, location: FolderLocation, canonical_path: str) -> bool:
    """Whether a file is in the table's folder after symbolic links are resolved."""
    if is_absolute(canonical_path):
        return False
    if not storage.is_local:
        return True
    file = f"{storage.uri}/{canonical_path}"
    return location.relative_path(os.path.realpath(file) if os.path.islink(file) else file) is not None  # noqa: PTH114 - a text


def add_file_action(
    written_file: Mapping[str, Any], partition_schema: Schema, physical: Mapping[str, str], *, data_change: bool = True
) -> dict[str, Any]:
    """Return the `add` action of a written file; `data_change` says whether it changes the table's rows."""
    texts = zip(partition_schema, written_file["partition"] or (), strict=True)
    values = {physical[column.name]: _log_partition_value(text, column) for column, text in texts}
    return {
        "add": {
            "path": encode_uri(written_file["path"]),
            "partitionValues": values,
            "size": written_file["bytes"],
            "modificationTime": written_file["modified"],
            "dataChange": data_change,
            "stats": written_file["details"],
        }
    }


def _log_partition_value(text: str | None, column: Field) -> str | None:
    """Return a partition text as the log has it: the shortest text of a float, which Spark doesn't always write.

    Other texts stay as they are: those of older writers, as local times, may not survive parsing.
    """
    if column.type.kind not in FLOAT_KINDS:
        return text
    schema = Schema((column,))
    return encode_partition(parse_partition({column.name: text}, schema), schema).values[column.name]


def remove_file_action(file: Mapping[str, Any], deletion_timestamp: int, *, data_change: bool = True) -> dict[str, Any]:
    """Return the `remove` action of a file; `data_change` says whether it changes the table's rows."""
    return {
        "remove": {
            "path": file["path"],
            "deletionTimestamp": deletion_timestamp,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": file["partition_values"] or {},
            "size": file["size"],
        }
    }


def _random_folder_name(length: int) -> str:
    return "".join(random.choices(string.ascii_letters + string.digits, k=length))  # noqa: S311 - spreads, hides nothing


def random_prefix_length(metadata: DeltaMetadata) -> int:
    """Return the length of the names of random folders; 0 if data files are in folders by partition value."""
    settings = metadata.configuration
    is_random = settings.get("delta.randomizeFilePrefixes", "false").casefold() == "true"
    if not is_random and column_mapping_mode(metadata) == "none":
        return 0
    return int(settings.get("delta.randomPrefixLength", "2"))


_DEFAULT_INDEXED_COLUMNS = 32
"""How many columns have statistics unless the table's configuration says otherwise."""


def data_skipping_columns(metadata: DeltaMetadata, stored_schema: pa.Schema) -> dict[str, LogicalType]:
    """Return the types of the columns that get statistics, by their names in files."""
    settings = metadata.configuration
    listed_columns = settings.get("delta.dataSkippingStatsColumns")
    physical = physical_names(metadata)
    types = {physical[f.name]: f.type for f in schema_from_json(metadata.schema_json)}
    if listed_columns is not None:
        names = {physical.get(name.strip().strip("`"), "") for name in listed_columns.split(",")}
        return {name: types[name] for name in stored_schema.names if name in names}
    count = int(settings.get("delta.dataSkippingNumIndexedCols", _DEFAULT_INDEXED_COLUMNS))
    return {name: types[name] for name in (stored_schema.names if count < 0 else stored_schema.names[:count])}
