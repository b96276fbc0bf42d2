"""Merges: rows are matched by what Spark makes of the condition, and a row that matches twice is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import ConstraintError
from partita.formats.capabilities import Operation
from partita.formats.operations.write_operation import ChangeResult
from partita.spark import spark_session
from tests.conformance.row_model import assert_nothing_written
from tests.spark.frames import session_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.conformance.prepared_lakes import PreparedLakes

SCHEMA = pa.schema([("code", pa.string()), ("v", pa.int64())])
CODES = ("  7", "007", "it's", "A")
CODE_ROWS = pa.table({"code": CODES, "v": range(len(CODES))}, schema=SCHEMA)

pytestmark = pytest.mark.needs(Operation.MERGE)


def _fill_code_lake(lake: pt.Lake, format_name: str) -> None:
    lake.create_table("a.t", SCHEMA, format=format_name, partition_by=["code"]).append(CODE_ROWS)


@pytest.fixture
def code_lake(format_name: str, spark: SparkSession, prepared_lakes: PreparedLakes) -> pt.Lake:
    """A lake with a table of a file for each code."""
    return prepared_lakes.open_lake(format_name, "codes", _fill_code_lake)


def source(**columns: Any) -> pa.Table:
    return pa.table({name: pa.array([value]) for name, value in columns.items()} | {"v": pa.array([99], pa.int64())})


def with_99(code: str) -> list[tuple[Any, ...]]:
    """The rows, of which one is changed and none is new."""
    return sorted((c, 99 if c == code else v) for v, c in enumerate(CODES))


def code_rows(code_lake: pt.Lake) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, code_lake.table("a.t").read().collect()))


MATCHES = [
    ({"k": 7}, "t.code = to_char(s.k, '000')", "to_char(s.k, '000')", "007"),
    ({"x": ""}, "t.code = concat(s.x, 'it''s')", "'new'", "it's"),
    ({"k": "a"}, "t.code = s.k COLLATE UTF8_LCASE", "s.k", "A"),
    pytest.param({"k": "a"}, "t.code COLLATE UTF8_LCASE = s.k", "s.k", "A", marks=pytest.mark.long),
    ({"k": "it's"}, "t.code = s.k AND t.v < 100 AND t.code = 'it\\'s'", "s.k", "it's"),
]


@pytest.mark.parametrize(("columns", "on", "new", "code"), MATCHES)
def test_a_row_that_matches_is_found(
    code_lake: pt.Lake, columns: dict[str, object], on: str, new: str, code: str
) -> None:
    """By Spark's own reading of the condition: what is only nearly the same would insert the row once more."""
    code_lake.table("a.t").merge(
        source(**columns),
        on,
        pt.when_matched().update({"v": "s.v"}),
        pt.when_not_matched().insert({"code": new, "v": "s.v"}),
    )
    assert code_rows(code_lake) == with_99(code)


def test_a_row_that_matches_is_found_by_sql(code_lake: pt.Lake) -> None:
    code_lake.sql(
        "MERGE INTO a.t USING (SELECT '' AS x, 99L AS v) n ON t.code = concat(n.x, 'it''s') "
        "WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT (code, v) VALUES ('new', n.v)"
    )
    assert code_rows(code_lake) == with_99("it's")


@pytest.mark.parametrize(
    ("setting", "on"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", 't.code = "k" and t.v < 100'),
        ("spark.sql.parser.escapedStringLiterals", r"t.code = s.k and t.code <> '00\7'"),
    ],
)
def test_settings_of_the_session_decide_the_meaning_of_a_condition(code_lake: pt.Lake, setting: str, on: str) -> None:
    with session_settings(spark_session(), {setting: "true"}):
        code_lake.table("a.t").merge(
            source(k="007"), on, pt.when_matched().update({"v": "s.v"}), pt.when_not_matched().insert({"code": "s.k"})
        )
    assert code_rows(code_lake) == with_99("007")


# --- a row that matches twice

TWICE = pa.table({"code": ["A", "A"], "k": pa.array([1, 2], pa.int64())})


def test_a_row_that_matches_twice_is_refused_whichever_clause_applies(code_lake: pt.Lake) -> None:
    table = code_lake.table("a.t")
    version = table.version
    with assert_nothing_written(code_lake), pytest.raises(ConstraintError, match="more than one row"):
        table.merge(TWICE, "t.code = s.code", pt.when_matched("s.k = 1").update({"v": "s.k"}))
    # Without a clause for rows that match, how often they do doesn't matter.
    done = table.merge(TWICE, "t.code = s.code", pt.when_not_matched().insert({"code": "s.code"}))
    assert done.version is None
    assert table.version == version


@pytest.mark.parametrize("by_sql", [False, True])
def test_a_row_that_matches_twice_is_deleted_where_that_is_all_a_match_can_do(
    code_lake: pt.Lake, *, by_sql: bool
) -> None:
    """As delta-spark and Iceberg's runtime do."""
    table = code_lake.table("a.t")
    given = pa.table({"code": ["A", "A", "it's", "new"], "v": pa.array([1, 2, 3, 4], pa.int64())})
    if by_sql:
        done = code_lake.sql(
            "MERGE INTO a.t USING given s ON t.code = s.code WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.v = 0 THEN UPDATE SET v = 7",
            given=given,
        )
    else:
        done = table.merge(
            given, "t.code = s.code", pt.when_matched().delete(), pt.when_not_matched().insert(),
            pt.when_not_matched_by_source("t.v = 0").update({"v": "7"}),
        )  # fmt: skip
    assert isinstance(done, ChangeResult)
    assert [done.counts[f"rows_{what}"] for what in ("deleted", "inserted", "updated")] == [2, 1, 1]
    assert code_rows(code_lake) == [("  7", 7), ("007", 1), ("new", 4)]


def test_rows_that_no_clause_writes_are_not_checked(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Neither source rows that match, where others are inserted, nor rows that match, where others are changed."""
    strict = pa.schema([pa.field("code", pa.string(), nullable=False), ("v", pa.int64())])
    table = pt.Lake(str(tmp_path)).create_table("a.t", strict, format=format_name)
    table.append(pa.table({"code": ["a", "b"], "v": [1, 2]}, schema=strict))
    given = pa.table({"code": [None, "new"], "v": pa.array([1, 3], pa.int64())})
    table.merge(
        given, "t.v = s.v", pt.when_not_matched().insert(),
        pt.when_not_matched_by_source().update({"code": "nullif(t.code, 'a')"}),
    )  # fmt: skip
    assert sorted(map(tuple, table.read().collect())) == [("a", 1), ("b", 2), ("new", 3)]
    with pytest.raises(ConstraintError, match="column 'code' may not be null"):
        table.merge(given, "t.v = s.v + 10", pt.when_not_matched().insert())
