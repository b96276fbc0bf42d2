"""Files of an Iceberg table: where new ones go, how old ones are copied and marked, what a manifest says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from partita.algebra.spec import PartitionField, PartitionSpec
from partita.formats.iceberg.metrics import Described, metrics_of
from partita.formats.iceberg.object_store import storage_at
from partita.formats.iceberg.values import directory, parse, text_of
from partita.formats.parquet import Footer, ParquetSink, pieces
from partita.storage import Storage

if TYPE_CHECKING:
    import numpy as np
    from pyiceberg.manifest import DataFile

_PATH, _POSITION = 2147483546, 2147483545
"""The ids of the columns of position-delete files, which the specification reserves."""
DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={b"PARQUET:field_id": str(_PATH).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={b"PARQUET:field_id": str(_POSITION).encode()}),
    ]
)


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a table's data files are: the folder as its metadata names it, and how it is reached.

    `owner` is what the names of new files begin with (`partita.formats.iceberg.data_path`).
    """

    uri: str
    storage: Storage
    owner: str = ""

    def new(self, above: str, task: str, kind: str = "") -> str:
        """The path of a new file in a directory of the folder, which no other has."""
        name = f"{self.owner}{task}-{uuid4()}{kind}.parquet"
        return f"{above}/{name}" if above else name

    def named(self, path: str) -> str:
        """A path in the folder, as manifests name it."""
        return f"{self.uri}/{path}"


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """Where new data files go: a folder for each partition.

    The names of the files end with the fingerprint of their columns (`partita.formats.field_ids`).
    """

    folder: Folder
    stored: pa.Schema
    fingerprint: str
    fields: tuple[PartitionField, ...]
    described: Described
    compression: str

    def text(self, value: pa.Scalar) -> str | None:
        """A partition value, as `partita.formats.iceberg.values` reads it again."""
        return text_of(value)

    def open(self, partition: tuple[str | None, ...], task: str) -> ParquetSink:
        """A new file in that partition."""
        path = self.folder.new(directory(self.fields, partition), task, f"-{self.fingerprint}")
        settings = {"compression": self.compression, "store_decimal_as_integer": True}
        return ParquetSink(self.folder.storage, path, self.stored, self.described, settings)


@dataclass(frozen=True, slots=True)
class IcebergCopier:
    """How files of the current spec are copied, within their partition."""

    target: IcebergTarget
    options: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    partitions: tuple[tuple[str | None, ...], ...]

    def pieces(self, file: int) -> Iterator[pa.RecordBatch]:
        """The rows of a file."""
        above, _, name = self.paths[file].rpartition("/")
        return pieces(storage_at(above, dict(self.options)), name, self.target.stored, by_id=True)

    def partition(self, file: int) -> tuple[str | None, ...]:
        """The texts of its partition."""
        return self.partitions[file]

    def open(self, file: int, task: str) -> ParquetSink:
        """A new file in the same partition."""
        return self.target.open(self.partitions[file], task)


@dataclass(frozen=True, slots=True)
class IcebergMarker:
    """How rows are marked as gone: a position-delete file for each group, which is a partition of a spec.

    `paths` are those of the data files by their places; `partitions` and `directories` are those of the groups.
    """

    folder: Folder
    paths: Mapping[int, str]
    partitions: tuple[tuple[str | None, ...], ...]
    directories: tuple[str, ...]
    compression: str

    def mark(self, group: int, places: np.ndarray, rows: np.ndarray, task: str) -> dict[str, object]:
        """Write the positions, sorted by path and row."""
        files, codes = _codes(places)
        paths = [self.paths[place] for place in files]
        # Readers expect the order of the paths, and places have another.
        table = pa.table(
            [pa.DictionaryArray.from_arrays(codes, pa.array(paths, pa.string())).cast(pa.string()), pa.array(rows)],
            schema=DELETES,
        )
        if paths != sorted(paths):
            table = table.sort_by([("file_path", "ascending"), ("pos", "ascending")])
        path = self.folder.new(self.directories[group], task, "-deletes")
        describe = _Pointing(group, tuple(int(place) for place in files), min(paths), max(paths))
        sink = ParquetSink(self.folder.storage, path, DELETES, describe, {"compression": self.compression})
        try:
            sink.write(table)
        except BaseException:
            sink.abort()
            raise
        return {**sink.close(), "partition": list(self.partitions[group])}


def _codes(places: np.ndarray) -> tuple[list[int], pa.Array]:
    encoded = pa.array(places).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices


@dataclass(frozen=True, slots=True)
class _Pointing:
    """What is told of a position-delete file: its group, the places that it points into, the ends of their paths."""

    group: int
    places: tuple[int, ...]
    least: str
    greatest: str

    def __call__(self, footer: Footer) -> str:
        size = footer.metadata.serialized_size
        told = {"group": self.group, "places": self.places, "least": self.least, "greatest": self.greatest}
        return json.dumps({**told, "footer": size})


def new_data_file(told: Mapping[str, Any], folder: Folder, spec: PartitionSpec) -> DataFile:
    """What a manifest says of a data file that an executor told of; in no sort order, whatever the table's is."""
    return _file(told, folder, spec, content=0, **metrics_of(told["details"]))


def new_delete_file(told: Mapping[str, Any], folder: Folder, spec: PartitionSpec) -> DataFile:
    """What a manifest says of a position-delete file that an executor told of."""
    pointing = json.loads(told["details"])
    least, greatest = pointing["least"], pointing["greatest"]
    return _file(
        told,
        folder,
        spec,
        content=1,
        lower_bounds={_PATH: least.encode()},
        upper_bounds={_PATH: greatest.encode()},
        referenced_data_file=least if least == greatest else None,
    )


def _file(told: Mapping[str, Any], folder: Folder, spec: PartitionSpec, **more: Any) -> DataFile:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    texts = told["partition"] or ()
    more["content"] = DataFileContent(more["content"])
    file = DataFile.from_args(
        _table_format_version=3,
        file_path=folder.named(told["path"]),
        file_format=FileFormat.PARQUET,
        partition=Record(*(parse(text, field) for text, field in zip(texts, spec.fields, strict=True))),
        record_count=told["rows"],
        file_size_in_bytes=told["bytes"],
        **more,
    )
    file.spec_id = spec.spec_id
    return file
