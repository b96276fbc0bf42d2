"""Row-level changes read only files that can match, delete or copy as the table says, and notice concurrent appends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import CommitConflict, PartitaError, UnsupportedFeature
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
    WRITE_MODES,
    added_spec_ids,
    agreed_rows,
    assert_unchanged,
    jvm_session,
    live_files,
    live_spec_ids,
    pyiceberg_table,
    roll_back,
)
from tests.formats.iceberg.test_concurrency import GIVEN, SCHEMA, Beside, append, meanwhile, merge, row, update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = Callable[[Any], object]


def two_specs(folder: Path, **properties: str) -> pt.Table:
    """The rows of `GIVEN`, half in files of spec 0 by `p`, half of spec 1 by `p` and a bucket; two rows a file."""
    table = pt.Lake(str(folder)).create_table(
        "t.t", SCHEMA, format="iceberg", partition_by=["p"], properties=properties
    )
    table.append(GIVEN.slice(0, 6))
    table.evolve(add=[pt.bucket("id", 1)])
    table.append(GIVEN.slice(6))
    return table


# --- only the files that can hold a match are read


@contextmanager
def only(table: pt.Table, p: str) -> Iterator[None]:
    """A block in which only the data files of one partition are on disk."""
    away = [on_disk(files.path) for files in live_files(table, DATA_CONTENT) if files.partition[0] != p]
    assert {files.spec_id for files in live_files(table, DATA_CONTENT) if files.partition[0] != p} == {0, 1}
    for path in away:
        path.rename(f"{path}.away")
    try:
        yield
    finally:
        for path in away:
            Path(f"{path}.away").rename(path)


def on_disk(path: str) -> Path:
    return Path(re.sub("^file:/+", "/", path))


def merge_in_b(source: pa.Table) -> Step:
    clauses = [pt.when_matched("s.k = 9").delete(), pt.when_matched().update(), pt.when_not_matched().insert()]
    return lambda on: on.merge(source, "t.p = 'b' and t.id = s.id", *clauses)


IN_B: dict[str, Step] = {
    "delete": lambda on: on.delete("p = 'b' and id in (1, 7)"),
    "update": lambda on: on.update({"k": "k + 10"}, "p = 'b' and id in (4, 10)"),
    "an update to another partition": lambda on: on.update({"p": "'a'"}, "id in (1, 10) and p = 'b'"),
    "merge": merge_in_b(pa.concat_tables([row(1, "b", 9), row(7, "c", 70), row(40, "b", 72)])),
}


@pytest.mark.parametrize("mode", ["merge on read", pytest.param("copy on write", marks=pytest.mark.long), "version 1"])
def test_files_of_other_partitions_are_not_read(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, **WRITE_MODES[mode])
    base = table.version
    for name, change in IN_B.items():
        roll_back(table, base)
        copy = ReferenceTable(spark, GIVEN)
        with only(table, "b"):
            change(table)
        change(copy)
        assert agreed_rows(table) == copy.rows, name
        assert copy.rows != sorted_rows(GIVEN), name
        assert set(added_spec_ids(table, DATA_CONTENT)) <= {1}, name
        marked = {(file.spec_id, file.partition[0]) for file in live_files(table, POSITION_DELETES_CONTENT)}
        assert marked == (set() if WRITE_MODES[mode] else {(0, "b"), (1, "b")}), name


def test_a_change_elsewhere_does_read_them(spark: SparkSession, tmp_path: Path) -> None:
    """A change that needs the missing files fails, and changes nothing."""
    table = two_specs(tmp_path)
    version = table.version
    with only(table, "b"), pytest.raises(PartitaError, match="is gone"):
        table.update({"k": "0"}, "k = 2")
    assert table.version == version
    assert agreed_rows(table) == sorted_rows(GIVEN)


# --- each change marks or copies as the property of its own says

ONE_ROW_OF_EACH_SPEC: dict[str, Step] = {
    "delete": lambda on: on.delete("id in (0, 7)"),
    "update": lambda on: on.update({"k": "k + 10"}, "id in (0, 7)"),
    "merge": lambda on: on.merge(
        pa.concat_tables([row(0, "a", 20), row(7, "b", 27)]), "t.id = s.id", pt.when_matched().update({"k": "s.k"})
    ),
}


@pytest.mark.parametrize("copies", ONE_ROW_OF_EACH_SPEC)
def test_one_kind_of_change_copies_and_the_others_mark(spark: SparkSession, tmp_path: Path, copies: str) -> None:
    table = two_specs(tmp_path, **{f"write.{copies}.mode": "copy-on-write"})
    base, old = table.version, {file.path for file in live_files(table, DATA_CONTENT)}
    for kind, change in ONE_ROW_OF_EACH_SPEC.items():
        roll_back(table, base)
        copy = ReferenceTable(spark, GIVEN)
        change(table)
        change(copy)
        # The JVM's runtime reads what each kind marks in `test_evolution.py`.
        jvm = jvm_session(spark, tmp_path) if kind == copies else None
        assert agreed_rows(table, jvm) == copy.rows, kind
        remaining = {file.path for file in live_files(table, DATA_CONTENT)} & old
        if kind == copies:
            assert not live_files(table, POSITION_DELETES_CONTENT), kind
            assert len(remaining) == len(old) - 2, kind
            assert set(added_spec_ids(table, DATA_CONTENT)) == {1}, kind
        else:
            # The deletes are of the spec of their data files, and those stay.
            assert sorted(added_spec_ids(table, POSITION_DELETES_CONTENT)) == [0, 1], kind
            assert set(added_spec_ids(table, DATA_CONTENT)) == (set() if kind == "delete" else {1}), kind
            assert {file.spec_id for file in live_files(table, DATA_CONTENT) if file.path in remaining} == {0, 1}, kind


# --- beside others

BESIDE: dict[str, tuple[Step, Step]] = {
    "update": (update("k = 1", k="k + 10"), append(row(20, "a", 1))),
    "merge": (merge(pa.concat_tables([row(0, "a", 9), row(7, "b", 9), row(30, "a", 9)])), append(row(30, "a", 1))),
}


# `test_concurrency.py` has such a merge too.
@pytest.mark.parametrize("kind", ["update", pytest.param("merge", marks=pytest.mark.long)])
def test_a_matching_row_that_another_appends(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    beside = Beside(spark, tmp_path)
    late, early = BESIDE[kind]
    table, copy = beside.table, ReferenceTable(beside.jvm, GIVEN)
    with meanwhile(table, lambda: early(beside.table)), pytest.raises(CommitConflict):
        late(table)
    early(copy)
    assert agreed_rows(table, beside.jvm) == copy.rows, "the append alone"
    late(table)
    late(copy)
    assert agreed_rows(table, beside.jvm) == copy.rows, "again, on the table as it is then"


@pytest.mark.parametrize("kind", BESIDE)
def test_a_matching_row_that_is_not_minded(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    beside = Beside(spark, tmp_path)
    late, early = BESIDE[kind]
    with pyiceberg_table(beside.table).transaction() as transaction:
        transaction.set_properties({f"write.{kind}.isolation-level": "snapshot"})
    table, copy = beside.table, ReferenceTable(beside.jvm, GIVEN)
    with meanwhile(table, lambda: early(beside.table)):
        late(table)
    late(copy)
    early(copy)
    assert agreed_rows(table, beside.jvm) == copy.rows
    assert set(live_spec_ids(table, POSITION_DELETES_CONTENT)) == {0, 1}


# --- the two zeros, and NaN

FLOATS = pt.Schema.of({"id": "long", "f": "double"})
VALUES = [0.0, -0.0, float("nan"), 1.5, None, -2.0]


def floats(first: int) -> pa.Table:
    every = range(first, first + len(VALUES))
    return pa.table({"id": pa.array(every, pa.int64()), "f": pa.array(VALUES, pa.float64())})


@pytest.mark.parametrize(
    ("mode", "where"),
    [
        ("merge on read", "f = 0.0"),
        ("copy on write", "f = -0.0"),
        pytest.param("merge on read", "f = -0.0", marks=pytest.mark.long),
        pytest.param("copy on write", "f = 0.0", marks=pytest.mark.long),
        pytest.param("version 1", "f = 0.0", marks=pytest.mark.long),
        pytest.param("version 1", "f = -0.0", marks=pytest.mark.long),
    ],
)
def test_a_delete_of_zero_takes_both_zeros(spark: SparkSession, tmp_path: Path, mode: str, where: str) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "t.t", FLOATS, format="iceberg", partition_by=["f"], properties=WRITE_MODES[mode]
    )
    table.append(floats(0))
    table.evolve(add=[pt.truncate("id", 100)])
    table.append(floats(6))
    assert {"-0.0", 0.0, "NaN", None} <= {file.partition[0] for file in live_files(table, DATA_CONTENT)}
    assert table.delete(where).counts["rows_deleted"] == 4
    remaining = [(2, "NaN"), (3, 1.5), (4, None), (5, -2.0), (8, "NaN"), (9, 1.5), (10, None), (11, -2.0)]
    assert agreed_rows(table, jvm_session(spark, tmp_path)) == sorted(remaining, key=repr)
    assert live_spec_ids(table, DATA_CONTENT) == [0] * 4 + [1] * 4, "whole files went, and no other"
    assert not live_files(table, POSITION_DELETES_CONTENT)


# --- a transform that nobody here knows


@pytest.fixture(scope="module")
def strange(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pt.Table:
    """A table with an unknown transform in its old spec, and a bucket in its current one."""
    lake = pt.Lake(str(tmp_path_factory.mktemp("strange")))
    table = lake.create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(GIVEN.slice(0, 6))
    table.evolve(drop=["p"], add=[pt.bucket("id", 2)])
    table.append(GIVEN.slice(6))
    file = on_disk(pyiceberg_table(table).metadata_location)
    document = json.loads(file.read_text())
    (old,) = (spec for spec in document["partition-specs"] if spec["spec-id"] == 0)
    old["fields"][0]["transform"] = "zorder[3]"
    file.write_text(json.dumps(document))
    return lake.table("t.t")


def test_a_table_of_an_unknown_transform_is_read(strange: pt.Table) -> None:
    assert sorted_rows(strange.read()) == sorted_rows(GIVEN)
    for where, expected_rows in {
        "id in (3, 9)": [index in (3, 9) for index in range(12)],
        "k = 1": [index % 4 == 1 for index in range(12)],
        "p = 'b'": [index % 3 == 1 for index in range(12)],
        "id > 100": [False] * 12,
    }.items():
        assert sorted_rows(strange.read(where)) == sorted_rows(GIVEN.filter(pa.array(expected_rows))), where


WRITES: dict[str, Callable[[pt.Table], object]] = {
    "append": lambda table: table.append(row(20, "a")),
    "delete": lambda table: table.delete("id in (1, 7)"),
    "update": lambda table: table.update({"k": "0"}, "id = 7"),
    "merge": merge(row(1, "b", 9)),
    "rewrite": lambda table: table.rewrite(),
    "evolve": lambda table: table.evolve(add=["k"]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_table_of_an_unknown_transform_is_not_written(strange: pt.Table, name: str) -> None:
    with assert_unchanged(strange), pytest.raises(UnsupportedFeature, match="the transform of partition field 'p'"):
        WRITES[name](strange)
    assert sorted_rows(strange.read()) == sorted_rows(GIVEN)
