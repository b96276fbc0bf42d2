"""Data files of a Delta table: where new ones go, how old ones are copied, what the log says of them."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from partita.algebra.schema import Schema
from partita.algebra.types import FLOATS, Field, LogicalType
from partita.formats.delta.file_statistics import stats_json
from partita.formats.delta.values import encode_partition, parse_partition
from partita.formats.delta.values.uri import uri_decoded, uri_encoded
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
    """How files are copied: within their partition, which their own paths and texts say."""

    target: DeltaTarget
    paths: tuple[str, ...]
    partitions: tuple[tuple[str | None, ...], ...]

    def pieces(self, file: int) -> Iterator[pa.RecordBatch]:
        """The rows of a file."""
        return pieces(self.target.storage, uri_decoded(self.paths[file]), self.target.stored)

    def partition(self, file: int) -> tuple[str | None, ...]:
        """The texts of its partition."""
        return self.partitions[file]

    def open(self, file: int, task: str) -> ParquetSink:
        """A new file beside it."""
        return self.target.open(self.partitions[file], task)


def add_action(told: Mapping[str, Any], partition: Schema, physical: Mapping[str, str]) -> dict[str, Any]:
    """The `add` of a file that an executor told of."""
    texts = zip(partition, told["partition"] or (), strict=True)
    values = {physical[column.name]: _logged(text, column) for column, text in texts}
    return {
        "add": {
            "path": uri_encoded(told["path"]),
            "partitionValues": values,
            "size": told["bytes"],
            "modificationTime": told["modified"],
            "dataChange": True,
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


def remove_action(file: Mapping[str, Any], at: int) -> dict[str, Any]:
    """The `remove` of a file that the table has."""
    return {
        "remove": {
            "path": file["path"],
            "deletionTimestamp": at,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": file["partition_values"] or {},
            "size": file["size"],
        }
    }


def _random(length: int) -> str:
    return "".join(random.choices(string.ascii_letters + string.digits, k=length))  # noqa: S311 - spreads, hides nothing
