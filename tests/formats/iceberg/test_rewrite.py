"""`Table.rewrite` on tables of two specs: the same rows, in fewer files, all of the default spec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import Conflict
from tests.formats.delta.tables import rows
from tests.formats.iceberg.tables import (
    DATA,
    MODES,
    POSITIONS,
    added_specs,
    agreed,
    by_strict,
    check_layout,
    iceberg,
    jvm_session,
    listed,
    specs_of,
    unchanged,
)
from tests.formats.iceberg.test_concurrency import GIVEN, Beside, meanwhile, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "k": "int"})


def numbered(first: int, count: int) -> pa.Table:
    every = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "p": pa.array([["a", "b", None][at % 3] for at in every], pa.string()),
            "k": pa.array([None if at % 5 == 0 else at for at in every], pa.int32()),
        }
    )


def two_specs(folder: Path, evolution: dict[str, Any], **properties: str) -> pt.Table:
    """A table with small files of spec 0 and of the one that comes of an evolution, some rows of each deleted."""
    table = pt.Lake(str(folder)).create_table(
        "t.t", SCHEMA, format="iceberg", partition_by=["p"], properties=properties
    )
    table.append(numbered(0, 6))
    table.append(numbered(6, 6))
    table.evolve(**evolution)
    table.append(numbered(12, 12))
    table.append(numbered(24, 12))
    # In a file of each spec; where files are copied, the others are still of both.
    table.delete("id in (0, 13)")
    assert set(specs_of(table, DATA)) == {0, 1}
    return table


def is_marked(mode: str) -> bool:
    return not MODES[mode]


def paths(table: pt.Table, content: int | None = None) -> set[str]:
    return {found.path for found in listed(table, content)}


def summary(table: pt.Table) -> dict[str, str]:
    snapshot = iceberg(table).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_is_of_the_default_spec_afterwards(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 2)]}, **MODES[mode])
    jvm = jvm_session(spark, tmp_path)
    assert set(specs_of(table, POSITIONS)) == ({0, 1} if is_marked(mode) else set())
    before, files = agreed(table, jvm), paths(table, DATA)
    counts = table.rewrite().counts
    assert agreed(table, jvm) == before
    assert len(before) == 34
    assert set(specs_of(table, DATA)) == set(added_specs(table, DATA)) == {1}
    left = paths(table, DATA)
    assert len(left) < len(files)
    assert (counts["files_added"], counts["files_removed"]) == (len(left - files), len(files - left))
    assert not listed(table, POSITIONS)
    told = summary(table)
    assert (told["operation"], told["total-delete-files"], told["total-records"]) == ("replace", "0", "34")


def test_a_second_one_finds_nothing_to_do(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 1)]}, **MODES[mode])
    table.rewrite()
    left = [found.partition for found in listed(table, DATA)]
    assert sorted(left, key=repr) == [("a", 0), ("b", 0), (None, 0)], "one file for each partition"
    with unchanged(table):
        assert table.rewrite().version is None
        assert table.rewrite("p = 'a'").version is None


def test_a_file_that_is_alone_in_its_partition_until_old_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of the old spec go to the partition of a small file of the default one: together, not beside it."""
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(numbered(0, 6))
    table.evolve(add=[pt.bucket("id", 1)])
    table.append(numbered(6, 6))
    table.rewrite()
    assert rows(table.read()) == rows(numbered(0, 12))
    assert len(listed(table, DATA)) == 3
    with unchanged(table):
        assert table.rewrite().version is None


def test_a_spec_without_the_field_of_the_old_one(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"drop": ["p"]}, **MODES[mode])
    jvm = jvm_session(spark, tmp_path)
    before = agreed(table, jvm)
    table.rewrite()
    assert agreed(table, jvm) == before
    assert specs_of(table, DATA) == [1], "all of the rows in one file"
    assert not listed(table, POSITIONS)


def test_files_that_can_not_match_stay_as_they_were(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 2)]}, **MODES[mode])
    before, files = agreed(table), listed(table, DATA)
    matching = {found.path for found in files if found.partition[0] == "a"}
    others = {found.path for found in files} - matching
    assert {found.spec_id for found in files if found.path in others} == {0, 1}
    table.rewrite("p = 'a'")
    assert agreed(table, jvm_session(spark, tmp_path)) == before
    after = listed(table, DATA)
    assert {found.path for found in after if found.partition[0] != "a"} == others
    assert matching.isdisjoint(found.path for found in after)
    assert {found.spec_id for found in after if found.partition[0] == "a"} == {1}
    # The deletes of the files that stay do too, and are of their spec.
    assert [found.partition[0] for found in listed(table, POSITIONS)] == (["b"] if is_marked(mode) else [])
    assert set(specs_of(table, POSITIONS)) == ({1} if is_marked(mode) else set())
    with unchanged(table):
        assert table.rewrite("p = 'a'").version is None


def test_a_condition_that_no_file_can_match(spark: SparkSession, tmp_path: Path) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 2)]})
    with unchanged(table):
        assert table.rewrite("p = 'z'").version is None
        assert table.rewrite("id > 1000").version is None


def test_the_column_that_an_old_spec_is_made_of_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    table = two_specs(tmp_path, {"drop": ["p"], "add": [pt.bucket("id", 2)]})
    with iceberg(table).update_schema() as update:
        update.delete_column("p")
    before = rows(table.read())
    assert before == rows(by_strict(table))
    table.rewrite("id < 3")
    check_layout(table)
    assert rows(table.read()) == rows(by_strict(table)) == before
    table.rewrite()
    check_layout(table)
    assert rows(table.read()) == rows(by_strict(table)) == before
    assert set(specs_of(table, DATA)) == {1}
    assert not listed(table, POSITIONS)
    with unchanged(table):
        assert table.rewrite().version is None


def test_beside_a_delete_it_is_refused_and_the_delete_stays(spark: SparkSession, tmp_path: Path) -> None:
    beside = Beside(spark, tmp_path)
    table = beside.table
    with meanwhile(table, lambda: beside.table.delete("id = 3")), pytest.raises(Conflict):
        table.rewrite()
    left = rows(GIVEN.filter(pa.array([at != 3 for at in range(12)])))
    assert agreed(table, beside.jvm) == left
    assert summary(table)["operation"] != "replace"
    table.rewrite()
    assert agreed(table, beside.jvm) == left
    assert set(specs_of(table, DATA)) == {1}


def test_beside_an_append_both_land(spark: SparkSession, tmp_path: Path) -> None:
    beside = Beside(spark, tmp_path)
    table = beside.table
    old = paths(table, DATA)
    with meanwhile(table, lambda: beside.table.append(row(20, "a", 5))):
        assert table.rewrite().version is not None
    assert agreed(table, beside.jvm) == rows(pa.concat_tables([GIVEN, row(20, "a", 5)]))
    assert set(specs_of(table, DATA)) == {1}
    assert summary(table)["operation"] == "replace"
    assert not {found.path for found in listed(table, DATA) if found.spec_id == 0} & old
