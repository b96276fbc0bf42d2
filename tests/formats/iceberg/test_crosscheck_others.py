"""Tables and files of other writers: pyiceberg, writers of equality deletes, files without ids, other file formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record

import partita as pt
from partita.errors import TableError, UnsupportedFeature
from partita.formats.iceberg.catalogs import lake_catalog
from partita.formats.iceberg.columns import schema_to_iceberg
from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.storage import Storage
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    EQUALITY_DELETES_CONTENT,
    POSITION_DELETES_CONTENT,
    agreed_rows,
    assert_unchanged,
    jvm_session,
    live_files,
    live_spec_ids,
    pyiceberg_table,
    read_with_jvm,
    read_with_strict_reader,
)
from tests.formats.iceberg.test_evolution import SCHEMA as ORDERS
from tests.formats.iceberg.test_evolution import orders

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("version", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_a_table_of_pyiceberg(spark: SparkSession, tmp_path: Path, version: str) -> None:
    catalog = lake_catalog(Storage.from_uri(str(tmp_path)))
    catalog.create_namespace("db")
    theirs = catalog.create_table(
        "db.t", schema_to_iceberg(ORDERS), properties={"format-version": version},
        partition_spec=PartitionSpec(PartitionField(3, 1000, DayTransform(), "ts_day")),
    )  # fmt: skip
    theirs.append(orders(0, 12))
    with theirs.update_spec() as update:
        update.add_field("region", IdentityTransform(), "region")
    theirs.append(orders(12, 12))
    theirs.delete("id == 3")
    table = pt.Lake(str(tmp_path)).table("db.t")
    truth = ReferenceTable(spark, orders(0, 24))
    truth.delete("id = 3")
    jvm = jvm_session(spark, tmp_path)
    for change in (table, truth):
        change.delete("amount % 4 = 2")
        change.update({"region": "note", "note": "region"}, "id % 5 = 1")
        change.merge(orders(20, 8), "t.id = s.id", pt.when_matched().delete(), pt.when_not_matched().insert())
    assert agreed_rows(table, jvm) == truth.rows
    catalog.load_table("db.t").append(orders(50, 4))
    truth.append(orders(50, 4))
    table.evolve(drop=["ts_day"])
    table.append(orders(60, 4))
    truth.append(orders(60, 4))
    catalog.load_table("db.t").delete("note == 'n60'")
    truth.delete("note = 'n60'")
    assert agreed_rows(table, jvm) == truth.rows
    assert set(live_spec_ids(table, POSITION_DELETES_CONTENT)) == ({0, 1} if version == "2" else set())


# --- equality deletes

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "k": "int"})


def numbered_rows(first: int, count: int) -> pa.Table:
    every = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "p": pa.array([["a", "b", None][i % 3] for i in every], pa.string()),
            "k": pa.array([None if i % 4 == 0 else i % 4 for i in every], pa.int32()),
        }
    )


def equality(loaded: IcebergTable, spec_id: int, partition: list[Any], values: dict[str, list[Any]]) -> None:
    """Write an equality-delete file, as other engines do."""
    schema = loaded.schema()
    fields = [schema.find_field(name) for name in values]
    types = {"id": pa.int64(), "p": pa.string(), "k": pa.int32()}
    table = pa.table(
        [pa.array(column, types[name]) for name, column in values.items()],
        schema=pa.schema(
            [pa.field(f.name, types[f.name], metadata={"PARQUET:field_id": str(f.field_id)}) for f in fields]
        ),
    )
    path = f"{loaded.location()}/data/{uuid4()}-equality.parquet"
    with loaded.io.new_output(path).create() as stream:
        pq.write_table(table, stream)
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=table.num_rows,
        file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
        equality_ids=[f.field_id for f in fields],
    )
    file.spec_id = spec_id
    with pytest.MonkeyPatch.context() as patch:
        # Partita writes none; the manifest is as it would be.
        patch.setattr(sys.modules["partita.formats.iceberg.commit"], "validate_change", lambda *_: None)
        commit_snapshot(loaded, loaded.metadata.current_snapshot_id, SnapshotChange("row_delta", [file]))


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_equality_deletes_of_others(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    properties = {f"write.{operation}.mode": mode for operation in ("delete", "update", "merge")}
    table = pt.Lake(str(tmp_path)).create_table("db.t", SCHEMA, format="iceberg", properties=properties)
    jvm = jvm_session(spark, tmp_path)
    truth = ReferenceTable(spark, numbered_rows(0, 0))

    def append(first: int) -> None:
        table.append(numbered_rows(first, 12))
        truth.append(numbered_rows(first, 12))

    def check_all_readers() -> None:
        rows = sorted_rows(table.read())
        assert rows == truth.rows
        assert rows == sorted_rows(read_with_jvm(jvm, table))
        assert rows == sorted_rows(read_with_strict_reader(table))

    append(0)
    table.evolve(add=["p"])
    append(100)
    # In a partition of its spec alone, and null equals null.
    equality(pyiceberg_table(table), 1, ["a"], {"k": [1, None]})
    truth.delete("id >= 100 and p = 'a' and (k = 1 or k is null)")
    # What comes after them stays.
    append(200)
    check_all_readers()
    # Of a spec without fields: everywhere, by two columns.
    equality(pyiceberg_table(table), 0, [], {"id": [1, 101, 202, 7], "p": ["b", "b", "b", "b"]})
    truth.delete("p = 'b' and id in (1, 101, 202, 7)")
    table.delete("id % 10 = 5")
    truth.delete("id % 10 = 5")
    assert sorted_rows(table.read()) == truth.rows
    table.update({"k": "100", "p": "'b'"}, "id % 10 = 4")
    truth.update({"k": "100", "p": "'b'"}, "id % 10 = 4")
    clauses = [
        pt.when_matched("s.k = 3").delete(),
        pt.when_matched().update({"k": "-1"}),
        pt.when_not_matched().insert(),
    ]
    table.merge(numbered_rows(98, 8), "t.id = s.id", *clauses)
    truth.merge(numbered_rows(98, 8), "t.id = s.id", *clauses)
    check_all_readers()
    assert sorted_rows(table.read("p = 'a' and k is null")) == [r for r in truth.rows if r[1] == "a" and r[2] is None]
    assert live_files(table, EQUALITY_DELETES_CONTENT)
    jvm.sql("delete from partita.db.t where id % 10 = 9").collect()
    truth.delete("id % 10 = 9")
    check_all_readers()


# --- files of others


def test_files_without_ids_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Their columns could be found by name only."""
    hive = str(tmp_path / "hive")
    frame = spark.createDataFrame(numbered_rows(0, 12)).where("p is not null")
    frame.write.partitionBy("p").parquet(hive)
    table = pt.Lake(str(tmp_path / "lake")).create_table("db.t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(numbered_rows(100, 6))
    jvm = jvm_session(spark, tmp_path / "lake")
    jvm.sql(f"call partita.system.add_files(table => 'db.t', source_table => '`parquet`.`{hive}`')").collect()
    truth = ReferenceTable(spark, pa.concat_tables([numbered_rows(100, 6), rows_of(frame)]))
    assert sorted_rows(read_with_jvm(jvm, table)) == truth.rows
    # Names are no ids, and what Partita would make of them could be another column.
    for refused in (
        lambda: sorted_rows(table.read()),
        lambda: table.delete("id % 2 = 0"),
        lambda: table.update({"k": "0"}),
    ):
        with assert_unchanged(table), pytest.raises(UnsupportedFeature, match="field ids"):
            refused()
    assert sorted_rows(table.read("id >= 100")) == [row for row in truth.rows if row[0] >= 100]


def rows_of(frame: Any) -> pa.Table:
    return frame.toArrow().cast(numbered_rows(0, 0).schema)


def test_a_file_that_lacks_the_column_of_its_partition(spark: SparkSession, tmp_path: Path) -> None:
    """The partition has the value; the null that the file seems to have would be wrong."""
    table = pt.Lake(str(tmp_path)).create_table("db.t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(numbered_rows(100, 6))
    loaded = pyiceberg_table(table)
    path = f"{loaded.location()}/data/lacking.parquet"
    lacking = numbered_rows(0, 4).drop_columns(["p"])
    ids = {"id": "1", "k": "3"}
    fields = [f.with_metadata({"PARQUET:field_id": ids[f.name]}) for f in lacking.schema]
    with loaded.io.new_output(path).create() as stream:
        pq.write_table(lacking.cast(pa.schema(fields)), stream)
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path=path, file_format=FileFormat.PARQUET, partition=Record("z"),
        record_count=4, file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
    )  # fmt: skip
    file.spec_id = 0
    commit_snapshot(loaded, loaded.metadata.current_snapshot_id, SnapshotChange("append", [file]))
    for refused in (lambda: sorted_rows(table.read()), lambda: table.delete("p = 'z' and id % 2 = 0")):
        with assert_unchanged(table), pytest.raises(UnsupportedFeature, match="leave out"):
            refused()
    assert sorted_rows(table.read("p <= 'b'", columns=["id"])) == [(100,), (102,), (103,), (105,)]
    assert table.delete("p = 'z'").counts["rows_deleted"] == 4
    assert sorted_rows(table.read()) == sorted_rows(numbered_rows(100, 6))


@pytest.mark.parametrize("format_", ["avro", "orc"])
def test_files_that_are_not_parquet_are_refused(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "db.t", SCHEMA, format="iceberg", partition_by=["p"], properties={"write.format.default": format_}
    )
    jvm = jvm_session(spark, tmp_path)
    jvm.createDataFrame(numbered_rows(0, 3)).writeTo("partita.db.t").append()
    assert table.plan().files.num_rows == 3
    with pytest.raises(TableError, match=format_):
        table.read()
    with pytest.raises(TableError, match=format_):
        table.delete("id % 2 = 1")


@pytest.mark.long
def test_ten_thousand_files(spark: SparkSession, tmp_path: Path) -> None:
    """Each file is a link to one of few files on disk."""
    table = pt.Lake(str(tmp_path)).create_table("db.t", SCHEMA, format="iceberg", partition_by=["p"])
    loaded = pyiceberg_table(table)
    folder = Path(loaded.location().removeprefix("file://"), "data")
    folder.mkdir(parents=True)
    file_rows = pa.table(
        [[1, 2], ["a", "a"], pa.array([7, 8], pa.int32())],
        schema=pa.schema(
            [pa.field(n, t, metadata={"PARQUET:field_id": str(index)})
             for index, (n, t) in enumerate([("id", pa.int64()), ("p", pa.string()), ("k", pa.int32())], 1)]
        ),
    )  # fmt: skip
    pq.write_table(file_rows, folder / "0.parquet")
    files = []
    for index in range(10_000):
        if index:
            (folder / f"{index}.parquet").hardlink_to(folder / "0.parquet")
        file = DataFile.from_args(
            content=DataFileContent.DATA, file_path=f"{loaded.location()}/data/{index}.parquet",
            file_format=FileFormat.PARQUET, partition=Record("a"), record_count=2,
            file_size_in_bytes=(folder / "0.parquet").stat().st_size, value_counts={1: 2}, null_value_counts={1: 0},
        )  # fmt: skip
        file.spec_id = 0
        files.append(file)
    commit_snapshot(loaded, None, SnapshotChange("append", files))
    assert table.plan().files.num_rows == 10_000
    counts = table.read().groupBy("id", "k").count()
    assert sorted_rows(counts) == [(1, 7, 10_000), (2, 8, 10_000)]
    assert table.delete("id = 2 and k = 8").counts["rows_deleted"] == 10_000
    assert sorted_rows(table.read().groupBy("id", "k").count()) == [(1, 7, 10_000)]
    assert len(live_files(table, POSITION_DELETES_CONTENT)) == 1
