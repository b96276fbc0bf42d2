"""Spark's plain reader and writer, DuckDB and pyarrow read what Partita wrote, and the other way round."""

from __future__ import annotations

import time
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import partita as pt
from partita.errors import PartitionValueError, TableError, UnsupportedOperation
from tests.formats.parquet.folders import open_folder, write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

HOSTILE = [
    "it's",
    '"',
    "%",
    "a%2Fb",
    "a/b",
    "a=b",
    "ü 雪",
    "$x",
    "${x}",
    " ",
    "\\",
    "x" * 60,
    "..",
    "007",
    "1",
    "a b",
    None,
]


def hostile_rows() -> pa.Table:
    return pa.table({"id": pa.array(range(len(HOSTILE)), pa.int64()), "n": [1] * len(HOSTILE), "p": HOSTILE})


def sorted_rows(rows: Any) -> list[dict[str, Any]]:
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    columns = sorted(table.column_names)
    found: list[dict[str, Any]] = table.select(columns).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def write_with_spark(spark: SparkSession, folder: Path) -> None:
    spark.createDataFrame(hostile_rows()).write.partitionBy("p").parquet(str(folder))


def write_with_duckdb(_: SparkSession, folder: Path) -> None:
    rows = hostile_rows()  # noqa: F841 - DuckDB finds it by its name
    duckdb.sql(f"COPY rows TO '{folder}' (FORMAT parquet, PARTITION_BY (p))")


def write_with_pyarrow(_: SparkSession, folder: Path) -> None:
    partitioning = ds.partitioning(pa.schema([("p", pa.string())]), flavor="hive")
    ds.write_dataset(hostile_rows(), folder, format="parquet", partitioning=partitioning)


def write_with_pandas(_: SparkSession, folder: Path) -> None:
    hostile_rows().to_pandas().to_parquet(folder, partition_cols=["p"])


WRITERS = [write_with_spark, write_with_duckdb, write_with_pyarrow, write_with_pandas]


@pytest.mark.parametrize("write", WRITERS)
def test_folders_of_other_writers_are_read(
    spark: SparkSession, tmp_path: Path, write: Callable[[SparkSession, Path], None]
) -> None:
    write(spark, tmp_path / "t")
    table = open_folder(tmp_path / "t")
    assert sorted_rows(table.read()) == sorted_rows(hostile_rows())
    assert set(table.partitions()["p"].to_pylist()) == set(HOSTILE)
    assert sum(table.partitions()["rows"].to_pylist()) == len(HOSTILE)
    assert table.read(pt.col("p") == "a/b", columns=["id"]).toArrow()["id"].to_pylist() == [HOSTILE.index("a/b")]
    table.overwrite_partitions(pa.table({"id": [100], "n": [2], "p": ["a%2Fb"]}))
    expected = [row for row in sorted_rows(hostile_rows()) if row["p"] != "a%2Fb"] + [{"id": 100, "n": 2, "p": "a%2Fb"}]
    assert sorted_rows(table.read()) == expected


def readers(spark: SparkSession, folder: Path) -> dict[str, Any]:
    partitioning = ds.partitioning(pa.schema([("p", pa.string())]), flavor="hive")
    found_by_duckdb = duckdb.sql(
        "SELECT id, n, p FROM read_parquet(?, hive_partitioning = true, hive_types_autocast = false)",
        params=[f"{folder}/**/*.parquet"],
    )
    assert found_by_duckdb is not None
    return {
        "spark": spark.read.schema("id BIGINT, n BIGINT, p STRING").parquet(str(folder)),
        "duckdb": found_by_duckdb.to_arrow_table(),
        "pyarrow": ds.dataset(folder, format="parquet", partitioning=partitioning).to_table(),
    }


def test_other_readers_read_what_partita_wrote(spark: SparkSession, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    schema = {"id": "long", "n": "long", "p": "string"}
    table = lake.create_table("t", schema, format="parquet", partition_by=["p"])
    table.append(hostile_rows())
    table.overwrite_partitions(hostile_rows().slice(0, 3))
    (tmp_path / "t" / "_partita_table" / "staging" / "left.parquet.staged").write_bytes(b"left by a killed writer")
    for name, rows in readers(spark, tmp_path / "t").items():
        assert sorted_rows(rows) == sorted_rows(hostile_rows()), name
    assert sorted_rows(table.read()) == sorted_rows(hostile_rows())
    assert lake.tables() == ["t"]


TYPED = {
    "boolean": (True, False), "int": (1, -5), "long": (2**40, 0), "decimal(10,2)": (Decimal("1.50"), Decimal("-0.25")),
    "double": (0.1, -1e20), "date": (date(2025, 1, 15), date(1500, 3, 1)),
    "timestamp_ntz": (datetime(2025, 1, 15, 10, 30), datetime(2025, 1, 15, 10, 30, 0, 500)),  # noqa: DTZ001
    "string": ("x", "y"),
}  # fmt: skip


def test_typed_partitions_are_spelled_as_spark_spells_them(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(len(TYPED))]
    schema = {"id": "long", **dict(zip(names, TYPED, strict=True))}
    table = pt.Lake(str(tmp_path)).create_table("t", schema, format="parquet", partition_by=names)
    columns = {n: pa.array([*v, None]) for n, v in zip(names, TYPED.values(), strict=True)}
    columns["c1"], columns["c3"] = columns["c1"].cast(pa.int32()), columns["c3"].cast(pa.decimal128(10, 2))
    rows = spark.createDataFrame(pa.table({"id": pa.array([1, 2, 3], pa.int64()), **columns}))
    rows = rows.withColumn("c6", rows["c6"].cast("timestamp_ntz"))
    table.append(rows)
    rows.write.partitionBy(*names).parquet(str(tmp_path / "spark"))
    folders = {path.rpartition("/")[0] for path in table.plan().files["path"].to_pylist()}
    written = {path.parent.relative_to(tmp_path / "spark") for path in (tmp_path / "spark").rglob("*.parquet")}
    assert folders == {str(path) for path in written}
    plain = spark.read.schema(rows.schema).parquet(f"{tmp_path}/t")
    assert sorted_rows(plain) == sorted_rows(table.read()) == sorted_rows(rows)
    inferred = open_folder(tmp_path / "spark").schema
    assert [str(inferred.find_field(name).type) for name in names] == [
        "string", "int", "long", "string", "double", "date", "timestamp_ntz", "string",
    ]  # fmt: skip


def test_files_that_others_write_anew_under_their_names_are_read_anew(spark: SparkSession, tmp_path: Path) -> None:
    for rows in ([1], [2, 3]):
        write_file(tmp_path / "p=1" / "part-0.parquet", id=rows)
        assert sorted_rows(open_folder(tmp_path).read(columns=["id"])) == [{"id": row} for row in rows]


def test_a_missing_column_is_null_and_names_ignore_case(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", 1, ID=[1])
    write_file(tmp_path / "p=2" / "b.parquet", 2, id=[2], note=["x"])
    table = open_folder(tmp_path)
    assert sorted_rows(table.read()) == [{"id": 1, "note": None, "p": 1}, {"id": 2, "note": "x", "p": 2}]
    assert sorted_rows(table.read("note IS NULL")) == [{"id": 1, "note": None, "p": 1}]
    table.append(pa.table({"id": [3], "p": pa.array([3], pa.int32())}))
    assert table.partitions()["key"].to_pylist() == ["p=i:1", "p=i:2", "p=i:3"]


def test_a_file_that_is_written_anew_after_its_plan_is_filtered(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    rows = open_folder(tmp_path).read("id < 10")
    partition = open_folder(tmp_path).read("p = 1", columns=["id"])
    write_file(tmp_path / "p=1" / "a.parquet", id=[100])
    assert rows.collect() == []
    assert partition.count() == 1
    assert "Filter" not in partition._jdf.queryExecution().optimizedPlan().toString()


def test_a_type_that_no_sampled_footer_has_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(100):
        write_file(tmp_path / f"p={number}" / "a.parquet", number, id=[number], n=[1])
    write_file(tmp_path / "p=50" / "a.parquet", 50, id=[datetime(2024, 1, 1)], n=[1])  # noqa: DTZ001
    table = open_folder(tmp_path)
    assert str(table.schema.find_field("id").type) == "long"
    for where in (None, "p > 40"):
        with pytest.raises(TableError, match=r"'id' is timestamp_ntz in p=50/a\.parquet, and long in the table"):
            table.read(where)
    assert table.read("p < 40").count() == 40
    assert table.read(columns=["n", "p"]).count() == 100


def test_values_that_no_name_holds_are_refused_before_anything_is_visible(spark: SparkSession, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("t", {"id": "long", "p": "string"}, format="parquet", partition_by=["p"])
    for text in ("x" * 300, "a\0b"):
        with pytest.raises(PartitionValueError):
            table.append(pa.table({"id": [1], "p": [text]}))
    assert table.plan().files.num_rows == 0
    table.append(pa.table({"id": [1], "p": [""]}))
    assert table.partitions()["p"].to_pylist() == [None]
    with pytest.raises(UnsupportedOperation, match="replace whole partitions"):
        table.delete("id = 1")
    with pytest.raises(TableError, match=r"use partition columns alone$"):
        table.overwrite(table.read(), where="id = 1")


@pytest.mark.slow(reason="several status queries")
def test_an_adopted_folder_is_a_source_whose_late_files_make_others_stale(tmp_path: Path) -> None:
    for p in ("1", "007"):
        write_file(tmp_path / "clicks" / f"p={p}" / "a.parquet", 1_700_000_000, id=[1])
    lake = pt.Lake(str(tmp_path / "lake"))
    clicks = lake.adopt(str(tmp_path / "clicks"), "parquet", name="raw.clicks")
    assert lake.tables() == ["raw.clicks"]
    daily = pt.asset(name="daily", partitions=pt.dynamic("p"), upstream=[clicks])(print)
    lake.register(clicks, daily)
    for p in ("1", "007"):
        lake.record(daily, {"p": p}, outcome="succeeded")

    def states() -> dict[str, str]:
        rows = lake.status("daily").to_pylist()
        return {row["partition_key"]: row["display_status"] for row in rows}

    assert states() == {"p=s:MQ": "MATERIALIZED", "p=s:MDA3": "MATERIALIZED"}
    cursor = lake.table("raw.clicks").change_feed().cursor
    late = write_file(tmp_path / "clicks" / "p=007" / "late.parquet", id=[50])
    commits = lake.table("raw.clicks").change_feed(cursor).commits
    assert [commit.partitions["p"].to_pylist() for commit in commits] == [["007"]]
    assert commits[0].committed_at.timestamp() == pytest.approx(late.stat().st_mtime, abs=0.001)
    assert states() == {"p=s:MQ": "MATERIALIZED", "p=s:MDA3": "STALE"}
    lake.record(daily, {"p": "007"}, outcome="succeeded")
    late.unlink()
    assert states() == {"p=s:MQ": "MATERIALIZED", "p=s:MDA3": "STALE"}


def test_a_file_counts_from_when_it_was_put_in_its_place(tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", 1_700_000_000, id=[1])
    written = write_file(tmp_path / "_temporary" / "0" / "b.parquet", id=[2])
    written_time, table = written.stat().st_mtime, open_folder(tmp_path)
    assert [commit.committed_at.timestamp() for commit in table.change_feed().commits] == [1_700_000_000]
    cursor = table.change_feed().cursor
    time.sleep(0.1)
    before = time.time() - 0.01  # the disk's clock has ticks
    written.rename(tmp_path / "p=1" / "b.parquet")
    (commit,) = table.change_feed(cursor).commits
    assert written_time < before <= commit.committed_at.timestamp() <= time.time()


@pytest.mark.parametrize("moved", ["y=1/p=1", "y=1", "."])
def test_a_file_counts_from_when_a_folder_with_it_was_put_in_its_place(tmp_path: Path, moved: str) -> None:
    folder, staging = tmp_path / "t", tmp_path / "staging"
    write_file(folder / "y=1" / "p=1" / "a.parquet", 1_700_000_000, id=[1])
    table = open_folder(folder)
    cursor = table.change_feed().cursor
    written_time = write_file(staging / "y=1" / "p=1" / "b.parquet", id=[2]).stat().st_mtime
    time.sleep(0.1)
    before = time.time() - 0.01  # the disk's clock has ticks
    (folder / moved).rename(tmp_path / "replaced")
    (staging / moved).rename(folder / moved)
    (commit,) = table.change_feed(cursor).commits
    assert written_time < before <= commit.committed_at.timestamp() <= time.time()


def test_a_file_with_a_time_that_is_still_to_come_counts_from_now(tmp_path: Path) -> None:
    file = write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    table = open_folder(tmp_path)
    cursor = table.change_feed().cursor
    write_file(file, int(time.time()) + 3600, id=[1, 2])
    for feed in (table.change_feed(cursor), table.change_feed()):
        (commit,) = feed.commits
        assert time.time() - 60 < commit.committed_at.timestamp() <= time.time()


def test_an_asset_is_made_as_a_plain_folder(spark: SparkSession, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    made = []

    def rows_of(ctx: Any) -> pa.Table:
        made.append(ctx.keys)
        return pa.table({"id": [len(made)] * len(ctx.keys), "p": [key["p"] for key in ctx.keys]})

    asset = pt.asset(name="daily", table="daily", format="parquet", partitions=pt.static("p", ["x", "y"]))(rows_of)
    lake.register(asset)
    for _ in range(2):
        assert lake.run(lake.plan(missing=True)).ok
    assert len(made) == 1
    assert lake.table("daily").format == "parquet"
    assert lake.table("daily").partitions().select(["p", "rows"]).to_pylist() == [
        {"p": "x", "rows": 1}, {"p": "y", "rows": 1},
    ]  # fmt: skip


def test_sql_reads_a_plain_folder(spark: SparkSession, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    lake.sql("CREATE TABLE sales.t (id BIGINT, p STRING) USING parquet PARTITIONED BY (p)")
    lake.sql("INSERT INTO sales.t VALUES (1, 'a'), (2, 'b')")
    assert sorted_rows(lake.sql("SELECT id FROM sales.t WHERE p = 'b'")) == [{"id": 2}]
    with pytest.raises(UnsupportedOperation, match=r"^delete: a Parquet table"):
        lake.sql("DELETE FROM sales.t WHERE id = 1")


def test_writes_do_not_change_the_type_of_an_inferred_partition_column(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "nulls" / "k=__HIVE_DEFAULT_PARTITION__" / "a.parquet", id=[1])
    nulls = open_folder(tmp_path / "nulls")
    for number, text in enumerate(["5", "6"]):
        nulls.append(pa.table({"id": [number], "k": [text]}))
    assert {row.k for row in nulls.read().collect()} == {None, "5", "6"}
    for text in ("0042", "17"):
        write_file(tmp_path / "codes" / f"k={text}" / "a.parquet", id=[1])
    codes = open_folder(tmp_path / "codes")
    cursor = codes.change_feed().cursor
    codes.overwrite(codes.read("false"), "k = '0042'")
    assert [row.k for row in codes.read("k = '17'").collect()] == ["17"]
    assert [commit.partitions["k"].to_pylist() for commit in codes.change_feed(cursor).commits] == [["0042"]]
