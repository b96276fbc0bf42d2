"""An Iceberg table at its current snapshot, for planning without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.spec import SpecHistory
from partita.arrow.buffers import Bools, dense_array
from partita.arrow.distinct_rows import distinct_rows
from partita.arrow.prune import ColumnStatistics, spec_columns
from partita.errors import StorageError, UnsupportedFeature
from partita.formats.capabilities import Operation
from partita.formats.containment import FolderLocation, check_no_links_outside
from partita.formats.file_plan import plan_files
from partita.formats.iceberg.columns import field_ids
from partita.formats.iceberg.delete_file_index import DELETE_MATCH_COLUMNS, applicable_deletes, is_deletion_vector
from partita.formats.iceberg.history import NO_SNAPSHOT
from partita.formats.iceberg.locations import check_metadata_folder
from partita.formats.iceberg.manifests import (
    DATA,
    MANIFEST_FILE_SCHEMA,
    MANIFEST_READ_COLUMNS,
    PARTITION_PREFIX,
    read_live_entries,
    read_manifest_list,
)
from partita.formats.iceberg.manifests.evaluator import may_match_partitions, may_match_predicate
from partita.formats.iceberg.snapshot_summary import has_transaction
from partita.formats.iceberg.specs import partition_arrow_type, spec_history
from partita.formats.iceberg.statistics import file_statistics
from partita.formats.iceberg.targets import data_folder
from partita.formats.iceberg.validation import check_writable
from partita.formats.iceberg.values import parse_partition_text, partition_array
from partita.formats.partition_selection import PartitionSelection
from partita.formats.table_change import TableChange, spec_id_column, written_partition_texts
from partita.formats.table_version import TableVersion

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from partita.formats.iceberg.spark.rows import IcebergRows


@dataclass(frozen=True, slots=True, eq=False)
class IcebergTableVersion(TableVersion):
    """An Iceberg table at one snapshot; the version is the snapshot's id.

    `data_entries` has a row for each data file, in the order of `files`, and `delete_entries` one for each delete file:
    columns of `MANIFEST_ENTRY_SCHEMA`. If `is_partial`, some data files are left out: those that a
    predicate doesn't need, with all others of their partitions, or all. `opened_location` is the folder that the user
    opened or created the table in, if there is one.
    """

    table: Table
    data_entries: pa.Table
    delete_entries: pa.Table
    is_partial: bool = False
    opened_location: str | None = None

    @property
    def uri(self) -> str:
        """The table's location."""
        return self.table.location()

    def with_all_files(self) -> IcebergTableVersion:
        """Return this snapshot with all of its manifests; an error if it was expired meanwhile."""
        if not self.is_partial:
            return self
        with _explain_expired_snapshot(self.version):
            return current_table_version(self.table, None, self.opened_location)

    def with_files_for(self, read_scope: PredicateLike | UnboundPredicate | PartitionSelection) -> IcebergTableVersion:
        """Return this snapshot with every manifest that may list what is read, or other files of the same partitions.

        All files of a partition are included, because a delete file may apply to any of them.
        """
        if not self.is_partial:
            return self
        with _explain_expired_snapshot(self.version):
            manifests = _current_manifests(self.table)
            is_needed = _needed_manifests(manifests, self.spec_history, read_scope)
            version = self._with_manifests(manifests, is_needed)
            if isinstance(read_scope, PartitionSelection) or not version.delete_entries.num_rows:
                return version
            file_indices = plan_files(version, read_scope).file_indices
            is_related = is_needed | _manifests_of_partitions(manifests, version, file_indices)
            return version if (is_related == is_needed).all() else self._with_manifests(manifests, is_related)

    def _with_manifests(self, manifests: pa.Table, is_needed: Bools) -> IcebergTableVersion:
        return _version_from_manifests(self.table, self.spec_history, manifests, is_needed, self.opened_location)

    def check_writable(self, *, removes: bool) -> None:  # noqa: ARG002 - of the interface
        """Raise an error for features and transforms that Partita doesn't write, and for a folder it may not own."""
        check_writable(self.table.metadata)
        check_metadata_folder(self.table, self.opened_location)
        for field in self.spec.fields:
            if not field.transform.is_known:
                raise UnsupportedFeature((f"the partition transform {field.transform}",), "writing")

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Return whether the table's properties have that number of the application, or a later one."""
        return has_transaction(self.table.metadata, transaction)

    def commit(self, change: TableChange) -> int:
        """Commit one snapshot."""
        from partita.formats.iceberg.commit import commit_change

        return commit_change(self, change)

    def written_partitions(self, written_files: pa.Table) -> pa.Table:
        """Parse the partition texts of written files."""
        columns = {"spec_id": spec_id_column(self.spec.spec_id, written_files.num_rows)}
        texts_by_field = written_partition_texts(written_files, len(self.spec.fields))
        for field, texts in zip(self.spec.fields, texts_by_field, strict=True):
            dictionary_array = texts.dictionary_encode()
            values = [parse_partition_text(text, field) for text in dictionary_array.dictionary.to_pylist()]
            columns[self.spec_history.column_name(self.spec, field)] = partition_array(
                values, partition_arrow_type(field)
            ).take(dictionary_array.indices)
        return pa.table(columns)

    def discard_files(self, written_files: pa.Table) -> None:
        """Delete the files from the table's data folder."""
        data_folder(self.table).storage.delete(written_files["path"].to_pylist())

    def rows(self, operation: Operation = Operation.READ) -> IcebergRows:
        """Return the rows of this version on Spark, for an operation."""
        from partita.formats.iceberg.spark.rows import IcebergRows

        return IcebergRows(self, operation)

    def outside_paths(self, file_indices: np.ndarray) -> pa.Array:
        """Return the paths of those data files that are not below the table's location, links resolved."""
        paths = self.files["path"].take(pa.array(file_indices)).to_pylist()
        folder = FolderLocation.from_uri(self.table.location())
        return pa.array(
            [path for path in paths if folder.relative_path(path) is None or folder.has_link_outside(path)], pa.string()
        )

    def check_no_symlinks(self, paths: Iterable[str]) -> None:
        """Raise an error for files that a symbolic link leads out of the table's location."""
        check_no_links_outside(FolderLocation.from_uri(self.table.location()), paths)

    def delete_index(self, file_indices: np.ndarray) -> pa.Table:
        """Return the pairs of data files and delete files that can apply to them, in the order of `file_indices`.

        `file` is the index of a data file in `files`, and `delete` that of a delete file in `delete_entries`.
        """
        left, right = applicable_deletes(
            _delete_match_columns(self.data_entries, file_indices), self.delete_entries, self.spec_history
        )
        return pa.table({"file": np.asarray(file_indices, np.int64)[left], "delete": right})


def table_version_without_files(table: Table, opened_location: str | None = None) -> IcebergTableVersion:
    """Return the table at its current snapshot without any file: no manifest is opened."""
    check_readable(table)
    history = spec_history(table.metadata)
    no_entries = read_live_entries(table.io, MANIFEST_FILE_SCHEMA.empty_table(), history)
    has_files = table.metadata.current_snapshot() is not None
    return _version_from_entries(
        table, history, no_entries, no_entries, is_partial=has_files, opened_location=opened_location
    )


def current_table_version(
    table: Table,
    read_scope: PredicateLike | UnboundPredicate | PartitionSelection | None = None,
    opened_location: str | None = None,
) -> IcebergTableVersion:
    """Return the table at its current snapshot; raises `UnsupportedFeature` if it can't be read correctly.

    With a predicate or partitions to read, manifests whose summaries exclude them are not opened, and their data files
    left out. All delete files are included: one of another partition than its data file must be noticed.
    """
    check_readable(table)
    history, manifests = spec_history(table.metadata), _current_manifests(table)
    is_needed = None if read_scope is None else _needed_manifests(manifests, history, read_scope)
    return _version_from_manifests(table, history, manifests, is_needed, opened_location)


def _current_manifests(table: Table) -> pa.Table:
    """Read the manifest list of the current snapshot."""
    snapshot = table.metadata.current_snapshot()
    return MANIFEST_FILE_SCHEMA.empty_table() if snapshot is None else read_manifest_list(table.io, snapshot)


def _needed_manifests(
    manifests: pa.Table, history: SpecHistory, read_scope: PredicateLike | UnboundPredicate | PartitionSelection
) -> Bools:
    """Return which manifests may list a data file of the read scope; all manifests of delete files are included."""
    has_deletes: Bools = manifests["content"].to_numpy() != _DATA_MANIFEST_CONTENT
    if isinstance(read_scope, PartitionSelection):
        return has_deletes | may_match_partitions(manifests, history, read_scope)
    return has_deletes | may_match_predicate(manifests, history, read_scope)


def _manifests_of_partitions(
    manifests: pa.Table, table_version: IcebergTableVersion, file_indices: np.ndarray
) -> Bools:
    """Return which manifests may list a file of the same spec and partition as one of the files."""
    is_needed = np.zeros(manifests.num_rows, bool)
    ids, partitions = manifests["spec_id"].to_numpy(), table_version.partitions.take(pa.array(file_indices))
    for spec in table_version.spec_history.specs:
        spec_partitions = partitions.filter(pc.equal(partitions["spec_id"], spec.spec_id))
        if spec_partitions.num_rows:
            values = distinct_rows(spec_columns(table_version.spec_history, spec, spec_partitions))
            may_hold = may_match_partitions(
                manifests, table_version.spec_history, PartitionSelection(spec.fields, values)
            )
            is_needed |= (ids == spec.spec_id) & may_hold
    return is_needed


def _version_from_manifests(
    table: Table,
    history: SpecHistory,
    manifests: pa.Table,
    is_needed: Bools | None,
    opened_location: str | None,
) -> IcebergTableVersion:
    """Return the version with the files of the needed manifests; None selects all."""
    every_manifest = is_needed is None or bool(is_needed.all())
    manifests_to_read = (
        manifests if every_manifest else manifests.select(MANIFEST_READ_COLUMNS).filter(pa.array(is_needed))
    )
    all_entries = read_live_entries(table.io, manifests_to_read, history)
    is_data = all_entries["content"].to_numpy() == DATA
    if is_data.all():
        entries, deletes = all_entries, all_entries.slice(0, 0)
    else:
        entries, deletes = all_entries.filter(pa.array(is_data)), all_entries.filter(pa.array(~is_data))
    return _version_from_entries(
        table, history, entries, deletes, is_partial=not every_manifest, opened_location=opened_location
    )


_DATA_MANIFEST_CONTENT = 0


@contextmanager
def _explain_expired_snapshot(snapshot_id: int) -> Iterator[None]:
    """Raise errors of reading metadata with the hint that the snapshot may have expired."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"snapshot {snapshot_id} can't be read any more, so plan again: {error}") from error


def _version_from_entries(  # noqa: PLR0913 - the fields of a table version
    table: Table,
    history: SpecHistory,
    data_entries: pa.Table,
    delete_entries: pa.Table,
    *,
    is_partial: bool,
    opened_location: str | None,
) -> IcebergTableVersion:
    snapshot = table.metadata.current_snapshot()
    fields = [name for name in data_entries.column_names if name.startswith(PARTITION_PREFIX)]
    partitions = data_entries.select([*fields, "spec_id"])
    return IcebergTableVersion(
        NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id,
        history.schema,
        history,
        pa.table(
            {"path": data_entries["path"], "spec_id": data_entries["spec_id"], "bytes": data_entries["file_size"]}
        ),
        partitions.rename_columns([*(name.removeprefix(PARTITION_PREFIX) for name in fields), "spec_id"]),
        partial(_column_statistics, table, data_entries, history),
        partial(_row_counts, data_entries, delete_entries, history),
        table,
        data_entries,
        delete_entries,
        is_partial,
        opened_location,
    )


def _column_statistics(
    table: Table, data_entries: pa.Table, history: SpecHistory, columns: Sequence[str], file_indices: np.ndarray | None
) -> Mapping[str, ColumnStatistics]:
    return file_statistics(data_entries, history.schema, field_ids(table.schema()), columns, file_indices)


def _row_counts(
    data_entries: pa.Table, delete_entries: pa.Table, history: SpecHistory, file_indices: np.ndarray
) -> pa.Array:
    """Count the live rows of files; null where position or equality deletes may apply, as their rows aren't counted."""
    counts = dense_array(data_entries["record_count"].take(pa.array(file_indices)))
    if not delete_entries.num_rows:
        return counts
    left, right = applicable_deletes(_delete_match_columns(data_entries, file_indices), delete_entries, history)
    if not len(left):
        return counts
    vectors = is_deletion_vector(delete_entries)
    deleted_counts, unknown = np.zeros(len(file_indices), np.int64), np.zeros(len(file_indices), bool)
    sizes = delete_entries["record_count"].to_numpy()
    np.add.at(deleted_counts, left, np.where(vectors[right], sizes[right], 0))
    unknown[left[~vectors[right]]] = True
    unknown |= np.bincount(left, minlength=len(file_indices)) > 1
    return pa.array(counts.to_numpy() - deleted_counts, pa.int64(), mask=unknown)


def _delete_match_columns(entries: pa.Table, file_indices: np.ndarray) -> pa.Table:
    """Return the columns of some entries that decide which deletes apply to them."""
    fields = [name for name in entries.column_names if name.startswith(PARTITION_PREFIX)]
    return entries.select([*DELETE_MATCH_COLUMNS, *fields]).take(pa.array(file_indices))


# --- readable features


def check_readable(table: Table) -> None:
    """Raise `UnsupportedFeature` if the table has features that Partita can't read correctly, naming them."""
    needs = (
        [f"format version {table.metadata.format_version}"]
        if table.metadata.format_version > _NEWEST_FORMAT_VERSION
        else []
    )
    for field in table.schema().fields:
        needs += _unreadable_features(field, field.name)
    if needs:
        raise UnsupportedFeature(tuple(dict.fromkeys(needs)), "reading")


_NEWEST_FORMAT_VERSION = 3
_READABLE_TYPES = (
    iceberg.BooleanType, iceberg.IntegerType, iceberg.LongType, iceberg.FloatType, iceberg.DoubleType,
    iceberg.DecimalType, iceberg.DateType, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestamptzType,
    iceberg.StringType, iceberg.UUIDType, iceberg.BinaryType, iceberg.FixedType,
)  # fmt: skip


def _unreadable_features(field: iceberg.NestedField, name: str) -> Iterator[str]:
    if field.initial_default is not None:
        yield f"the initial default of column {name!r}"
    type_ = field.field_type
    if isinstance(type_, _READABLE_TYPES):
        return
    if isinstance(type_, iceberg.StructType):
        for inner in type_.fields:
            yield from _unreadable_features(inner, f"{name}.{inner.name}")
    elif isinstance(type_, iceberg.ListType):
        yield from _unreadable_features(type_.element_field, f"{name}.element")
    elif isinstance(type_, iceberg.MapType):
        yield from _unreadable_features(type_.key_field, f"{name}.key")
        yield from _unreadable_features(type_.value_field, f"{name}.value")
    else:
        yield f"the type {type_} of column {name!r}"
