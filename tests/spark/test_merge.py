"""How a merge plans its rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from partita.spark.merge import without_repeated_rows
from partita.spark.scan import FILE, ROW
from tests.spark.frames import plan_of, set_to

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_repeated_rows_need_as_many_tasks_as_files(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark doesn't coalesce a shuffle whose result is cached, and ran 200 tasks for a few rows."""
    pairs = spark.range(20).selectExpr(f"id % 3 AS `{FILE}`", f"id % 5 AS `{ROW}`", "id")
    with set_to(spark, {"spark.sql.shuffle.partitions": "200"}):
        distinct = without_repeated_rows(pairs, 3)
        shuffles = re.findall(r"hashpartitioning\(.*?, (\d+)\)", plan_of(distinct, capsys))
    assert shuffles
    assert set(shuffles) == {"3"}
    assert distinct.count() == 15
