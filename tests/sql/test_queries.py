"""The tables that a query reads, and the predicates that can be pushed down to one of them."""

from __future__ import annotations

import pytest

from partita import Schema
from partita.algebra.time_zones import UTC_TIME_ZONE
from partita.errors import PartitaError, PredicateError, TableError
from partita.sql.name_resolution import apply_edits
from partita.sql.queries import needs_all_columns, parse_query, pushdown_predicate
from partita.sql.tokens import SqlFragment, tokenize_statement

SCHEMA = Schema.of({"id": "long", "ts": "timestamp", "country": "string", "o": "struct<id:int>"})


def fragment(text: str) -> SqlFragment:
    tokens = tokenize_statement(text)
    return SqlFragment(tokens.source, tuple(tokens.tokens))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM a.b JOIN c ON true, d AS x", ["a.b", "c", "d"]),
        ("SELECT * FROM `a`.`b c` WHERE id IN (SELECT id FROM e.f)", ["a.b c", "e.f"]),
        ("WITH c AS (SELECT * FROM a.b) SELECT * FROM C", ["a.b"]),
        ("WITH c AS (SELECT * FROM c) SELECT * FROM c", ["c"]),
        ("WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT * FROM c) SELECT * FROM c", []),
        ("WITH c AS (SELECT * FROM d), d AS (SELECT * FROM c) SELECT * FROM c JOIN d", ["d"]),
        ("SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) JOIN c", ["c"]),
        ("WITH c AS (SELECT 1) SELECT * FROM x.c JOIN (SELECT * FROM c)", ["x.c"]),
        ("WITH c AS (SELECT 1) SELECT (SELECT max(x) FROM c), (SELECT 1 FROM d)", ["d"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", ["a", "b"]),
        ("SELECT * FROM range(3), VALUES (1) AS v(x), a.b", ["a.b"]),
        ("SELECT * FROM (a.b JOIN c.d ON true)", ["a.b", "c.d"]),
        ("VALUES (1), (2)", []),
        ("SELECT 'FROM a.b' -- FROM c.d", []),
    ],
)
def test_tables(text: str, expected: list[str]) -> None:
    assert sorted(".".join(r.parts) for r in parse_query(fragment(text)).references) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM a.b", "SELECT * FROM {} AS `b`"),
        ("SELECT * FROM a.b o WHERE o.id", "SELECT * FROM {} o WHERE o.id"),
        ("SELECT a.b.id, b.*, a.b.* FROM a . `b`", "SELECT b.id, b.*, b.* FROM {} AS `b`"),
        ("SELECT a.b.id FROM a.b o", "SELECT a.b.id FROM {} o"),
        ("SELECT (SELECT a.b.id FROM c.d), (SELECT a.b.id FROM x AS a) FROM a.b",
         "SELECT (SELECT b.id FROM {} AS `d`), (SELECT a.b.id FROM {} a) FROM {} AS `b`"),
        ("SELECT * FROM a.b TABLESAMPLE (3 ROWS) o", "SELECT * FROM {} TABLESAMPLE (3 ROWS) o"),
    ],
)  # fmt: skip
def test_table_names_are_replaced(text: str, expected: str) -> None:
    query = parse_query(fragment(text))
    edits = [edit for reference in query.references for edit in query.table_edits(reference, "{}")]
    edited = "".join(part for part, _ in apply_edits(text, 0, len(text), edits))
    assert edited == expected.replace("{} a)", "{} AS a)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT * FROM a.b VERSION AS OF 3", "as it is now"),
        ("SELECT * FROM a.b TIMESTAMP AS OF '2025-01-01'", "as it is now"),
        ("SELECT * FROM a.b TABLESAMPLE (3 ROWS)", "needs an alias"),
        ("SELECT a.x.id FROM a.x JOIN b.x", "two tables are called 'x'"),
    ],
)
def test_table_names_that_cant_be_replaced(text: str, problem: str) -> None:
    query = parse_query(fragment(text))
    with pytest.raises(PredicateError, match=problem):
        list(query.table_edits(query.references[0], "{}"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT * FROM IDENTIFIER('a.b')", PredicateError),
        ("SELECT FROM WHERE", PredicateError),
        ("SELECT * FROM a.b WHERE (", PredicateError),
        ("TABLE a.b", PredicateError),
        ("WITH c AS (SELECT 1) INSERT INTO a.b SELECT * FROM c", TableError),
        ("WITH c AS (SELECT 1) DELETE FROM a.b", TableError),
        ("SELECT " + "(" * 2000 + "1" + ")" * 2000, PredicateError),
    ],
)
def test_invalid_queries_are_refused(text: str, error: type[PartitaError]) -> None:
    with pytest.raises(error):
        parse_query(fragment(text))


PUSHED_DOWN = {
    "SELECT * FROM a.b WHERE country = 'FR'": "country = 'FR'",
    "SELECT * FROM a.b WHERE b.country = 'FR' AND a.b.id = 3 AND rand() < 1": "country = 'FR' AND id = 3",
    "SELECT * FROM a.b WHERE id BETWEEN 1 AND 2 AND (country = 'x' AND id = 4) GROUP BY id":
        "`id` >= 1 AND `id` <= 2 AND country = 'x' AND id = 4",
    "SELECT * FROM a.b WHERE id = 1 OR id = 2": "id = 1 OR id = 2",
    "SELECT * FROM a.b WHERE CASE WHEN id = 1 AND true THEN true END AND id = 2": "id = 2",
    "SELECT * FROM a.b AS o WHERE o.id = 1": "id = 1",
    "SELECT * FROM a.b AS o WHERE o.o.id = 1": "o.id = 1",
    "SELECT * FROM a.b o JOIN c ON o.id = c.id WHERE o.id = 1 AND id = 2 AND c.id = 3": "id = 1",
    "SELECT * FROM c, a.b o WHERE o.id = 1": "id = 1",
    "SELECT * FROM a.b o LEFT JOIN c ON true WHERE o.id = 1": "id = 1",
    "SELECT * FROM a.b o LEFT ANTI JOIN c ON true WHERE o.id = 1": "id = 1",
    "SELECT * FROM c RIGHT JOIN d ON true UNION SELECT * FROM a.b WHERE id = 1 ORDER BY 1": "id = 1",
    "SELECT * FROM (SELECT * FROM a.b WHERE id = 1) FULL JOIN c ON true": "id = 1",
    "WITH x AS (SELECT * FROM a.b WHERE id = 1) SELECT * FROM x WHERE id = 2": "id = 1",
    "SELECT * FROM c WHERE EXISTS (SELECT 1 FROM a.b WHERE b.id = 1 AND b.id = c.id)": "id = 1",
    "SELECT * FROM a.b LATERAL VIEW explode(x) e AS y WHERE b.id = 1 AND y = 2 AND id = 3": "id = 1",
    "SELECT * FROM a.b WHERE id = 1 LIMIT 3": "id = 1",
    "SELECT * FROM a.b WHERE country = 'a AND b' AND id = 1": "country = 'a AND b' AND id = 1",
}  # fmt: skip

NOT_PUSHED_DOWN = [
    "SELECT * FROM a.b",
    "SELECT * FROM a.b WHERE rand() < 0.5",
    "SELECT * FROM a.b WHERE year(ts) = 2025",
    "SELECT * FROM a.b WHERE id = other",
    "SELECT * FROM a.b WHERE p.id = 1",
    "SELECT * FROM a.b WHERE id IN (SELECT id FROM c)",
    "SELECT * FROM a.b WHERE id = 1 AND country = 'x' OR true",
    "SELECT * FROM a.b o JOIN c ON true WHERE id = 1",
    "SELECT * FROM a.b o JOIN c AS o ON true WHERE o.id = 1",
    "SELECT * FROM c LEFT JOIN a.b o ON true WHERE o.id = 1",
    "SELECT * FROM a.b o RIGHT JOIN c ON true WHERE o.id = 1",
    "SELECT * FROM a.b o FULL JOIN c ON true WHERE o.id = 1",
    "SELECT * FROM a.b o NATURAL JOIN c WHERE o.id = 1",
    "SELECT * FROM a.b AS o(id, x, y, z) WHERE o.id = 1",
    "SELECT * FROM a.b TABLESAMPLE (3 ROWS) o WHERE o.id = 1",
    "SELECT * FROM a.b PIVOT (max(ts) FOR country IN ('x')) WHERE id = 1",
    "SELECT * FROM (a.b JOIN c ON true) WHERE id = 1",
    "SELECT * FROM (SELECT id + 1 AS id FROM a.b) WHERE id = 1",
    "SELECT id + 1 AS id FROM a.b GROUP BY id HAVING id = 1",
    "SELECT * FROM a.b |> SELECT id + 1 AS id |> WHERE id = 1",
    "SELECT * FROM a.b JOIN c ON b.id = 1",
    "SELECT CASE WHEN id = 1 THEN 2 END FROM a.b",
]


@pytest.mark.parametrize("text", PUSHED_DOWN)
def test_conjuncts_on_one_table_are_pushed_down(text: str) -> None:
    query = parse_query(fragment(text))
    reference = next(r for r in query.references if r.parts == ("a", "b"))
    predicate = pushdown_predicate(query, reference, SCHEMA, UTC_TIME_ZONE)
    assert predicate is not None
    assert " AND ".join(str(p) for p in ([predicate] if predicate.text else predicate.operands)) == PUSHED_DOWN[text]  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", NOT_PUSHED_DOWN)
def test_nothing_is_pushed_down_when_in_doubt(text: str) -> None:
    query = parse_query(fragment(text))
    reference = next(r for r in query.references if r.parts == ("a", "b"))
    assert pushdown_predicate(query, reference, SCHEMA, UTC_TIME_ZONE) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT max(id) FROM a.b", False),
        ("SELECT count(*), id FROM a.b GROUP BY id", False),
        ("SELECT x.id FROM a.b x JOIN c USING (id)", False),
        ("WITH w AS (SELECT id FROM a.b) SELECT id FROM w", False),
        ("SELECT * FROM a.b", True),
        ("SELECT x.* FROM a.b x", True),
        ("SELECT struct(*) FROM a.b", True),
        ("SELECT count(DISTINCT *) FROM a.b", True),
        ("WITH w AS (SELECT * FROM a.b) SELECT id FROM w", True),
        ("SELECT id FROM a.b NATURAL JOIN c", True),
        ("SELECT u FROM a.b AS x(u, v)", True),
        ("SELECT id FROM a.b PIVOT (sum(id) FOR k IN (1, 2))", True),
        ("SELECT id FROM (a.b JOIN c ON true)", True),
        ("FROM a.b", True),
    ],
)
def test_a_query_that_names_columns_needs_no_others(text: str, expected: bool) -> None:
    query = parse_query(fragment(text))
    assert any(needs_all_columns(query, reference) for reference in query.references) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("WITH u AS (SELECT 1L id) MERGE INTO d.t t USING u ON t.id = u.id WHEN MATCHED THEN DELETE", "MERGE"),
        ("WITH u AS (SELECT 1L id) DELETE FROM d.t WHERE id = 1", "DELETE"),
    ],
)
def test_a_change_that_begins_as_a_query_is_refused_with_the_way_out(text: str, kind: str) -> None:
    with pytest.raises(TableError, match=f"is read as a query, and this is {kind}; begin with that word"):
        parse_query(fragment(text))
