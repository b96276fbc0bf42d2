"""Predicates in sessions that read text another way than Partita does: one meaning, or none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.predicate import Predicate
from partita.spark import spark_session
from tests.formats.delta.tables import assert_unchanged, row_ids
from tests.spark.frames import session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("counts", pa.int64())])
HOURS = (0, 6, 12)
ESCAPES = "spark.sql.parser.escapedStringLiterals"
DOUBLE_QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pt.Table:
    made = pt.Lake(str(tmp_path_factory.mktemp("meaning"))).create_table("a.t", SCHEMA, format=request.param)
    at = [datetime(2025, 1, 1, hour, tzinfo=UTC) for hour in HOURS]
    made.append(pa.table({"id": [1, 2, 3], "ts": at, "k": ["it's", "a\\b", "x"], "counts": [1, 2, 3]}, schema=SCHEMA))
    return made


def test_literals_mean_the_same_or_are_refused(table: pt.Table) -> None:
    odd: list[str | Predicate] = [pt.col("k") == "it's", pt.col("k") == "a\\b", "k = 'it\\'s'", "upper(k) = 'A\\\\B'"]
    assert [row_ids(table.read(where).collect()) for where in odd] == [[1], [2], [1], [2]]
    with session_settings(spark_session(), {ESCAPES: "true"}):
        for where in odd:
            with assert_unchanged(table), pytest.raises(pt.TableError, match=f"set {ESCAPES} to false"):
                table.read(where)
            with assert_unchanged(table), pytest.raises(pt.TableError, match=f"set {ESCAPES} to false"):
                table.delete(where)
        assert row_ids(table.read(pt.col("k") == "x").collect()) == [3]


def test_double_quoted_text_is_a_literal_or_refused(table: pt.Table) -> None:
    quoted = ('k = "x"', 'lower(k) = "x"')
    assert [row_ids(table.read(where).collect()) for where in quoted] == [[3], [3]]
    with session_settings(spark_session(), {DOUBLE_QUOTES: "true"}):
        for where in quoted:
            with assert_unchanged(table), pytest.raises(pt.TableError, match=f"set {DOUBLE_QUOTES} to false"):
                table.delete(where)
        assert row_ids(table.read(pt.col("k") == 'not "x"').collect()) == []
