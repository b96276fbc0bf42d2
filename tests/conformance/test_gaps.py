"""A declared gap is refused by the public call, with the reason and the way out, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.formats.capabilities import Operation
from partita.formats.registry import FORMATS, table_format
from tests.conformance.conftest import REFUSALS_OF_OTHER_KINDS, is_refused_as_declared
from tests.conformance.row_model import ROWS, SCHEMA, arrow_rows, assert_nothing_written, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CALLS: dict[Operation, Callable[[pt.Lake, pt.Table], object]] = {
    Operation.READ: lambda _, t: t.read(),
    Operation.APPEND: lambda _, t: t.append(arrow_rows(ROWS)),
    Operation.OVERWRITE_PARTITIONS: lambda _, t: t.overwrite_partitions(arrow_rows(ROWS)),
    Operation.REPLACE_PARTITIONS: lambda _, t: t.replace_partitions(arrow_rows(ROWS[2:3]), pa.table({"p": ["b"]})),
    Operation.OVERWRITE: lambda _, t: t.overwrite(arrow_rows(ROWS)),
    Operation.DELETE: lambda _, t: t.delete("id = 1"),
    Operation.UPDATE: lambda _, t: t.update({"n": "1"}, "id = 1"),
    Operation.MERGE: lambda _, t: t.merge(arrow_rows(ROWS), "t.id = s.id", pt.when_matched().delete()),
    Operation.REWRITE: lambda _, t: t.rewrite(),
    Operation.EVOLVE: lambda _, t: t.evolve(drop=["p"]),
    Operation.HISTORY: lambda _, t: t.history(),
    Operation.CHANGE_FEED: lambda _, t: t.change_feed(),
    Operation.TRANSACTIONS: lambda _, t: t.append(arrow_rows(ROWS), transaction=("job", 1)),
    Operation.EXPIRE_SNAPSHOTS: lambda _, t: t.expire_snapshots(retain_last=1),
    Operation.REMOVE_ORPHANS: lambda _, t: t.remove_orphans(timedelta(0)),
    Operation.TRANSFORM_PARTITIONING: lambda lake, t: lake.create_table(
        "t.other", SCHEMA, format=t.format, partition_by=[pt.bucket("id", 4)]
    ),
    Operation.TEXT_LENGTHS: lambda lake, t: lake.sql(f"CREATE TABLE t.other (v VARCHAR(3)) USING {t.format}"),
    Operation.VECTOR_SEARCH: lambda _, t: t.search([1.0], "v", 1),  # type: ignore[attr-defined] # where there is one
}
"""The public call of each operation. An empty text is not refused: see `test_an_empty_text_is_a_partition_or_null`."""


def test_each_operation_has_its_public_call() -> None:
    # What other engines see of a commit is no call: tests/formats/parquet/test_commit.py shows the gap.
    assert {*CALLS, Operation.EMPTY_TEXT_PARTITIONS, Operation.ATOMIC_COMMITS} == set(Operation)
    for operation in CALLS.keys() - REFUSALS_OF_OTHER_KINDS.keys() - {Operation.TRANSACTIONS}:
        assert callable(getattr(pt.Table, operation.value))


def test_a_gap_is_refused_by_the_public_call_and_writes_nothing(model_lake: pt.Lake, table: pt.Table) -> None:
    gaps = table_format(table.format).gaps
    for operation in gaps.keys() & CALLS.keys():
        with assert_nothing_written(model_lake), pytest.raises(Exception) as caught:  # noqa: PT011 - compared below
            CALLS[operation](model_lake, table)
        assert is_refused_as_declared(caught.value, operation, gaps[operation]), (operation, caught.value)
    assert model_lake.tables() == ["t.t"]
    assert read_rows(table) == ROWS


def test_gaps_are_sentences() -> None:
    for name in FORMATS:
        for gap in table_format(name).gaps.values():
            assert gap.reason[0].islower()
            assert gap.way_out[0].islower()
            assert not (gap.reason + gap.way_out).endswith(".")


@pytest.mark.needs(Operation.TRANSFORM_PARTITIONING)
def test_a_function_partitions_a_table(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("t.t", SCHEMA, format=format_name, partition_by=[pt.bucket("id", 4)])
    table.append(arrow_rows(ROWS))
    assert read_rows(table) == ROWS
    assert table.plan("id = 1").files.num_rows == 1
    assert read_rows(table, "id = 1") == ROWS[:1]


def test_an_empty_text_is_a_partition_or_null(table: pt.Table) -> None:
    """A declared gap stores null: no error, so an expected failure could hide one."""
    stored = "" if table_format(table.format).supports(Operation.EMPTY_TEXT_PARTITIONS) else None
    table.append(arrow_rows([{"id": 5, "p": "", "n": 50}]))
    new_row = {"id": 5, "p": stored, "n": 50}
    assert read_rows(table) == [*ROWS, new_row]
    assert read_rows(table, "p = ''") == ([] if stored is None else [new_row])
    assert set(table.partitions()["p"].to_pylist()) == {"a", "b", None, stored}


@pytest.mark.needs(Operation.TEXT_LENGTHS)
def test_the_length_of_a_text_is_kept(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    lake.sql(f"CREATE TABLE t.t (id BIGINT, v VARCHAR(3), c CHAR(2)) USING {format_name}")
    table = lake.table("t.t")
    table.append(pa.table({"id": [1], "v": ["雪雪雪"], "c": ["x"]}))
    version = table.version
    for rows in (pa.table({"id": [2], "v": ["abcd"]}), pa.table({"id": [2], "c": ["abc"]})):
        with pytest.raises(pt.ConstraintError):
            table.append(rows)
    assert table.version == version
    assert table.read(columns=["v"]).toArrow().to_pylist() == [{"v": "雪雪雪"}]


@pytest.mark.needs(Operation.VECTOR_SEARCH)
def test_the_nearest_vectors_are_found(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.list_(pa.float32(), 2))])
    table = pt.Lake(str(tmp_path)).create_table("t.t", schema, format=format_name, partition_by=["p"])
    vectors = [[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]]
    table.append(pa.table({"id": [0, 1, 2], "p": ["a", "b", "a"], "v": vectors}, schema=schema))
    nearest = table.search([1.0, 1.25], "v", 2)  # type: ignore[attr-defined] # where there is one
    assert nearest["id"].to_pylist() == [1, 0]
