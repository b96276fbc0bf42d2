"""Required fields inside of nested types: their violations, and the types with every field nullable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType

from partita.errors import ConstraintError
from partita.spark.constraints import check_not_null
from partita.spark.errors import translate_spark_errors
from partita.spark.nullability import relax_nullability, required_fields, required_fields_of_null_structs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INNER = StructType([StructField("a", IntegerType(), nullable=False), StructField("b", StringType())])
KEY = StructType([StructField("k", IntegerType(), nullable=False)])
SCHEMA = StructType(
    [
        StructField("id", IntegerType(), nullable=False),
        StructField("s", StructType([StructField("t", INNER, nullable=False)])),
        StructField("items", ArrayType(INNER, containsNull=False)),
        StructField("tags", MapType(StringType(), ArrayType(INNER), valueContainsNull=False)),
        StructField("lists", ArrayType(ArrayType(IntegerType(), containsNull=False))),
    ]
)
VALID_ROW = {"id": 1, "s": {"t": {"a": 1}}, "items": [{"a": 1}], "tags": {"x": [{"a": 1}, None]}, "lists": [[1], None]}
PATHS = ["id", "s.t", "s.t.a", "items.element", "items.element.a", "tags.value", "tags.value.element.a",
         "lists.element.element"]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({}, None),
        ({"s": None, "items": None, "tags": None, "lists": None}, None),
        ({"items": [], "tags": {}, "lists": [None, []]}, None),
        ({"id": None}, "id"),
        ({"s": {"t": None}}, "s.t"),
        ({"s": {"t": {"a": None}}}, "s.t.a"),
        ({"items": [{"a": 1}, None]}, "items.element"),
        ({"items": [{"a": 1}, {"b": "x"}]}, "items.element.a"),
        ({"tags": {"x": None}}, "tags.value"),
        ({"tags": {"x": [{"a": 1}], "y": [{"b": "x"}]}}, "tags.value.element.a"),
        ({"lists": [[1], [2, None]]}, "lists.element.element"),
        ({"lists": [[None]], "id": None}, "id"),
    ],
)
def test_the_first_required_field_that_is_null_is_named(
    spark: SparkSession, change: dict[str, object], path: str | None
) -> None:
    relaxed = relax_nullability(SCHEMA)
    assert isinstance(relaxed, StructType)
    checked = check_not_null(spark.createDataFrame([VALID_ROW | change], relaxed), SCHEMA)
    if path is None:
        assert checked.count() == 1
        return
    with pytest.raises(ConstraintError, match=rf"column '{path}' may not be null"), translate_spark_errors():
        checked.collect()


def test_required_fields_are_named_as_iceberg_names_them(spark: SparkSession) -> None:
    assert [f.path for f in required_fields(SCHEMA)] == PATHS
    keys = StructType([StructField("m", MapType(KEY, IntegerType(), valueContainsNull=True))])
    assert [f.path for f in required_fields(keys)] == ["m.key.k"]


def test_a_null_struct_violates_its_required_fields_in_delta(spark: SparkSession) -> None:
    relaxed = relax_nullability(SCHEMA)
    assert isinstance(relaxed, StructType)
    rows = spark.createDataFrame(
        [VALID_ROW, VALID_ROW | {"s": None}, VALID_ROW | {"items": None, "tags": None}], relaxed
    )
    strict = rows.selectExpr(
        *(f"{f.violation} AS `{f.path}`" for f in required_fields_of_null_structs(SCHEMA))
    ).toArrow()
    violations = [[path for path in strict.column_names if row[path]] for row in strict.to_pylist()]
    # An element of a list that is null is a null struct too.
    assert violations == [["tags.value.element.a"], ["s.t", "s.t.a", "tags.value.element.a"], []]


def test_a_relaxed_type_differs_only_in_nullability() -> None:
    relaxed = relax_nullability(SCHEMA)
    assert "false" not in relaxed.json()
    assert relaxed.simpleString() == SCHEMA.simpleString()
