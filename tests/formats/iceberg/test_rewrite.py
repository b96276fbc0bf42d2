"""`Table.rewrite` on tables of two specs: the same rows, in fewer files, all of the default spec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import CommitConflict
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.tables import (
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
    WRITE_MODES,
    added_spec_ids,
    agreed_rows,
    assert_unchanged,
    check_layout,
    jvm_session,
    live_files,
    live_spec_ids,
    pyiceberg_table,
    read_with_strict_reader,
)
from tests.formats.iceberg.test_concurrency import GIVEN, Beside, meanwhile, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "k": "int"})


def numbered_rows(first: int, count: int) -> pa.Table:
    every = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "p": pa.array([["a", "b", None][index % 3] for index in every], pa.string()),
            "k": pa.array([None if index % 5 == 0 else index for index in every], pa.int32()),
        }
    )


def two_specs(folder: Path, evolution: dict[str, Any], **properties: str) -> pt.Table:
    """A table with small files of spec 0 and of the one that comes of an evolution, some rows of each deleted."""
    table = pt.Lake(str(folder)).create_table(
        "t.t", SCHEMA, format="iceberg", partition_by=["p"], properties=properties
    )
    table.append(numbered_rows(0, 6))
    table.append(numbered_rows(6, 6))
    table.evolve(**evolution)
    table.append(numbered_rows(12, 12))
    table.append(numbered_rows(24, 12))
    # In a file of each spec; where files are copied, the others are still of both.
    table.delete("id in (0, 13)")
    assert set(live_spec_ids(table, DATA_CONTENT)) == {0, 1}
    return table


def is_marked(mode: str) -> bool:
    return not WRITE_MODES[mode]


def paths(table: pt.Table, content: int | None = None) -> set[str]:
    return {file.path for file in live_files(table, content)}


def summary(table: pt.Table) -> dict[str, str]:
    snapshot = pyiceberg_table(table).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def in_modes(*names: str) -> pytest.MarkDecorator:
    """Run a test in these modes, and in the others if long tests run."""
    return pytest.mark.parametrize(
        "mode", [pytest.param(mode, marks=() if mode in names else pytest.mark.long) for mode in WRITE_MODES]
    )


@in_modes("merge on read", "version 1")
def test_all_is_of_the_default_spec_afterwards(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 2)]}, **WRITE_MODES[mode])
    jvm = jvm_session(spark, tmp_path)
    assert set(live_spec_ids(table, POSITION_DELETES_CONTENT)) == ({0, 1} if is_marked(mode) else set())
    before, files = agreed_rows(table, jvm), paths(table, DATA_CONTENT)
    counts = table.rewrite().counts
    assert agreed_rows(table, jvm) == before
    assert len(before) == 34
    assert set(live_spec_ids(table, DATA_CONTENT)) == set(added_spec_ids(table, DATA_CONTENT)) == {1}
    remaining = paths(table, DATA_CONTENT)
    assert len(remaining) < len(files)
    assert (counts["files_added"], counts["files_removed"]) == (len(remaining - files), len(files - remaining))
    assert not live_files(table, POSITION_DELETES_CONTENT)
    properties = summary(table)
    assert (properties["operation"], properties["total-delete-files"], properties["total-records"]) == (
        "replace",
        "0",
        "34",
    )


@in_modes("merge on read")
def test_a_second_one_finds_nothing_to_do(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 1)]}, **WRITE_MODES[mode])
    table.rewrite()
    partitions = [file.partition for file in live_files(table, DATA_CONTENT)]
    assert sorted(partitions, key=repr) == [("a", 0), ("b", 0), (None, 0)], "one file for each partition"
    with assert_unchanged(table):
        assert table.rewrite().version is None
        assert table.rewrite("p = 'a'").version is None


def test_a_file_that_is_alone_in_its_partition_until_old_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of the old spec go to the partition of a small file of the default one: together, not beside it."""
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(numbered_rows(0, 6))
    table.evolve(add=[pt.bucket("id", 1)])
    table.append(numbered_rows(6, 6))
    table.rewrite()
    assert sorted_rows(table.read()) == sorted_rows(numbered_rows(0, 12))
    assert len(live_files(table, DATA_CONTENT)) == 3
    with assert_unchanged(table):
        assert table.rewrite().version is None


@in_modes("merge on read")
def test_a_spec_without_the_field_of_the_old_one(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"drop": ["p"]}, **WRITE_MODES[mode])
    jvm = jvm_session(spark, tmp_path)
    before = agreed_rows(table, jvm)
    table.rewrite()
    assert agreed_rows(table, jvm) == before
    assert live_spec_ids(table, DATA_CONTENT) == [1], "all of the rows in one file"
    assert not live_files(table, POSITION_DELETES_CONTENT)


@in_modes("merge on read", "copy on write")
def test_files_that_can_not_match_stay_as_they_were(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 2)]}, **WRITE_MODES[mode])
    before, files = agreed_rows(table), live_files(table, DATA_CONTENT)
    matching = {file.path for file in files if file.partition[0] == "a"}
    others = {file.path for file in files} - matching
    assert {file.spec_id for file in files if file.path in others} == {0, 1}
    table.rewrite("p = 'a'")
    assert agreed_rows(table, jvm_session(spark, tmp_path)) == before
    after = live_files(table, DATA_CONTENT)
    assert {file.path for file in after if file.partition[0] != "a"} == others
    assert matching.isdisjoint(file.path for file in after)
    assert {file.spec_id for file in after if file.partition[0] == "a"} == {1}
    # The deletes of the files that stay do too, and are of their spec.
    assert [file.partition[0] for file in live_files(table, POSITION_DELETES_CONTENT)] == (
        ["b"] if is_marked(mode) else []
    )
    assert set(live_spec_ids(table, POSITION_DELETES_CONTENT)) == ({1} if is_marked(mode) else set())
    with assert_unchanged(table):
        assert table.rewrite("p = 'a'").version is None


def test_a_condition_that_no_file_can_match(spark: SparkSession, tmp_path: Path) -> None:
    table = two_specs(tmp_path, {"add": [pt.bucket("id", 2)]})
    with assert_unchanged(table):
        assert table.rewrite("p = 'z'").version is None
        assert table.rewrite("id > 1000").version is None


def test_the_column_that_an_old_spec_is_made_of_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    table = two_specs(tmp_path, {"drop": ["p"], "add": [pt.bucket("id", 2)]})
    with pyiceberg_table(table).update_schema() as update:
        update.delete_column("p")
    before = sorted_rows(table.read())
    assert before == sorted_rows(read_with_strict_reader(table))
    table.rewrite("id < 3")
    check_layout(table)
    assert sorted_rows(table.read()) == sorted_rows(read_with_strict_reader(table)) == before
    table.rewrite()
    check_layout(table)
    assert sorted_rows(table.read()) == sorted_rows(read_with_strict_reader(table)) == before
    assert set(live_spec_ids(table, DATA_CONTENT)) == {1}
    assert not live_files(table, POSITION_DELETES_CONTENT)
    with assert_unchanged(table):
        assert table.rewrite().version is None


def test_a_rewrite_conflicts_with_a_concurrent_delete(spark: SparkSession, tmp_path: Path) -> None:
    beside = Beside(spark, tmp_path)
    table = beside.table
    with meanwhile(table, lambda: beside.table.delete("id = 3")), pytest.raises(CommitConflict):
        table.rewrite()
    remaining = sorted_rows(GIVEN.filter(pa.array([index != 3 for index in range(12)])))
    assert agreed_rows(table, beside.jvm) == remaining
    assert summary(table)["operation"] != "replace"
    table.rewrite()
    assert agreed_rows(table, beside.jvm) == remaining
    assert set(live_spec_ids(table, DATA_CONTENT)) == {1}


def test_beside_an_append_both_land(spark: SparkSession, tmp_path: Path) -> None:
    beside = Beside(spark, tmp_path)
    table = beside.table
    old = paths(table, DATA_CONTENT)
    with meanwhile(table, lambda: beside.table.append(row(20, "a", 5))):
        assert table.rewrite().version is not None
    assert agreed_rows(table, beside.jvm) == sorted_rows(pa.concat_tables([GIVEN, row(20, "a", 5)]))
    assert set(live_spec_ids(table, DATA_CONTENT)) == {1}
    assert summary(table)["operation"] == "replace"
    assert not {file.path for file in live_files(table, DATA_CONTENT) if file.spec_id == 0} & old
