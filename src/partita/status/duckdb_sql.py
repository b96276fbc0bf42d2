"""Compose SQL for DuckDB: names and values are quoted here, and nowhere else.

A statement is a template with named placeholders, as in psycopg's `sql` module:

    sql("SELECT {columns} FROM {rows} WHERE asset_key = {asset}", columns=names(KEYS), rows=STATUS_ROWS, asset="a")

A part that is `Sql` is inserted as it is; any other value becomes a literal. A value can therefore never be read as SQL
by mistake: only text that is marked as `Sql` is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

from partita.algebra.physical_values import datetime_to_micros


class Sql(str):
    """Text that is SQL: a relation, an expression, a condition or a statement."""

    __slots__ = ()


SqlValue: TypeAlias = str | int | float | datetime | None
"""What can be written as a literal."""


def sql(template: str, /, **parts: SqlValue | Iterable[SqlValue]) -> Sql:
    """Return a template with its `{placeholders}` filled: `Sql` as it is, values as literals, lists comma-separated."""
    return Sql(template.format_map({name: render(part) for name, part in parts.items()}))


def render(part: SqlValue | Iterable[SqlValue]) -> Sql:
    """Return a part as it is written in a statement; an empty list becomes NULL, so that `IN ({list})` stays valid."""
    if isinstance(part, Iterable) and not isinstance(part, str):
        return Sql(", ".join(map(render, part)) or "NULL")
    return part if isinstance(part, Sql) else literal(part)


def literal(value: SqlValue) -> Sql:
    """Return a value as a literal of DuckDB."""
    if value is None:
        return Sql("NULL")
    if isinstance(value, str):
        return Sql("'" + value.replace("'", "''") + "'")
    if isinstance(value, datetime):
        return Sql(f"make_timestamptz({datetime_to_micros(value)})")
    return Sql(str(value).lower() if isinstance(value, bool) else str(value))


def name(text: str, relation: str = "") -> Sql:
    """Return the name of a column or relation, quoted, after the alias of its `relation` if that is given."""
    quoted_name = '"' + text.replace('"', '""') + '"'
    return Sql(f"{relation}.{quoted_name}" if relation else quoted_name)


def names(columns: Iterable[str], relation: str = "") -> Sql:
    """Return the names of columns, quoted and comma-separated."""
    return comma_separated(name(column, relation) for column in columns)


def comma_separated(parts: Iterable[Sql]) -> Sql:
    """Return expressions as a list, for a select list or the arguments of a function."""
    return Sql(", ".join(parts))


def tuple_of(*parts: SqlValue) -> Sql:
    """Return parts as one row: `('orders', 3)`."""
    return Sql(f"({', '.join(map(render, parts))})")


def all_of(conditions: Iterable[Sql]) -> Sql:
    """Return the condition that every condition holds; true where there is none."""
    return Sql(" AND ".join(f"({condition})" for condition in conditions) or "true")


def any_of(conditions: Iterable[Sql]) -> Sql:
    """Return the condition that some condition holds; false where there is none."""
    return Sql(" OR ".join(f"({condition})" for condition in conditions) or "false")


def union_all(selects: Iterable[Sql]) -> Sql:
    """Return the select of the rows of every select."""
    return Sql(" UNION ALL ".join(selects))


def empty_select(columns: Iterable[tuple[str, str]]) -> Sql:
    """Return a select without rows that has these columns, each a name and a type of DuckDB."""
    columns_sql = comma_separated(Sql(f"NULL::{column_type} AS {name(column)}") for column, column_type in columns)
    return sql("SELECT {columns} WHERE false", columns=columns_sql)
