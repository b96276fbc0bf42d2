"""Rows of many columns: one filter checks all columns and names the first that fails, and few selects are needed."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import partita as pt
from partita.algebra.schema import NameMatching
from partita.errors import ConstraintError, SchemaError
from partita.spark.constraints import (
    TableConstraint,
    Violation,
    check_not_null,
    constraint_violations,
    refuse_violations,
)
from partita.spark.errors import translate_spark_errors
from partita.spark.merge import SOURCE_ROW_NUMBER, MergeBranch, inserted_rows, resolve_assignments, updated_rows
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.rewrite import IS_DELETED, row_changes
from partita.spark.rows import conform_to_schema, select_columns, select_stored_columns

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

WIDTH = 60
NAMES = [f"c{number}" for number in range(WIDTH)]
SCHEMA = StructType([StructField(name, LongType(), nullable=False) for name in NAMES])


def analyzed_plan(rows: DataFrame) -> str:
    """Return the analyzed plan, before Spark optimizes it."""
    with redirect_stdout(io.StringIO()) as plan:
        rows.explain(extended=True)
    return plan.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]


def count_filters(rows: DataFrame) -> int:
    """Count the filters of the analyzed plan."""
    return analyzed_plan(rows).count("Filter ")


def count_selects(rows: DataFrame) -> int:
    """Count the selects of the analyzed plan."""
    return analyzed_plan(rows).count("Project ")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.table({name: [1, 2] for name in NAMES}))


def test_one_filter_checks_all_columns(rows: DataFrame) -> None:
    assert count_filters(check_not_null(rows, SCHEMA)) == 1
    assert count_filters(conform_to_schema(rows, SCHEMA, {})) == 1
    constraints = [TableConstraint(name, f"{name} > 0") for name in NAMES]
    assert count_filters(refuse_violations(rows, constraint_violations(constraints))) == 1


def test_new_values_that_may_not_fit_need_no_filter(rows: DataFrame) -> None:
    positioned = rows.selectExpr("*", f"0 AS {FILE_INDEX}", f"0L AS {ROW_INDEX}")
    assert count_filters(updated_rows(positioned, {name: f"t.{name} + 0.5" for name in NAMES}, SCHEMA)) == 0


def test_rows_that_have_the_columns_already_go_through_no_select(rows: DataFrame) -> None:
    columns = [(name, name, LongType()) for name in NAMES]
    select_count = count_selects(rows)
    assert count_selects(conform_to_schema(rows, SCHEMA, {})) == select_count
    assert count_selects(select_stored_columns(rows, {}, columns)) == select_count
    assert count_selects(select_columns(rows, NAMES)) == select_count
    changes = rows.selectExpr(f"0 AS {FILE_INDEX}", f"0L AS {ROW_INDEX}", f"false AS {IS_DELETED}", *NAMES)
    assert count_selects(row_changes(changes, columns)) == count_selects(changes)
    assert row_changes(changes, columns[:-1]).columns == [FILE_INDEX, ROW_INDEX, IS_DELETED, *NAMES[:-1]]
    assert conform_to_schema(rows.select(*reversed(NAMES)), SCHEMA, {}).columns == NAMES
    assert (
        conform_to_schema(rows.withColumn("c1", rows["c1"].cast("int")), SCHEMA, {}).schema["c1"].dataType == LongType()
    )


def test_conformed_rows_lose_the_metadata_of_their_columns(spark: SparkSession) -> None:
    """CHAR(n) of the rows is not the table's: Spark would pad the strings in constraints of the table."""
    padded = spark.sql("SELECT 'a' AS c").withMetadata("c", {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    schema = StructType([StructField("c", StringType())])
    assert conform_to_schema(padded, schema, {}).schema["c"].metadata == {}


def test_new_values_of_the_right_types_are_one_select(rows: DataFrame) -> None:
    positioned = rows.selectExpr("*", f"0 AS {FILE_INDEX}", f"0L AS {ROW_INDEX}")
    changed = updated_rows(positioned, {name: f"{name} + 1L -- more" for name in NAMES}, SCHEMA)
    assert count_selects(changed) == count_selects(positioned) + 1
    assert "CASE WHEN" not in analyzed_plan(changed)
    assert changed.columns == [FILE_INDEX, ROW_INDEX, IS_DELETED, *NAMES]
    assert {row.c7 for row in changed.collect()} == {2, 3}


def test_a_new_value_is_one_row(rows: DataFrame) -> None:
    positioned = rows.selectExpr("*", f"0 AS {FILE_INDEX}", f"0L AS {ROW_INDEX}")
    with pytest.raises(pt.PredicateError), translate_spark_errors():
        updated_rows(positioned, {"c0": "explode(array(1L, 2L))"}, SCHEMA).collect()


def test_a_new_value_names_no_column_beside_it(spark: SparkSession, rows: DataFrame) -> None:
    """Spark would resolve a name that the source lacks to another new value, which no MERGE does."""
    source = rows.selectExpr("c0", f"0L AS {SOURCE_ROW_NUMBER}")
    no_matches = spark.range(0).selectExpr(f"id AS {SOURCE_ROW_NUMBER}")
    new = inserted_rows(source, no_matches, [MergeBranch(None, {"c0": "s.c0", "c1": "s.c0"})], SCHEMA)
    assert {(row.c0, row.c1, row.c2) for row in new.collect()} == {(1, 1, None), (2, 2, None)}
    with pytest.raises(pt.PredicateError), translate_spark_errors():
        inserted_rows(source, no_matches, [MergeBranch(None, {"c1": "s.c0", "c2": "c1"})], SCHEMA).collect()
    all_columns = inserted_rows(
        source,
        no_matches,
        [MergeBranch(None, resolve_assignments(None, SCHEMA, ["c0"], NameMatching.CASE_INSENSITIVE))],
        SCHEMA,
    )
    assert count_selects(all_columns) <= count_selects(new)
    assert {(row.c0, row.c1) for row in all_columns.collect()} == {(1, None), (2, None)}


def test_the_first_violation_of_a_row_is_named(rows: DataFrame) -> None:
    violations = [Violation("c3 = 3", "third"), Violation(rows["c5"] == 2, "fifth"), Violation("c7 = 2", "seventh")]
    with pytest.raises(ConstraintError, match=r"fifth$"), translate_spark_errors():
        refuse_violations(rows, violations).collect()
    assert refuse_violations(rows, []).count() == 2


@pytest.mark.parametrize("text", ["c1, c2", "*"])
def test_a_new_value_is_one_expression(rows: DataFrame, text: str) -> None:
    positioned = rows.selectExpr("*", f"0 AS {FILE_INDEX}", f"0L AS {ROW_INDEX}")
    with pytest.raises((SchemaError, pt.PredicateError)), translate_spark_errors():
        updated_rows(positioned, {"c0": text}, SCHEMA).collect()


@pytest.mark.parametrize("format_", ["delta", "iceberg", "lance"])
def test_odd_names_and_texts_of_wide_tables(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    """Names with quotes and dollars, and values that end with a comment, survive in SQL text that Partita writes."""
    odd = "a$b" if format_ == "lance" else "it's `a` ${x} $y"
    data = pa.table({"id": [1, 2], odd: ["x", "y"], "n": pa.array([1, 2], pa.int32())})
    properties = {"delta.columnMapping.mode": "name"} if format_ == "delta" else {}
    table = pt.Lake(str(tmp_path)).create_table("a.t", data.schema, format=format_, properties=properties)
    table.append(data)
    table.update({odd: "'it''s' -- a comment", "n": "n + 1"}, "id = 1")
    table.merge(data.slice(1), "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert())
    table.merge(data.slice(1), "t.id = s.id", pt.when_matched().update({"n": "s.n * 10 /* ten */"}))
    assert sorted(map(tuple, table.read().collect())) == [(1, "it's", 2), (2, "y", 20)]
    with pytest.raises(ConstraintError, match="a new value of column 'n' does not fit int"):
        table.update({"n": "id + 3000000000"})
