"""delta-spark generates partition columns as Partita does, and prunes Partita's files by them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import ConstraintError, SchemaError, SpecError
from tests.formats.delta.tables import (
    actions_of_kind,
    arrow_table,
    assert_unchanged,
    read_with_delta_rs,
    read_with_delta_spark,
    row_ids,
    rows_by_name,
    sorted_rows,
    with_time_zone,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOMENTS = [datetime(2024, 12, 31, 23, 30, tzinfo=UTC), datetime(2025, 1, 1, 0, 30, tzinfo=UTC),
           datetime(2025, 1, 1, 1, 30, tzinfo=UTC), datetime(2025, 3, 2, 5, tzinfo=UTC), None]  # fmt: skip
GIVEN = arrow_table(
    {
        "id": ("int", [1, 2, 3, 4, 5]),
        "ts": ("timestamp", MOMENTS),
        "name": ("string", ["anna", "anton", "berta", "日本語版", None]),
    }
)
SCHEMA = pt.Schema.of({"id": "int", "ts": "timestamp", "name": "string"})

CASES: dict[str, tuple[pt.PartitionFunction, list[str | None], str, list[int]]] = {
    "year": (pt.year("ts"), ["2024", "2025", "2025", "2025", None], "ts >= timestamp'2025-01-01 00:00:00'", [2, 3, 4]),
    "month": (
        pt.month("ts"), ["2024-12", "2025-01", "2025-01", "2025-03", None], "ts >= timestamp'2025-02-01 00:00:00'", [4],
    ),
    "day": (
        pt.day("ts"), ["2024-12-31", "2025-01-01", "2025-01-01", "2025-03-02", None],
        "ts < timestamp'2024-12-31 23:59:00'", [1],
    ),
    "hour": (
        pt.hour("ts"), ["2024-12-31-23", "2025-01-01-00", "2025-01-01-01", "2025-03-02-05", None],
        "ts >= timestamp'2025-01-01 01:00:00' and ts < timestamp'2025-01-01 02:00:00'", [3],
    ),
    "truncate": (pt.truncate("name", 2), ["an", "an", "be", "日本", None], "name = 'anton'", [2]),
}  # fmt: skip


def create_table(folder: Path, *functions: pt.PartitionFunction | str) -> pt.Table:
    return pt.Lake(str(folder)).create_table("t", SCHEMA, format="delta", partition_by=list(functions))


def append_by_delta_spark(spark: SparkSession, table: pt.Table, rows: pa.Table) -> None:
    frame = spark.createDataFrame(rows, "id int, ts timestamp, name string")
    frame.write.format("delta").mode("append").save(table.uri)


def values_by_id(spark: SparkSession, table: pt.Table) -> dict[int, str | None]:
    """Return the partition value of each row as text, by id."""
    column = table.spec.fields[0].name
    frame = read_with_delta_spark(spark, table).selectExpr("id", f"cast(`{column}` as string) as value")
    return {row["id"]: row["value"] for row in frame.collect()}


@pytest.mark.parametrize("name", CASES)
def test_delta_spark_fills_and_prunes_as_we_do(spark: SparkSession, tmp_path: Path, name: str) -> None:
    function, texts, where, ids = CASES[name]
    table = create_table(tmp_path, function)
    table.append(GIVEN)
    assert {add["partitionValues"][function.name] for add in actions_of_kind(table, "add")} == set(texts)
    check_that_delta_spark_prunes_by_the_partition_alone(spark, table, name)
    second = GIVEN.set_column(0, "id", pa.array(range(11, 16), pa.int32()))
    append_by_delta_spark(spark, table, second)
    theirs = dict(zip(range(11, 16), texts, strict=True))
    assert values_by_id(spark, table) == dict(zip(range(1, 6), texts, strict=True)) | theirs
    frames = {"ours": table.read(where), "theirs": read_with_delta_spark(spark, table).where(where)}
    rows = rows_by_name(frames)
    assert row_ids(rows["ours"]) == sorted([*ids, *(row_id + 10 for row_id in ids)])
    assert rows["theirs"] == rows["ours"]
    assert sorted_rows(read_with_delta_rs(table)) == sorted_rows(table.read())
    assert table.plan(where).files.num_rows < table.plan().files.num_rows


def check_that_delta_spark_prunes_by_the_partition_alone(spark: SparkSession, table: pt.Table, name: str) -> None:
    function, _, where, ids = CASES[name]
    plan = read_with_delta_spark(spark, table).where(where)
    text: str = plan._jdf.queryExecution().toString()
    filters = text.partition("PartitionFilters: [")[2].partition("]")[0]
    assert function.name in filters
    rows = plan.selectExpr("id", "input_file_name() AS file").collect()
    assert 0 < len({row.file for row in rows}) < table.plan().files.num_rows
    assert sorted(row.id for row in rows) == ids


def test_an_update_of_the_source_moves_the_row(spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, pt.day("ts"))
    table.append(GIVEN)
    table.update({"ts": "timestamp'2030-05-06 07:08:09Z'"}, "id = 1")
    assert row_ids(sorted_rows(table.read("ts >= timestamp'2030-01-01 00:00:00Z'", ["id"]))) == [1]
    moments = pa.array([datetime(2031, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))
    source = GIVEN.slice(1, 2).set_column(0, "id", pa.array([2, 50], pa.int32())).set_column(1, "ts", moments)
    matched = pt.when_matched().update({"ts": "s.ts"})
    table.merge(source, "t.id = s.id", matched, pt.when_not_matched().insert())
    values = values_by_id(spark, table)
    assert (values[1], values[2]) == ("2030-05-06", "2031-01-01")
    assert values[50] == "2031-01-01"
    spark.sql(f"delete from delta.`{table.uri}` where id = 50")  # noqa: S608
    rows = rows_by_name({"ours": table.read(), "theirs": read_with_delta_spark(spark, table)})
    assert rows["ours"] == rows["theirs"]


def test_given_values_must_equal_generated_ones(spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, pt.day("ts"))
    name = table.spec.fields[0].name
    days = [None if moment is None else moment.date() for moment in MOMENTS]
    table.append(GIVEN.append_column(name, pa.array(days, pa.date32())))
    with assert_unchanged(table), pytest.raises(ConstraintError, match=name):
        table.append(GIVEN.append_column(name, pa.array([date(2000, 1, 1)] * 5, pa.date32())))
    with assert_unchanged(table), pytest.raises(SchemaError, match="generated"):
        table.update({name: "date'2000-01-01'"})


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata"])
def test_no_row_is_lost_in_a_zone(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    table = create_table(tmp_path, pt.day("ts"))
    with with_time_zone(spark, zone):
        table.append(GIVEN)
        append_by_delta_spark(spark, table, GIVEN)
    assert {add["partitionValues"]["ts_day"] for add in actions_of_kind(table, "add", 1)} == set(CASES["day"][1])
    conditions = [f"ts = timestamp'{moment:%Y-%m-%d %H:%M:%S}Z'" for moment in MOMENTS if moment is not None]
    for where, rows in rows_by_name({where: table.read(where) for where in conditions}).items():
        assert len(rows) == 2, (zone, where)


@pytest.mark.parametrize("function", [pt.bucket("id", 4), pt.truncate("id", 10), pt.void("id")])
def test_functions_that_delta_lacks_are_refused_with_a_way_out(tmp_path: Path, function: Any) -> None:
    with pytest.raises(SpecError, match="iceberg"):
        create_table(tmp_path, function)
    assert not list(tmp_path.iterdir())
