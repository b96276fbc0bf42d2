"""A partitioned table, whatever its format: the one interface that the formats share.

What needs no rows needs no JVM; reading, writing and changing rows start Spark, or use the session that runs.
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
    from partita.spark.rows import DataFrame, SparkSession

ORPHAN_GRACE_PERIOD = timedelta(days=7)
"""How old a file must be that nothing names before it is taken for left behind."""


_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T", bound="Table")


def spark_operation(method: Callable[Concatenate[_T, _P], _R]) -> Callable[Concatenate[_T, _P], _R]:
    """A method of a table that may start a Spark session, which then has the table's time zone."""

    @wraps(method)
    def call_in_time_zone(self: _T, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        from partita.spark.session import new_session_time_zone

        with new_session_time_zone(self.time_zone):
            return method(self, *args, **kwargs)

    return call_in_time_zone


class Table:
    """A table. `where` is SQL text or a `pt.col(...)` expression, wherever it is taken.

    Every call looks at the newest version. An operation is a part of the table as a whole or not at all. Dates and
    times in `where` that name no time zone are in that of the Spark session, or in `time_zone` where none runs; a
    session that an operation starts is in `time_zone` too.
    """

    def __init__(self, name: str, store: TableStore, time_zone: str = "UTC") -> None:
        self.name = name
        self.time_zone = find_time_zone(time_zone).name
        self._store = store

    def _evaluated_condition(
        self, where: PredicateLike | None, spark: SparkSession | None = None
    ) -> UnboundPredicate | None:
        """A predicate as the session that will evaluate it reads it."""
        return None if where is None else evaluated_condition(where, self.time_zone, spark)

    def _current_condition(self, where: PredicateLike | None) -> UnboundPredicate | None:
        """A predicate as the session that runs reads it, if one does."""
        return None if where is None else current_condition(where, self.time_zone)

    def __repr__(self) -> str:
        return f"<Table {self.name} at {self.uri}>"

    def _repr_html_(self) -> str:
        from partita.display.notebook import table_html

        return table_html(self.name, str(self.spec), self.spec.spec_id, self.partitions())

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self._store.uri

    @property
    def format(self) -> str:
        """The name of the table's format, as `create_table` takes it."""
        return self._store.format.name

    @property
    def version(self) -> int:
        """The newest version."""
        return self._store.current_version_without_files().version

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self._store.current_version_without_files().schema

    @property
    def spec(self) -> PartitionSpec:
        """How new files are partitioned."""
        return self._store.current_version_without_files().spec

    @property
    def specs(self) -> tuple[PartitionSpec, ...]:
        """Every way that files of the table are partitioned."""
        return self._store.current_version_without_files().spec_history.specs

    @property
    def spec_history(self) -> SpecHistory:
        """The same, with the current one told apart."""
        return self._store.current_version_without_files().spec_history

    @property
    def spec_times(self) -> Mapping[int, datetime]:
        """Since when the table has each spec, by its id, as far as its format tells, which Iceberg does."""
        return self._store.spec_times()

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Whether an application's number, or a later one, is a part of the table."""
        return self._store.current_version_without_files().has_transaction(transaction_of(transaction))

    def history(self) -> pa.Table:
        """The versions and what made each, newest first: version, timestamp, operation, and more."""
        self._store.format.require(Operation.HISTORY)
        return self._store.history()

    def change_feed(self, after: str | None = None) -> ChangeFeed:
        """What was done to the table's data since a cursor, by its own log, whoever did it, oldest first; no JVM.

        Each of `.commits` says the partitions that it touched; one that changes no rows, such as a compaction, is left
        out. `.cursor` is what to ask after the next time; None asks from the start. Where the log no longer has all of
        it, the oldest version that is still known counts as touching every partition that it has.
        """
        self._store.format.require(Operation.CHANGE_FEED)
        return self._store.change_feed(after)

    def partitions(self, where: PredicateLike | None = None) -> pa.Table:
        """The partitions that may hold a match: key, id, spec_id, files, rows, bytes, and each field's value.

        `key` and `id` are null where a partition can't have a canonical key; `rows` where a file doesn't say.
        """
        condition = self._current_condition(where)
        return partition_table(self._store.current_version_for(condition), condition, self.name)

    def plan(self, where: PredicateLike | None = None) -> FilePlan:
        """The files that may hold a match, and those that don't, with the reason."""
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
        """The rows that match, as a DataFrame over exactly the planned files."""
        from partita.formats.operations.row_operations import read_rows

        return read_rows(self._store, self._evaluated_condition(where, spark), columns, spark)

    @spark_operation
    def read_partitions(
        self, partitions: pa.Table, columns: Sequence[str] | None = None, *, spark: SparkSession | None = None
    ) -> DataFrame:
        """The rows of some partitions: those whose values of the table's fields are a row of `partitions`.

        That has a column for each of some of the current spec's fields, typed as in partition keys; null is null.
        Without columns it stands for all partitions, without rows for none. Files of other specs are read where rows of
        them may be in those partitions, and their other rows left out.
        """
        from partita.formats.operations.partitions import read_partitions

        return read_partitions(self._store, partitions, columns, spark)

    @spark_operation
    def append(self, rows: object, *, transaction: tuple[str, int] | None = None) -> ChangeResult:
        """Add rows: a Spark DataFrame, an Arrow table or a pandas DataFrame, whose columns are found by name.

        With `transaction`, an application's name and its own number, a number that is there already adds nothing.
        """
        from partita.formats.operations.row_operations import append_rows

        return append_rows(self._store, rows, transaction)

    @spark_operation
    def overwrite_partitions(self, rows: object, *, transaction: tuple[str, int] | None = None) -> ChangeResult:
        """Replace every partition that the rows have any in, and no other."""
        from partita.formats.operations.row_operations import overwrite_partitions

        return overwrite_partitions(self._store, rows, transaction)

    @spark_operation
    def replace_partitions(
        self, rows: object, partitions: pa.Table, *, transaction: tuple[str, int] | None = None
    ) -> ChangeResult:
        """Replace exactly those partitions, which are said as `read_partitions` takes them, in one commit.

        Those that have no rows among the given ones are emptied. Rows outside of them are `OutsidePartitions`, and then
        nothing is changed. The outcome's `written` counts what was written, by the fields that were asked for.
        """
        from partita.formats.operations.partitions import replace_partitions

        return replace_partitions(self._store, rows, partitions, transaction)

    @spark_operation
    def overwrite(
        self, rows: object, where: PredicateLike | None = None, *, transaction: tuple[str, int] | None = None
    ) -> ChangeResult:
        """Replace all that matches a predicate on whole partitions; rows that don't match it are refused."""
        from partita.formats.operations.row_operations import overwrite_rows

        return overwrite_rows(self._store, rows, self._evaluated_condition(where), transaction)

    @spark_operation
    def delete(self, where: PredicateLike) -> ChangeResult:
        """Take away the rows that match."""
        from partita.formats.operations.row_operations import delete_rows

        return delete_rows(self._store, evaluated_condition(where, self.time_zone))

    @spark_operation
    def update(self, values: Mapping[str, str], where: PredicateLike | None = None) -> ChangeResult:
        """Give the rows that match new values, by column, in SQL: `t.update({"price": "price * 2"})`."""
        from partita.formats.operations.row_operations import update_rows

        return update_rows(self._store, mapping_by_name(values, "update"), self._evaluated_condition(where))

    @spark_operation
    def merge(self, source: object, on: str, *clauses: WhenClause) -> ChangeResult:
        """Change, delete and add rows by those of a source; in SQL the table is `t` and the source `s`.

        The clauses are tried in order. A row of the table that two of the source would change is an error.
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
        """Partition what is written from now on another way."""
        added, dropped = partition_functions_of(add, "add"), partition_fields_of(drop, "drop")
        self._store.format.require(Operation.EVOLVE)
        self._store.evolve(add=added, drop=dropped, rename=rename_mapping(rename, "rename"))

    @spark_operation
    def rewrite(self, where: PredicateLike | None = None) -> ChangeResult:
        """Write anew the files that may hold a match and are small, of an earlier spec, or have deleted rows.

        The rows of the table stay the same.
        """
        from partita.formats.operations.rewrite import rewrite_table_files

        return rewrite_table_files(self._store, self._current_condition(where))

    def expire_snapshots(self, older_than: timedelta | None = None, retain_last: int | None = None) -> DeletedFiles:
        """Expire old versions and delete the files that only they have; arguments default to the table's settings.

        Returns the paths of the deleted files; `left` of it maps those that were left alone to the reason.
        """
        older = None if older_than is None else seconds_of(older_than, "expire_snapshots")
        self._store.format.require(Operation.EXPIRE_SNAPSHOTS)
        return self._store.expire_versions(older, retain_last)

    def remove_orphans(self, older_than: timedelta = ORPHAN_GRACE_PERIOD) -> DeletedFiles:
        """Delete files that failed or killed writers left behind; files of any version of the table stay.

        Younger ones stay too, for a writer may be about to commit them. Nothing outside of the table's folder is
        deleted. Returns the paths of the deleted files; `left` of it maps those that were left alone to the reason.
        """
        self._store.format.require(Operation.REMOVE_ORPHANS)
        return self._store.remove_orphan_files(seconds_of(older_than, "remove_orphans"))
