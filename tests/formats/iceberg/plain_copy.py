"""The truth: the same statements as queries, run by Spark on a plain copy of the rows."""

# ruff: noqa: S608 - the queries are of the tests' own texts

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.formats.merge import Action, Clause, When
from tests.formats.delta.tables import Rows, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField


class PlainCopy:
    """Rows without files or partitions; each change is a query over those before."""

    def __init__(self, spark: SparkSession, given: pa.Table) -> None:
        self._spark = spark
        self._rows = given
        self._types = {field.name: field.dataType.simpleString() for field in self._view("copy", given)}

    @property
    def rows(self) -> Rows:
        return rows(self._rows)

    @property
    def table(self) -> pa.Table:
        return self._rows

    def append(self, given: pa.Table) -> None:
        self._rows = pa.concat_tables([self._rows, given.select(self._rows.column_names).cast(self._rows.schema)])

    def delete(self, where: str) -> None:
        self._becomes(f"select * from copy where not coalesce(({where}), false)")

    def update(self, values: Mapping[str, str], where: str = "true") -> None:
        columns = [
            f"case when coalesce(({where}), false) then cast(({values[name]}) as {type_}) else {name} end as {name}"
            if name in values
            else name
            for name, type_ in self._types.items()
        ]
        self._becomes(f"select {', '.join(columns)} from copy")

    def overwrite(self, given: pa.Table, by: Sequence[str]) -> None:
        """Replace the rows for which all of some expressions equal those of one that is given."""
        self._view("source", given)
        keys = ", ".join(f"{sql} as k{at}" for at, sql in enumerate(by))
        same = " and ".join(f"c.k{at} <=> n.k{at}" for at in range(len(by))) or "true"
        names = ", ".join(f"c.{name}" for name in self._types)
        self._becomes(
            f"select {names} from (select *{', ' * bool(by)}{keys} from copy) c "
            f"left anti join (select {keys or '1'} from source) n on {same}"
        )
        self.append(given)

    def merge(self, source: pa.Table, on: str, *clauses: Clause) -> None:
        given = [field.name for field in self._view("source", source)]
        old = [clause for clause in clauses if clause.when is not When.NOT_MATCHED]
        new = [clause for clause in clauses if clause.when is When.NOT_MATCHED]
        matched = {When.MATCHED: "s.__there is not null", When.NOT_MATCHED_BY_SOURCE: "s.__there is null"}
        action = _first([f"{matched[clause.when]} and ({clause.condition or 'true'})" for clause in old])
        gone = [str(at) for at, clause in enumerate(old) if clause.action is Action.DELETE] or ["-2"]
        kept = f"select {self._chosen(old, given, 't.{}')} from pairs where action not in ({', '.join(gone)})"
        inserted = _first([f"({clause.condition or 'true'})" for clause in new])
        query = f"""with t as (select * from copy), s as (select *, true as __there from source),
            joined as (select struct(t.*) as t, struct(s.*) as s from t left join s on {on}),
            pairs as (select *, {action} as action from joined),
            rest as (select struct(s.*) as s from s left anti join t on {on}),
            fresh as (select *, {inserted} as action from rest)
            {kept} union all select {self._chosen(new, given, "null")} from fresh where action >= 0"""
        self._becomes(query)

    def _chosen(self, clauses: Sequence[Clause], given: Sequence[str], otherwise: str) -> str:
        columns = []
        for name, type_ in self._types.items():
            values = []
            for at, clause in enumerate(clauses):
                told = clause.values if clause.values is not None else {each: f"s.{each}" for each in given}
                if clause.action is not Action.DELETE and name in told:
                    values.append(f"when {at} then cast(({told[name]}) as {type_})")
            rest = otherwise.format(name)
            chosen = f"case action {' '.join(values)} else {rest} end" if values else rest
            columns.append(f"{chosen} as {name}")
        return ", ".join(columns)

    def _view(self, name: str, given: pa.Table) -> list[StructField]:
        frame = self._spark.createDataFrame(given)
        frame.createOrReplaceTempView(name)
        return frame.schema.fields

    def _becomes(self, query: str) -> None:
        self._view("copy", self._rows)
        self._rows = self._spark.sql(query).toArrow().cast(self._rows.schema)


def _first(conditions: Sequence[str]) -> str:
    """The number of the first condition that holds, or -1."""
    cases = [f"when {sql} then {at}" for at, sql in enumerate(conditions)]
    return f"case {' '.join(cases)} else -1 end" if cases else "-1"
