"""A plain folder as it is at one moment.

It has no versions: `version` is when its newest data file was written, in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import Predicate
from partita.algebra.schema import Schema
from partita.algebra.spec import SpecHistory
from partita.algebra.types import Field
from partita.arrow.required_fields import relax_required_fields
from partita.arrow.schema import to_arrow_type
from partita.errors import CommitConflict, PartitaError, PartitionValueError, StorageError, TableError, TableMissing
from partita.formats.capabilities import Operation
from partita.formats.column_partitioning import identity_spec
from partita.formats.file_plan import FilePlan, prune_files
from partita.formats.parquet.commit import CommitLog, FolderCommit, FolderFile, list_table_files, visible_files
from partita.formats.parquet.conflicts import check_conflict, needs_check
from partita.formats.parquet.create import (
    TableDefinition,
    check_partition_column,
    keep_inferred_definition,
    read_definition,
)
from partita.formats.parquet.files import ParquetTarget, PartitionedFiles, casefold_names, find_data_files
from partita.formats.parquet.footers import unified_schema
from partita.formats.parquet.statistics import file_statistics, row_counts
from partita.formats.parquet.values import inferred_type, typed_partitions
from partita.formats.partition_selection import PartitionSelection
from partita.formats.table_change import TableChange, spec_id_column, written_partition_texts
from partita.formats.table_version import TableVersion
from partita.storage import Storage, StoredFile

if TYPE_CHECKING:
    import numpy as np

    from partita.formats.parquet.spark.rows import ParquetRows

FORMAT_NAME = "parquet"


@dataclass(frozen=True, slots=True, eq=False)
class ParquetTableVersion(TableVersion):
    """A folder, with its data files in the order of `files`, and the newest commit."""

    storage: Storage
    data_files: tuple[FolderFile, ...]
    latest_commit: FolderCommit
    table_id: str

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self.storage.uri

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in the order of the folders."""
        return tuple(self.schema.find_field(name) for name in self.spec.names)

    @property
    def stored_columns(self) -> Schema:
        """The columns that files have."""
        return Schema(tuple(field for field in self.schema if field.name not in self.spec.names))

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Return whether a commit has recorded that number of the application, or a later one."""
        return self.latest_commit.has_transaction(transaction)

    def must_match_when_read(self, predicate: Predicate, plan: FilePlan) -> bool:
        """Return whether all rows match by their partitions: a file that is written anew may have other rows."""
        if not plan.must_match.all():
            return False
        must_match = prune_files(self.without_statistics(), predicate).must_match
        return bool(must_match.to_numpy(zero_copy_only=False)[plan.file_indices].all())

    def commit(self, change: TableChange) -> int:
        """Decide a commit, move the staged files to their places, and delete those that are replaced."""
        log, staged_paths = CommitLog(self.storage), change.added_files["path"].to_pylist()
        files = [self.data_files[index] for index in change.removed_file_indices.tolist()]
        removed_files = [StoredFile(file.path, file.size, file.modified_time) for file in files]
        while True:
            latest = log.latest_finished()
            if change.transaction is not None and latest.has_transaction(change.transaction):
                self.storage.delete(staged_paths)
                break
            try:
                if needs_check(change):
                    check_conflict(self, load_table_version(self.storage), change)
                if not self.table_id and read_definition(self.storage) is None:
                    self._keep_partition_types(staged_paths, removed_files, change.operation)
            except PartitaError:
                self.storage.delete(staged_paths)
                raise
            commit = log.begin(latest, staged_paths, removed_files, change.transaction)
            if commit is not None:
                self._carry_out(log, commit, change.operation)
                break
        return load_table_version(self.storage).version

    def _keep_partition_types(
        self, staged_paths: Sequence[str], removed_files: Sequence[StoredFile], operation: str
    ) -> None:
        """Write down the inferred definition if a commit would change a partition type, or leave no file to infer from.

        Types that others change by their folders stay as they are inferred. Raises `CommitConflict` if such folders are
        no values of the types of this version, and a definition would be needed.
        """
        latest, stored_files, files_before = list_table_files(self.storage)
        commit = FolderCommit(latest.number + 1, tuple(staged_paths), tuple(removed_files))
        files_after = visible_files(stored_files, commit)
        before, after = (
            find_data_files(self.storage, stored_files, files, FORMAT_NAME) for files in (files_before, files_after)
        )
        fields = self.partition_fields
        types_before, types_after = ([inferred_type(texts) for texts in listing.texts] for listing in (before, after))
        if after.files and types_after in ([field.type for field in fields], types_before):
            return
        try:
            if after.files:
                typed_partitions(fields, after.texts, len(after.files))
        except PartitionValueError as error:
            raise CommitConflict(operation, f"added folders that change the type of {error.column!r}") from error
        keep_inferred_definition(self.storage, TableDefinition("", self.schema, self.spec.names))

    def _carry_out(self, log: CommitLog, commit: FolderCommit, operation: str) -> None:
        try:
            log.finish(commit)
        except StorageError as error:
            raise TableError(
                f"{operation}: the commit is made and Partita reads it, but not all files of {self.uri} are in their "
                f"places, which the next write will do; don't write the rows again: {error}"
            ) from error

    def written_partitions(self, written_files: pa.Table) -> pa.Table:
        """Parse the partition texts of written files."""
        fields = self.partition_fields
        texts = written_partition_texts(written_files, len(fields))
        partitions = typed_partitions(fields, texts, written_files.num_rows)
        return partitions.append_column("spec_id", spec_id_column(0, written_files.num_rows))

    def check_selection(self, selection: PartitionSelection) -> None:
        """Raise `PartitionValueError` for empty texts, which are written as null."""
        for name, column in zip(selection.values.column_names, selection.values.columns, strict=True):
            if pa.types.is_string(column.type) and pc.any(pc.equal(column, "")).as_py():
                raise PartitionValueError(name, "text that is not empty, or None, which is the same to folders", "''")

    def discard_files(self, written_files: pa.Table) -> None:
        """Delete staged files."""
        self.storage.delete(written_files["path"].to_pylist())

    def without_statistics(self) -> ParquetTableVersion:
        """Return this version with nothing but partition values to prune by."""
        return replace(self, statistics=lambda *_: {})

    def rows(self, operation: Operation = Operation.READ) -> ParquetRows:
        """Return the rows of this version on Spark, for an operation."""
        from partita.formats.parquet.spark.rows import ParquetRows

        return ParquetRows(self, operation)

    def write_target(self) -> ParquetTarget:
        """Return where new data files are staged."""
        columns = [pa.field(f.name, relax_required_fields(to_arrow_type(f.type))) for f in self.stored_columns]
        return ParquetTarget(self.storage, pa.schema(columns), self.partition_fields, str(uuid4()))


def load_table_version(storage: Storage, definition: TableDefinition | None = None) -> ParquetTableVersion:
    """Return the table in a folder by its definition, or by the names and the footers of its files.

    Raises `TableMissing` if the folder has neither, and `TableError` for what can't be read correctly.
    """
    definition = definition or read_definition(storage)
    commit, stored_files, table_files = list_table_files(storage)
    listing = find_data_files(storage, stored_files, table_files, FORMAT_NAME)
    if definition is None:
        if not listing.files:
            raise TableMissing(storage.uri)
        definition = _inferred_definition(storage, listing)
    elif listing.files and casefold_names(listing.partition_names) != casefold_names(definition.partition_names):
        raise TableError(
            f"the files of {storage.uri}, such as {listing.files[0].path}, are partitioned by "
            f"{', '.join(listing.partition_names) or 'nothing'}, and by the table's definition they are by "
            f"{', '.join(definition.partition_names) or 'nothing'}; move them elsewhere, or declare these columns"
        )
    schema, files = definition.schema, listing.files
    spec, fields = identity_spec(definition.partition_names, schema), map(schema.find_field, definition.partition_names)
    texts = listing.texts if files else tuple(pa.array([], pa.string()) for _ in definition.partition_names)
    try:
        partitions = typed_partitions(list(fields), texts, len(files))
    except PartitionValueError as error:
        way_out = f"in the name of a folder in {storage.uri}; rename the folder, or declare the column as a string"
        raise PartitionValueError(error.column, error.expected, f"{error.found} {way_out}") from error
    spec_ids = spec_id_column(0, len(files))
    file_rows = pa.table(
        {
            "path": pa.array([file.location for file in files], pa.string()),
            "spec_id": spec_ids,
            "bytes": pa.array([file.size for file in files], pa.int64()),
        }
    )
    return ParquetTableVersion(
        max((int(file.modified_time * 1000) for file in files), default=0),
        schema,
        SpecHistory.from_spec(spec, schema),
        file_rows,
        partitions.append_column("spec_id", spec_ids),
        lambda names, indices: file_statistics(
            storage,
            _take(files, indices),
            Schema(tuple(f for f in schema if f.name in names and f.name not in spec.names)),
        ),
        lambda indices: row_counts(storage, _take(files, indices)),
        storage,
        files,
        commit,
        definition.table_id,
    )


def _inferred_definition(storage: Storage, listing: PartitionedFiles) -> TableDefinition:
    """Return the columns of files, then those of folders."""
    stored_schema = unified_schema(storage, listing.files, listing.partition_names)
    partitions = [
        Field(name, inferred_type(texts)) for name, texts in zip(listing.partition_names, listing.texts, strict=True)
    ]
    for field in partitions:
        check_partition_column(field)
    return TableDefinition("", Schema((*stored_schema.fields, *partitions)), listing.partition_names)


def _take(files: Sequence[FolderFile], indices: np.ndarray | None) -> Sequence[FolderFile]:
    return files if indices is None else [files[index] for index in indices.tolist()]
