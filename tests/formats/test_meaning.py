"""Predicates in sessions that read text another way than Partita does: one meaning, or none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.predicate import Predicate
from partita.spark import session
from tests.formats.delta.tables import ids, in_zone, unchanged
from tests.spark.frames import set_to

if TYPE_CHECKING:
    from collections.abc import Callable

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


USES: dict[str, Callable[[pt.Table, str], object]] = {
    "read": lambda t, where: t.read(where),
    "delete": lambda t, where: t.delete(where),
    "update": lambda t, where: t.update({"counts": "0"}, where),
}
OF_TIMES = ["ts < '2025-1-1'", "id = 1 OR NOT (hour(`TS`) = 16)", "id < unix_timestamp('2025-01-01 00:00:00')"]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", OF_TIMES)
def test_what_spark_would_read_in_its_zone_is_refused(table: pt.Table, use: str, where: str) -> None:
    with (
        in_zone(session(), "America/Los_Angeles"),
        unchanged(table),
        pytest.raises(pt.TableError, match="timeZone to UTC"),
    ):
        USES[use](table, where)


def test_what_the_tree_holds_is_read_in_utc_in_any_zone(table: pt.Table) -> None:
    with in_zone(session(), "America/Los_Angeles"):
        assert ids(table.read("ts < '2025-01-01 06:00:00'").collect()) == [1]
        assert table.delete("ts < '2025-01-01'").version is None
        assert table.update({"counts": "0"}, pt.col("ts") < datetime(2025, 1, 1, tzinfo=UTC)).version is None
        # A residual that speaks of no time, also where a column of times is a part of another's name.
        assert ids(table.read("counts % 2 = 1").collect()) == [1, 3]


def test_literals_mean_the_same_or_are_refused(table: pt.Table) -> None:
    odd: list[str | Predicate] = [pt.col("k") == "it's", pt.col("k") == "a\\b", "k = 'it\\'s'", "upper(k) = 'A\\\\B'"]
    assert [ids(table.read(where).collect()) for where in odd] == [[1], [2], [1], [2]]
    with set_to(session(), {ESCAPES: "true"}):
        for where in odd:
            with unchanged(table), pytest.raises(pt.TableError, match=f"set {ESCAPES} to false"):
                table.read(where)
            with unchanged(table), pytest.raises(pt.TableError, match=f"set {ESCAPES} to false"):
                table.delete(where)
        assert ids(table.read(pt.col("k") == "x").collect()) == [3]


def test_what_stands_in_double_quotes_is_text_or_refused(table: pt.Table) -> None:
    quoted = ('k = "x"', 'lower(k) = "x"')
    assert [ids(table.read(where).collect()) for where in quoted] == [[3], [3]]
    with set_to(session(), {DOUBLE_QUOTES: "true"}):
        for where in quoted:
            with unchanged(table), pytest.raises(pt.TableError, match=f"set {DOUBLE_QUOTES} to false"):
                table.delete(where)
        assert ids(table.read(pt.col("k") == 'not "x"').collect()) == []
