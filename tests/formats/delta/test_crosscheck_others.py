"""Partita works with tables of delta-spark and delta-rs, and they understand the properties that Partita writes."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import partita as pt
from partita.errors import ConstraintError, TableExists, TableMissing, UnsupportedFeature
from tests.formats.delta.tables import (
    actions_of_kind,
    arrow_table,
    assert_unchanged,
    files_on_disk,
    read_with_delta_rs,
    read_with_delta_spark,
    row_ids,
    rows_by_name,
    sorted_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIVEN = arrow_table({"id": ("int", [1, 2, 3]), "p": ("string", ["a", "b c", None]), "x": ("double", [1.0, None, -2.0])})
MORE = GIVEN.set_column(0, "id", pa.array([4, 5, 6], pa.int32()))


def create_with_delta_spark(spark: SparkSession, folder: Path, properties: str = "", columns: str = "") -> pt.Table:
    uri = str(folder / "theirs")
    spark.sql(
        f"create table delta.`{uri}` (id int, p string, x double{columns}) using delta partitioned by (p) "
        f"tblproperties ('delta.minReaderVersion' = '1'{properties})"
    )
    spark.createDataFrame(GIVEN).write.format("delta").mode("append").save(uri)
    return pt.open_table(uri, format="delta")


def check_all_operations(spark: SparkSession, table: pt.Table) -> None:
    """Read, append to, update and delete from a table; all readers return the same rows."""
    before = rows_by_name({"all": table.read(columns=["id"]), "null": table.read("p is null", ["id"])})
    assert before == {"all": [(1,), (2,), (3,)], "null": [(3,)]}
    table.append(MORE)
    table.delete("id = 1")
    table.update({"p": "'moved'"}, "id = 2")
    table.update({"x": "9.5"}, "id = 3")
    table.merge(MORE.slice(0, 1), "t.id = s.id", pt.when_matched().update({"x": "0.25"}))
    after = rows_by_name({"ours": table.read(), "delta-spark's": read_with_delta_spark(spark, table)})
    assert row_ids(after["ours"]) == [2, 3, 4, 5, 6]
    assert after["delta-spark's"] == after["ours"]


MADE = {
    "plain": "",
    "column mapping by name": ", 'delta.columnMapping.mode' = 'name'",
    "column mapping by id": ", 'delta.columnMapping.mode' = 'id'",
    "random prefixes": ", 'delta.randomizeFilePrefixes' = 'true'",
    "deletion vectors that nobody wrote": ", 'delta.enableDeletionVectors' = 'true'",
    "checkpoints": ", 'delta.checkpointInterval' = '1'",
    "few statistics": ", 'delta.dataSkippingNumIndexedCols' = '0'",
}
MADE["checkpoints, random prefixes and few statistics"] = (
    MADE["checkpoints"] + MADE["random prefixes"] + MADE["few statistics"]
)
LONG = {"plain", "random prefixes", "checkpoints", "few statistics", "statistics of one", "column mapping by name"}
"""Properties that a normal run has together with others, or in the other of the two tests."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in MADE]
)
def test_a_table_of_delta_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = create_with_delta_spark(spark, tmp_path, MADE[name])
    assert table.uri == str(tmp_path / "theirs")
    check_all_operations(spark, table)


def test_a_column_that_delta_spark_renamed_and_one_that_it_dropped(spark: SparkSession, tmp_path: Path) -> None:
    table = create_with_delta_spark(spark, tmp_path, MADE["column mapping by name"])
    spark.sql(f"alter table delta.`{table.uri}` rename column p to `a part`")
    spark.sql(f"alter table delta.`{table.uri}` drop column x")
    spark.sql(f"alter table delta.`{table.uri}` add column y struct<`in it` int>")
    assert list(table.schema.names) == ["id", "a part", "y"]
    rows = arrow_table({"id": ("int", [9]), "a part": ("string", ["z"]), "y": ("struct<`in it`:int>", [{"in it": 7}])})
    table.append(rows)
    table.delete("id = 1")
    assert sorted_rows(read_with_delta_spark(spark, table)) == sorted_rows(table.read())
    assert row_ids(sorted_rows(table.read("`a part` = 'z'", ["id"]))) == [9]


@pytest.mark.parametrize("partitioned", [pytest.param(["p"], marks=pytest.mark.long), []])
def test_a_table_of_delta_rs(spark: SparkSession, tmp_path: Path, partitioned: list[str]) -> None:
    uri = str(tmp_path / "theirs")
    write_deltalake(uri, GIVEN, partition_by=partitioned)
    check_all_operations(spark, pt.open_table(uri, format="delta"))


def test_a_table_of_delta_rs_with_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "theirs")
    for index in range(3):
        write_deltalake(uri, GIVEN.slice(index, 1), partition_by=["p"], mode="append")
    DeltaTable(uri).create_checkpoint()
    DeltaTable(uri).cleanup_metadata()
    check_all_operations(spark, pt.open_table(uri, format="delta"))


def test_a_transaction_of_delta_rs_is_known(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import Transaction

    uri = str(tmp_path / "theirs")
    write_deltalake(uri, GIVEN, commit_properties=CommitProperties(app_transactions=[Transaction("job", 3, None)]))
    table = pt.open_table(uri, format="delta")
    with assert_unchanged(table):
        assert table.append(GIVEN, transaction=("job", 3)).version is None


def test_deletion_vectors_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = create_with_delta_spark(spark, tmp_path, MADE["deletion vectors that nobody wrote"])
    spark.createDataFrame(GIVEN).coalesce(1).write.format("delta").mode("append").save(table.uri)
    wide = spark.range(100).selectExpr("cast(id as int) id", "'w' p", "double(id) x")
    wide.coalesce(1).write.format("delta").mode("append").save(table.uri)
    spark.sql(f"delete from delta.`{table.uri}` where id = 50")  # noqa: S608
    with pytest.raises(UnsupportedFeature) as caught:
        table.read()
    assert caught.value.features == ("deletionVectors",)
    with pytest.raises(UnsupportedFeature, match="deletionVectors"):
        pt.open_table(table.uri, format="delta")


FEATURES = {
    "changeDataFeed": "'delta.enableChangeDataFeed' = 'true'",
    "rowTracking": "'delta.enableRowTracking' = 'true'",
    "v2Checkpoint": "'delta.checkpointPolicy' = 'v2'",
    "typeWidening": "'delta.enableTypeWidening' = 'true'",
    "inCommitTimestamp": "'delta.enableInCommitTimestamps' = 'true'",
}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_that_we_lack_is_refused_by_name(spark: SparkSession, tmp_path: Path, feature: str) -> None:
    uri = str(tmp_path / "theirs")
    spark.sql(
        f"create table delta.`{uri}` (id int, p string, x double) using delta tblproperties ({FEATURES[feature]})"
    )
    with pytest.raises(UnsupportedFeature, match=feature):
        pt.open_table(uri, format="delta").append(GIVEN)
    assert DeltaTable(uri).version() == 0


def test_a_check_of_delta_spark_is_ours_to_keep(spark: SparkSession, tmp_path: Path) -> None:
    table = create_with_delta_spark(spark, tmp_path)
    spark.sql(f"alter table delta.`{table.uri}` add constraint small check (id < 10)")
    table.append(MORE)
    with assert_unchanged(table), pytest.raises(ConstraintError, match="small"):
        table.append(MORE.set_column(0, "id", pa.array([7, 8, 11], pa.int32())))
    with assert_unchanged(table), pytest.raises(ConstraintError, match="small"):
        table.update({"id": "id + 10"}, "id = 4")


def test_a_column_of_delta_spark_that_may_not_be_null(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "theirs")
    spark.sql(f"create table delta.`{uri}` (id int not null, at timestamp_ntz) using delta")
    table = pt.open_table(uri, format="delta")
    moment = datetime(2025, 11, 2, 1, 30)  # noqa: DTZ001 - a timestamp_ntz
    table.append(arrow_table({"id": ("int", [1]), "at": ("timestamp_ntz", [moment])}))
    with assert_unchanged(table), pytest.raises(ConstraintError, match="id"):
        table.append(arrow_table({"id": ("int", [None]), "at": ("timestamp_ntz", [moment])}))
    assert sorted_rows(read_with_delta_spark(spark, table)) == sorted_rows(table.read()) == [(1, moment)]


def test_a_generated_column_of_delta_spark(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "theirs")
    spark.sql(
        f"create table delta.`{uri}` (id int, ts timestamp, day date generated always as (cast(ts as date)), "
        "twice int generated always as (id * 2)) using delta partitioned by (day)"
    )
    table = pt.open_table(uri, format="delta")
    rows = arrow_table(
        {"id": ("int", [1, 2]), "ts": ("timestamp", [datetime(2025, 1, d).astimezone() for d in (1, 2)])}
    )
    table.append(rows)
    spark.createDataFrame(rows, "id int, ts timestamp").write.format("delta").mode("append").save(uri)
    table.update({"id": "id + 1"}, "id = 2")
    assert sorted(row[3] for row in sorted_rows(table.read())) == [2, 2, 6, 6]
    assert sorted_rows(read_with_delta_spark(spark, table)) == sorted_rows(table.read())
    assert table.plan("ts >= timestamp'2025-02-01 00:00:00Z'").files.num_rows == 0


OURS: dict[str, dict[str, str]] = {
    "column mapping by name": {"delta.columnMapping.mode": "name"},
    "random prefixes": {"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "5"},
    "few statistics": {"delta.dataSkippingNumIndexedCols": "0"},
    "statistics of one": {"delta.dataSkippingStatsColumns": "x"},
}
OURS["column mapping by name and statistics of one"] = OURS["column mapping by name"] | OURS["statistics of one"]
OURS["random prefixes and few statistics"] = OURS["random prefixes"] | OURS["few statistics"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in OURS]
)
def test_a_table_that_partita_created(spark: SparkSession, tmp_path: Path, name: str) -> None:
    schema = pt.Schema.of({"id": "int", "p": "string", "x": "double"})
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("a.b", schema, format="delta", partition_by=["p"], properties=OURS[name])
    table.append(GIVEN)
    spark.createDataFrame(MORE).write.format("delta").mode("append").save(table.uri)
    table.delete("id > 3")
    check_all_operations(spark, table)
    assert sorted_rows(lake.table("a.b").read()) == sorted_rows(table.read())
    with pytest.raises(TableExists):
        lake.create_table("a.b", schema, format="delta")


def test_mapped_columns_have_physical_names_and_random_folders(spark: SparkSession, tmp_path: Path) -> None:
    schema = pt.Schema.of({"id": "int", "p": "string", "x": "double"})
    table = pt.Lake(str(tmp_path)).create_table(
        "t", schema, format="delta", partition_by=["p"], properties={"delta.columnMapping.mode": "name"}
    )
    table.append(GIVEN)
    adds = actions_of_kind(table, "add")
    assert all(key.startswith("col-") for add in adds for key in add["partitionValues"])
    assert all(len(add["path"].split("/")[0]) == 2 for add in adds)
    assert "p=" not in "".join(files_on_disk(table))


def test_random_prefixes_keep_the_partition_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    schema = pt.Schema.of({"id": "int", "p": "string", "x": "double"})
    table = pt.Lake(str(tmp_path)).create_table(
        "t", schema, format="delta", partition_by=["p"], properties={"delta.randomizeFilePrefixes": "true"}
    )
    table.append(GIVEN)
    values: list[Any] = [add["partitionValues"]["p"] for add in actions_of_kind(table, "add")]
    assert sorted(values, key=repr) == sorted(["a", "b c", None], key=repr)
    assert "p=" not in "".join(files_on_disk(table))
    assert (
        sorted_rows(read_with_delta_rs(table))
        == sorted_rows(read_with_delta_spark(spark, table))
        == sorted_rows(table.read())
    )


def test_missing_tables(tmp_path: Path) -> None:
    with pytest.raises(TableMissing):
        pt.open_table(str(tmp_path / "nothing"), format="delta")
    with pytest.raises(TableMissing):
        pt.Lake(str(tmp_path)).table("nothing")
