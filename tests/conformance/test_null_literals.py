"""Conditions in which NULL or another literal stands where a column is expected: what they match, as in Spark."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import partita as pt
from partita.formats.capabilities import Operation
from partita.formats.operations.write_operation import ChangeResult
from tests.conformance.row_model import assert_nothing_written

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.conformance.prepared_lakes import PreparedLakes

ROWS = pa.table(
    {"id": pa.array([1, 2, None], pa.int64()), "c": ["a", "b", None], "ok": [True, False, None], "n": [0, 0, 0]}
)
NOTHING = [
    "NULL = id", "id = NULL", "NULL <> c", "NULL < id", "(NULL) = id", "CAST(NULL AS INT) = id", "NULL IN (1, 2)",
    "NULL IN (id)", "id IN (NULL)", "id NOT IN (1, NULL, 2)", "NOT (NULL = id)", "NOT NULL", "NULL = ok", "NULL = NULL",
    "c LIKE NULL", "id BETWEEN NULL AND 0", "NULL AND id = 1", "NULL IS NOT NULL", "1 > 2",
]  # fmt: skip
SOME: dict[str, list[int | None]] = {
    "NULL <=> id": [None], "id <=> NULL": [None], "1 = id": [1], "'a' = c": [1], "TRUE = ok": [1], "2 > id": [1],
    "NULL OR id = 1": [1], "NULL IS NULL": [1, 2, None], "NULL <=> NULL": [1, 2, None], "1 IN (id, 2)": [1],
    "2 BETWEEN id AND 3": [1, 2], "NOT (NULL <=> id)": [1, 2],
}  # fmt: skip


def _fill_null_lake(lake: pt.Lake, format_name: str) -> None:
    lake.create_table("a.t", ROWS.schema, format=format_name, partition_by=["c"]).append(ROWS)


@pytest.fixture
def null_lake(format_name: str, spark: SparkSession, prepared_lakes: PreparedLakes) -> pt.Lake:
    """A lake with a table that has a null in each column."""
    return prepared_lakes.open_lake(format_name, "nulls", _fill_null_lake)


def test_conditions_are_planned_and_read_as_spark_reads_them(null_lake: pt.Lake, spark: SparkSession) -> None:
    """All in one query of Spark's, which is the truth."""
    table = null_lake.table("a.t")
    spark.createDataFrame(ROWS).createOrReplaceTempView("null_literals")
    conditions = [*NOTHING, *SOME]
    counts = ", ".join(f"count_if({condition})" for condition in conditions)
    truth = spark.sql(f"SELECT {counts} FROM null_literals").collect()[0]  # noqa: S608 - the texts above
    assert list(truth) == [*(0 for _ in NOTHING), *map(len, SOME.values())]
    for condition in conditions:
        planned = pc.sum(table.plan(condition).files["rows"]).as_py() or 0
        assert planned >= len(SOME.get(condition, [])), condition
    for condition in ("NULL = id", "id IN (NULL)", "NOT NULL"):
        assert table.plan(condition).files.num_rows == 0, condition
    frames = [table.read(text, ["id"]).selectExpr("id", f"{case} AS case") for case, text in enumerate(SOME)]
    ids_read: dict[str, list[int]] = {text: [] for text in SOME}
    for row in reduce(lambda one, other: one.unionAll(other), frames).collect():
        ids_read[list(SOME)[row["case"]]].append(row["id"] or 0)
    assert {text: sorted(ids) for text, ids in ids_read.items()} == {
        text: sorted(number or 0 for number in ids) for text, ids in SOME.items()
    }


NULL_CONDITIONS = ("NULL = id", "id = NULL", "NULL", "NOT (NULL <> c)", "id IN (NULL)")


def test_a_read_by_what_is_null_has_no_rows(null_lake: pt.Lake) -> None:
    table = null_lake.table("a.t")
    assert [table.read(condition).count() for condition in NULL_CONDITIONS] == [0] * len(NULL_CONDITIONS)


@pytest.mark.needs(Operation.UPDATE, Operation.DELETE)
def test_a_null_predicate_changes_nothing(null_lake: pt.Lake) -> None:
    table = null_lake.table("a.t")
    with assert_nothing_written(null_lake):
        for condition in NULL_CONDITIONS:
            assert table.update({"n": "1"}, condition).version is None
            assert table.delete(condition).version is None
            assert table.update({"n": "1"}, f"id = 1 AND {condition}").version is None
            for statement in ("UPDATE a.t SET n = 1 WHERE ", "DELETE FROM a.t WHERE "):
                done = null_lake.sql(statement + condition)
                assert isinstance(done, ChangeResult)
                assert done.version is None


@pytest.mark.needs(Operation.MERGE)
def test_a_merge_by_what_is_null_matches_nothing(null_lake: pt.Lake) -> None:
    table = null_lake.table("a.t")
    source = pa.table({"id": pa.array([1, None], pa.int64())})
    clauses = pt.when_matched().delete()
    assert table.merge(source, "t.id = s.id AND NULL = t.id", clauses).version is None
    assert table.merge(source, "NULL = s.id", clauses).version is None
    assert table.merge(source, "t.id = s.id", pt.when_matched("NULL = t.id").delete()).version is None


NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("l", pa.list_(pa.float64())),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)


@pytest.mark.needs(Operation.MERGE, Operation.UPDATE)
def test_untyped_nulls_inside_of_nested_values(format_name: str, tmp_path: Path, spark: SparkSession) -> None:
    """Delta's and Iceberg's own connectors take them too. Smaller numbers fit inside as they do outside."""
    table = pt.Lake(str(tmp_path)).create_table("a.n", NESTED, format=format_name)
    values = {
        "s": "named_struct('a', CAST(7 AS INT), 'b', NULL)", "l": "array(NULL)", "m": "map('k', NULL)",
    }  # fmt: skip
    own = [f"{values[name]} AS {name}" for name in NESTED.names[1:]]
    table.append(spark.range(1).selectExpr("id", *own))
    table.merge(
        spark.range(2).selectExpr("id", *own),
        "t.id = s.id",
        pt.when_matched().update(),
        pt.when_not_matched().insert(),
    )
    table.append(pa.table({"id": [2], "s": [{"a": 7, "b": None}], "l": pa.array([[None]], pa.list_(pa.null()))}))
    table.update({"s": "named_struct('a', NULL, 'b', NULL)"}, "id = 0")
    expected = [
        {"id": 0, "s": {"a": None, "b": None}, "l": [None], "m": [("k", None)]},
        {"id": 1, "s": {"a": 7, "b": None}, "l": [None], "m": [("k", None)]},
        {"id": 2, "s": {"a": 7, "b": None}, "l": [None], "m": None},
    ]
    rows = table.read().orderBy("id").toArrow().to_pylist()
    assert rows == expected


def test_nested_values_that_dont_fit(format_name: str, tmp_path: Path, spark: SparkSession) -> None:
    table = pt.Lake(str(tmp_path)).create_table("a.n", NESTED, format=format_name)
    version = table.version
    for value in ("named_struct('b', 'x', 'a', 1L)", "named_struct('a', 'x', 'b', 'y')", "array(1)"):
        with pytest.raises(pt.SchemaError, match="cast it"):
            table.append(spark.range(1).selectExpr("id", f"{value} AS s"))
    assert table.version == version
