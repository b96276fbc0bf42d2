"""One write operation: the table version that it starts from, the files that its executors write, and its commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa

from partita.algebra.predicate import Predicate, PredicateLike, UnboundPredicate
from partita.errors import SchemaError
from partita.formats.arguments import transaction_of
from partita.formats.capabilities import Operation
from partita.formats.format import TableFormat
from partita.formats.partition_selection import PartitionSelection
from partita.formats.store import TableStore
from partita.formats.table_change import NO_FILE_INDICES, TableChange, total
from partita.formats.table_rows import TableRows
from partita.formats.table_version import TableVersion
from partita.spark.frames import frame_from_arrow
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.rewrite import IS_DELETED
from partita.spark.rows import DataFrame, keep_exactly_matching_rows, keep_matching_rows
from partita.spark.session import spark_session

TransactionId = tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What an operation changed.

    Attributes:
        version: the version that it committed; None if there was nothing to do.
        counts: numbers of rows and files, by name, such as `rows_deleted` and `files_added`.
        written_partitions: for `replace_partitions`, an Arrow table of what was written: a column for each selected
            field, then `rows`, `files` and `bytes`. Else None.
    """

    version: int | None
    counts: Mapping[str, int] = field(default_factory=dict)
    written_partitions: pa.Table | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WriteOperation:
    """An operation on one version of a table, and the rows of that version."""

    format: TableFormat
    table_version: TableVersion
    rows: TableRows
    kind: Operation

    @classmethod
    def begin(cls, store: TableStore, kind: Operation, *, removes: bool) -> Self:
        """Begin an operation on the current version, after a check that the table can be written.

        `removes` says that rows are deleted or updated. The version may lack files; `with_files_for` adds those that
        the operation reads.
        """
        store.format.require(kind)
        table_version = store.current_version_without_files()
        table_version.check_writable(removes=removes)
        return cls(store.format, table_version, table_version.rows(kind), kind)

    def with_files_for(self, read_scope: PredicateLike | UnboundPredicate | PartitionSelection) -> Self:
        """Return this operation with every file of its version that may hold what it reads."""
        table_version = self.table_version.with_files_for(read_scope)
        return replace(self, table_version=table_version, rows=table_version.rows(self.kind))

    def is_committed(self, transaction: TransactionId) -> bool:
        """Return whether the table has that transaction already."""
        return transaction is not None and self.table_version.has_transaction(transaction_of(transaction))

    def scan_rows(self, file_indices: np.ndarray, names: Sequence[str] | None = None) -> DataFrame:
        """Read the rows of some files with their positions; `names` of None stands for all columns."""
        columns = self.table_version.schema.names if names is None else names
        return self.rows.scan(spark_session(), file_indices, columns, positions=True)

    def needed_columns(self, file_indices: np.ndarray, assigned_columns: set[str]) -> set[str]:
        """Return the columns of changed rows that are needed: the assigned ones, or all if others depend on them."""
        changed_columns = self.rows.dependent_columns(assigned_columns)
        needs_assigned_only = (
            changed_columns == assigned_columns
            and self.rows.can_update_in_place(file_indices, changed_columns)
            and not self.rows.has_constraints()
        )
        return assigned_columns if needs_assigned_only else set(self.table_version.schema.names)

    def apply_row_changes(
        self, file_indices: np.ndarray, rows: DataFrame, assigned_columns: set[str], new_rows: DataFrame | None = None
    ) -> TableChange:
        """Apply changed rows (`partita.spark.merge`) to some files, and write new rows to other files."""
        for name in sorted(assigned_columns & self.rows.generated_columns()):
            raise SchemaError(f"column {name!r} is generated from others; set those")
        changed_columns = self.rows.dependent_columns(assigned_columns)
        if self.rows.can_update_in_place(file_indices, changed_columns):
            ready_rows = self.rows.refresh_generated_columns(rows) if assigned_columns else rows
            change = self.rows.update_rows(file_indices, _changed_rows(ready_rows), changed_columns)
        elif assigned_columns:
            change = self._move_rows(file_indices, rows)
        else:
            change = self.delete_rows(file_indices, _changed_rows(rows))
        change = replace(change, read_file_indices=file_indices)
        return change if new_rows is None else self._with_inserted_rows(change, new_rows)

    def _move_rows(self, file_indices: np.ndarray, rows: DataFrame) -> TableChange:
        """Delete the old rows, and write those that have new values to other files."""
        cached_rows = rows.persist()
        try:
            ready_rows = self.rows.refresh_generated_columns(cached_rows.filter(f"not {IS_DELETED}"))
            moved_files = self.rows.write_data_files(ready_rows.drop(FILE_INDEX, ROW_INDEX, IS_DELETED))
            with self.discard_on_error(moved_files):
                change = self.delete_rows(file_indices, _changed_rows(cached_rows))
        finally:
            cached_rows.unpersist()
        moved_row_count = total(moved_files["rows"])
        return replace(
            change,
            added_files=pa.concat_tables([change.added_files, moved_files]),
            deleted_row_count=change.deleted_row_count - moved_row_count,
            updated_row_count=change.updated_row_count + moved_row_count,
        )

    def _with_inserted_rows(self, change: TableChange, new_rows: DataFrame) -> TableChange:
        with self.discard_on_error(change.added_files, change.delete_files):
            inserted_files = self.rows.write_data_files(self.rows.conform_rows(new_rows))
        return replace(
            change,
            added_files=pa.concat_tables([change.added_files, inserted_files]),
            inserted_row_count=total(inserted_files["rows"]),
        )

    def delete_rows(
        self, file_indices: np.ndarray, rows: DataFrame, removed_file_indices: np.ndarray = NO_FILE_INDICES
    ) -> TableChange:
        """Delete rows, which have positions, from some files; the same commit removes other files as a whole."""
        if not len(file_indices):
            return TableChange(self.kind)
        self.format.require(Operation.DELETE)
        table_rows = replace(self.rows, removed_file_indices=removed_file_indices)
        return table_rows.delete_rows(file_indices, rows.select(FILE_INDEX, ROW_INDEX))

    @contextmanager
    def discard_on_error(self, *written_files: pa.Table) -> Iterator[None]:
        """Delete written files if the block raises an error."""
        try:
            yield
        except Exception:
            self.table_version.discard_files(pa.concat_tables(written_files))
            raise

    def commit_rows(
        self, change: TableChange, predicate: Predicate, whole_file_indices: np.ndarray = NO_FILE_INDICES
    ) -> ChangeResult:
        """Commit a row-level change that read what a predicate matches; `whole_file_indices` are removed unread."""
        deleted_row_count = change.deleted_row_count
        if len(whole_file_indices):
            deleted_row_count += self.rows.count_rows(whole_file_indices)
        change = replace(
            change,
            removed_file_indices=np.concatenate([whole_file_indices, change.removed_file_indices]),
            read_file_indices=np.concatenate([whole_file_indices, change.read_file_indices]),
            read_scope=predicate,
            parameters={"predicate": str(predicate)},
        )
        return self.commit(change, {
            "rows_deleted": deleted_row_count,
            "rows_updated": change.updated_row_count,
            "rows_inserted": change.inserted_row_count,
            "files_removed": len(change.removed_file_indices),
            "files_added": change.added_files.num_rows + change.delete_files.num_rows,
        })  # fmt: skip

    def commit(self, change: TableChange, counts: Mapping[str, int] | None = None) -> ChangeResult:
        """Commit a change with its counts as metrics, by default those of inserted rows and of whole files.

        An empty change commits only if it records a transaction.
        """
        if counts is None:
            counts = {
                "rows_inserted": change.inserted_row_count,
                "files_added": change.added_files.num_rows,
                "files_removed": len(change.removed_file_indices),
            }
        if change.is_empty:
            return ChangeResult(None, counts)
        return ChangeResult(self.table_version.commit(replace(change, metrics=counts)), counts)


def _changed_rows(rows: DataFrame) -> DataFrame:
    """Return the rows that a clause applies to."""
    return rows.filter(f"{IS_DELETED} is not null")


def source_columns(selection: PartitionSelection) -> list[str]:
    """Return the source columns of the fields of a selection."""
    return list(dict.fromkeys(field.source.partition(".")[0] for field in selection.fields))


def rows_in_partitions(table_rows: TableRows, rows: DataFrame, selection: PartitionSelection) -> DataFrame:
    """Return those rows of the table that are in selected partitions."""
    values = table_rows.partition_value_columns(rows, selection.fields)
    keep_rows = keep_exactly_matching_rows if selection.is_exact else keep_matching_rows
    return keep_rows(rows, values, frame_from_arrow(rows.sparkSession, selection.transform_results))
