"""`LanceTable`: a table, with the operations that only Lance tables have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from partita.algebra.predicate import PredicateLike
from partita.errors import SchemaError, SpecError, value_repr
from partita.formats.conditions import current_condition
from partita.formats.containment import DeletedFiles
from partita.formats.lance.alter import add_column, add_partitions, drop_partitions
from partita.formats.lance.optimize import compact_leaves, create_indices
from partita.formats.lance.repair import externally_changed_leaves, repair_table, unregistered_leaves
from partita.formats.lance.search import SearchRequest, search_vectors
from partita.formats.table import ORPHAN_GRACE_PERIOD, Table, spark_operation

if TYPE_CHECKING:
    from partita.formats.lance.store import LanceTableStore
    from partita.spark.rows import DataFrame


class LanceTable(Table):
    """A partitioned Lance table. Each partition is a leaf: a Lance dataset that any Lance client can open.

    `read` sees what other writers commit to a leaf at once. `partitions` and `plan` count it after Partita's next write
    to that leaf, or after `repair`.
    """

    def __init__(self, name: str, store: LanceTableStore, time_zone: str = "UTC") -> None:
        super().__init__(name, store, time_zone)
        self._lance_store = store

    def add_partition(self, *partitions: Mapping[str, object]) -> int:
        """Add empty partitions in one change of the manifest, and return how many are new.

        Args:
            partitions: the values of the partition fields, by name: `t.add_partition({"date": day, "country": "US"})`.
        """
        for values in partitions:
            if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
                raise SpecError(f"a partition is given by the values of its fields, by name, not {value_repr(values)}")
        return add_partitions(self._lance_store, partitions)

    def drop_partition(self, where: PredicateLike) -> int:
        """Drop the partitions that match a predicate on partition fields, and return how many there were.

        `cleanup` deletes their files.
        """
        return drop_partitions(self._lance_store, current_condition(where, self.time_zone))

    def compact(self, where: PredicateLike | None = None, **options: Any) -> dict[str, int]:
        """Merge small fragments, leaf by leaf; `options` are those of Lance's `compact_files`."""
        return compact_leaves(self._lance_store, self._current_condition(where), options)

    def create_index(
        self, column: str, where: PredicateLike | None = None, *, kind: str | None = None, **options: Any
    ) -> dict[str, int]:
        """Create an index on a column in each leaf that may have matching rows.

        Args:
            column: the column; a vector column gets an IVF_PQ index, another one a BTREE index.
            where: a predicate that selects leaves; None for all.
            kind: the name of another type of index.
            options: options of Lance's `create_index` or `create_scalar_index`.
        """
        if not isinstance(kind, str | None):
            raise SchemaError(f"kind must be the name of an index type, such as 'BTREE', not {value_repr(kind)}")
        return create_indices(self._lance_store, column, self._current_condition(where), kind, options)

    def cleanup(self, older_than: timedelta = ORPHAN_GRACE_PERIOD) -> DeletedFiles:
        """Delete old versions of leaves, orphan files and dropped partitions.

        Args:
            older_than: the age from which a version or a file is deleted.
        """
        return self.remove_orphans(older_than)

    def unregistered_leaves(self) -> pa.Table:
        """Return the leaves in the table's folder that its manifest doesn't have: path, id, and partition values."""
        return unregistered_leaves(self._lance_store)

    def externally_changed_leaves(self, where: PredicateLike | None = None) -> pa.Table:
        """Return the leaves that other writers changed since Partita's last write: path, version, newest version."""
        return externally_changed_leaves(self._lance_store, self._current_condition(where))

    def repair(self) -> dict[str, int]:
        """Register the leaves that other writers created, and count what they wrote to any leaf."""
        return repair_table(self._lance_store)

    def add_column(self, field: pa.Field) -> None:
        """Add a nullable column to the table and all of its leaves."""
        if not isinstance(field, pa.Field):
            raise SchemaError(
                f'a column must be an Arrow field, as pa.field("note", pa.string()), not {value_repr(field)}'
            )
        add_column(self._lance_store, field)

    def search(
        self, vector: Sequence[float], column: str, k: int = 10, where: PredicateLike | None = None,
        *, columns: Sequence[str] | None = None, **options: Any,
    ) -> pa.Table:  # fmt: skip
        """Return the `k` rows with the nearest vectors as an Arrow table, nearest first, with a column `_distance`.

        Runs in this process, without Spark.

        Args:
            vector: the vector to search for.
            column: the vector column.
            k: the number of rows.
            where: a predicate; only leaves that may match are searched. One that Lance can't evaluate is refused.
            columns: the columns to return; None for all.
            options: options of Lance's `nearest`: metric, nprobes, refine_factor.
        """
        condition = self._current_condition(where)
        return search_vectors(self._lance_store, SearchRequest(vector, column, k, condition, columns, options))

    @spark_operation
    def search_on_spark(
        self, /, vector: Sequence[float], column: str, k: int = 10, where: PredicateLike | None = None,
        *, columns: Sequence[str] | None = None, **options: Any,
    ) -> DataFrame:  # fmt: skip
        """Return the result of `search` as a DataFrame, computed as a Spark job over the leaves."""
        from partita.formats.lance.spark.rows import search_on_spark

        condition = self._evaluated_condition(where)
        return search_on_spark(self._lance_store, SearchRequest(vector, column, k, condition, columns, options))
