"""Plans of the rows of a merge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from partita.spark.merge import comparable_columns, drop_repeated_rows
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from tests.spark.frames import physical_plan_text, session_settings

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_repeated_rows_need_as_many_tasks_as_files(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark doesn't coalesce a shuffle whose result is cached, and ran 200 tasks for a few rows."""
    pairs = spark.range(20).selectExpr(f"id % 3 AS `{FILE_INDEX}`", f"id % 5 AS `{ROW_INDEX}`", "id")
    with session_settings(spark, {"spark.sql.shuffle.partitions": "200"}):
        distinct = drop_repeated_rows(pairs, 3)
        shuffles = re.findall(r"hashpartitioning\(.*?, (\d+)\)", physical_plan_text(distinct, capsys))
    assert shuffles
    assert set(shuffles) == {"3"}
    assert distinct.count() == 15


def test_bounds_are_of_columns_found_by_name_and_without_collation(spark: SparkSession) -> None:
    """The least and the greatest text of a collation are no bounds of what it equals."""
    rows = spark.sql("SELECT 'a' AS Plain, 1 AS n, 'a' COLLATE UTF8_LCASE AS other, 1 AS twice, 2 AS TWICE")
    assert comparable_columns(rows) == {"plain": "Plain", "n": "n"}
