"""A write makes one file per partition, however many tasks it has, unless the table turns that off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import partita as pt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from partita.lake import Lake

_WRITES = {
    "append": lambda t, rows: t.append(rows),
    "overwrite": lambda t, rows: t.overwrite(rows),
    "overwrite_partitions": lambda t, rows: t.overwrite_partitions(rows),
    "merge": lambda t, rows: t.merge(rows, "t.id = s.id", pt.when_not_matched().insert()),
}
_UNGATHERED = {"delta.autoOptimize.optimizeWrite": "false"}


def _rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 400, 1, 4).selectExpr("id", "id % 5 AS p")


@pytest.mark.parametrize("name", _WRITES)
def test_a_partition_is_written_by_one_task(spark: SparkSession, lake: Lake, name: str) -> None:
    table = lake.create_table("t", {"id": "long", "p": "long"}, format="delta", partition_by=["p"])
    assert _WRITES[name](table, _rows(spark)).counts["files_added"] == 5
    assert table.plan().files["rows"].to_pylist() == [80] * 5
    assert table.update({"p": "p + 1"}).counts["files_added"] == 5


def test_a_table_may_refuse_to_gather(spark: SparkSession, lake: Lake) -> None:
    columns = {"id": "long", "p": "long"}
    table = lake.create_table("t", columns, format="delta", partition_by=["p"], properties=_UNGATHERED)
    assert table.append(_rows(spark)).counts["files_added"] == 20
    assert table.update({"p": "p + 1"}).counts["files_added"] == 5


def test_rows_of_a_table_without_partitions_stay_where_they_are(spark: SparkSession, lake: Lake) -> None:
    table = lake.create_table("t", {"id": "long", "p": "long"}, format="delta")
    assert table.append(_rows(spark)).counts["files_added"] == 4
