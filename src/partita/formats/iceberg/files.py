"""Files of an Iceberg table: where new ones are written, how they are copied, and their manifest entries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from partita.algebra.spec import PartitionField, PartitionSpec
from partita.formats.iceberg.metrics import IcebergMetricsCollector, metrics_from_json
from partita.formats.iceberg.object_store import storage_at
from partita.formats.iceberg.values import parse_partition_text, partition_directory
from partita.formats.parquet_files import FileFooter, ParquetSink, read_row_groups
from partita.storage import Storage

if TYPE_CHECKING:
    import numpy as np
    from pyiceberg.manifest import DataFile

FILE_PATH_FIELD_ID, POS_FIELD_ID = 2147483546, 2147483545
"""The reserved field ids of the columns of position-delete files."""
POSITION_DELETE_SCHEMA = pa.schema(
    [
        pa.field(
            "file_path", pa.string(), nullable=False, metadata={b"PARQUET:field_id": str(FILE_PATH_FIELD_ID).encode()}
        ),
        pa.field("pos", pa.int64(), nullable=False, metadata={b"PARQUET:field_id": str(POS_FIELD_ID).encode()}),
    ]
)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The folder of a table's data files: its URI in the table's metadata, and its storage.

    `file_name_prefix` begins the names of new files (`partita.formats.iceberg.locations.data_file_prefix`).
    """

    uri: str
    storage: Storage
    file_name_prefix: str = ""

    def new_file_path(self, partition_folder: str, task: str, suffix: str = "") -> str:
        """Return a unique path for a new file in a partition folder."""
        name = f"{self.file_name_prefix}{task}-{uuid4()}{suffix}.parquet"
        return f"{partition_folder}/{name}" if partition_folder else name

    def file_location(self, path: str) -> str:
        """Return the location of a path in the folder, as manifests name it."""
        return f"{self.uri}/{path}"


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """Where new data files are written: one folder per partition.

    File names end with the fingerprint of the file's columns (`partita.formats.field_ids`).
    """

    folder: DataFolder
    file_schema: pa.Schema
    schema_fingerprint: str
    partition_fields: tuple[PartitionField, ...]
    metrics_collector: IcebergMetricsCollector
    compression_codec: str

    def open_sink(self, partition: tuple[str | None, ...], task: str) -> ParquetSink:
        """Open a new file in a partition."""
        path = self.folder.new_file_path(
            partition_directory(self.partition_fields, partition), task, f"-{self.schema_fingerprint}"
        )
        settings = {"compression": self.compression_codec, "store_decimal_as_integer": True}
        return ParquetSink(self.folder.storage, path, self.file_schema, self.metrics_collector, settings)


@dataclass(frozen=True, slots=True)
class IcebergCopier:
    """Copies data files of the current spec within their partition."""

    target: IcebergTarget
    storage_options: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]
    partitions: tuple[tuple[str | None, ...], ...]

    def read_batches(self, file: int) -> Iterator[pa.RecordBatch]:
        """Yield the row groups of a file."""
        above, _, name = self.paths[file].rpartition("/")
        return read_row_groups(storage_at(above, dict(self.storage_options)), name, self.target.file_schema, by_id=True)

    def file_partition_texts(self, file: int) -> tuple[str | None, ...]:
        """Return the partition values of a file as text."""
        return self.partitions[file]

    def open_sink(self, file: int, task: str) -> ParquetSink:
        """Open a new file in the partition of a file."""
        return self.target.open_sink(self.partitions[file], task)


@dataclass(frozen=True, slots=True)
class IcebergPositionDeleteWriter:
    """Writes position-delete files, one per group of a spec and a partition.

    `paths` are keyed by the index of the data file; `partitions` and `directories` are indexed by group.
    """

    folder: DataFolder
    paths: Mapping[int, str]
    partitions: tuple[tuple[str | None, ...], ...]
    directories: tuple[str, ...]
    compression_codec: str

    def write_deletes(
        self, group: int, file_indices: np.ndarray, row_indices: np.ndarray, task: str
    ) -> dict[str, object]:
        """Write the deleted positions of a group, sorted by path and row."""
        group_indices, codes = _dictionary_codes(file_indices)
        paths = [self.paths[index] for index in group_indices]
        # Readers expect the order of paths, which may differ from the order of file indices.
        table = pa.table(
            [
                pa.DictionaryArray.from_arrays(codes, pa.array(paths, pa.string())).cast(pa.string()),
                pa.array(row_indices),
            ],
            schema=POSITION_DELETE_SCHEMA,
        )
        if paths != sorted(paths):
            table = table.sort_by([("file_path", "ascending"), ("pos", "ascending")])
        path = self.folder.new_file_path(self.directories[group], task, "-deletes")
        details = _PositionDeleteDetails(group, tuple(int(index) for index in group_indices), min(paths), max(paths))
        sink = ParquetSink(
            self.folder.storage, path, POSITION_DELETE_SCHEMA, details, {"compression": self.compression_codec}
        )
        try:
            sink.write(table)
        except BaseException:
            sink.abort()
            raise
        return {**sink.close(), "partition": list(self.partitions[group])}


def _dictionary_codes(file_indices: np.ndarray) -> tuple[list[int], pa.Array]:
    dictionary_array = pa.array(file_indices).dictionary_encode()
    return dictionary_array.dictionary.to_pylist(), dictionary_array.indices


@dataclass(frozen=True, slots=True)
class _PositionDeleteDetails:
    """The details of a position-delete file: its group, the indices of its data files, the bounds of their paths."""

    group: int
    file_indices: tuple[int, ...]
    min_path: str
    max_path: str

    def __call__(self, footer: FileFooter) -> str:
        footer_size = footer.metadata.serialized_size
        details = {
            "group": self.group,
            "data_files": self.file_indices,
            "least": self.min_path,
            "greatest": self.max_path,
        }
        return json.dumps({**details, "footer": footer_size})


def new_data_file(written_file: Mapping[str, Any], folder: DataFolder, spec: PartitionSpec) -> DataFile:
    """Return the manifest description of a data file that an executor wrote; it declares no sort order."""
    return _new_file(written_file, folder, spec, content=0, **metrics_from_json(written_file["details"]))


def new_delete_file(written_file: Mapping[str, Any], folder: DataFolder, spec: PartitionSpec) -> DataFile:
    """Return the manifest description of a position-delete file that an executor wrote."""
    details = json.loads(written_file["details"])
    min_path, max_path = details["least"], details["greatest"]
    return _new_file(
        written_file,
        folder,
        spec,
        content=1,
        lower_bounds={FILE_PATH_FIELD_ID: min_path.encode()},
        upper_bounds={FILE_PATH_FIELD_ID: max_path.encode()},
        referenced_data_file=min_path if min_path == max_path else None,
    )


def _new_file(written_file: Mapping[str, Any], folder: DataFolder, spec: PartitionSpec, **file_fields: Any) -> DataFile:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    texts = written_file["partition"] or ()
    file_fields["content"] = DataFileContent(file_fields["content"])
    file = DataFile.from_args(
        _table_format_version=3,
        file_path=folder.file_location(written_file["path"]),
        file_format=FileFormat.PARQUET,
        partition=Record(*(parse_partition_text(text, field) for text, field in zip(texts, spec.fields, strict=True))),
        record_count=written_file["rows"],
        file_size_in_bytes=written_file["bytes"],
        **file_fields,
    )
    file.spec_id = spec.spec_id
    return file
