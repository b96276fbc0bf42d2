"""Ways that a table's partitioning can go, each with rows of every spec changed and left."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.edge_case_rows import ARROW_SCHEMA, SCHEMA, random_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Evolution = Mapping[str, Any]

SCENARIOS: dict[str, tuple[list[Any], list[Evolution]]] = {
    "three specs": (["d"], [{"add": ["p"]}, {"add": [pt.bucket("id", 3)], "drop": ["d"]}]),
    "a spec that drops a field": (["p", pt.day("ts")], [{"drop": ["p"]}, {"drop": ["ts_day"]}]),
    "from day to hour": ([pt.day("ts")], [{"drop": ["ts_day"], "add": [pt.hour("ts")]}]),
    "another count of buckets": ([pt.bucket("id", 3)], [{"drop": ["id_bucket"], "add": [pt.bucket("id", 5)]}]),
    "a spec that comes back": (["p"], [{"add": [pt.truncate("k", 10)]}, {"drop": ["k_trunc"]}]),
    "a field with another name": (["p"], [{"rename": {"p": "letter"}}, {"add": ["x"]}]),
    "from none to two of one decimal": ([], [{"add": ["m"]}, {"add": [pt.truncate("m", 10)]}]),
}
ALONE = list(SCENARIOS)
# Each way one after the other, on one table; `make prove` goes each of them alone too.
SCENARIOS["all in turn"] = (
    ["d"],
    [
        {"add": ["p"]}, {"add": [pt.bucket("id", 3)], "drop": ["d"]},
        {"drop": ["id_bucket"], "add": [pt.bucket("id", 5)]}, {"rename": {"p": "letter"}},
        {"drop": ["letter", "id_bucket"], "add": [pt.day("ts")]}, {"drop": ["ts_day"], "add": [pt.hour("ts")]},
        {"drop": ["ts_hour"]}, {"add": ["m"]}, {"add": [pt.truncate("m", 10)]}, {"drop": ["m_trunc"]},
    ],
)  # fmt: skip
GONE = [
    ({"k": "k + 1", "p": "'moved'"}, "id % 5 = 2"),
    ({"ts": "null", "x": "k", "d": "date_add(d, 1)"}, "id % 7 = 3"),
]


class Scenario:
    """A table with some rows in files of each spec, and a plain copy of them."""

    def __init__(
        self, spark: SparkSession, folder: Path, by: list[Any], evolutions: list[Evolution], **properties: str
    ) -> None:
        self.table = pt.Lake(str(folder)).create_table(
            "t.t", SCHEMA, format="iceberg", partition_by=by, properties=properties
        )
        self.copy = ReferenceTable(spark, ARROW_SCHEMA.empty_table())
        self.jvm = jvm_session(spark, folder)
        self.draw = random.Random(len(evolutions))  # noqa: S311
        self.rows_per_spec = 16 if len(evolutions) < 4 else 8
        self.append(0)
        for number, evolution in enumerate(evolutions, 1):
            self.table.evolve(**evolution)
            self.append(number)

    def append(self, number: int) -> None:
        rows = random_rows(self.draw, self.rows_per_spec * number, self.rows_per_spec)
        self.table.append(rows)
        self.copy.append(rows)

    def delete(self, where: str) -> None:
        self.table.delete(where)
        self.copy.delete(where)

    def change(self, times: int = 2) -> None:
        """Delete so many times, twice at most, from the same files, update as often, and merge."""
        for where in ("id % 3 = 0", "id % 4 = 1 and (p is null or p <> '')")[:times]:
            self.delete(where)
        check_layout(self.table)
        for values, where in GONE[:times]:
            self.table.update(values, where)
            self.copy.update(values, where)
        source = random_rows(self.draw, 8, 16)
        clauses = [pt.when_matched("s.k is null").delete(), pt.when_matched().update(), pt.when_not_matched().insert()]
        self.table.merge(source, "t.id = s.id", *clauses)
        self.copy.merge(source, "t.id = s.id", *clauses)

    def check_all_readers(self) -> None:
        assert agreed_rows(self.table, self.jvm) == self.copy.rows


@pytest.mark.parametrize("name", [*(pytest.param(name, marks=pytest.mark.long) for name in ALONE), "all in turn"])
def test_rows_of_every_spec_change(spark: SparkSession, tmp_path: Path, name: str) -> None:
    by, evolutions = SCENARIOS[name]
    scenario = Scenario(spark, tmp_path, by, evolutions)
    spec_ids = set(live_spec_ids(scenario.table, DATA_CONTENT))
    assert spec_ids == {spec.spec_id for spec in scenario.table.specs}
    scenario.change()
    scenario.check_all_readers()
    assert (
        set(live_spec_ids(scenario.table, DATA_CONTENT))
        == set(live_spec_ids(scenario.table, POSITION_DELETES_CONTENT))
        == spec_ids
    )
    assert set(added_spec_ids(scenario.table, DATA_CONTENT)) == {scenario.table.spec.spec_id}


# --- single things


def numbered_rows(count: int, **columns: list[Any]) -> pa.Table:
    id_column = {"id": pa.array(range(count), pa.int64())}
    return pa.table(
        {**id_column, **{name: pa.array(values, ARROW_SCHEMA.field(name).type) for name, values in columns.items()}}
    )


def simple(folder: Path, names: list[str], by: list[Any], **properties: str) -> pt.Table:
    schema = pt.Schema.of({name: str(SCHEMA.find_field(name).type) for name in ["id", *names]})
    return pt.Lake(str(folder)).create_table("t.t", schema, format="iceberg", partition_by=by, properties=properties)


def tuples(table: pt.Table, content: int) -> list[tuple[int, Any]]:
    return sorted({(file.spec_id, file.partition) for file in live_files(table, content)}, key=repr)


def test_equal_tuples_of_different_specs_stay_apart(spark: SparkSession, tmp_path: Path) -> None:
    # k = 2 under the one and k_trunc = 2 under the other, of the same type; and again null.
    table = simple(tmp_path, ["k"], ["k"])
    table.append(numbered_rows(6, k=[2, 2, 2, None, None, None]))
    table.evolve(drop=["k"], add=[pt.bucket("id", 1)])
    table.evolve(drop=["id_bucket"], add=[pt.truncate("k", 2)])
    rows = numbered_rows(6, k=[2, 3, 3, None, None, None])
    table.append(rows)
    old, new = table.specs[0].spec_id, table.spec.spec_id
    assert tuples(table, DATA_CONTENT) == [(old, (2,)), (old, (None,)), (new, (2,)), (new, (None,))]
    table.delete("k = 3 and id = 1 or k is null and id = 4")
    assert tuples(table, POSITION_DELETES_CONTENT) == [(old, (None,)), (new, (2,)), (new, (None,))]
    table.delete("id = 5 or k = 2 and id = 1")
    assert agreed_rows(table, jvm_session(spark, tmp_path)) == sorted(
        [(0, 2), (2, 2), (3, None), (0, 2), (2, 3), (3, None)], key=repr
    )


def test_null_partitions_are_partitions(spark: SparkSession, tmp_path: Path) -> None:
    table = simple(tmp_path, ["p", "k"], ["p"])
    table.append(numbered_rows(4, p=[None, None, "", "null"], k=[None, 1, 2, 3]))
    table.evolve(add=["k"])
    table.append(numbered_rows(4, p=[None, None, "", "null"], k=[None, 1, None, 3]))
    assert table.overwrite_partitions(numbered_rows(1, p=[None], k=[None])).counts["rows_inserted"] == 1
    assert agreed_rows(table, jvm_session(spark, tmp_path)) == sorted(
        [(1, None, 1), (2, "", 2), (3, "null", 3), (1, None, 1), (2, "", None), (3, "null", 3), (0, None, None)],
        key=repr,
    )
    assert table.delete("p is null").counts["rows_deleted"] == 3
    table.update({"p": "null", "k": "null"}, "p = 'null'")
    assert agreed_rows(table) == sorted([(2, "", 2), (3, None, None), (2, "", None), (3, None, None)], key=repr)
    assert (table.spec.spec_id, (None, None)) in tuples(table, DATA_CONTENT)


def test_new_deletes_replace_the_older_ones_of_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    table = simple(tmp_path, ["p"], ["p"])
    table.append(numbered_rows(40, p=["a", "b"] * 20))
    table.append(numbered_rows(40, p=["a", "b"] * 20))
    for index in range(6):
        # Rows of `b` in every other one alone, whose file of deletes then stays as it is.
        before = {file.path: file for file in live_files(table, POSITION_DELETES_CONTENT)}
        table.delete(f"id in ({4 * index}, {4 * index + 1})" if index % 2 == 0 else f"id = {4 * index}")
        after = {file.path: file for file in live_files(table, POSITION_DELETES_CONTENT)}
        assert len(after) == 2
        retained = [file.partition for path, file in after.items() if path in before]
        assert retained == ([] if index % 2 == 0 else [("b",)])
        check_layout(table)
    deleted = {index for index in range(24) if index % 4 == 0} | {1, 9, 17}
    remaining = [index for index in range(40) if index not in deleted]
    assert [row[0] for row in agreed_rows(table, jvm_session(spark, tmp_path))].count(39) == 2
    assert sorted(row[0] for row in sorted_rows(table.read())) == sorted(remaining * 2)
    assert table.delete("p = 'a'").counts["files_removed"] > 0
    assert {file.partition for file in live_files(table, DATA_CONTENT)} == {("b",)}


def test_a_table_of_version_1_becomes_one_of_version_2(spark: SparkSession, tmp_path: Path) -> None:
    scenario = Scenario(spark, tmp_path, ["p"], [{"add": [pt.day("ts")], "drop": ["p"]}], **{"format-version": "1"})
    table = scenario.table
    assert [field.transform.name for field in table.spec.fields] == ["void", "day"]
    scenario.change(1)
    scenario.check_all_readers()
    assert not live_files(table, POSITION_DELETES_CONTENT)
    with pyiceberg_table(table).transaction() as transaction:
        transaction.upgrade_table_version(2)
    scenario.append(2)
    scenario.delete("id % 3 = 1")
    assert agreed_rows(table) == scenario.copy.rows
    assert live_files(table, POSITION_DELETES_CONTENT)
    table.evolve(add=["p"])
    assert "void" in {field.transform.name for field in table.specs[1].fields}
    scenario.append(3)
    scenario.change(1)
    scenario.check_all_readers()


# `test_jvm_breaks.py` has such a table too.
@pytest.mark.long
def test_a_column_that_an_old_spec_is_made_of_goes(spark: SparkSession, tmp_path: Path) -> None:
    scenario = Scenario(spark, tmp_path, ["p"], [{"drop": ["p"], "add": [pt.bucket("id", 2)]}])
    table = scenario.table
    table.delete("id % 11 = 4")
    scenario.copy.delete("id % 11 = 4")
    with pyiceberg_table(table).update_schema() as update:
        update.delete_column("p")
    truth = ReferenceTable(spark, scenario.copy.table.drop_columns(["p"]))
    before = tuples(table, DATA_CONTENT)
    for where in ("id % 3 = 0", "k > 1 and id % 4 = 1"):
        table.delete(where)
        truth.delete(where)
    table.update({"k": "k + 1"}, "id % 5 = 2")
    truth.update({"k": "k + 1"}, "id % 5 = 2")
    source = random_rows(scenario.draw, 8, 16).drop_columns(["p"])
    clauses = [pt.when_matched("s.k is null").delete(), pt.when_matched().update(), pt.when_not_matched().insert()]
    table.merge(source, "t.id = s.id", *clauses)
    truth.merge(source, "t.id = s.id", *clauses)
    rows = random_rows(scenario.draw, 100, 4).drop_columns(["p"])
    table.append(rows)
    truth.append(rows)
    check_layout(table)
    assert sorted_rows(table.read()) == truth.rows == sorted_rows(read_with_strict_reader(table))
    assert [each for each in before if each[0] == 0] == [each for each in tuples(table, DATA_CONTENT) if each[0] == 0]
    assert {each[0] for each in tuples(table, POSITION_DELETES_CONTENT)} == {0, 1}


def test_a_table_that_copies_on_write_with_others_deletes(spark: SparkSession, tmp_path: Path) -> None:
    table = simple(tmp_path, ["p"], ["p"])
    table.append(numbered_rows(20, p=["a", "b"] * 10))
    table.delete("id in (3, 4)")
    with pyiceberg_table(table).transaction() as transaction:
        transaction.set_properties(
            {f"write.{operation}.mode": "copy-on-write" for operation in ("delete", "update", "merge")}
        )
    table.evolve(add=[pt.bucket("id", 2)])
    table.update({"p": "'c'"}, "id = 5")
    assert [row[0] for row in agreed_rows(table, jvm_session(spark, tmp_path))].count(3) == 0
    table.delete("id = 6")
    expected = {index: ("c" if index == 5 else "ab"[index % 2]) for index in range(20) if index not in (3, 4, 6)}
    assert agreed_rows(table, jvm_session(spark, tmp_path)) == sorted(expected.items(), key=repr)
    assert {expected.spec_id for expected in live_files(table, DATA_CONTENT)} == {1}


def test_no_file_is_left_where_nothing_changes(spark: SparkSession, tmp_path: Path) -> None:
    table = simple(tmp_path, ["p"], ["p"])
    with assert_unchanged(table):
        assert table.delete("true").version is None
        assert table.update({"p": "'x'"}).version is None
        assert sorted_rows(table.read()) == []
