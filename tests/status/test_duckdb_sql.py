"""Composed SQL: values are quoted, names are quoted, and only `Sql` is inserted as it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from partita.status.duckdb_engine import fetch_rows, open_connection
from partita.status.duckdb_sql import Sql, all_of, any_of, empty_select, name, names, sql, tuple_of, union_all

VALUES: tuple[Any, ...] = (
    "plain", "it's", "'; DROP TABLE x; --", "{braces}", "", "Zürich", 0, -7, 2**62, True, False, None, 1.5,
)  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_a_value_comes_back_as_it_went_in(value: Any) -> None:
    with open_connection() as connection:
        assert fetch_rows(connection, sql("SELECT {value}", value=value)) == [(value,)]


def test_a_timestamp_is_a_timestamp() -> None:
    with open_connection() as connection:
        moment = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
        micros = round(moment.timestamp() * 1_000_000)
        assert fetch_rows(connection, sql("SELECT epoch_us({moment})", moment=moment)) == [(micros,)]


def test_a_list_is_comma_separated_and_an_empty_one_matches_nothing() -> None:
    with open_connection() as connection:
        assert fetch_rows(connection, sql("SELECT 'b' IN ({texts})", texts=["a", "b'"])) == [(False,)]
        assert fetch_rows(connection, sql("SELECT count(*) FROM (SELECT 1) WHERE 'b' IN ({texts})", texts=[])) == [(0,)]


@pytest.mark.parametrize("column", ["rows", "select", 'a"b', "a b", "A"])
def test_a_name_is_quoted(column: str) -> None:
    with open_connection() as connection:
        query = sql("SELECT {column} FROM (SELECT 1 AS {column}) AS t", column=name(column))
        assert connection.execute(query).description[0][0] == column
        assert fetch_rows(
            connection, sql("SELECT {c} FROM (SELECT 2 AS {d}) AS t", c=names([column], relation="t"), d=name(column))
        )


def test_conditions_are_put_in_parentheses() -> None:
    either = any_of([Sql("true"), Sql("false")])
    assert all_of([either, Sql("false")]) == "((true) OR (false)) AND (false)"
    assert (all_of([]), any_of([])) == ("true", "false")


def test_relations_are_composed() -> None:
    rows = sql("SELECT * FROM (VALUES {rows}) AS v(a, b)", rows=[tuple_of("x", 1), tuple_of("it's", None)])
    with open_connection() as connection:
        union = union_all([empty_select((("a", "VARCHAR"), ("b", "INTEGER"))), rows])
        assert sorted(fetch_rows(connection, union)) == [("it's", None), ("x", 1)]
