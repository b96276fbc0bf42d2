"""A Lance table: what every table does, and what leaves that are data sets of their own make possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from partita.algebra.parse import Where
from partita.errors import SchemaError, SpecError, value_repr
from partita.formats.conditions import current_condition
from partita.formats.containment import Removed
from partita.formats.lance import maintenance
from partita.formats.lance.search import Wanted, search
from partita.formats.table import GRACE, Table

if TYPE_CHECKING:
    from partita.formats.lance.store import LanceStore
    from partita.spark.rows import DataFrame


class LanceTable(Table):
    """A partitioned table on a Lance namespace. Each partition is a leaf, a Lance data set that anyone can open.

    What others write to a leaf is read from then on; `partitions` and `plan` count it after the next write of ours to
    that leaf, or `repair`.
    """

    @property
    def _lance(self) -> LanceStore:
        return cast("LanceStore", self._store)

    def add_partition(self, *partitions: Mapping[str, object]) -> int:
        """Make empty partitions, each given by the values of its fields; returns how many are new."""
        for one in partitions:
            if not isinstance(one, Mapping) or not all(isinstance(name, str) for name in one):
                raise SpecError(f"a partition is given by the values of its fields, by name, not {value_repr(one)}")
        return maintenance.add_partitions(self._lance, partitions)

    def drop_partition(self, where: Where) -> int:
        """Take whole partitions away, and return how many; their files stay until `cleanup`."""
        return maintenance.drop_partitions(self._lance, current_condition(where, self.time_zone))

    def compact(self, where: Where | None = None, **options: Any) -> dict[str, int]:
        """Put small fragments together, leaf by leaf; `options` are Lance's."""
        return maintenance.compact(self._lance, self._current_condition(where), options)

    def index(
        self, column: str, where: Where | None = None, *, kind: str | None = None, **options: Any
    ) -> dict[str, int]:
        """Index a column in each leaf: vectors by IVF_PQ, other values by BTREE, or as `kind` says.

        `options` are Lance's.
        """
        if not isinstance(kind, str | None):
            raise SchemaError(f"kind is the name of an index, such as 'BTREE', not {value_repr(kind)}")
        return maintenance.index(self._lance, column, self._current_condition(where), kind, options)

    def cleanup(self, older_than: timedelta = GRACE) -> Removed:
        """Delete old versions of leaves, files that no version has, and dropped partitions; returns the paths.

        `left` of it maps what was left alone to the reason.
        """
        return self.remove_orphans(older_than)

    def unregistered(self) -> pa.Table:
        """The leaves in the table's folder that its manifest doesn't have, by path and partition values."""
        return maintenance.unregistered(self._lance)

    def behind(self, where: Where | None = None) -> pa.Table:
        """The leaves that others wrote to since the last write of ours: path, version, newest."""
        return maintenance.behind(self._lance, self._current_condition(where))

    def repair(self) -> dict[str, int]:
        """Register the leaves that others laid out, and count what others wrote to any leaf."""
        return maintenance.repair(self._lance)

    def add_column(self, field: pa.Field) -> None:
        """Give the table one more nullable column, in every leaf."""
        if not isinstance(field, pa.Field):
            raise SchemaError(
                f'a column is a field of Arrow\'s, as pa.field("note", pa.string()), not {value_repr(field)}'
            )
        maintenance.add_column(self._lance, field)

    def search(
        self, vector: Sequence[float], column: str, k: int = 10, where: Where | None = None,
        *, columns: Sequence[str] | None = None, **options: Any,
    ) -> pa.Table:  # fmt: skip
        """The k rows whose vectors are nearest, nearest first, with `_distance`; in this process.

        `options` are those of Lance's nearest: metric, nprobes, refine_factor.
        """
        condition = self._current_condition(where)
        return search(self._lance, Wanted(vector, column, k, condition, columns, options))

    def search_on_spark(
        self, vector: Sequence[float], column: str, k: int = 10, where: Where | None = None,
        *, columns: Sequence[str] | None = None, **options: Any,
    ) -> DataFrame:  # fmt: skip
        """The same as a job over the leaves."""
        from partita.formats.lance.on_spark import search as search_on_spark
        from partita.spark.session import started_in

        with started_in(self.time_zone):
            return search_on_spark(self._lance, Wanted(vector, column, k, self._condition(where), columns, options))
