"""A Delta table at one version of its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import Predicate
from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.spec import SpecHistory
from partita.errors import PartitionValueError, TableError
from partita.formats.capabilities import Operation
from partita.formats.column_partitioning import identity_spec
from partita.formats.delta.columns import known_generated_columns, stored_arrow_schema
from partita.formats.delta.commit import PendingCommit, commit_actions, current_millis
from partita.formats.delta.files import (
    DeltaCopier,
    DeltaTarget,
    add_file_action,
    data_skipping_columns,
    paths_outside_folder,
    random_prefix_length,
    remove_file_action,
    resolve_file_paths,
)
from partita.formats.delta.log import (
    DeltaLog,
    DeltaMetadata,
    DeltaSnapshot,
    check_writable,
    column_mapping_mode,
    is_append_only,
    partition_value_structs,
    physical_names,
    typed_partitions,
)
from partita.formats.delta.statistics import (
    DeltaStatisticsEncoder,
    add_source_bounds,
    file_statistics,
    row_counts,
    source_bounds,
)
from partita.formats.file_plan import prune_files
from partita.formats.partition_selection import PartitionSelection
from partita.formats.partition_texts.validation import PARTITION_KINDS
from partita.formats.table_change import TableChange, spec_id_column, written_partition_texts
from partita.formats.table_version import TableVersion
from partita.storage import Storage
from partita.untrusted_input import translate_read_errors

if TYPE_CHECKING:
    import numpy as np

    from partita.formats.delta.spark.rows import DeltaRows


@dataclass(frozen=True, slots=True, eq=False)
class DeltaTableVersion(TableVersion):
    """A Delta table at one version, with the snapshot of its log."""

    snapshot: DeltaSnapshot
    storage: Storage

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self.storage.uri

    @property
    def metadata(self) -> DeltaMetadata:
        """Schema, partition columns and configuration."""
        return self.snapshot.metadata

    @property
    def partition_schema(self) -> Schema:
        """The partition columns."""
        return Schema(tuple(self.schema.find_field(name) for name in self.metadata.partition_columns))

    def outside_paths(self, file_indices: np.ndarray) -> pa.Array:
        """Return the paths of those files that lie outside the table's folder."""
        paths = self.files["path"].take(pa.array(file_indices)).to_pylist()
        return pa.array(paths_outside_folder(self.storage, paths), pa.string())

    def check_writable(self, *, removes: bool) -> None:
        """Raise an error for unknown features, and for deletes from an append-only table."""
        check_writable(self.snapshot.protocol, self.metadata)
        if removes and is_append_only(self.metadata):
            raise TableError(f"the table at {self.uri} is append-only (delta.appendOnly)")

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Return whether the log has that number of the application, or a later one."""
        application, number = transaction
        return self.snapshot.transactions.get(application, -1) >= number

    def commit(self, change: TableChange) -> int:
        """Write one commit file with the actions of the change."""
        physical, data_change = physical_names(self.metadata), change.operation is not Operation.REWRITE
        removed_files = self.snapshot.files.take(pa.array(change.removed_file_indices)).to_pylist()
        timestamp = current_millis()
        actions = [remove_file_action(file, timestamp, data_change=data_change) for file in removed_files]
        actions += [
            add_file_action(file, self.partition_schema, physical, data_change=data_change)
            for file in change.added_files.to_pylist()
        ]
        read_paths = self.snapshot.files["path"].take(pa.array(change.read_file_indices)).to_pylist()
        pending_commit = PendingCommit(
            change,
            actions,
            None if change.read_scope is None else partial(self._may_match, change.read_scope),
            frozenset(read_paths),
        )
        return commit_actions(DeltaLog(self.storage), self.snapshot, pending_commit)

    def _may_match(self, read_scope: Predicate | PartitionSelection, added_files: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether files that `add` actions of a concurrent commit describe may hold rows of what was read."""
        rows = [
            {
                "path": add["path"],
                "partition_values": add.get("partitionValues") or {},
                "size": add.get("size"),
                "modification_time": add.get("modificationTime"),
                "stats": add.get("stats"),
                "has_deletion_vector": False,
                "deletion_vector": None,
            }
            for add in added_files
        ]
        version = table_version_from(
            self.storage, self.snapshot, pa.Table.from_pylist(rows, self.snapshot.files.schema)
        )
        if isinstance(read_scope, Predicate):
            return any(prune_files(version, read_scope).may_match.to_pylist())
        return read_scope.may_match(version.spec_history, version.partitions)

    def written_partitions(self, written_files: pa.Table) -> pa.Table:
        """Parse the partition texts of written files."""
        physical = physical_names(self.metadata)
        names = [physical[name] for name in self.metadata.partition_columns]
        values = partition_value_structs(
            written_partition_texts(written_files, len(names)), names, written_files.num_rows
        )
        partitions = typed_partitions(
            pa.table({"partition_values": values}), self.schema, self.metadata.partition_columns, physical
        )
        return partitions.append_column("spec_id", spec_id_column(self.spec.spec_id, written_files.num_rows))

    def check_selection(self, selection: PartitionSelection) -> None:
        """Raise `PartitionValueError` for empty texts, which Delta stores as null (Delta partition values)."""
        for name in selection.values.column_names:
            column = selection.values[name]
            is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
            if is_text and pc.any(pc.equal(pc.binary_length(column), 0)).as_py():
                raise PartitionValueError(name, "text that is not empty, which Delta can't tell from null", "''")

    def discard_files(self, written_files: pa.Table) -> None:
        """Delete the files from the table's folder."""
        self.storage.delete(written_files["path"].to_pylist())

    def rows(self, operation: Operation = Operation.READ) -> DeltaRows:
        """Return the rows of this version on Spark, for an operation."""
        from partita.formats.delta.spark.rows import DeltaRows

        return DeltaRows(self, operation)

    def write_target(self, time_zone: str) -> DeltaTarget:
        """Return where new data files go: folders by partition value, or random ones if the table asks for them.

        Folder names show timestamps in `time_zone`.
        """
        stored_schema = stored_arrow_schema(self.metadata)
        return DeltaTarget(
            self.storage,
            stored_schema,
            self.partition_schema,
            DeltaStatisticsEncoder(data_skipping_columns(self.metadata, stored_schema)),
            time_zone,
            random_prefix_length(self.metadata),
        )

    def file_copier(self, file_indices: np.ndarray, time_zone: str) -> DeltaCopier:
        """Return what copies those data files to new files of the same partitions."""
        files = self.snapshot.files.take(pa.array(file_indices))
        names = [physical_names(self.metadata)[name] for name in self.metadata.partition_columns]
        texts = [tuple((values or {}).get(name) for name in names) for values in files["partition_values"].to_pylist()]
        paths = tuple(resolve_file_paths(self.storage, files))
        by_id = column_mapping_mode(self.metadata) == "id"
        return DeltaCopier(self.write_target(time_zone), paths, tuple(texts), by_id)


def table_version_from(storage: Storage, snapshot: DeltaSnapshot, files: pa.Table) -> DeltaTableVersion:
    """Return the table version that a snapshot describes, with some data files."""
    with translate_read_errors("the metadata of the Delta table"):
        return _build_table_version(storage, snapshot, files)


def _build_table_version(storage: Storage, snapshot: DeltaSnapshot, files: pa.Table) -> DeltaTableVersion:
    metadata = snapshot.metadata
    schema = schema_from_json(metadata.schema_json)
    physical = physical_names(metadata)
    for column in map(schema.find_field, metadata.partition_columns):
        if column.type.kind not in PARTITION_KINDS:
            raise TableError(
                f"the table at {storage.uri} is partitioned by {column.name!r} of type {column.type}, by which Partita "
                "can't tell partitions apart; copy it with delta-spark to a table that another column partitions"
            )
    partitions = typed_partitions(files, schema, metadata.partition_columns, physical)
    bounds = source_bounds(partitions, known_generated_columns(metadata), schema)
    spec_ids = spec_id_column(0, files.num_rows)
    return DeltaTableVersion(
        snapshot.version,
        schema,
        SpecHistory.from_spec(identity_spec(metadata.partition_columns, schema), schema),
        pa.table({"path": files["path"], "spec_id": spec_ids, "bytes": files["size"]}),
        partitions.append_column("spec_id", spec_ids),
        lambda columns, indices: add_source_bounds(
            file_statistics(_take_files(files, indices), schema, physical, columns),
            {n: b if indices is None else b.take(pa.array(indices)) for n, b in bounds.items() if n in columns},
        ),
        lambda indices: row_counts(files.take(pa.array(indices))),
        snapshot,
        storage,
    )


def _take_files(files: pa.Table, file_indices: np.ndarray | None) -> pa.Table:
    return files if file_indices is None else files.take(pa.array(file_indices))
