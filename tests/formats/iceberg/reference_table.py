"""The reference: the same statements as Spark queries over a plain copy of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.formats.merge_clauses import MatchKind, MergeAction, WhenClause
from tests.formats.delta.tables import RowTuples, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField


class ReferenceTable:
    """Rows without files or partitions; each change is a query over the rows before it."""

    def __init__(self, spark: SparkSession, rows: pa.Table) -> None:
        self._spark = spark
        self._schema = rows.schema
        self._rows: pa.Table | None = rows
        self._frame = spark.createDataFrame(rows)
        self._types = {field.name: field.dataType.simpleString() for field in self._frame.schema.fields}

    @property
    def rows(self) -> RowTuples:
        return sorted_rows(self.table)

    @property
    def table(self) -> pa.Table:
        """The rows; the changes since they were asked for the last time are one query."""
        if self._rows is None:
            self._rows = self._frame.toArrow().cast(self._schema)
            self._frame = self._spark.createDataFrame(self._rows)
        return self._rows

    def append(self, rows: pa.Table) -> None:
        new_rows = rows.select(self._schema.names).cast(self._schema)
        self._frame = self._frame.unionAll(self._spark.createDataFrame(new_rows))
        if self._rows is not None:
            self._rows = pa.concat_tables([self._rows, new_rows])

    def delete(self, where: str) -> None:
        self._becomes(f"select * from copy where not coalesce(({where}), false)")  # noqa: S608

    def update(self, values: Mapping[str, str], where: str = "true") -> None:
        columns = [
            f"case when coalesce(({where}), false) then cast(({values[name]}) as {type_}) else {name} end as {name}"
            if name in values
            else name
            for name, type_ in self._types.items()
        ]
        self._becomes(f"select {', '.join(columns)} from copy")  # noqa: S608

    def overwrite(self, rows: pa.Table, by: Sequence[str]) -> None:
        """Replace the rows for which all of the expressions equal those of one of the new rows."""
        self._view("source", rows)
        keys = ", ".join(f"{sql} as k{index}" for index, sql in enumerate(by))
        same = " and ".join(f"c.k{index} <=> n.k{index}" for index in range(len(by))) or "true"
        names = ", ".join(f"c.{name}" for name in self._types)
        self._becomes(
            f"select {names} from (select *{', ' * bool(by)}{keys} from copy) c "  # noqa: S608
            f"left anti join (select {keys or '1'} from source) n on {same}"
        )
        self.append(rows)

    def merge(self, source: pa.Table, on: str, *clauses: WhenClause) -> None:
        source_columns = [field.name for field in self._view("source", source)]
        old = [clause for clause in clauses if clause.match_kind is not MatchKind.WHEN_NOT_MATCHED]
        new = [clause for clause in clauses if clause.match_kind is MatchKind.WHEN_NOT_MATCHED]
        matched = {
            MatchKind.WHEN_MATCHED: "s.__there is not null",
            MatchKind.WHEN_NOT_MATCHED_BY_SOURCE: "s.__there is null",
        }
        action = _first_true_condition(
            [f"{matched[clause.match_kind]} and ({clause.condition or 'true'})" for clause in old]
        )
        delete_actions = [str(index) for index, clause in enumerate(old) if clause.action is MergeAction.DELETE] or [
            "-2"
        ]
        deletes = ", ".join(delete_actions)
        old_values = self._clause_values_sql(old, source_columns, "t.{}")
        new_values = self._clause_values_sql(new, source_columns, "null")
        remaining = f"select {old_values} from pairs where action not in ({deletes})"  # noqa: S608
        inserted = _first_true_condition([f"({clause.condition or 'true'})" for clause in new])
        query = f"""with t as (select * from copy), s as (select *, true as __there from source),
            joined as (select struct(t.*) as t, struct(s.*) as s from t left join s on {on}),
            pairs as (select *, {action} as action from joined),
            rest as (select struct(s.*) as s from s left anti join t on {on}),
            fresh as (select *, {inserted} as action from rest)
            {remaining} union all select {new_values} from fresh where action >= 0"""  # noqa: S608
        self._becomes(query)

    def _clause_values_sql(self, clauses: Sequence[WhenClause], source_columns: Sequence[str], otherwise: str) -> str:
        columns = []
        for name, type_ in self._types.items():
            values = []
            for index, clause in enumerate(clauses):
                assignments = (
                    clause.values if clause.values is not None else {each: f"s.{each}" for each in source_columns}
                )
                if clause.action is not MergeAction.DELETE and name in assignments:
                    values.append(f"when {index} then cast(({assignments[name]}) as {type_})")
            default = otherwise.format(name)
            column_sql = f"case action {' '.join(values)} else {default} end" if values else default
            columns.append(f"{column_sql} as {name}")
        return ", ".join(columns)

    def _view(self, name: str, rows: pa.Table) -> list[StructField]:
        frame = self._spark.createDataFrame(rows)
        frame.createOrReplaceTempView(name)
        return frame.schema.fields

    def _becomes(self, query: str) -> None:
        self._frame.createOrReplaceTempView("copy")
        self._frame = self._spark.sql(query)
        self._rows = None


def _first_true_condition(conditions: Sequence[str]) -> str:
    """Return SQL for the number of the first condition that holds, or -1."""
    cases = [f"when {sql} then {index}" for index, sql in enumerate(conditions)]
    return f"case {' '.join(cases)} else -1 end" if cases else "-1"
