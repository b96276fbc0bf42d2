"""Isolation levels, and whether files of concurrent commits are among what an operation read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from partita.algebra.predicate import Predicate
from partita.arrow.buffers import dense_array
from partita.errors import TableError, value_repr
from partita.formats.capabilities import Operation
from partita.formats.file_plan import prune_files, referenced_columns
from partita.formats.iceberg.columns import field_ids
from partita.formats.iceberg.state import IcebergTableVersion, current_table_version
from partita.formats.iceberg.values import partition_array
from partita.formats.partition_selection import PartitionSelection

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

ReadScope = Predicate | PartitionSelection

_PROPERTY_PREFIXES = {
    Operation.DELETE: "write.delete",
    Operation.UPDATE: "write.update",
    Operation.MERGE: "write.merge",
}


def isolation_level(table_version: IcebergTableVersion, operation: Operation) -> str:
    """Return the isolation level of an operation from the table's properties."""
    name = f"{_PROPERTY_PREFIXES[operation]}.isolation-level" if operation in _PROPERTY_PREFIXES else None
    level = (
        "serializable" if name is None else table_version.table.metadata.properties.get(name, "serializable").casefold()
    )
    if level not in ("serializable", "snapshot"):
        raise TableError(f"{name} is serializable or snapshot, not {value_repr(level)}")
    return level


def may_match_read(
    base_version: IcebergTableVersion, table: Table, entries: list[ManifestEntry], read_scope: ReadScope
) -> bool:
    """Return whether one of the files can hold what was read: rows of a predicate, or chosen partitions.

    A file that the current manifests list is judged by its partition and its statistics, any other by its partition
    alone. If the columns that were read have other ids by now, the files can't be judged, and the result is True.
    """
    current_version = current_table_version(table, read_scope)
    if not _has_same_column_ids(read_scope, base_version, current_version):
        return True
    paths = dense_array(current_version.files["path"]).to_pylist()
    entry_paths = {entry.data_file.file_path for entry in entries}
    file_mask = np.array([path in entry_paths for path in paths], bool)
    if file_mask.any() and _may_match_files(current_version, file_mask, read_scope):
        return True
    current_paths = set(paths)
    removed_entries = [entry for entry in entries if entry.data_file.file_path not in current_paths]
    return bool(removed_entries) and _may_match_files(
        _version_of_entries(current_version, removed_entries), np.ones(len(removed_entries), bool), read_scope
    )


def _has_same_column_ids(
    read_scope: ReadScope, base_version: IcebergTableVersion, current_version: IcebergTableVersion
) -> bool:
    base_ids, current_ids = (field_ids(version.table.schema()) for version in (base_version, current_version))
    names = (
        referenced_columns(read_scope, base_version.schema)
        if isinstance(read_scope, Predicate)
        else [field.source for field in read_scope.fields]
    )
    return all(base_ids.get(name) == current_ids.get(name) for name in names)


def _may_match_files(table_version: IcebergTableVersion, file_mask: np.ndarray, read_scope: ReadScope) -> bool:
    if isinstance(read_scope, Predicate):
        return bool(prune_files(table_version, read_scope).may_match.to_numpy(zero_copy_only=False)[file_mask].any())
    return read_scope.may_match(table_version.spec_history, table_version.partitions.filter(pa.array(file_mask)))


def _version_of_entries(table_version: IcebergTableVersion, entries: list[ManifestEntry]) -> IcebergTableVersion:
    """Return a table version of those files, of which only the partitions are known."""
    spec_ids = pa.array([entry.data_file.spec_id for entry in entries], pa.int32())
    columns = {name: [None] * len(entries) for name in table_version.partitions.column_names if name != "spec_id"}
    for index, entry in enumerate(entries):
        spec = table_version.spec_history.spec(entry.data_file.spec_id)
        for position, field in enumerate(spec.fields):
            columns[table_version.spec_history.column_name(spec, field)][index] = entry.data_file.partition[position]
    types = {f.name: f.type for f in table_version.partitions.schema}
    partitions = pa.table(
        {name: partition_array(values, types[name]) for name, values in columns.items()} | {"spec_id": spec_ids}
    )
    paths = pa.array([entry.data_file.file_path for entry in entries])
    files = pa.table({"path": paths, "spec_id": spec_ids, "bytes": pa.array([0] * len(entries))})
    return replace(table_version, files=files, partitions=partitions, statistics=lambda *_: {})
