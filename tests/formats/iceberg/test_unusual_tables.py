"""Unusual names, folders and settings, and concurrent changes of more than rows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import CommitConflict, SchemaError, TableError, UnsupportedFeature
from partita.formats.registry import FORMATS as ALL_FORMATS
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.tables import CATALOG_NAME, jvm_session, pyiceberg_table
from tests.formats.iceberg.test_concurrency import meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "k": "int"})
FORMATS = ["delta", "iceberg"]


def row(number: int, p: str, k: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "p": [p], "k": pa.array([k], pa.int32())})


@pytest.mark.parametrize("form", FORMATS)
def test_no_table_lies_in_the_folder_of_another(tmp_path: Path, form: str) -> None:
    lake = pt.Lake(str(tmp_path))
    lake.create_table("web", SCHEMA, format=form)
    with pytest.raises(TableError, match="in the folder of the table web"):
        lake.create_table("web.visits", SCHEMA, format="delta")
    lake.create_table("shop.orders.all", SCHEMA, format=form)
    with pytest.raises(TableError, match=r"has the table shop\.orders\.all in it"):
        lake.create_table("shop", SCHEMA, format="iceberg")
    lake.create_table("shop.returns", SCHEMA, format=form)


@pytest.mark.parametrize("form", FORMATS)
def test_a_clean_up_leaves_tables_in_its_folder_alone(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Nobody makes them there, and someone will move one there."""
    web = pt.Lake(str(tmp_path)).create_table("web", SCHEMA, format=form)
    web.append(row(1, "a", 1))
    tables_within = []
    for inner in ALL_FORMATS:
        within = pt.Lake(f"{tmp_path}/web/data/deep/{inner}").create_table(
            "t", SCHEMA, format=inner, partition_by=["p"]
        )
        within.append(row(2, "b", 2))
        tables_within.append(within)
    removed = web.remove_orphans(timedelta(0))
    # A lake's catalog is no table's file, and in nobody's folder but here.
    assert {Path(path).name for path in removed} <= {"catalog.db"}
    assert sorted_rows(web.read(spark=spark)) == [(1, "a", 1)]
    for within in tables_within:
        assert sorted_rows(within.read(spark=spark)) == [(2, "b", 2)], within.format


@pytest.mark.parametrize("mark", ["?", "#"])
def test_a_folder_that_others_read_as_an_address(tmp_path: Path, mark: str) -> None:
    with pytest.raises(TableError, match="end a path"):
        pt.Lake(f"{tmp_path}/a{mark}b").create_table("t", SCHEMA, format="iceberg")


@pytest.mark.parametrize("form", FORMATS)
def test_columns_that_differ_by_case_alone(tmp_path: Path, form: str) -> None:
    with pytest.raises(SchemaError, match="'id' and 'ID' differ in case"):
        pt.Lake(str(tmp_path)).create_table("t", pt.Schema.of({"id": "long", "ID": "long"}), format=form)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", FORMATS)
def test_names_that_spark_reads_as_sql(tmp_path: Path, form: str) -> None:
    names = ["a.b", "x`y", "${env:HOME}" if form == "iceberg" else "z"]
    table = pt.Lake(str(tmp_path)).create_table("t", pt.Schema.of(dict.fromkeys(names, "long")), format=form)
    table.append(pa.table([pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6])], names=names))
    assert table.update({"a.b": "`x``y` + 1"}, "`a.b` = 1").counts["rows_updated"] == 1
    source = pa.table([pa.array([9]), pa.array([4]), pa.array([0])], names=names)
    table.merge(source, "t.`x``y` = s.`x``y`", pt.when_matched().update({"a.b": "s.`a.b`"}))
    assert table.read().columns == names
    assert sorted_rows(table.read()) == [(4, 3, 5), (9, 4, 6)]


@pytest.mark.usefixtures("spark")
def test_files_claim_no_order_that_they_are_not_in(tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format="iceberg")
    with pyiceberg_table(table).transaction() as transaction:
        transaction.update_sort_order().asc("k", IdentityTransform()).commit()
    table.append(pa.concat_tables([row(1, "a", 3), row(2, "b", 1), row(3, "c", 2)]))
    assert {task.file.sort_order_id for task in pyiceberg_table(table).scan().plan_files()} <= {None, 0}


@pytest.mark.usefixtures("spark")
def test_a_setting_that_is_no_number(tmp_path: Path) -> None:
    name = "write.metadata.metrics.max-inferred-column-defaults"
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format="iceberg", properties={name: "many"})
    with pytest.raises(TableError, match=f"{name} is 'many'"):
        table.append(row(1, "a", 1))


# --- beside others


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> pt.Table:
    created = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format="iceberg", partition_by=[pt.bucket("id", 2)])
    created.append(pa.concat_tables([row(1, "a", 1), row(5, "b", 5)]))
    return created


@pytest.mark.parametrize("other", ["append", "overwrite_partitions"])
def test_an_overwrite_beside_an_evolution_and_rows_of_it(table: pt.Table, tmp_path: Path, other: str) -> None:
    elsewhere = pt.Lake(str(tmp_path)).table("t.t")
    with (
        meanwhile(table, lambda: elsewhere.evolve(add=["k"]), lambda: getattr(elsewhere, other)(row(5, "q", 9))),
        pytest.raises(CommitConflict),
    ):
        table.overwrite_partitions(row(5, "p", 2))
    assert (5, "q", 9) in sorted_rows(table.read())


def test_a_name_that_another_column_has_by_now(table: pt.Table, tmp_path: Path) -> None:
    elsewhere = pt.Lake(str(tmp_path)).table("t.t")

    def swap() -> None:
        with pyiceberg_table(elsewhere).update_schema() as change:
            change.rename_column("k", "w")
        with pyiceberg_table(elsewhere).update_schema() as change:
            from pyiceberg.types import IntegerType

            change.add_column("k", IntegerType())
        elsewhere.append(pa.table({"id": pa.array([9], pa.int64()), "w": pa.array([5], pa.int32())}))

    with meanwhile(table, swap), pytest.raises(CommitConflict):
        table.delete("k = 5")
    assert sorted(row[0] for row in sorted_rows(table.read())) == [1, 5, 9]


def test_a_table_that_another_brings_to_version_3(spark: SparkSession, table: pt.Table, tmp_path: Path) -> None:
    jvm = jvm_session(spark, tmp_path)

    def upgrade() -> None:
        jvm.sql(f"ALTER TABLE {CATALOG_NAME}.t.t SET TBLPROPERTIES ('format-version' = '3')")

    with meanwhile(table, upgrade), pytest.raises(UnsupportedFeature, match="format version 3"):
        table.append(row(7, "z", 7))
    assert sorted_rows(table.read()) == [(1, "a", 1), (5, "b", 5)]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("folder", ["there", "./there", "link/there", "lake/t/deep", "lake/./t/deep", "lake", "."])
def test_a_data_folder_by_whatever_name_keeps_what_the_table_has(tmp_path: Path, folder: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    settings = {"write.data.path": f"{tmp_path}/{folder}"}
    table = pt.Lake(f"{tmp_path}/lake").create_table("t", SCHEMA, format="iceberg", properties=settings)
    table.append(row(1, "a", 1))
    with pyiceberg_table(table).transaction() as transaction:
        transaction.set_properties({"write.data.path": f"{tmp_path}/lake/../{folder}"})
    table.append(row(2, "b", 2))
    orphan = Path(table.plan().files["path"][0].as_py()).with_name(
        f"{pyiceberg_table(table).metadata.table_uuid}-left.parquet"
    )
    orphan.write_bytes(b"")
    assert [Path(path).name for path in table.remove_orphans(timedelta(0))] == [orphan.name]
    assert sorted_rows(table.read()) == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("what", ["delete", "update", "merge"])
def test_an_isolation_level_that_there_is_not(tmp_path: Path, what: str) -> None:
    settings = {f"write.{what}.isolation-level": "bogus"}
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="iceberg", properties=settings)
    table.append(row(1, "a", 1))
    changes: dict[str, Callable[[], object]] = {
        "delete": lambda: table.delete("id = 1"),
        "update": lambda: table.update({"k": "2"}, "id = 1"),
        "merge": lambda: table.merge(row(1, "a", 3), "t.id = s.id", pt.when_matched().update()),
    }
    with pytest.raises(TableError, match=rf"write\.{what}\.isolation-level is serializable or snapshot, not 'bogus'"):
        changes[what]()
    assert sorted_rows(table.read()) == [(1, "a", 1)]


@pytest.mark.usefixtures("spark")
def test_tables_that_share_a_data_folder_clean_up_after_themselves_alone(tmp_path: Path) -> None:
    lake, shared = pt.Lake(f"{tmp_path}/lake"), tmp_path / "shared"
    settings = {"write.data.path": str(shared)}
    first, second = (lake.create_table(n, SCHEMA, format="iceberg", properties=settings) for n in ("one", "other"))
    first.append(row(1, "a", 1))
    second.append(row(2, "b", 2))
    (live,), (others,) = (table.plan().files["path"].to_pylist() for table in (first, second))
    orphan = Path(live).with_name(f"{pyiceberg_table(first).metadata.table_uuid}-00000-0-left.parquet")
    unknown = Path(live).with_name("00000-0-unknown.parquet")
    for path in (orphan, unknown):
        path.write_bytes(Path(live).read_bytes())
    assert second.remove_orphans(timedelta(0)) == []
    assert first.remove_orphans() == []
    assert first.remove_orphans(timedelta(0)) == [str(orphan)]
    assert sorted(shared.iterdir()) == sorted([Path(live), Path(others), unknown])
    assert (sorted_rows(first.read()), sorted_rows(second.read())) == ([(1, "a", 1)], [(2, "b", 2)])


@pytest.mark.usefixtures("spark")
def test_a_partition_with_deletes_goes_without_a_look_at_its_rows(tmp_path: Path) -> None:
    """Delete files alone tell how many rows were left in it."""
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(pa.concat_tables([row(number, "ab"[number % 2], number) for number in range(10)]))
    table.delete("id = 2")
    table.delete("id in (4, 5)")
    for path in table.plan("p = 'a'").files["path"].to_pylist():
        Path(path.removeprefix("file://")).unlink()
    assert table.delete("p = 'a'").counts["rows_deleted"] == 3
    assert [number for number, _, _ in sorted_rows(table.read())] == [1, 3, 7, 9]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("version", ["1", "2"])
def test_rows_that_an_overwrite_leaves_are_not_counted_as_new(tmp_path: Path, version: str) -> None:
    settings = {"format-version": version}
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="iceberg", partition_by=["p"], properties=settings)
    table.append(pa.concat_tables([row(1, "a", 1), row(2, "a", 2), row(3, "b", 3)]))
    table.evolve(add=["k"])
    assert table.overwrite_partitions(row(9, "a", 1)).counts["rows_inserted"] == 1
    assert sorted_rows(table.read()) == [(2, "a", 2), (3, "b", 3), (9, "a", 1)]


@pytest.mark.usefixtures("spark")
def test_a_conflict_names_what_was_asked_for(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(row(1, "a", 1))
    changes: dict[str, Callable[[], object]] = {
        "update": lambda: table.update({"k": "2"}, "p = 'a'"),
        "merge": lambda: table.merge(row(1, "a", 3), "t.id = s.id", pt.when_matched().update()),
    }
    for operation, change in changes.items():
        with (
            meanwhile(table, lambda: table.append(row(1, "a", 5))),
            pytest.raises(CommitConflict, match=f"^{operation}: ") as lost,
        ):
            change()
        assert lost.value.operation == operation
