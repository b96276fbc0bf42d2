"""What statements do to literal rows, by plain Spark: the truth that tables are held to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from partita.formats.merge_clauses import MatchKind, MergeAction, WhenClause
from tests.fuzz.statements import COLUMN_TYPES, Delete, Merge, Row, Select, Statement, Update, values_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPARED_COLUMNS = [
    f"unix_micros({name}) AS {name}" if type_ == "timestamp" else name for name, type_ in COLUMN_TYPES.items()
]
"""The columns as `Row` has them: a timestamp in Python depends on the machine's time zone."""


class StatementRefused(Exception):
    """The statement fails, and changes nothing."""


@dataclass(slots=True)
class StatementEffect:
    """What a statement did: rows that it gives, or how many it changed."""

    rows: list[Row] | None = None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0


@dataclass(slots=True)
class ReferenceRows:
    """Rows as Python values; each statement is a query over them as literals. `required` columns are never null."""

    spark: SparkSession
    required: frozenset[str] = frozenset()
    rows: list[Row] = field(default_factory=list)

    def apply(self, statement: Statement) -> StatementEffect:
        """Run a statement; `Refused` where Spark fails, or where the rows would break a rule of the table."""
        if isinstance(statement, Select):
            return StatementEffect(self._query(f"WITH t AS ({values_query(self.rows)}) {statement.sql('t')}"))
        if isinstance(statement, Delete):
            return self._delete(statement)
        return self._update(statement) if isinstance(statement, Update) else self._merge(statement)

    def _query(self, text: str) -> list[Row]:
        from pyspark.errors import PySparkException

        try:
            return collect_rows(self.spark.sql(text))
        except PySparkException as error:
            raise StatementRefused(str(error)) from error

    def _delete(self, statement: Delete) -> StatementEffect:
        kept = self._query(
            f"WITH t AS ({values_query(self.rows)}) SELECT {', '.join(COMPARED_COLUMNS)} FROM t "  # noqa: S608
            f"WHERE NOT coalesce(({statement.where}), false)"
        )
        deleted, self.rows = len(self.rows) - len(kept), kept
        return StatementEffect(deleted=deleted)

    def _update(self, statement: Update) -> StatementEffect:
        new = [
            f"CASE WHEN _hit THEN CAST(({statement.values[name]}) AS {type_}) ELSE {name} END AS {name}"
            if name in statement.values
            else name
            for name, type_ in COLUMN_TYPES.items()
        ]
        found = self._query(
            f"WITH t AS ({values_query(self.rows)}), "  # noqa: S608
            f"u AS (SELECT *, coalesce(({statement.where}), false) AS _hit FROM t), "
            f"n AS (SELECT {', '.join(new)}, _hit FROM u) SELECT {', '.join(COMPARED_COLUMNS)}, _hit FROM n"
        )
        hits = [row.pop("_hit") for row in found]
        self._check([row for row, hit in zip(found, hits, strict=True) if hit])
        self.rows = found
        return StatementEffect(updated=sum(hits))

    def _check(self, changed: Sequence[Row]) -> None:
        for row in changed:
            for name in self.required:
                if row[name] is None:
                    raise StatementRefused(f"{name} is null")

    def _merge(self, statement: Merge) -> StatementEffect:
        old = [c for c in statement.clauses if c.match_kind is not MatchKind.WHEN_NOT_MATCHED]
        new = [c for c in statement.clauses if c.match_kind is MatchKind.WHEN_NOT_MATCHED]
        matched = {
            MatchKind.WHEN_MATCHED: "s._there IS NOT NULL",
            MatchKind.WHEN_NOT_MATCHED_BY_SOURCE: "s._there IS NULL",
        }
        action = _first_true_condition([f"{matched[c.match_kind]} AND ({c.condition or 'true'})" for c in old])
        inserted = _first_true_condition([f"({c.condition or 'true'})" for c in new])
        shown = ", ".join(COMPARED_COLUMNS)
        names = ", ".join(COLUMN_TYPES)
        found = self._query(
            f"""WITH t AS (SELECT *, monotonically_increasing_id() AS _row FROM ({values_query(self.rows)})),
            s AS (SELECT *, true AS _there FROM ({values_query(statement.source)})),
            joined AS (SELECT struct(t.*) AS t, struct(s.*) AS s FROM t LEFT JOIN s ON {statement.on}),
            pairs AS (SELECT *, {action} AS _action FROM joined),
            old AS (SELECT {_clause_values(old, "t.{}")}, t._row AS _row, s._there AS _there, _action FROM pairs),
            rest AS (SELECT struct(s.*) AS s FROM s LEFT ANTI JOIN t ON {statement.on}),
            fresh AS (SELECT *, {inserted} AS _action FROM rest),
            new AS (SELECT {_clause_values(new, "NULL")}, CAST(NULL AS BIGINT) AS _row, true AS _there, _action
                    FROM fresh WHERE _action >= 0),
            every AS (SELECT {names}, _row, _there, _action FROM old UNION ALL
                      SELECT {names}, _row, _there, _action FROM new)
            SELECT {shown}, _row, _there, _action FROM every"""  # noqa: S608
        )
        return self._merge_effect(found, old)

    def _merge_effect(self, found: Sequence[Row], old: Sequence[WhenClause]) -> StatementEffect:
        on_matched = [c for c in old if c.match_kind is MatchKind.WHEN_MATCHED]
        only_deletes = [(c.condition, c.action) for c in on_matched] == [(None, MergeAction.DELETE)]
        matches = Counter(row["_row"] for row in found if row["_row"] is not None and row["_there"])
        if on_matched and not only_deletes and any(count > 1 for count in matches.values()):
            raise StatementRefused("a row matches twice")
        effect, rows, changed, seen = StatementEffect(), [], [], set()
        for each in found:
            number, action = each["_row"], each["_action"]
            row = {name: each[name] for name in COLUMN_TYPES}
            if number is None:
                effect.inserted += 1
                rows.append(row)
                changed.append(row)
            elif number not in seen:
                seen.add(number)
                if action >= 0 and old[action].action is MergeAction.DELETE:
                    effect.deleted += 1
                    continue
                rows.append(row)
                if action >= 0:
                    effect.updated += 1
                    changed.append(row)
        self._check(changed)
        self.rows = rows
        return effect


def _first_true_condition(conditions: Sequence[str]) -> str:
    """The number of the first condition that holds, or -1."""
    cases = [f"WHEN {sql} THEN {at}" for at, sql in enumerate(conditions)]
    return f"CASE {' '.join(cases)} ELSE -1 END" if cases else "-1"


def _clause_values(clauses: Sequence[WhenClause], otherwise: str) -> str:
    columns = []
    for name, type_ in COLUMN_TYPES.items():
        values = []
        for at, clause in enumerate(clauses):
            given = clause.values if clause.values is not None else {each: f"s.{each}" for each in COLUMN_TYPES}
            if clause.action is not MergeAction.DELETE and name in given:
                values.append(f"WHEN {at} THEN CAST(({given[name]}) AS {type_})")
        rest = f"CAST({otherwise.format(name)} AS {type_})"
        chosen = f"CASE _action {' '.join(values)} ELSE {rest} END" if values else rest
        columns.append(f"{chosen} AS {name}")
    return ", ".join(columns)


def collect_rows(rows: DataFrame) -> list[Row]:
    """The rows as Python values."""
    return [row.asDict(recursive=True) for row in rows.collect()]


def canonical_texts(rows: Sequence[Row]) -> list[str]:
    """Rows as texts in an order of their own, in which NaN is NaN, and the two zeros differ."""
    return sorted(repr({name: _canonical_value(value) for name, value in row.items()}) for row in rows)


def _canonical_value(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
