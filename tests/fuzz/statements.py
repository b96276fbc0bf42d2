"""Random statements on one set of columns: DELETE, UPDATE, MERGE and SELECT, as values and as SQL."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import partita as pt
from partita.formats.merge_clauses import MatchKind, MergeAction, WhenClause

COLUMN_TYPES = {
    "id": "bigint", "p": "string", "txt": "string", "k": "int", "x": "double", "m": "decimal(9,2)", "d": "date",
    "ts": "timestamp", "b": "boolean", "st": "struct<a:int,b:string>",
}  # fmt: skip
"""The columns of every table, as Spark names their types."""

Row: TypeAlias = dict[str, Any]
"""Python values by column; a timestamp is its microseconds since 1970, a struct a dictionary."""

_FIRST_TIMESTAMP = datetime(2025, 1, 31, 22, tzinfo=UTC)
_COLUMN_VALUES: dict[str, list[Any]] = {
    "p": ["a", "b c", "é/%", "A", "z=1"],
    "txt": ["", "it's", 'say "hi"', "line\nbreak", "ß→😀", "a%b_c", "\\", "2025-01-31", "12", "a"],
    "k": [-11, 0, 1, 2, 3, 12, 2**31 - 1],
    "x": [math.nan, 0.0, -0.0, 1.0, 2.5, -math.inf, 1e300],
    "m": [Decimal("-0.01"), Decimal("0.00"), Decimal("2.00"), Decimal("12.34"), Decimal("9999999.99")],
    "d": [date(2025, 1, 31), date(2025, 2, 1), date(1969, 12, 31), date(2024, 2, 29)],
    "ts": [
        int((_FIRST_TIMESTAMP + timedelta(hours=h)).timestamp()) * 10**6 + u
        for h, u in ((0, 0), (1, 1), (3, 0), (26, 5))
    ],
    "b": [True, False],
    "st": [{"a": 1, "b": "x"}, {"a": None, "b": "it's"}, {"a": 2, "b": None}],
}
"""Few values for each column, odd ones among them, so that rows agree in some and differ in others."""


def sql_literal(value: Any, type_: str) -> str:
    """A value in SQL with exactly that type, whatever the session's rules for quotes."""
    if value is None:
        return f"CAST(NULL AS {type_})"
    if isinstance(value, dict):
        return f"named_struct('a', {sql_literal(value['a'], 'int')}, 'b', {sql_literal(value['b'], 'string')})"
    if type_ == "string":
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    return f"timestamp_micros({value})" if type_ == "timestamp" else f"CAST('{_literal_text(value)}' AS {type_})"


def _literal_text(value: Any) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if isinstance(value, float) and math.isnan(value) else str(value)


def values_query(rows: Sequence[Row]) -> str:
    """A query of literal rows."""
    if not rows:
        nulls = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in COLUMN_TYPES.items())
        return f"SELECT {nulls} WHERE false"
    texts = [f"({', '.join(sql_literal(row[name], type_) for name, type_ in COLUMN_TYPES.items())})" for row in rows]
    return f"SELECT * FROM VALUES {', '.join(texts)} AS v({', '.join(COLUMN_TYPES)})"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Select:
    """Some expressions of the rows that match."""

    columns: tuple[str, ...]
    where: str

    def sql(self, table: str) -> str:
        """The statement on a table of that name."""
        return f"SELECT {', '.join(self.columns)} FROM {table} WHERE {self.where}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows that match go."""

    where: str

    def sql(self, table: str) -> str:
        """The statement on a table of that name."""
        return f"DELETE FROM {table} WHERE {self.where}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Update:
    """Rows that match get new values."""

    values: Mapping[str, str]
    where: str

    def sql(self, table: str) -> str:
        """The statement on a table of that name."""
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"UPDATE {table} SET {values} WHERE {self.where}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge from literal rows."""

    source: tuple[Row, ...]
    on: str
    clauses: tuple[WhenClause, ...]

    def sql(self, table: str) -> str:
        """The statement on a table of that name."""
        clauses = " ".join(map(_clause_sql, self.clauses))
        return f"MERGE INTO {table} t USING ({values_query(self.source)}) s ON {self.on} {clauses}"


Statement: TypeAlias = Select | Delete | Update | Merge


def _clause_sql(clause: WhenClause) -> str:
    when = {
        MatchKind.WHEN_MATCHED: "MATCHED",
        MatchKind.WHEN_NOT_MATCHED: "NOT MATCHED",
        MatchKind.WHEN_NOT_MATCHED_BY_SOURCE: "NOT MATCHED BY SOURCE",
    }[clause.match_kind]
    condition = "" if clause.condition is None else f" AND {clause.condition}"
    return f"WHEN {when}{condition} THEN {_action_sql(clause)}"


def _action_sql(clause: WhenClause) -> str:
    if clause.action is MergeAction.DELETE:
        return "DELETE"
    if clause.action is MergeAction.INSERT:
        if clause.values is None:
            return "INSERT *"
        return f"INSERT ({', '.join(clause.values)}) VALUES ({', '.join(clause.values.values())})"  # noqa: S608
    if clause.values is None:
        return "UPDATE SET *"
    return "UPDATE SET " + ", ".join(f"{name} = {value}" for name, value in clause.values.items())


@dataclass(slots=True)
class StatementGenerator:
    """Draws rows and statements; the same seed draws the same."""

    draw: random.Random
    next_id: int = 0

    # --- rows

    def row(self, number: int | None) -> Row:
        """A row of that id."""
        return {
            "id": number,
            **{
                name: None if self.draw.random() < 0.15 else self.draw.choice(known)
                for name, known in _COLUMN_VALUES.items()
            },
        }

    def rows(self, count: int) -> list[Row]:
        """Rows of new ids."""
        self.next_id += count
        return [self.row(number) for number in range(self.next_id - count, self.next_id)]

    # --- statements

    def statement(self, rows: Sequence[Row]) -> Statement:
        """A statement that is likely to find some of the rows."""
        kind = self.draw.choices(["select", "delete", "update", "merge"], [36, 22, 27, 15])[0]
        if kind == "select":
            return Select(tuple(self.draw.sample(_SELECT_EXPRESSIONS, self.draw.randint(1, 4))), self.condition(""))
        if kind == "delete":
            # Few rows go at a time, so that some are left for what comes after.
            return Delete(self._few_rows_condition(self.condition("")))
        if kind == "update":
            return Update(self.assignments("", ""), self.condition(""))
        return self._merge(rows)

    def _few_rows_condition(self, condition: str) -> str:
        return (
            f"({condition}) AND {self.draw.choice(['id % 4 = 1', 'k > 1', 'b', 'id < 9', 'p = ' + _quote_text('a')])}"
        )

    def _merge(self, rows: Sequence[Row]) -> Merge:
        known = [row["id"] for row in rows]
        again = self.draw.sample(known, min(len(known), 5))
        if again and self.draw.random() < 0.2:
            again.append(again[0])
        source = [self.row(number) for number in again] + self.rows(2)
        if self.draw.random() < 0.3:
            source.append(self.row(None))
        self.draw.shuffle(source)
        return Merge(tuple(source), self.draw.choice(_MERGE_CONDITIONS), tuple(self._clauses()))

    def _clauses(self) -> list[WhenClause]:
        if self.draw.random() < 0.15:
            deletes = [pt.when_matched().delete()]
            return deletes + ([pt.when_not_matched().insert()] if self.draw.random() < 0.5 else [])
        clauses: list[WhenClause] = []
        if self.draw.random() < 0.5:
            first = pt.when_matched(self.condition(self.draw.choice(["t.", "s."])))
            clauses.append(first.delete() if self.draw.random() < 0.5 else first.update(self.assignments("t.", "s.")))
        if self.draw.random() < 0.7:
            last = pt.when_matched()
            clauses.append(last.update() if self.draw.random() < 0.5 else last.update(self.assignments("t.", "s.")))
        if self.draw.random() < 0.6 or not clauses:
            new = pt.when_not_matched(None if self.draw.random() < 0.6 else self.condition("s."))
            named = {"id": "s.id", **self.assignments("s.", "s.")}
            clauses.append(new.insert() if self.draw.random() < 0.6 else new.insert(named))
        if self.draw.random() < 0.25:
            few = pt.when_not_matched_by_source(f"t.id % 3 = 1 AND ({self.condition('t.')})")
            clauses.append(few.delete() if self.draw.random() < 0.5 else few.update(self.assignments("t.", "t.")))
        return clauses

    # --- expressions

    def assignments(self, one: str, other: str) -> dict[str, str]:
        """New values of some columns, of expressions on columns of either side."""
        names = self.draw.sample(list(_NEW_VALUE_EXPRESSIONS), self.draw.randint(1, 3))
        values = {}
        for name in names:
            known = (
                _FAILING_EXPRESSIONS[name]
                if name in _FAILING_EXPRESSIONS and self.draw.random() < 0.06
                else _NEW_VALUE_EXPRESSIONS[name]
            )
            values[name] = _qualify_columns(self.draw.choice(known), self.draw.choice([one, other]))
        return values

    def condition(self, side: str, depth: int = 2) -> str:
        """A condition on columns, each with `side` before it."""
        if depth and self.draw.random() < 0.5:
            parts = [self.condition(side, depth - 1) for _ in range(self.draw.randint(1, 2))]
            if len(parts) == 1:
                return f"NOT ({parts[0]})"
            return f"({parts[0]}) {self.draw.choice(['AND', 'OR'])} ({parts[1]})"
        return _qualify_columns(self._leaf(), side)

    def _leaf(self) -> str:
        if self.draw.random() < 0.3:
            return self.draw.choice(_ODD_PREDICATES)
        name = self.draw.choice(list(_COLUMN_LITERALS))
        known = _COLUMN_LITERALS[name]
        value, other = self.draw.choice(known), self.draw.choice(known)
        op = self.draw.choice(["=", "<>", "<", "<=", ">", ">=", "<=>", "!="])
        forms = [
            f"{{{name}}} {op} {value}", f"{value} {op} {{{name}}}", f"{{{name}}} {op} {value}",
            f"{{{name}}} IN ({value}, {other})", f"{{{name}}} NOT IN ({value}, {other})",
            f"{{{name}}} BETWEEN {value} AND {other}", f"{{{name}}} IS NULL", f"{{{name}}} IS NOT NULL",
            f"{{{name}}} {op} NULL", f"NULL {op} {{{name}}}", f"{{{name}}} IN ({value}, NULL)",
        ]  # fmt: skip
        return self.draw.choice(forms)


def _qualify_columns(text: str, side: str) -> str:
    """A template with columns in braces, each with `side` before it."""
    for name in (*COLUMN_TYPES, "st.a"):
        text = text.replace(f"{{{name}}}", f"{side}{name}")
    return text


def _quote_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


_COLUMN_LITERALS: dict[str, list[str]] = {
    "id": ["0", "3", "5L", "7", "11", "2.5", "'4'", "6.0", "1e1"],
    "p": [*map(_quote_text, _COLUMN_VALUES["p"]), "''", '"a"'],
    "txt": [*map(_quote_text, _COLUMN_VALUES["txt"]), "'A'"],
    "k": ["-11", "0", "1", "2", "'2'", "1.5", "2147483647", "2147483648", "cast(1 as smallint)", "1e0"],
    "x": ["0", "-0.0", "1.0", "2.5D", "1e300", "cast('NaN' as double)", "cast('-Infinity' as double)", "1"],
    "m": ["0", "0.00", "-0.01", "12.34", "12.340", "2", "1e1", "9999999.99", "12.345"],
    "d": ["'2025-01-31'", "DATE'2025-02-01'", "'1969-12-31'", "TIMESTAMP'2025-02-01 00:00:00'", "DATE'2024-02-29'"],
    "ts": ["'2025-01-31 22:00:00'", "TIMESTAMP'2025-01-31 23:00:00.000001'", "DATE'2025-02-01'", "'2025-02-01'"],
    "b": ["true", "false"],
    "st.a": ["1", "2", "0"],
}
_ODD_PREDICATES = [
    "{b}", "NOT {b}", "isnan({x})", "{k} % 3 = 1", "length({txt}) > 2", "{txt} LIKE 'a%'", "{txt} LIKE '%t''s'",
    "{p} LIKE '_ c'", "upper({p}) = 'A'", "year({d}) = 2025", "date({ts}) = '2025-02-01'", "{st}.b = 'x'",
    "{st} IS NULL", "{k} = {st}.a", "{txt} = {p}", "{x} = {k}", "coalesce({k}, 0) >= 1",
    "CASE WHEN {b} THEN {k} > 0 ELSE {m} > 1 END", "{b} = ({k} > 1)", "{x} <=> {x}", "{d} > date({ts})", "true",
    "false", "NULL = NULL", "NOT (NULL > {id})", "{txt} RLIKE 'b'", "({k} > 0) IS NULL", "startswith({p}, 'b')",
    "{id} + {k} > 5.5", "{txt} IN ('a', {p})", "{b} IS TRUE", "{m} * 2 = 4", "hour({ts}) = 23", "{p} || {txt} = 'aa'",
    "{txt} > ''", "{p} < 'b'", "exists(array({k}, 1), v -> v = 2)",
]  # fmt: skip
_SELECT_EXPRESSIONS = [
    "id", "p", "txt", "k", "x", "m", "d", "st", "b", "k + 1 AS k1", "upper(txt) AS u", "st.a AS sa", "x * 2 AS x2",
    "unix_micros(ts) AS micros", "coalesce(p, txt) AS pt", "m + 1 AS m1", "CAST(k AS STRING) AS ks",
]  # fmt: skip
_MERGE_CONDITIONS = [
    "t.id = s.id", "t.id = s.id", "t.id = s.id", "s.id = t.id AND t.p = s.p", "t.id = s.id AND t.d <=> s.d",
    "t.id = s.id AND t.k > 0", "t.id <=> s.id", "t.id = s.id AND t.x = s.x", "t.id = s.id AND s.b", "t.k = s.k",
    "t.id = s.id AND NULL = t.k", "t.id = s.id AND t.p IN ('a', 'A')", "t.id = s.id + 1",
]  # fmt: skip
_NEW_VALUE_EXPRESSIONS: dict[str, list[str]] = {
    "p": ["'new'", "coalesce({p}, 'none')", "CASE WHEN {k} > 1 THEN 'big' END", "{p}", "'é/%'", "null"],
    "txt": ["{p}", "concat({txt}, '''')", "null", "upper({txt})", "cast({k} as string)", "'\\\\'"],
    "k": [
        "{k} % 5",
        "length({txt})",
        "null",
        "7",
        "cast({m} as int) % 9",
        "{st}.a",
        "coalesce({k}, 1) % 7",
        "'12'",
        "1.7",
    ],
    "x": ["-{x}", "{x} * 2", "cast('NaN' as double)", "{k}", "null", "cast({m} as double)", "-0.0D", "0"],
    "m": ["{m} / 2", "cast({k} % 100 as decimal(9,2))", "null", "1", "0.005", "2.50"],
    "d": ["date_add({d}, 1)", "date({ts})", "null", "DATE'2025-01-31'", "'2024-02-29'"],
    "ts": ["{ts} + interval 1 hour", "null", "cast({d} as timestamp)", "TIMESTAMP'2025-02-01 01:00:00'"],
    "b": ["NOT {b}", "{k} > 1", "null", "{b}"],
    "st": ["named_struct('a', {k}, 'b', {txt})", "null", "{st}", "named_struct('a', 5, 'b', cast(null as string))"],
}
_FAILING_EXPRESSIONS: dict[str, list[str]] = {
    "k": ["{k} + 2147483647", "{id} + 3000000000", "'abc'", "1 / 0", "{d}", "nocolumn"],
    "m": ["99999999.99", "{m} + 9999999.99", "1 / ({k} - {k})"],
    "d": ["'not a date'", "{b}"],
    "txt": ["nofunction({txt})", "raise_error('no')"],
}
"""Values that fail in some rows, or that Spark does not take at all."""
