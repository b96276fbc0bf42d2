"""The public interface of a partitioned table, the same for every format.

Metadata needs no JVM; reading, writing and changing rows use the running Spark session, or start one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.algebra.time_zones import find_time_zone
from partita.algebra.transforms import PartitionFunction
from partita.formats.arguments import (
    mapping_by_name,
    partition_fields_of,
    partition_functions_of,
    rename_mapping,
    seconds_of,
    transaction_of,
)
from partita.formats.capabilities import Operation
from partita.formats.change_feed import ChangeFeed
from partita.formats.conditions import current_condition, evaluated_condition
from partita.formats.containment import DeletedFiles
from partita.formats.file_plan import FilePlan, partition_table, plan_files
from partita.formats.merge_clauses import WhenClause
from partita.formats.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.formats.operations.write_operation import ChangeResult
    from partita.spark.rows import DataFrame, SparkSession, StructType

ORPHAN_GRACE_PERIOD = timedelta(days=7)
"""The age from which on an unreferenced file counts as an orphan."""


_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T", bound="Table")


def spark_operation(method: Callable[Concatenate[_T, _P], _R]) -> Callable[Concatenate[_T, _P], _R]:
    """Decorate a method that uses Spark: translate Spark's errors, and start sessions in the table's time zone."""

    @wraps(method)
    def call_with_spark(self: _T, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        from partita.spark.errors import translate_spark_errors
        from partita.spark.session import new_session_time_zone

        with new_session_time_zone(self.time_zone), translate_spark_errors():
            return method(self, *args, **kwargs)

    return call_with_spark


class Table:
    """A partitioned table in any format. `Lake.create_table`, `Lake.table` and `open_table` return one.

    A predicate `where` is SQL text or a `pt.col(...)` expression. Its dates and times without a time zone are in the
    time zone of the Spark session that runs, or in `time_zone` if none runs; a session that an operation starts gets
    `time_zone` too.

    Each call uses the newest version of the table. A change commits one version or changes nothing. An operation that
    the table's format can't do raises `UnsupportedOperation` before anything is written.
    """

    def __init__(self, name: str, store: TableStore, time_zone: str = "UTC") -> None:
        self.name = name
        self.time_zone = find_time_zone(time_zone).name
        self._store = store

    def _evaluated_condition(
        self, where: PredicateLike | None, spark: SparkSession | None = None
    ) -> UnboundPredicate | None:
        """Return a predicate as the session that will evaluate it reads it."""
        return None if where is None else evaluated_condition(where, self.time_zone, spark)

    def _current_condition(self, where: PredicateLike | None) -> UnboundPredicate | None:
        """Return a predicate as the running session reads it, if one runs."""
        return None if where is None else current_condition(where, self.time_zone)

    def __repr__(self) -> str:
        return f"<Table {self.name} at {self.uri}>"

    def _repr_html_(self) -> str:
        from partita.display.notebook import table_html

        return table_html(self.name, str(self.spec), self.spec.spec_id, self.partitions())

    @property
    def uri(self) -> str:
        """The location of the table: an absolute path, or the URI of an object store."""
        return self._store.uri

    @property
    def format(self) -> str:
        """The name of the table's format, as `Lake.create_table` takes it."""
        return self._store.format.name

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self._store.current_version_without_files().version

    @property
    def schema(self) -> Schema:
        """The columns of the newest version."""
        return self._store.current_version_without_files().schema

    def spark_columns(self) -> tuple[StructType, frozenset[str]]:
        """Return the columns of the newest version as Spark knows them, and the names of those that are generated."""
        rows = self._store.current_version_without_files().rows()
        return rows.spark_schema(), rows.generated_columns()

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec that new files are written with."""
        return self._store.current_version_without_files().spec

    @property
    def specs(self) -> tuple[PartitionSpec, ...]:
        """Every partition spec that files of the table may have."""
        return self._store.current_version_without_files().spec_history.specs

    @property
    def spec_history(self) -> SpecHistory:
        """Every partition spec of the table, and which of them is the current one."""
        return self._store.current_version_without_files().spec_history

    @property
    def spec_times(self) -> Mapping[int, datetime]:
        """The time since which the table has each spec, by spec id; empty for formats that don't record it."""
        return self._store.spec_times()

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Return whether the table has the application's transaction with this number, or one with a higher number.

        Args:
            transaction: the name of the application and its own number, as `append` takes them.
        """
        return self._store.current_version_without_files().has_transaction(transaction_of(transaction))

    def history(self) -> pa.Table:
        """Return the versions of the table, newest first, as an Arrow table.

        The columns are version, timestamp, operation, and further ones of the format.
        """
        return self._store.history()

    def change_feed(self, after: str | None = None) -> ChangeFeed:
        """Return the commits that changed rows since a cursor, with the partitions that each changed. Needs no JVM.

        The table's own log is read, so commits of any writer are in the feed. Commits that change no rows, such as a
        compaction, are left out. If the log no longer reaches back to the cursor, the oldest version that it has counts
        as a change of all of its partitions.

        Args:
            after: the `cursor` of an earlier feed; None for all commits.
        """
        self._store.format.require(Operation.CHANGE_FEED)
        return self._store.change_feed(after)

    def partitions(self, where: PredicateLike | None = None) -> pa.Table:
        """Return the partitions that may have matching rows, as an Arrow table. Needs no JVM.

        The columns are `key`, `id`, `spec_id`, `files`, `rows`, `bytes`, and one for each partition field. `key` and
        `id` are null for values that no partition key can hold, and `rows` if a file doesn't record its number of rows.
        """
        condition = self._current_condition(where)
        return partition_table(self._store.current_version_for(condition), condition, self.name)

    def plan(self, where: PredicateLike | None = None) -> FilePlan:
        """Return which files may have matching rows, and which are skipped for what reason. Needs no JVM."""
        condition = self._current_condition(where)
        return plan_files(self._store.current_version_for(condition), condition)

    @spark_operation
    def read(
        self,
        where: PredicateLike | None = None,
        columns: Sequence[str] | None = None,
        *,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return the matching rows as a Spark DataFrame over the files that `plan` lists, and no others.

        Args:
            where: the predicate; None for all rows.
            columns: the names of the columns to read; None for all columns.
            spark: the session to read with; None for the running one, or a new one.
        """
        from partita.formats.operations.row_operations import read_rows

        return read_rows(self._store, self._evaluated_condition(where, spark), columns, spark)

    @spark_operation
    def read_partitions(
        self, partitions: pa.Table, columns: Sequence[str] | None = None, *, spark: SparkSession | None = None
    ) -> DataFrame:
        """Return the rows of the given partitions as a Spark DataFrame.

        Files of earlier specs are read if they may have rows of these partitions, and their other rows are left out.

        Args:
            partitions: an Arrow table with columns for some or all fields of the current spec, typed as in partition
                keys, and one row for each partition. A table without columns selects all partitions, one without rows
                none.
            columns: the names of the columns to read; None for all columns.
            spark: the session to read with; None for the running one, or a new one.
        """
        from partita.formats.operations.partitions import read_partitions

        return read_partitions(self._store, partitions, columns, spark)

    @spark_operation
    def append(self, rows: object, *, transaction: tuple[str, int] | None = None) -> ChangeResult:
        """Add rows to the table.

        Args:
            rows: a Spark DataFrame, an Arrow table or a pandas DataFrame; columns are matched by name.
            transaction: the name of an application and its own number. If the table has that number or a higher one of
                the application, nothing is added, so that an append can be repeated safely.

        Raises:
            ConstraintError: a row violates a constraint of the table.
            CommitConflict: another writer changed the schema or the spec in the meantime.
        """
        from partita.formats.operations.row_operations import append_rows

        return append_rows(self._store, rows, transaction)

    @spark_operation
    def overwrite_partitions(self, rows: object, *, transaction: tuple[str, int] | None = None) -> ChangeResult:
        """Replace each partition that at least one of the rows belongs to; other partitions stay as they are.

        Args:
            rows: the new rows, as `append` takes them.
            transaction: as for `append`.
        """
        from partita.formats.operations.row_operations import overwrite_partitions

        return overwrite_partitions(self._store, rows, transaction)

    @spark_operation
    def replace_partitions(
        self, rows: object, partitions: pa.Table, *, transaction: tuple[str, int] | None = None
    ) -> ChangeResult:
        """Replace the given partitions, and no others, in one commit. Partitions without new rows become empty.

        `written_partitions` of the result has the rows, files and bytes that were written for each value of the
        selected fields.

        Args:
            rows: the new rows, as `append` takes them.
            partitions: the partitions to replace, as `read_partitions` takes them.
            transaction: as for `append`.

        Raises:
            RowsOutsidePartitions: a row belongs to another partition; nothing is changed.
        """
        from partita.formats.operations.partitions import replace_partitions

        return replace_partitions(self._store, rows, partitions, transaction)

    @spark_operation
    def overwrite(
        self, rows: object, where: PredicateLike | None = None, *, transaction: tuple[str, int] | None = None
    ) -> ChangeResult:
        """Replace all rows that match a predicate on whole partitions; without a predicate, all rows of the table.

        Args:
            rows: the new rows, as `append` takes them. Rows that don't match `where` are refused.
            where: a predicate that every partition matches as a whole or not at all.
            transaction: as for `append`.
        """
        from partita.formats.operations.row_operations import overwrite_rows

        return overwrite_rows(self._store, rows, self._evaluated_condition(where), transaction)

    @spark_operation
    def delete(self, where: PredicateLike) -> ChangeResult:
        """Delete the matching rows.

        Files of which all rows match are removed without being read. Other files are rewritten or, where the format and
        the table's properties say so, get delete files or deletion vectors.
        """
        from partita.formats.operations.row_operations import delete_rows

        return delete_rows(self._store, evaluated_condition(where, self.time_zone))

    @spark_operation
    def update(self, values: Mapping[str, str], where: PredicateLike | None = None) -> ChangeResult:
        """Update the matching rows; without a predicate, all rows.

        Args:
            values: the new values as SQL expressions, by column: `t.update({"price": "price * 2"}, where="country =
                'FR'")`.
            where: the predicate; None for all rows.
        """
        from partita.formats.operations.row_operations import update_rows

        return update_rows(self._store, mapping_by_name(values, "update"), self._evaluated_condition(where))

    @spark_operation
    def merge(self, source: object, on: str, *clauses: WhenClause) -> ChangeResult:
        """Update, delete and insert rows by comparing the table with a source.

        ```python
        t.merge(
            source,
            "t.id = s.id",
            pt.when_matched("s.gone").delete(),
            pt.when_matched().update({"price": "s.price"}),
            pt.when_not_matched().insert(),
        )
        ```

        Args:
            source: the rows to compare with, as `append` takes them.
            on: the join condition in SQL, where the table is `t` and the source is `s`.
            clauses: what to do with which rows; the first clause that applies to a row wins.

        Raises:
            ConstraintError: two rows of the source match one row of the table and could change it in different ways.
            PredicateError: a condition or a value can't be resolved.
        """
        from partita.formats.operations.merge import merge_rows

        return merge_rows(self._store, source, on, clauses)

    def evolve(
        self,
        *,
        add: Sequence[PartitionFunction | str] = (),
        drop: Sequence[PartitionFunction | str] = (),
        rename: Mapping[str, str] | None = None,
    ) -> None:
        """Change the partition spec for data that is written from now on; existing files keep their specs.

        Args:
            add: partition functions or column names to add as fields.
            drop: fields to remove, by name or by function.
            rename: new names of fields, by their old names.
        """
        added_functions, dropped_fields = partition_functions_of(add, "add"), partition_fields_of(drop, "drop")
        self._store.evolve(add=added_functions, drop=dropped_fields, rename=rename_mapping(rename, "rename"))

    @spark_operation
    def rewrite(self, where: PredicateLike | None = None) -> ChangeResult:
        """Rewrite the files that may have matching rows and are small, of an earlier spec, or have deleted rows.

        Args:
            where: Restricts the rewrite to files that may have a match; None considers all files.

        Raises:
            TableError: Files have fewer rows than the metadata says; nothing is changed.
        """
        from partita.formats.operations.rewrite import rewrite_table_files

        return rewrite_table_files(self._store, self._current_condition(where))

    def expire_snapshots(self, older_than: timedelta | None = None, retain_last: int | None = None) -> DeletedFiles:
        """Remove old versions, and delete the files that only they need.

        Args:
            older_than: the age from which a version is removed; None for the table's own setting.
            retain_last: how many versions stay whatever their age; None for the table's own setting.
        """
        older = None if older_than is None else seconds_of(older_than, "expire_snapshots")
        return self._store.expire_versions(older, retain_last)

    def remove_orphans(self, older_than: timedelta = ORPHAN_GRACE_PERIOD) -> DeletedFiles:
        """Delete files that failed or killed writers left behind, and that no version of the table names.

        Nothing outside of the table's folder or behind a symbolic link is deleted, and no file whose name the format's
        writers don't give.

        Args:
            older_than: the age from which a file counts as left behind; a younger one may be about to be committed.
        """
        self._store.format.require(Operation.REMOVE_ORPHANS)
        return self._store.remove_orphan_files(seconds_of(older_than, "remove_orphans"))
