"""Predicates from SQL text and `col(...)`: the parsed tree, residuals, and errors."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.algebra.literals import LossyLiteral
from partita.algebra.predicate import (
    And,
    BooleanLiteral,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Residual,
    StartsWith,
    col,
)
from partita.algebra.predicate_text import parse_predicate, unescape_literal
from partita.algebra.schema import Schema
from partita.errors import PartitaError, PredicateError

SCHEMA = Schema.of(
    {
        "ts": "timestamp",
        "n": "timestamp_ntz",
        "d": "date",
        "t": "time",
        "i": "int",
        "l": "long",
        "f": "float",
        "x": "double",
        "m": "decimal(4,2)",
        "s": "string",
        "Country": "string",
        "b": "boolean",
        "z": "binary",
        "u": "uuid",
        "a b": "string",
        "place": "struct<city:string>",
        "dot.ted": "int",
    }
)
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


def predicate_of(text: str | Any) -> Predicate:
    return parse_predicate(text, SCHEMA)


HELD = [
    ("i = 5", Comparison("i", "=", 5)),
    ("5 = I", Comparison("i", "=", 5)),
    ("5 < i", Comparison("i", ">", 5)),
    ("i == 5", Comparison("i", "=", 5)),
    ("i <> 5", Comparison("i", "!=", 5)),
    ("i <=> 5", Comparison("i", "<=>", 5)),
    ("i <=> NULL", IsNull("i")),
    ("i = NULL", BooleanLiteral(None)),
    ("i = -5", Comparison("i", "=", -5)),
    ("i = '5'", Comparison("i", "=", 5)),
    ("i = 5.0", Comparison("i", "=", 5)),
    ("i = 5e0", Comparison("i", "=", 5)),
    ("l = 5L", Comparison("l", "=", 5)),
    ("i = CAST('5' AS INT)", Comparison("i", "=", 5)),
    ("x > 1.5", Comparison("x", ">", 1.5)),
    ("x > 5", Comparison("x", ">", 5.0)),
    ("f = CAST(0.1 AS FLOAT)", Comparison("f", "=", 0.10000000149011612)),
    ("x = double('Infinity')", Comparison("x", "=", float("inf"))),
    ("m = 1.5", Comparison("m", "=", Decimal("1.5"))),
    ("m < 2.50BD", Comparison("m", "<", Decimal("2.50"))),
    ("s = 'it\\'s'", Comparison("s", "=", "it's")),
    ('s = "x"', Comparison("s", "=", "x")),
    ("country = 'FR'", Comparison("Country", "=", "FR")),
    ("`a b` = ''", Comparison("a b", "=", "")),
    ("PLACE.CITY = 'Oslo'", Comparison("place.city", "=", "Oslo")),
    ("b", Comparison("b", "=", True)),
    ("NOT b", Not(Comparison("b", "=", True))),
    ("b IS TRUE", Comparison("b", "<=>", True)),
    ("z = X'00ff'", Comparison("z", "=", b"\x00\xff")),
    ("d = '2025-01-01'", Comparison("d", "=", date(2025, 1, 1))),
    ("d < DATE '2025-01-01'", Comparison("d", "<", date(2025, 1, 1))),
    ("d < TIMESTAMP '2025-01-01 00:00:00'", Comparison("d", "<", date(2025, 1, 1))),
    ("ts >= '2025-01-01'", Comparison("ts", ">=", datetime(2025, 1, 1, tzinfo=UTC))),
    ("ts >= '2025-01-01T14:00:00+02:00'", Comparison("ts", ">=", NOON)),
    ("ts >= TIMESTAMP '2025-01-01 12:00:00'", Comparison("ts", ">=", NOON)),
    ("ts >= DATE '2025-01-01'", Comparison("ts", ">=", datetime(2025, 1, 1, tzinfo=UTC))),
    ("n >= '2025-01-01 12:00:00.5'", Comparison("n", ">=", datetime(2025, 1, 1, 12, 0, 0, 500_000))),  # noqa: DTZ001
    ("i IN (1, 2, NULL)", In("i", (1, 2, None))),
    ("i NOT IN (1)", Not(In("i", (1,)))),
    ("i BETWEEN 1 AND 2", And((Comparison("i", ">=", 1), Comparison("i", "<=", 2)))),
    ("i NOT BETWEEN 1 AND 2", Not(And((Comparison("i", ">=", 1), Comparison("i", "<=", 2))))),
    ("i IS NULL", IsNull("i")),
    ("i IS NOT NULL", Not(IsNull("i"))),
    ("i IS DISTINCT FROM 5", Not(Comparison("i", "<=>", 5))),
    ("s LIKE 'ab%'", StartsWith("s", "ab")),
    ("s LIKE 'a\\%b%%'", StartsWith("s", "a%b")),
    ("s NOT LIKE 'ab%'", Not(StartsWith("s", "ab"))),
    ("s LIKE 'ab'", Comparison("s", "=", "ab")),
    ("startswith(s, 'a_')", StartsWith("s", "a_")),
    ("TRUE", BooleanLiteral(True)),
    (
        "(i = 1 OR (b)) AND i = 2",
        And((Or((Comparison("i", "=", 1), Comparison("b", "=", True))), Comparison("i", "=", 2))),
    ),
    (
        "u = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
        col("u") == __import__("uuid").UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ),
]


@pytest.mark.parametrize(("text", "tree"), HELD, ids=[text for text, _ in HELD])
def test_the_tree_holds(text: str, tree: Predicate) -> None:
    predicate = predicate_of(text)
    assert predicate == tree
    assert str(predicate) == text.strip()


RESIDUAL = [
    "i = 2.5", "i = 99999999999", "i = 'x'", "i = ' 5'", "s = 5", "s = DATE '2025-01-01'", "m = 1.555", "m = '1.5'",
    "m = 1.5D", "l = 9007199254740993.0D", "i = TRUE", "b = 1", "b = 'true'", "d = '2025-1-1'",
    "d = '2025-01-01 10:00:00'", "ts = '2025'", "ts = '2025-01-01 10:00:00.1234567'", "n = '2025-01-01T00:00:00Z'",
    "d < TIMESTAMP '2025-01-01 10:00:00'", "z = 'a'", "i = l", "year(ts) = 2025", "upper(s) = 'A'", "i + 1 = 2",
    "s RLIKE 'a'", "s ILIKE 'a%'", "i LIKE '5'", "s LIKE '%a'", "s LIKE 'a!%' ESCAPE '!'", "s NOT LIKE 'a%b'",
    "s = 'it''s'", "s = r'a'", "s = '\\u0041'", "i IN (SELECT 1)", "i IN (1, 'x')", "i IN (1, 1e0)", "x IN ('NaN')",
    "ts IN ('2025-01-01')", "f = 16777217", "m = CAST(1 AS DECIMAL(38,0))", "(i = 1) IS NULL",
    "CASE WHEN b THEN TRUE END", "ts > current_timestamp()", "place = NULL AND i & 1 = 1",
    "exists(array(1, 2), y -> y > i)", "i = :p", "`dot.ted` = 1", "s = CAST('abcdef' AS VARCHAR(3))",
    "u = 'F79C3E09'",
]  # fmt: skip


@pytest.mark.parametrize("text", RESIDUAL)
def test_unsupported_conjuncts_are_residual(text: str) -> None:
    predicate = predicate_of(text)
    parts = predicate.operands if isinstance(predicate, And) else (predicate,)
    assert isinstance(parts[-1], Residual)
    assert parts[-1].expression in text


DIGITS = "1" * 400


@pytest.mark.parametrize("text", ["x < 1e400", "x > -1e400", "f = 1e400", f"x = {DIGITS}.0", f"x = {DIGITS}",
                                  f"x IN (1.0, {DIGITS}.5)", f"x = CAST({DIGITS}.0 AS FLOAT)"])  # fmt: skip
def test_a_number_that_no_double_holds_is_not_infinite(text: str) -> None:
    """Spark refuses the literal; as infinity it would exceed every value of a table."""
    assert predicate_of(text) == Residual(text)


def test_infinity_is_written_by_name() -> None:
    assert predicate_of("x < 'Infinity'") == predicate_of(col("x") < float("inf")) == Comparison("x", "<", float("inf"))
    assert isinstance(predicate_of(col("x") < Decimal("1e400")), Residual)


def test_a_column_called_like_a_word_of_case_does_not_split_one() -> None:
    schema = Schema.of({"end": "int", "a": "int", "b": "int"})
    for text in (
        "end = 1 AND CASE WHEN a = 1 AND b = 2 THEN true END",
        "CASE WHEN end = 1 AND b THEN true END AND a = 1",
    ):
        assert parse_predicate(text, schema) == Residual(text)
    predicate = parse_predicate("a = 1 AND CASE WHEN a = 1 AND b = 2 THEN true END", schema)
    assert isinstance(predicate, And)
    assert [str(part) for part in predicate.operands] == ["a = 1", "CASE WHEN a = 1 AND b = 2 THEN true END"]


def test_a_pattern_with_more_than_a_prefix_keeps_both() -> None:
    assert predicate_of("s LIKE 'ab%c'") == And((StartsWith("s", "ab"), Residual("s LIKE 'ab%c'")))


def test_parts_keep_their_authors_words() -> None:
    predicate = predicate_of("ts >= '2025-01-01'  AND (Country != 'FR' or i in (1,2)) -- why\n and year(ts)=2025")
    assert isinstance(predicate, And)
    assert [str(p) for p in predicate.operands] == [
        "ts >= '2025-01-01'",
        "Country != 'FR' or i in (1,2)",
        "year(ts)=2025",
    ]


ERRORS = [
    ("nope = 3", "'nope' is not in the schema", 0),
    ("i = 3 AND upper(nope) = 'X'", "'nope' is not in the schema", 16),
    ("i = 1 OR place.zip = 3", "'place.zip' is not in the schema", 9),
    ("i =", "does not parse", 2),
    ("i = 1 AND", "does not parse", 6),
    ("i = 1 xor b", "does not parse", 6),
    ("i = 1\n  AND ) b", "does not parse", 12),
    ("s = 'unterminated", "does not parse", 17),
    ("", "the predicate is empty", 0),
    ("   ", "the predicate is empty", 0),
    ("DELETE FROM t", "a single predicate", 0),
    ("i = 1; i = 2", "a single predicate", 0),
    ("i IN (5,)", "a list ends with a comma", 7),
    ("upper(s,) = 'X'", "a list ends with a comma", 7),
]


@pytest.mark.parametrize(("text", "says", "position"), ERRORS)
def test_errors_put_a_caret_under_the_place(text: str, says: str, position: int) -> None:
    with pytest.raises(PredicateError) as caught:
        predicate_of(text)
    assert says in str(caught.value)
    assert (caught.value.position, caught.value.text) == (position, text)
    assert str(caught.value).splitlines()[-1].strip() == "^"


def test_python_expressions_make_the_same_tree() -> None:
    predicate = (col("ts") >= date(2025, 1, 1)) & (col("COUNTRY") != "FR") | ~col("b") & col("i").isin(1, None)
    assert predicate_of(predicate) == predicate_of(
        "ts >= DATE '2025-01-01' AND country != 'FR' OR NOT b AND i IN (1, NULL)"
    )
    assert predicate_of(col("i").between(1, 2)) == predicate_of("i BETWEEN 1 AND 2")
    assert predicate_of(col("i").eq_null_safe(None)) == IsNull("i")
    assert predicate_of(col("s").startswith("a")) == StartsWith("s", "a")
    assert predicate_of(col("i").is_not_null()) == Not(IsNull("i"))
    assert predicate_of(col("i").isin([1, 2])) == In("i", (1, 2))
    assert predicate_of(col("i") == 2.5) == Residual("`i` = CAST('2.5' AS DOUBLE)")


def test_refused_python_expressions() -> None:
    with pytest.raises(PredicateError, match="no truth"):
        bool(col("i") == 1)
    with pytest.raises(PredicateError, match="no truth"):
        bool(col("b"))
    with pytest.raises(PredicateError, match="list"):
        col("i") == [1]  # noqa: B015 - it raises
    with pytest.raises(PredicateError, match="no values"):
        col("i").isin()
    with pytest.raises(PredicateError, match="not a predicate"):
        predicate_of(3)
    with pytest.raises(PredicateError, match="'nope'"):
        predicate_of(col("nope") == 1)
    with pytest.raises(PredicateError, match="dot in its name"):
        predicate_of(col("dot.ted") == 1)
    with pytest.raises(PredicateError, match="name of a column"):
        col("")


def test_values_of_numpy_pandas_and_enums_count_as_what_they_hold() -> None:
    class Region(str, Enum):  # noqa: UP042 - the older form, whose str() is another text
        NORTH = "n"

    assert predicate_of(col("i") == np.int64(5)) == Comparison("i", "=", 5)
    assert predicate_of(col("i").isin(range(2))) == In("i", (0, 1))
    assert (col("s") == Region.NORTH).sql() == "`s` = 'n'"
    assert predicate_of(col("ts") == pd.Timestamp(NOON)) == Comparison("ts", "=", NOON)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("\ud800", "surrogate"),
        (pd.NaT, "NaT"),
        (pd.Timestamp("2025-01-01T00:00:00.000000001Z"), "below the microsecond"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), "outside the years"),
        (Decimal("sNaN"), "NaN"),
    ],
)
def test_values_that_no_column_has_are_refused(value: Any, says: str) -> None:
    with pytest.raises(PredicateError, match=says):
        col("ts") == value  # noqa: B015 - it raises
    with pytest.raises(PredicateError, match=says):
        col("ts").isin(value)


def test_the_reason_of_a_comparison_with_null_is_the_comparison() -> None:
    assert str(predicate_of(col("i") == None)) == "`i` = NULL"  # noqa: E711 - NULL, by way of the operator


def test_variables_leave_the_whole_text_to_spark() -> None:
    assert predicate_of("s = '${x}' AND i = 1") == Residual("s = '${x}' AND i = 1")
    assert (col("s") == "${x}").sql() == "`s` = '$\\{x}'"


def test_quoted_names_are_never_words() -> None:
    schema = Schema.of({"not": "int", "and": "int", "(": "int"})
    assert parse_predicate("`not` NOT IN (`and` + 1)", schema) == Residual("`not` NOT IN (`and` + 1)")
    assert parse_predicate("`not` = 1 AND `and` = 2 AND `(` = 3", schema) == And(
        (Comparison("not", "=", 1), Comparison("and", "=", 2), Comparison("(", "=", 3))
    )


@pytest.mark.parametrize("text", ["IS NOT NULL", "NOT IN (1)", "BETWEEN 1 AND 2", "NOT BETWEEN 1 AND 2", "= 1"])
def test_a_column_with_a_dot_is_left_to_spark_in_every_form(text: str) -> None:
    assert isinstance(predicate_of(f"`dot.ted` {text}"), Residual)


def test_a_name_that_could_be_two_columns_is_refused() -> None:
    schema = Schema.of({"a": "struct<`b.c`:int,b:struct<c:int>>"})
    with pytest.raises(PredicateError, match="ambiguous"):
        parse_predicate("a.b.c = 2", schema)


@pytest.mark.parametrize(
    ("raw", "text"), [(r"a\'b", "a'b"), (r"\n\t\\", "\n\t\\"), (r"\%\_", r"\%\_"), (r"\q", "q"), ("é", "é")]
)
def test_escapes_are_sparks(raw: str, text: str) -> None:
    assert unescape_literal(raw) == text


@pytest.mark.parametrize("raw", [r"\u0041", r"\U00000041", r"\101", r"\0", "a\\"])
def test_escapes_by_number_are_left_to_spark(raw: str) -> None:
    with pytest.raises(LossyLiteral):
        unescape_literal(raw)


def test_deep_nesting_is_an_error_and_long_chains_are_not() -> None:
    with pytest.raises(PredicateError, match="nested too deeply"):
        predicate_of("(" * 5_000 + "i = 1" + ")" * 5_000)
    deep: Any = col("b")
    for _ in range(3_000):
        deep = ~deep
    with pytest.raises(PredicateError, match="nested too deeply"):
        predicate_of(deep)
    assert isinstance(predicate_of(" OR ".join(f"i = {n}" for n in range(2_000))), Or)


def test_sqlglot_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PredicateError, match="a single predicate"):
        predicate_of("ALTER x")
    assert not caplog.records


PIECES = st.sampled_from(
    [
        "i", "s", "ts", "b", "`a b`", "nope", "=", "<=>", "<", "IN", "(", ")", ",", "AND", "OR", "NOT", "!",
        "BETWEEN", "LIKE", "'a%'", "'", "X'0'", "1", "1e999", "99999999999999999999", "-", "NULL", "IS", "CAST(",
        "AS INT)", "DATE '2025-02-30'", "--", "/*", ";", ":", "\\", "\x00", "\ud800", "::", "case", "end", "[",
        "x -> x", "TRUE", "interval 1 day", "select",
    ]
)  # fmt: skip


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=10).map(" ".join)))
@settings(max_examples=500)
def test_fuzz_raises_nothing_but_our_errors(text: str) -> None:
    try:
        predicate = predicate_of(text)
    except PartitaError:
        return
    assert isinstance(predicate, Predicate)
    assert isinstance(predicate.sql(), str)
