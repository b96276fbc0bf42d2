"""Data files of a Delta table: where new ones go, how old ones are copied, what the log says of them."""

from __future__ import annotations

import os
import random
import re
import stat
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from partita.algebra.schema import Schema
from partita.algebra.types import FLOATS, Field, LogicalType
from partita.errors import TableError
from partita.formats.containment import Place
from partita.formats.delta.file_statistics import stats_json
from partita.formats.delta.log import TableRoot, is_absolute
from partita.formats.delta.values import encode_partition, parse_partition
from partita.formats.delta.values.uri import uri_encoded
from partita.formats.parquet import Footer, ParquetSink, pieces
from partita.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Described:
    """The statistics that go with each file, for the columns that have any."""

    types: Mapping[str, LogicalType]

    def __call__(self, footer: Footer) -> str:
        return stats_json(footer, self.types)


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """Where new files go: a folder for each partition, or a random one where the table asks for it (`prefix`).

    `partition` are the partition columns; directories show timestamps in `time_zone`.
    """

    storage: Storage
    stored: pa.Schema
    partition: Schema
    described: Described
    time_zone: str
    prefix: int

    def text(self, value: pa.Scalar) -> str | None:
        """Spark has made a text of it."""
        return cast("str | None", value.as_py())

    def open(self, partition: tuple[str | None, ...], task: str) -> ParquetSink:
        """A new file in that partition."""
        name = f"part-{task}-{uuid4()}.c000.snappy.parquet"
        folder = _random(self.prefix) if self.prefix else self._directory(partition)
        path = f"{folder}/{name}" if folder else name
        return ParquetSink(self.storage, path, self.stored, self.described)

    def _directory(self, partition: tuple[str | None, ...]) -> str:
        if not partition:
            return ""
        return encode_partition(self.values(partition), self.partition, time_zone=self.time_zone).directory

    def values(self, partition: tuple[str | None, ...]) -> dict[str, object]:
        """The typed values of a partition's texts."""
        return parse_partition(dict(zip(self.partition.names, partition, strict=True)), self.partition)


@dataclass(frozen=True, slots=True)
class DeltaCopier:
    """How files are copied: into the table's folder, within the partition that their own texts say.

    `paths` are canonical; absolute ones, as shallow clones have, lie outside of the table's folder. `by_id` says that
    files have their columns by field ids and not by names.
    """

    target: DeltaTarget
    paths: tuple[str, ...]
    partitions: tuple[tuple[str | None, ...], ...]
    by_id: bool

    def pieces(self, file: int) -> Iterator[pa.RecordBatch]:
        """The rows of a file."""
        return pieces(*containing_storage(self.target.storage, self.paths[file]), self.target.stored, by_id=self.by_id)

    def partition(self, file: int) -> tuple[str | None, ...]:
        """The texts of its partition."""
        return self.partitions[file]

    def open(self, file: int, task: str) -> ParquetSink:
        """A new file beside it."""
        return self.target.open(self.partitions[file], task)


def containing_storage(storage: Storage, path: str) -> tuple[Storage, str]:
    """The folder that a canonical path is read from, and the path there: the table's, or the file's own elsewhere."""
    if not is_absolute(path):
        return storage, path
    folder, _, name = path.rpartition("/")
    return Storage.at(folder, dict(storage.options)), name


def located_files(storage: Storage, files: pa.Table) -> list[str]:
    """The canonical paths of files that are read, by `path` and `size` of the log.

    One that leaves the table's folder by `..` or by a symbolic link is refused. Absolute paths without either are
    legal, and say themselves where they lead: those of shallow clones do. On a local disk, a folder in the place of a
    file is refused too, and a file of 0 bytes that the log gives a size: Spark would read no rows of them.
    """
    root, place = TableRoot.of(storage), Place.at(storage.uri)
    found = []
    for path, size in zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True):
        canonical = root.canonical_path(path)
        names_inside = not is_absolute(canonical) or not is_absolute(path) or _has_dots(path)
        if names_inside and not _is_inside(storage, place, canonical):
            raise TableError(
                f"the file {path} of the table at {storage.uri} is not read: '..' or a symbolic link in its path leads "
                "out of the table's folder; copy the file into the folder, or name it by its absolute path in the log"
            )
        _check_file(storage, canonical, size)
        found.append(canonical)
    return found


def _check_file(storage: Storage, canonical: str, size: int | None) -> None:
    """Refuse a folder in the place of a local file, and an empty file that should not be; leave a missing one to Spark.

    In object stores that would take a request for each file.
    """
    containing, name = containing_storage(storage, canonical)
    if not containing.is_local:
        return
    file = f"{containing.uri}/{name}"
    try:
        found = os.stat(file)  # noqa: PTH116 - a text
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(found.st_mode):
        raise TableError(f"a data file of the table is damaged: {file} is not a file; restore it, or the table")
    if found.st_size == 0 and size != 0:
        raise TableError(f"a data file of the table is damaged: {file} has 0 bytes; restore it, or the table")


def _has_dots(path: str) -> bool:
    return ".." in re.split("/|%2[Ff]", path.replace("%2e", ".").replace("%2E", "."))


def outside_paths(storage: Storage, paths: Iterable[str]) -> list[str]:
    """Those paths of the log that name files outside of the table's folder."""
    root, place = TableRoot.of(storage), Place.at(storage.uri)
    return [path for path in paths if not _is_inside(storage, place, root.canonical_path(path))]


def _is_inside(storage: Storage, place: Place, canonical: str) -> bool:
    """Whether a file is in the table's folder, links resolved."""
    if is_absolute(canonical):
        return False
    if not storage.is_local:
        return True
    file = f"{storage.uri}/{canonical}"
    return place.relative(os.path.realpath(file) if os.path.islink(file) else file) is not None  # noqa: PTH114 - a text


def add_action(
    told: Mapping[str, Any], partition: Schema, physical: Mapping[str, str], *, changes: bool = True
) -> dict[str, Any]:
    """The `add` of a file that an executor told of; `changes` where the rows of the table do."""
    texts = zip(partition, told["partition"] or (), strict=True)
    values = {physical[column.name]: _logged(text, column) for column, text in texts}
    return {
        "add": {
            "path": uri_encoded(told["path"]),
            "partitionValues": values,
            "size": told["bytes"],
            "modificationTime": told["modified"],
            "dataChange": changes,
            "stats": told["details"],
        }
    }


def _logged(text: str | None, column: Field) -> str | None:
    """A partition's text as the log holds it: of a float the shortest, which Spark doesn't always write.

    Every other text stays as it is: those of older writers may mean what only they know, as local times do.
    """
    if column.type.kind not in FLOATS:
        return text
    schema = Schema((column,))
    return encode_partition(parse_partition({column.name: text}, schema), schema).values[column.name]


def remove_action(file: Mapping[str, Any], at: int, *, changes: bool = True) -> dict[str, Any]:
    """The `remove` of a file that the table has; `changes` where the rows of the table do."""
    return {
        "remove": {
            "path": file["path"],
            "deletionTimestamp": at,
            "dataChange": changes,
            "extendedFileMetadata": True,
            "partitionValues": file["partition_values"] or {},
            "size": file["size"],
        }
    }


def _random(length: int) -> str:
    return "".join(random.choices(string.ascii_letters + string.digits, k=length))  # noqa: S311 - spreads, hides nothing
