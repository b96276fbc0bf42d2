"""Where an operation on an Iceberg table writes its files: prepared on the driver, used by executors.

The classes are in `files.py`, which executors import without pyiceberg.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from partita.algebra.spec import PartitionSpec
from partita.arrow.buffers import dense_array
from partita.arrow.partition_texts import partition_text
from partita.arrow.prune import spec_columns
from partita.formats.field_ids import file_columns_from
from partita.formats.iceberg.columns import field_ids, stored_arrow_schema, stored_schema
from partita.formats.iceberg.files import DataFolder, IcebergCopier, IcebergPositionDeleteWriter, IcebergTarget
from partita.formats.iceberg.locations import data_file_prefix, data_path
from partita.formats.iceberg.metrics import IcebergMetricsCollector, metrics_columns
from partita.formats.iceberg.object_store import storage_at, storage_options
from partita.formats.iceberg.values import partition_directory

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from partita.formats.iceberg.state import IcebergTableVersion


def data_folder(table: Table) -> DataFolder:
    """Return the folder of a table's data files."""
    uri = data_path(table.metadata)
    return DataFolder(uri, storage_at(uri, storage_options(uri, table.io.properties)), data_file_prefix(table.metadata))


def write_target(table_version: IcebergTableVersion) -> IcebergTarget:
    """Return where new data files of the current spec go."""
    schema, properties = table_version.table.schema(), table_version.table.metadata.properties
    paths_by_id = {field_id: path for path, field_id in field_ids(stored_schema(schema)).items()}
    columns = metrics_columns(table_version.schema, field_ids(schema), properties)
    file_schema = stored_arrow_schema(schema)
    return IcebergTarget(
        data_folder(table_version.table),
        file_schema,
        file_columns_from(file_schema).fingerprint,
        table_version.spec.fields,
        IcebergMetricsCollector({paths_by_id[column.field_id]: column for column in columns.values()}),
        _compression_codec(properties),
    )


def _compression_codec(properties: Mapping[str, str]) -> str:
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    return {"uncompressed": "none"}.get(codec, codec)


def file_copier(table_version: IcebergTableVersion, file_indices: np.ndarray) -> IcebergCopier:
    """Return what copies data files of the current spec to new files of the same partitions."""
    target = write_target(table_version)
    paths = tuple(dense_array(table_version.data_entries["path"]).take(pa.array(file_indices)).to_pylist())
    table_version.check_no_symlinks(paths)
    partitions = tuple(_partition_texts(table_version, table_version.spec, file_indices))
    return IcebergCopier(target, target.folder.storage.options, paths, partitions)


def _partition_texts(
    table_version: IcebergTableVersion, spec: PartitionSpec, file_indices: np.ndarray
) -> list[tuple[str | None, ...]]:
    """Return the partition texts of data files of one spec."""
    partitions = spec_columns(table_version.spec_history, spec, table_version.partitions.take(pa.array(file_indices)))
    columns = [dense_array(partitions[field.name]) for field in spec.fields]
    return [tuple(partition_text(column[i]) for column in columns) for i in range(len(file_indices))]


def position_delete_writer(
    table_version: IcebergTableVersion, groups: np.ndarray, first_file_indices: np.ndarray
) -> IcebergPositionDeleteWriter:
    """Return what writes position-delete files, one for each group of data files of one spec and partition.

    `groups` has the group of each data file of the table, or -1, and `first_file_indices` one data file of each group.
    """
    file_indices = np.flatnonzero(groups >= 0)
    paths = dense_array(table_version.data_entries["path"]).take(pa.array(file_indices)).to_pylist()
    spec_ids = table_version.data_entries["spec_id"].to_numpy()[first_file_indices]
    partitions: list[tuple[str | None, ...]] = [()] * len(first_file_indices)
    directories = [""] * len(first_file_indices)
    for spec_id in np.unique(spec_ids).tolist():
        spec = table_version.spec_history.spec(spec_id)
        group_numbers = np.flatnonzero(spec_ids == spec_id)
        partition_texts = _partition_texts(table_version, spec, first_file_indices[group_numbers])
        for group, texts in zip(group_numbers.tolist(), partition_texts, strict=True):
            partitions[group], directories[group] = texts, partition_directory(spec.fields, texts)
    return IcebergPositionDeleteWriter(
        data_folder(table_version.table),
        dict(zip(file_indices.tolist(), paths, strict=True)),
        tuple(partitions),
        tuple(directories),
        _compression_codec(table_version.table.metadata.properties),
    )
