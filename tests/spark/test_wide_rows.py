"""Rows of many columns: one filter checks all of them, and names the first that fails."""

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
from partita.spark.merge import SOURCE, Branch, inserted, resolved, updated
from partita.spark.rewrite import GONE, changing
from partita.spark.rows import (
    Rule,
    Violation,
    checked,
    conformed,
    not_null,
    picked,
    refuse_violations,
    renamed,
    translated,
)
from partita.spark.scan import FILE, ROW

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

WIDTH = 60
NAMES = [f"c{number}" for number in range(WIDTH)]
SCHEMA = StructType([StructField(name, LongType(), nullable=False) for name in NAMES])


def analyzed_plan(rows: DataFrame) -> str:
    """What the rows go through before anything is optimized."""
    with redirect_stdout(io.StringIO()) as shown:
        rows.explain(extended=True)
    return shown.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]


def filters_in(rows: DataFrame) -> int:
    """How many filters the rows go through before anything is optimized."""
    return analyzed_plan(rows).count("Filter ")


def selects_in(rows: DataFrame) -> int:
    """How many selects the rows go through before anything is optimized."""
    return analyzed_plan(rows).count("Project ")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.table({name: [1, 2] for name in NAMES}))


def test_one_filter_checks_all_columns(rows: DataFrame) -> None:
    assert filters_in(not_null(rows, SCHEMA)) == 1
    assert filters_in(conformed(rows, SCHEMA, {})) == 1
    assert filters_in(checked(rows, [Rule(name, f"{name} > 0") for name in NAMES])) == 1


def test_new_values_that_may_not_fit_need_no_filter(rows: DataFrame) -> None:
    placed = rows.selectExpr("*", f"0 AS {FILE}", f"0L AS {ROW}")
    assert filters_in(updated(placed, {name: f"t.{name} + 0.5" for name in NAMES}, SCHEMA)) == 0


def test_rows_that_have_the_columns_already_go_through_no_select(rows: DataFrame) -> None:
    columns = [(name, name, LongType()) for name in NAMES]
    given = selects_in(rows)
    assert selects_in(conformed(rows, SCHEMA, {})) == given
    assert selects_in(renamed(rows, {}, columns)) == given
    assert selects_in(picked(rows, NAMES)) == given
    changes = rows.selectExpr(f"0 AS {FILE}", f"0L AS {ROW}", f"false AS {GONE}", *NAMES)
    assert selects_in(changing(changes, columns)) == selects_in(changes)
    assert changing(changes, columns[:-1]).columns == [FILE, ROW, GONE, *NAMES[:-1]]
    assert conformed(rows.select(*reversed(NAMES)), SCHEMA, {}).columns == NAMES
    assert conformed(rows.withColumn("c1", rows["c1"].cast("int")), SCHEMA, {}).schema["c1"].dataType == LongType()


def test_conformed_rows_lose_the_metadata_of_their_columns(spark: SparkSession) -> None:
    """CHAR(n) of the rows is not the table's: Spark would pad what constraints of the table compare with."""
    padded = spark.sql("SELECT 'a' AS c").withMetadata("c", {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    schema = StructType([StructField("c", StringType())])
    assert conformed(padded, schema, {}).schema["c"].metadata == {}


def test_new_values_of_the_right_types_are_one_select(rows: DataFrame) -> None:
    placed = rows.selectExpr("*", f"0 AS {FILE}", f"0L AS {ROW}")
    changed = updated(placed, {name: f"{name} + 1L -- more" for name in NAMES}, SCHEMA)
    assert selects_in(changed) == selects_in(placed) + 1
    assert "CASE WHEN" not in analyzed_plan(changed)
    assert changed.columns == [FILE, ROW, GONE, *NAMES]
    assert {row.c7 for row in changed.collect()} == {2, 3}


def test_a_new_value_is_one_row(rows: DataFrame) -> None:
    placed = rows.selectExpr("*", f"0 AS {FILE}", f"0L AS {ROW}")
    with pytest.raises(pt.PredicateError), translated():
        updated(placed, {"c0": "explode(array(1L, 2L))"}, SCHEMA).collect()


def test_a_new_value_names_no_column_beside_it(spark: SparkSession, rows: DataFrame) -> None:
    """Spark takes a name that the source lacks for that of another new value, which no MERGE does."""
    source = rows.selectExpr("c0", f"0L AS {SOURCE}")
    nobody = spark.range(0).selectExpr(f"id AS {SOURCE}")
    new = inserted(source, nobody, [Branch(None, {"c0": "s.c0", "c1": "s.c0"})], SCHEMA)
    assert {(row.c0, row.c1, row.c2) for row in new.collect()} == {(1, 1, None), (2, 2, None)}
    with pytest.raises(pt.PredicateError), translated():
        inserted(source, nobody, [Branch(None, {"c1": "s.c0", "c2": "c1"})], SCHEMA).collect()
    everything = inserted(source, nobody, [Branch(None, resolved(None, SCHEMA, ["c0"], NameMatching.ANY_CASE))], SCHEMA)
    assert selects_in(everything) <= selects_in(new)
    assert {(row.c0, row.c1) for row in everything.collect()} == {(1, None), (2, None)}


def test_the_first_violation_of_a_row_is_named(rows: DataFrame) -> None:
    order = [Violation("c3 = 3", "third"), Violation(rows["c5"] == 2, "fifth"), Violation("c7 = 2", "seventh")]
    with pytest.raises(ConstraintError, match=r"fifth$"), translated():
        refuse_violations(rows, order).collect()
    assert refuse_violations(rows, []).count() == 2


@pytest.mark.parametrize("text", ["c1, c2", "*"])
def test_a_new_value_is_one_expression(rows: DataFrame, text: str) -> None:
    placed = rows.selectExpr("*", f"0 AS {FILE}", f"0L AS {ROW}")
    with pytest.raises((SchemaError, pt.PredicateError)), translated():
        updated(placed, {"c0": text}, SCHEMA).collect()


@pytest.mark.parametrize("format_", ["delta", "iceberg", "lance"])
def test_odd_names_and_texts_of_wide_tables(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    """What is put into SQL texts stays what it is: names with quotes and dollars, values that end with a comment."""
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
