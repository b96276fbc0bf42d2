"""Statements from their text, and the errors for text that is no statement."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.errors import PartitaError, PredicateError, TableError
from partita.formats.merge_clauses import MatchKind, MergeAction
from partita.sql.parser import parse_statement
from partita.sql.queries import parse_query
from partita.sql.statements import (
    AlterPartitionStatement,
    DeleteStatement,
    InsertStatement,
    MergeStatement,
    QueryStatement,
    UpdateStatement,
)
from partita.sql.tokens import SqlFragment


def test_a_merge() -> None:
    parsed = parse_statement(
        """
        MERGE INTO sales.orders AS o USING (SELECT * FROM news WHERE x = ')') n -- a comment WHEN
        ON o.id <=> n.id AND CASE WHEN o.end THEN o.when = 1 ELSE true END
        WHEN MATCHED AND n.gone THEN DELETE
        WHEN MATCHED THEN UPDATE SET o.price = n.price + greatest(1, 2), `a``b` = CASE WHEN n.x THEN 1 END
        WHEN NOT MATCHED BY TARGET AND n.x IS NOT NULL THEN INSERT (id, o.price) VALUES (n.id, (1 + 2) * 3)
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET price = 0;
        """
    )
    assert isinstance(parsed, MergeStatement)
    assert (str(parsed.table.name), parsed.table.alias, parsed.source_alias) == ("sales.orders", "o", "n")
    assert isinstance(parsed.source, SqlFragment)
    assert parsed.source.text == "SELECT * FROM news WHERE x = ')'"
    assert parsed.on.text == "o.id <=> n.id AND CASE WHEN o.end THEN o.when = 1 ELSE true END"
    clauses = [
        (
            c.kind,
            c.condition and c.condition.text,
            c.action,
            c.assignments and [(str(n), v.text) for n, v in c.assignments],
        )
        for c in parsed.clauses
    ]
    assert clauses == [
        (MatchKind.WHEN_MATCHED, "n.gone", MergeAction.DELETE, None),
        (MatchKind.WHEN_MATCHED, None, MergeAction.UPDATE,
         [("o.price", "n.price + greatest(1, 2)"), ("a`b", "CASE WHEN n.x THEN 1 END")]),
        (MatchKind.WHEN_NOT_MATCHED, "n.x IS NOT NULL", MergeAction.INSERT,
         [("id", "n.id"), ("o.price", "(1 + 2) * 3")]),
        (MatchKind.WHEN_NOT_MATCHED, None, MergeAction.INSERT, None),
        (MatchKind.WHEN_NOT_MATCHED_BY_SOURCE, None, MergeAction.UPDATE, [("price", "0")]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "qualifiers", "where"),
    [
        ("DELETE FROM a.b", (("a", "b"), ("b",)), None),
        ("delete from a.b where x = ';' -- y", (("a", "b"), ("b",)), "x = ';'"),
        ("DELETE FROM `a`.`b c` AS o WHERE o.x;;", (("o",),), "o.x"),
        ("DELETE FROM a.b o WHERE (o.x)", (("o",),), "(o.x)"),
    ],
)
def test_a_delete(text: str, qualifiers: tuple[tuple[str, ...], ...], where: str | None) -> None:
    parsed = parse_statement(text)
    assert isinstance(parsed, DeleteStatement)
    assert (parsed.table.qualifiers, parsed.where and parsed.where.text) == (qualifiers, where)


def test_an_update() -> None:
    parsed = parse_statement("UPDATE a.b SET x = y, y = x + f(1, 2), z = extract(year FROM ts) WHERE x IN (1, 2)")
    assert isinstance(parsed, UpdateStatement)
    assert [(str(n), v.text) for n, v in parsed.assignments] == [
        ("x", "y"),
        ("y", "x + f(1, 2)"),
        ("z", "extract(year FROM ts)"),
    ]
    assert parsed.where
    assert parsed.where.text == "x IN (1, 2)"


@pytest.mark.parametrize(
    ("text", "columns", "by_name", "overwrite", "rows"),
    [
        ("INSERT INTO a.b VALUES (1), (2)", None, False, False, "VALUES (1), (2)"),
        ("INSERT INTO TABLE a.b (x, `y z`) SELECT 1, 2", ["x", "y z"], False, False, "SELECT 1, 2"),
        ("INSERT INTO a.b (SELECT 1)", None, False, False, "(SELECT 1)"),
        ("INSERT INTO a.b BY NAME SELECT 1 x", None, True, False, "SELECT 1 x"),
        ("INSERT OVERWRITE a.b WITH c AS (SELECT 1) SELECT * FROM c", None, False, True,
         "WITH c AS (SELECT 1) SELECT * FROM c"),
    ],
)  # fmt: skip
def test_an_insert(text: str, columns: list[str] | None, by_name: bool, overwrite: bool, rows: str) -> None:
    parsed = parse_statement(text)
    assert isinstance(parsed, InsertStatement)
    assert (parsed.columns and list(map(str, parsed.columns))) == columns
    assert (parsed.by_name, parsed.overwrite, parsed.query.text) == (by_name, overwrite, rows)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "/**/ select ';' -- x",
        "WITH a AS (SELECT 1) SELECT 2",
        "(SELECT 1)",
        "VALUES (1)",
        "FROM a",
    ],
)
def test_a_query(text: str) -> None:
    assert isinstance(parse_statement(text), QueryStatement)


@pytest.mark.parametrize(
    ("text", "add", "drop"),
    [
        ("ALTER TABLE a.b ADD PARTITION FIELD days(ts)", "days(ts)", None),
        ("alter table a.b add partition field bucket(16, id) AS shard;", "bucket(16, id) AS shard", None),
        ("ALTER TABLE a.b DROP PARTITION FIELD ts_day", None, "ts_day"),
        ("ALTER TABLE a.b DROP PARTITION FIELD truncate(4, name)", None, "truncate(4, name)"),
        ("ALTER TABLE a.b REPLACE PARTITION FIELD ts_day WITH hours(ts) AS h", "hours(ts) AS h", "ts_day"),
    ],
)
def test_partition_fields(text: str, add: str | None, drop: str | None) -> None:
    parsed = parse_statement(text)
    assert isinstance(parsed, AlterPartitionStatement)
    assert (str(parsed.table), parsed.add, parsed.drop) == ("a.b", add, drop)


UNSUPPORTED = {
    "DROP TABLE a.b": "DROP",
    "TRUNCATE TABLE a.b": "TRUNCATE",
    "SHOW TABLES": "SHOW",
    "DESCRIBE a.b": "DESCRIBE",
    "EXPLAIN SELECT 1": "EXPLAIN",
    "CALL f()": "CALL",
    "SET x = 1": "SET",
    "USE a": "USE",
    "REFRESH TABLE a": "REFRESH",
    "CREATE VIEW v AS SELECT 1": "CREATE VIEW",
    "CREATE OR REPLACE TABLE a.b (x INT) USING delta": "CREATE OR",
    "CREATE TEMPORARY VIEW v AS SELECT 1": "CREATE TEMPORARY",
    "ALTER TABLE a.b ADD COLUMN x INT": "ALTER TABLE ... ADD COLUMN",
    "ALTER TABLE a.b RENAME TO c.d": "ALTER TABLE ... RENAME TO",
    "ALTER TABLE a.b WRITE ORDERED BY x": "ALTER TABLE ... WRITE ORDERED",
    "ALTER TABLE a.b": "ALTER TABLE ...",
    "MERGE WITH SCHEMA EVOLUTION INTO a.b USING c ON true WHEN MATCHED THEN DELETE": "MERGE WITH SCHEMA EVOLUTION",
    "`select` 1": "SELECT",
}


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_other_statements_are_refused_by_name(text: str) -> None:
    with pytest.raises(TableError) as caught:
        parse_statement(text)
    assert str(caught.value).startswith(f"{UNSUPPORTED[text]} is not supported; there is SELECT, INSERT INTO")


REFUSED = {
    "": "no statement",
    " \n": "no statement",
    "-- only a comment": "no statement",
    "/* this */ ; ;": "no statement",
    "SELECT 1; SELECT 2": "more than one statement",
    "DELETE FROM a.b; DROP TABLE a.b": "more than one statement",
    "SELECT 'abc": "does not parse",
    "SELECT 1 /* x": "does not parse",
    "SELECT ${x}": "variables",
    "SELECT '${x}'": "variables",
    "SELECT '\udce9'": "surrogate",
    "DELETE a.b": "FROM is expected",
    "DELETE FROM": "a name is expected",
    "DELETE FROM 'a.b'": "a name is expected",
    "DELETE FROM a. WHERE x": "a name is expected",
    "DELETE FROM a.b WHERE": "something is missing",
    "DELETE FROM a.b USING c WHERE x": "not understood",
    "UPDATE a.b": "SET is expected",
    "UPDATE a.b SET": "something is missing",
    "UPDATE a.b SET x": "= is expected",
    "UPDATE a.b SET x = 1,": "something is missing",
    "UPDATE a.b SET x = 1, , y = 2": "something is missing",
    "UPDATE a.b SET x = ": "something is missing",
    "UPDATE a.b SET x = 1 FROM c WHERE y": "not understood",
    "INSERT a.b SELECT 1": "INTO is expected",
    "INSERT INTO a.b": "SELECT or VALUES",
    "INSERT INTO a.b PARTITION (x = 1) SELECT 1": "PARTITION",
    "INSERT INTO a.b (x) BY NAME SELECT 1": "BY NAME",
    "INSERT INTO a.b (x, ) SELECT 1": "something is missing",
    "INSERT INTO a.b (x + 1) SELECT 1": "not understood",
    "INSERT INTO a.b REPLACE WHERE x SELECT 1": "SELECT or VALUES",
    "INSERT INTO a.b TABLE c": "SELECT or VALUES",
    "MERGE a.b USING c ON x WHEN MATCHED THEN DELETE": "INTO is expected",
    "MERGE INTO a.b": "USING is expected",
    "MERGE INTO a.b USING c WHEN MATCHED THEN DELETE": "ON is expected",
    "MERGE INTO a.b USING c ON x": "needs a clause",
    "MERGE INTO a.b USING c ON WHEN MATCHED THEN DELETE": "something is missing",
    "MERGE INTO a.b USING (c) ON x WHEN MATCHED THEN DELETE": "a query is expected",
    "MERGE INTO a.b USING c AS s(x, y) ON x WHEN MATCHED THEN DELETE": "column names",
    "MERGE INTO a.b USING c ON x WHEN MATCHED DELETE": "THEN is expected",
    "MERGE INTO a.b USING c ON x WHEN MATCHED THEN INSERT *": "UPDATE is expected",
    "MERGE INTO a.b USING c ON x WHEN NOT MATCHED THEN DELETE": "INSERT is expected",
    "MERGE INTO a.b USING c ON x WHEN NOT MATCHED THEN INSERT VALUES (1)": "( is expected",
    "MERGE INTO a.b USING c ON x WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)": "2 columns and 1 values",
    "MERGE INTO a.b USING c ON x WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *": "say which to set",
    "MERGE INTO a.b USING c ON x WHEN NOT MATCHED BY OTHERS THEN DELETE": "TARGET is expected",
    "MERGE INTO a.b USING c ON x WHEN MATCHED THEN DELETE RETURNING x": "WHEN is expected",
    "ALTER TABLE a.b ADD PARTITION FIELD": "something is missing",
    "ALTER TABLE a.b REPLACE PARTITION FIELD x": "WITH is expected",
    "ALTER VIEW a.b ADD PARTITION FIELD x": "TABLE is expected",
    "CREATE TABLE a.b USING delta": "the columns are expected",
    "CREATE TABLE a.b (x INT)": "the table's format is expected",
    "CREATE TABLE a.b (x INT,) USING delta": "a column is missing",
    "CREATE TABLE a.b (x) USING delta": "something is missing",
    "CREATE TABLE a.b (x INT COMMENT 'y') USING delta": "COMMENT is not supported",
    "CREATE TABLE a.b (x INT DEFAULT 3) USING delta": "DEFAULT is not supported",
    "CREATE TABLE a.b (x VARCHAR(3)) USING iceberg": "use STRING",
    "CREATE TABLE a.b (x ARRAY<CHAR(3)>) USING lance": "use STRING",
    "CREATE TABLE a.b (x INT) USING delta AS SELECT 1": "INSERT INTO it",
    "CREATE TABLE a.b (x INT) USING delta LOCATION 'z'": "not understood",
    "CREATE TABLE a.b (x INT) USING delta TBLPROPERTIES ('a')": "a property is",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_text_that_is_no_statement_is_refused(text: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse_statement(text)
    assert REFUSED[text] in str(caught.value).partition("\n")[0]


def test_the_error_points_at_the_position() -> None:
    with pytest.raises(PredicateError) as caught:
        parse_statement("UPDATE sales.orders SET price")
    assert str(caught.value) == "= is expected here\n  UPDATE sales.orders SET price\n                               ^"


@pytest.mark.parametrize("text", [None, 3, b"SELECT 1"])
def test_a_statement_is_text(text: object) -> None:
    with pytest.raises(PartitaError, match="SQL text"):
        parse_statement(text)  # type: ignore[arg-type] # refused


BEGINNINGS = st.sampled_from(
    [
        "SELECT", "WITH x AS (SELECT 1)", "VALUES", "INSERT INTO a.b", "INSERT OVERWRITE a", "DELETE FROM a.b",
        "UPDATE a.b SET",
        "MERGE INTO a USING b ON", "MERGE INTO a USING (", "CREATE TABLE a.b (", "ALTER TABLE a ADD PARTITION FIELD",
        "ALTER TABLE a", "DROP", "",
    ]
)  # fmt: skip
PIECES = st.sampled_from(
    [
        "a", "a.b", "`q`", "`", "*", "=", "(", ")", ",", ".", ";", "1", "'x'", "'", '"', "X'0'", "WHERE", "FROM",
        "SET", "ON", "USING", "WHEN", "NOT", "MATCHED", "BY SOURCE", "THEN", "UPDATE", "DELETE", "INSERT", "VALUES",
        "AND", "SELECT", "PARTITIONED BY", "USING delta", "TBLPROPERTIES", "days(ts)", "bucket(4, a)", "STRUCT<a: INT>",
        "INT", "NOT NULL", "AS", "CASE", "END", "--", "/*", "\\", "\x00", "\ud800", "${a}", "[", "{", "x -> x",
    ]
)  # fmt: skip


@pytest.mark.slow(reason="many random inputs")
@given(
    st.one_of(st.text(max_size=40), st.builds("{} {}".format, BEGINNINGS, st.lists(PIECES, max_size=10).map(" ".join)))
)
@settings(max_examples=500)
def test_fuzz_raises_only_errors_of_partita(text: str) -> None:
    try:
        parsed = parse_statement(text)
        if isinstance(parsed, QueryStatement):
            parse_query(parsed.fragment)
    except PartitaError:
        return


@pytest.mark.slow(reason="many random inputs")
def test_deep_nesting_is_a_predicate_error() -> None:
    with pytest.raises(PredicateError, match="nested too deeply"):
        parse_query(query_fragment("SELECT " + "(" * 5_000 + "1" + ")" * 5_000))


def query_fragment(text: str) -> SqlFragment:
    parsed = parse_statement(text)
    assert isinstance(parsed, QueryStatement)
    return parsed.fragment
