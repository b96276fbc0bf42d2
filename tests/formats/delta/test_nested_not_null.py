"""NOT NULL inside of structs, as in delta-spark: a null struct violates NOT NULL of its fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import partita as pt
from partita.errors import ConstraintError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REQUIRED = "s STRUCT<a: INT NOT NULL, b: INT>, r STRUCT<x: INT NOT NULL> NOT NULL"
_COLUMNS = f"id INT, {_REQUIRED}, d STRUCT<e: STRUCT<f: INT NOT NULL> NOT NULL>"
_RIGHT = {"s": "named_struct('a', 1, 'b', cast(null AS INT))", "r": "named_struct('x', 1)",
          "d": "named_struct('e', named_struct('f', 1))"}  # fmt: skip
_VIOLATIONS = {
    "s": ("cast(null AS STRUCT<a: INT, b: INT>)", "s.a"),
    "s.a": ("named_struct('a', cast(null AS INT), 'b', 2)", "s.a"),
    "r": ("cast(null AS STRUCT<x: INT>)", "r"),
    "r.x": ("named_struct('x', cast(null AS INT))", "r.x"),
    "d": ("cast(null AS STRUCT<e: STRUCT<f: INT>>)", "d.e"),
    "d.e": ("named_struct('e', cast(null AS STRUCT<f: INT>))", "d.e"),
    "d.e.f": ("named_struct('e', named_struct('f', cast(null AS INT)))", "d.e.f"),
}


def _query(number: int, changes: dict[str, str]) -> str:
    """Return a query of one row in which Spark takes every column for nullable."""
    values = {**_RIGHT, **changes}
    columns = (f"if(rand() < 2, {value}, null) AS {name}" for name, value in values.items())
    return f"SELECT {number} AS id, {', '.join(columns)}"


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pt.Table:
    folder = tmp_path_factory.mktemp("nested")
    spark.sql(f"CREATE TABLE delta.`{folder}` ({_COLUMNS}) USING delta")
    table_ = pt.open_table(str(folder), format="delta")
    table_.append(spark.sql(_query(1, {})))
    return table_


def test_a_nullable_input_of_valid_rows_is_taken(spark: SparkSession, table: pt.Table) -> None:
    table.update({"s": "named_struct('a', if(rand() < 2, 5, null), 'b', cast(null AS INT))"}, "id = 1")
    table.merge(spark.sql(_query(2, {})), "t.id = s.id", pt.when_not_matched().insert())
    theirs = spark.read.format("delta").load(table.uri).orderBy("id")
    assert [row.s.a for row in theirs.collect()] == [5, 1]
    assert table.read().orderBy("id").collect() == theirs.collect()


@pytest.mark.parametrize("name", _VIOLATIONS)
def test_rows_that_delta_spark_refuses_are_refused(spark: SparkSession, table: pt.Table, name: str) -> None:
    value, field = _VIOLATIONS[name]
    rows = spark.sql(_query(3, {name.partition(".")[0]: value}))
    version = table.version
    with pytest.raises(Exception, match=rf"NOT NULL constraint violated for column: {field}\b"):
        rows.write.format("delta").mode("append").save(table.uri)
    with pytest.raises(ConstraintError, match=f"column '{field}' may not be null"):
        table.append(rows)
    assert table.version == version


def test_updates_and_merges_keep_what_is_required(spark: SparkSession, table: pt.Table, tmp_path: Path) -> None:
    version, source = table.version, spark.sql(_query(9, {"s": "cast(null AS STRUCT<a: INT, b: INT>)"}))
    changes: list[Callable[[], object]] = [
        lambda: table.update({"s": "null"}),
        lambda: table.update({"d": "named_struct('e', cast(null AS STRUCT<f: INT>))"}),
        lambda: table.merge(source, "t.id = s.id", pt.when_not_matched().insert()),
    ]
    for change in changes:
        with pytest.raises(ConstraintError, match="may not be null"):
            change()
    assert table.version == version
