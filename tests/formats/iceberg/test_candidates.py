"""Changes of rows read the files that can hold a match, mark or copy as each is told, and mind what others add."""

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
from partita.errors import Conflict, PartitaError, UnsupportedFeature
from tests.formats.delta.tables import rows
from tests.formats.iceberg.plain_copy import PlainCopy
from tests.formats.iceberg.tables import (
    DATA,
    MODES,
    POSITIONS,
    added_specs,
    agreed,
    iceberg,
    jvm_session,
    listed,
    roll_back,
    specs_of,
    unchanged,
)
from tests.formats.iceberg.test_concurrency import GIVEN, SCHEMA, Beside, append, meanwhile, merge, row, update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = Callable[[Any], object]


def two_specs(folder: Path, **properties: str) -> pt.Table:
    """The rows of `GIVEN`, half in files of spec 0 by `p`, half of spec 1 by `p` and a bucket; each file has two."""
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
    """A block in which the data files of one partition are there, and those of all others are not."""
    away = [on_disk(found.path) for found in listed(table, DATA) if found.partition[0] != p]
    assert {found.spec_id for found in listed(table, DATA) if found.partition[0] != p} == {0, 1}
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


@pytest.mark.parametrize("mode", MODES)
def test_files_of_other_partitions_are_not_read(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = two_specs(tmp_path, **MODES[mode])
    base = table.version
    for name, change in IN_B.items():
        roll_back(table, base)
        copy = PlainCopy(spark, GIVEN)
        with only(table, "b"):
            change(table)
        change(copy)
        assert agreed(table) == copy.rows, name
        assert copy.rows != rows(GIVEN), name
        assert set(added_specs(table, DATA)) <= {1}, name
        marked = {(found.spec_id, found.partition[0]) for found in listed(table, POSITIONS)}
        assert marked == (set() if MODES[mode] else {(0, "b"), (1, "b")}), name


def test_a_change_elsewhere_does_read_them(spark: SparkSession, tmp_path: Path) -> None:
    """The files that are away are missed by a change that needs them, which then changes nothing."""
    table = two_specs(tmp_path)
    version = table.version
    with only(table, "b"), pytest.raises(PartitaError, match="is gone"):
        table.update({"k": "0"}, "k = 2")
    assert table.version == version
    assert agreed(table) == rows(GIVEN)


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
    base, old = table.version, {found.path for found in listed(table, DATA)}
    for kind, change in ONE_ROW_OF_EACH_SPEC.items():
        roll_back(table, base)
        copy = PlainCopy(spark, GIVEN)
        change(table)
        change(copy)
        assert agreed(table, jvm_session(spark, tmp_path)) == copy.rows, kind
        left = {found.path for found in listed(table, DATA)} & old
        if kind == copies:
            assert not listed(table, POSITIONS), kind
            assert len(left) == len(old) - 2, kind
            assert set(added_specs(table, DATA)) == {1}, kind
        else:
            # The deletes are of the spec of their data files, and those stay.
            assert sorted(added_specs(table, POSITIONS)) == [0, 1], kind
            assert set(added_specs(table, DATA)) == (set() if kind == "delete" else {1}), kind
            assert {found.spec_id for found in listed(table, DATA) if found.path in left} == {0, 1}, kind


# --- beside others

BESIDE: dict[str, tuple[Step, Step]] = {
    "update": (update("k = 1", k="k + 10"), append(row(20, "a", 1))),
    "merge": (merge(pa.concat_tables([row(0, "a", 9), row(7, "b", 9), row(30, "a", 9)])), append(row(30, "a", 1))),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_a_matching_row_that_another_appends(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    beside = Beside(spark, tmp_path)
    late, early = BESIDE[kind]
    table, copy = beside.table, PlainCopy(beside.jvm, GIVEN)
    with meanwhile(table, lambda: early(beside.table)), pytest.raises(Conflict):
        late(table)
    early(copy)
    assert agreed(table, beside.jvm) == copy.rows, "the append alone"
    late(table)
    late(copy)
    assert agreed(table, beside.jvm) == copy.rows, "again, on the table as it is then"


@pytest.mark.parametrize("kind", BESIDE)
def test_a_matching_row_that_is_not_minded(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    beside = Beside(spark, tmp_path)
    late, early = BESIDE[kind]
    with iceberg(beside.table).transaction() as transaction:
        transaction.set_properties({f"write.{kind}.isolation-level": "snapshot"})
    table, copy = beside.table, PlainCopy(beside.jvm, GIVEN)
    with meanwhile(table, lambda: early(beside.table)):
        late(table)
    late(copy)
    early(copy)
    assert agreed(table, beside.jvm) == copy.rows
    assert set(specs_of(table, POSITIONS)) == {0, 1}


# --- the two zeros, and NaN

FLOATS = pt.Schema.of({"id": "long", "f": "double"})
VALUES = [0.0, -0.0, float("nan"), 1.5, None, -2.0]


def floats(first: int) -> pa.Table:
    every = range(first, first + len(VALUES))
    return pa.table({"id": pa.array(every, pa.int64()), "f": pa.array(VALUES, pa.float64())})


@pytest.mark.parametrize("where", ["f = 0.0", "f = -0.0"])
@pytest.mark.parametrize("mode", MODES)
def test_a_delete_of_zero_takes_both_zeros(spark: SparkSession, tmp_path: Path, mode: str, where: str) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "t.t", FLOATS, format="iceberg", partition_by=["f"], properties=MODES[mode]
    )
    table.append(floats(0))
    table.evolve(add=[pt.truncate("id", 100)])
    table.append(floats(6))
    assert {"-0.0", 0.0, "NaN", None} <= {found.partition[0] for found in listed(table, DATA)}
    assert table.delete(where).counts["rows_deleted"] == 4
    left = [(2, "NaN"), (3, 1.5), (4, None), (5, -2.0), (8, "NaN"), (9, 1.5), (10, None), (11, -2.0)]
    assert agreed(table, jvm_session(spark, tmp_path)) == sorted(left, key=repr)
    assert specs_of(table, DATA) == [0] * 4 + [1] * 4, "whole files went, and no other"
    assert not listed(table, POSITIONS)


# --- a transform that nobody here knows


@pytest.fixture
def strange(spark: SparkSession, tmp_path: Path) -> pt.Table:
    """A table whose old spec has a transform that isn't known, and whose current one is by bucket."""
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])
    table.append(GIVEN.slice(0, 6))
    table.evolve(drop=["p"], add=[pt.bucket("id", 2)])
    table.append(GIVEN.slice(6))
    file = on_disk(iceberg(table).metadata_location)
    told = json.loads(file.read_text())
    (old,) = (spec for spec in told["partition-specs"] if spec["spec-id"] == 0)
    old["fields"][0]["transform"] = "zorder[3]"
    file.write_text(json.dumps(told))
    return lake.table("t.t")


def test_a_table_of_an_unknown_transform_is_read(strange: pt.Table) -> None:
    assert rows(strange.read()) == rows(GIVEN)
    for where, kept in {
        "id in (3, 9)": [at in (3, 9) for at in range(12)],
        "k = 1": [at % 4 == 1 for at in range(12)],
        "p = 'b'": [at % 3 == 1 for at in range(12)],
        "id > 100": [False] * 12,
    }.items():
        assert rows(strange.read(where)) == rows(GIVEN.filter(pa.array(kept))), where


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
    with unchanged(strange), pytest.raises(UnsupportedFeature, match="the transform of partition field 'p'"):
        WRITES[name](strange)
    assert rows(strange.read()) == rows(GIVEN)
