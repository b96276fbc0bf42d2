"""Partitions read and replaced by the values of some fields, the same in every format."""

from __future__ import annotations

from datetime import date
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.transforms import TransformFamily
from partita.formats.capabilities import Operation
from partita.formats.registry import table_format
from tests.conformance.row_model import (
    assert_nothing_written,
    concurrent_change,
    data_files,
    expected_conflict,
    row_ids,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conformance.prepared_lakes import PreparedLakes

SCHEMA = pt.Schema.of({"id": "long", "day": "date", "region": "string", "n": "int"})
FIRST, SECOND, THIRD = (date(2025, 1, day) for day in (1, 2, 3))
NAN = float("nan")


def day_rows(*given: tuple[int, date | None, str | None]) -> pa.Table:
    ids, days, regions = zip(*given, strict=True) if given else ((), (), ())
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.date32()),
                     "region": pa.array(regions, pa.string()), "n": pa.array([0] * len(ids), pa.int32())})  # fmt: skip


DAY_ROWS = day_rows(
    (1, FIRST, "eu"), (2, FIRST, "us"), (3, FIRST, None), (4, SECOND, "eu"), (5, SECOND, "us"), (6, None, "eu"),
    (7, THIRD, "eu"), (8, FIRST, "eu"),
)  # fmt: skip


def _fill_day_lake(lake: pt.Lake, format_name: str) -> None:
    lake.create_table("t.t", SCHEMA, format=format_name, partition_by=["day", "region"]).append(DAY_ROWS)


@pytest.fixture
def day_lake(format_name: str, spark: SparkSession, prepared_lakes: PreparedLakes) -> pt.Lake:
    """A lake with one table `t.t` partitioned by day and region."""
    return prepared_lakes.open_lake(format_name, "days", _fill_day_lake)


@pytest.fixture
def table(day_lake: pt.Lake) -> pt.Table:
    return day_lake.table("t.t")


def partition_values(**columns: Any) -> pa.Table:
    types = {"day": pa.date32(), "region": pa.string(), "ts_day": pa.date32()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


READ = [
    (partition_values(day=[FIRST]), [1, 2, 3, 8]),
    (partition_values(day=[FIRST, FIRST, THIRD]), [1, 2, 3, 7, 8]),
    (partition_values(region=["us"]), [2, 5]),
    (partition_values(region=[None]), [3]),
    (partition_values(day=[None]), [6]),
    (partition_values(day=[FIRST, SECOND], region=["eu", "us"]), [1, 5, 8]),
    (partition_values(region=[None, "eu"], day=[FIRST, None]), [3, 6]),
    (partition_values(day=[date(1999, 1, 1)]), []),
    (partition_values(day=[]), []),
    (pa.table({}), [1, 2, 3, 4, 5, 6, 7, 8]),
]


def test_exactly_the_rows_of_the_partitions_are_read(table: pt.Table) -> None:
    frames = [
        table.read_partitions(partitions, ["id"]).selectExpr("id", f"{case} AS case")
        for case, (partitions, _) in enumerate(READ)
    ]
    ids_read: list[list[int]] = [[] for _ in READ]
    for row in reduce(lambda one, other: one.unionAll(other), frames).collect():
        ids_read[row["case"]].append(row["id"])
    assert [sorted(ids) for ids in ids_read] == [expected for _, expected in READ]
    assert row_ids(table.read_partitions(partition_values(day=[FIRST]))) == [1, 2, 3, 8]
    nothing = table.read_partitions(partition_values(day=[]), ["region", "id"])
    assert nothing.columns == ["region", "id"]
    assert table.read_partitions(partition_values(region=["us"]), ["n"]).toArrow()["n"].to_pylist() == [0, 0]


REFUSED = [
    (pa.table({"n": [1]}), "no partition field 'n'"),
    (pa.table({"day": ["2025-01-01"]}), "'day' is date32"),
    (pa.table({"region": [1]}), "'region' is string"),
    (pa.table([["eu"], ["us"]], names=["region", "Region"]), "twice"),
    ([{"region": "eu"}], "an Arrow table"),
]


def test_invalid_partitions_are_not_read(table: pt.Table) -> None:
    for partitions, problem in REFUSED:
        with pytest.raises((pt.PartitionsError, pt.SpecError), match=problem):
            table.read_partitions(partitions)


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_invalid_partitions_are_not_replaced(day_lake: pt.Lake, table: pt.Table) -> None:
    with assert_nothing_written(day_lake):
        for partitions, problem in REFUSED:
            with pytest.raises((pt.PartitionsError, pt.SpecError), match=problem):
                table.replace_partitions(day_rows(), partitions)


def test_types_that_hold_the_same_values_are_taken(table: pt.Table) -> None:
    coded = pa.table({"region": pa.array(["us"]).dictionary_encode()})
    assert row_ids(table.read_partitions(coded)) == [2, 5]
    assert row_ids(table.read_partitions(pa.table({"region": pa.array(["us"], pa.large_string())}))) == [2, 5]
    assert row_ids(table.read_partitions(pa.table({"day": pa.nulls(1)}))) == [6]


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_partitions_are_replaced_and_emptied_and_nothing_else_changes(table: pt.Table) -> None:
    before = table.partitions().filter(pa.compute.equal(table.partitions()["region"], "us"))
    wanted = partition_values(day=[FIRST, SECOND, THIRD], region=["eu", "eu", "eu"])
    done = table.replace_partitions(day_rows((10, FIRST, "eu"), (11, FIRST, "eu")), wanted)
    assert done.version == table.version
    assert row_ids(table.read()) == [2, 3, 5, 6, 10, 11]
    after = table.partitions()
    assert after.filter(pa.compute.equal(after["region"], "us")).equals(before)
    assert done.written_partitions is not None
    assert done.written_partitions.select(["day", "region", "rows"]).to_pylist() == [
        {"day": FIRST, "region": "eu", "rows": 2}
    ]
    assert done.written_partitions["files"].to_pylist() in ([1], [2])
    assert done.written_partitions["bytes"][0].as_py() > 0


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_written_partitions_have_the_selected_fields(table: pt.Table) -> None:
    given = day_rows((10, FIRST, "eu"), (11, FIRST, "new"), (12, FIRST, None), (13, SECOND, "eu"))
    done = table.replace_partitions(given, partition_values(day=[SECOND, FIRST, THIRD]))
    assert row_ids(table.read()) == [6, 10, 11, 12, 13]
    assert done.written_partitions is not None
    assert done.written_partitions.column_names == ["day", "rows", "files", "bytes"]
    found = sorted((row["day"], row["rows"]) for row in done.written_partitions.to_pylist())
    assert found == [(FIRST, 3), (SECOND, 1)]
    assert done.written_partitions.schema.field("day").type == pa.date32()


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_all_partitions_are_replaced_where_no_field_is_asked_for(table: pt.Table) -> None:
    done = table.replace_partitions(day_rows((10, FIRST, "eu")), pa.table({}))
    assert row_ids(table.read()) == [10]
    assert done.written_partitions is not None
    assert done.written_partitions["rows"].to_pylist() == [1]


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_rows_outside_change_nothing_and_are_shown(day_lake: pt.Lake, table: pt.Table) -> None:
    version, files = table.version, data_files(day_lake)
    given = day_rows((10, FIRST, "eu"), (11, SECOND, "eu"), (12, SECOND, "eu"), (13, SECOND, None), (14, FIRST, "us"))
    with pytest.raises(pt.RowsOutsidePartitions) as caught:
        table.replace_partitions(given, partition_values(day=[FIRST]))
    assert table.version == version
    assert data_files(day_lake) == files
    assert row_ids(table.read()) == list(range(1, 9))
    error = caught.value
    assert error.partitions[0] == ({"day": SECOND, "region": "eu"}, 2)
    assert error.partitions[1] == ({"day": SECOND, "region": None}, 1)
    assert {row["id"] for row in error.samples} <= {11, 12, 13}
    assert len(error.samples) == 3
    assert "region=eu (2 rows)" in str(error)
    assert "id=13" in str(error)
    assert isinstance(error, pt.ConstraintError)


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_nothing_asked_for_takes_no_rows(table: pt.Table) -> None:
    assert table.replace_partitions(day_rows(), partition_values(day=[])).version is None
    with pytest.raises(pt.RowsOutsidePartitions):
        table.replace_partitions(day_rows((10, FIRST, "eu")), partition_values(day=[]))
    assert row_ids(table.read()) == list(range(1, 9))


@pytest.mark.needs(Operation.REPLACE_PARTITIONS, Operation.TRANSACTIONS)
def test_a_transaction_without_rows_is_recorded(table: pt.Table) -> None:
    nowhere = partition_values(day=[date(1999, 1, 1)])
    once = table.replace_partitions(day_rows(), nowhere, transaction=("run", 1))
    assert once.version == table.version
    assert table.has_transaction(("run", 1))
    again = table.replace_partitions(day_rows((10, FIRST, "eu")), partition_values(day=[FIRST]), transaction=("run", 1))
    assert again.version is None
    assert row_ids(table.read()) == list(range(1, 9))


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_a_partition_that_is_emptied_is_gone_or_has_no_rows(table: pt.Table) -> None:
    table.replace_partitions(day_rows(), partition_values(region=["us"]))
    assert row_ids(table.read()) == [1, 3, 4, 6, 7, 8]
    left = table.partitions()
    us = left.filter(pa.compute.equal(left["region"], "us"))
    assert us["rows"].to_pylist() in ([], [0, 0])


# --- beside other writers


@pytest.mark.parametrize(
    ("new_row", "conflicts"),
    [
        ((20, FIRST, "eu"), True),
        pytest.param((20, FIRST, "never before"), True, marks=pytest.mark.long),
        pytest.param((20, date(2030, 1, 1), "eu"), False, marks=pytest.mark.long),
        ((20, SECOND, "us"), False),
    ],
)
@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_an_append_into_what_is_replaced_is_a_conflict(
    day_lake: pt.Lake, new_row: tuple[int, date, str], *, conflicts: bool
) -> None:
    table, other = day_lake.table("t.t"), day_lake.table("t.t")
    with concurrent_change(table, lambda: other.append(day_rows(new_row))), expected_conflict(conflicts=conflicts):
        table.replace_partitions(day_rows((10, FIRST, "eu")), partition_values(day=[FIRST]))
    assert row_ids(table.read()) == ([*range(1, 9), 20] if conflicts else [4, 5, 6, 7, 10, 20])


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_two_that_replace_the_same_empty_partition_are_a_conflict(day_lake: pt.Lake) -> None:
    table, other, empty = day_lake.table("t.t"), day_lake.table("t.t"), partition_values(day=[date(2031, 1, 1)])
    new_rows = day_rows((10, date(2031, 1, 1), "eu"))
    with concurrent_change(table, lambda: other.replace_partitions(new_rows, empty)), expected_conflict():
        table.replace_partitions(new_rows, empty)
    assert row_ids(table.read()) == [*range(1, 9), 10]


@pytest.mark.needs(Operation.REPLACE_PARTITIONS, Operation.DELETE)
def test_a_delete_in_what_is_replaced_is_a_conflict(day_lake: pt.Lake) -> None:
    table, other = day_lake.table("t.t"), day_lake.table("t.t")
    with concurrent_change(table, lambda: other.delete("id = 1")), expected_conflict():
        table.replace_partitions(day_rows((10, FIRST, "eu")), partition_values(day=[FIRST]))
    assert row_ids(table.read()) == list(range(2, 9))


@pytest.mark.needs(Operation.REPLACE_PARTITIONS)
def test_a_table_without_partitions_is_one(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=format_name, partition_by=[])
    table.append(DAY_ROWS)
    assert row_ids(table.read_partitions(pa.table({}))) == list(range(1, 9))
    done = table.replace_partitions(day_rows((10, FIRST, "eu"), (11, FIRST, "eu")), pa.table({}))
    assert row_ids(table.read()) == [10, 11]
    assert done.written_partitions is not None
    assert done.written_partitions.select(["rows"]).to_pylist() == [{"rows": 2}]
    table.replace_partitions(day_rows(), pa.table({}))
    assert row_ids(table.read()) == []
    with pytest.raises(pt.SpecError, match="its fields are none"):
        table.read_partitions(partition_values(day=[FIRST]))


def double_rows(*given: tuple[int, float | None]) -> pa.Table:
    ids, values = zip(*given, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array(values, pa.float64())})


@pytest.mark.needs(Operation.OVERWRITE_PARTITIONS)
def test_overwriting_a_partition_of_zero_keeps_that_of_negative_zero(
    format_name: str, spark: SparkSession, tmp_path: Path
) -> None:
    create_table = partial(
        pt.Lake(str(tmp_path)).create_table,
        "t.t",
        pt.Schema.of({"id": "long", "x": "double"}),
        format=format_name,
        partition_by=["x"],
    )
    if table_format(format_name).family is TransformFamily.LANCE:
        with pytest.raises(pt.TransformError, match="'x' of type double"):
            create_table()
        return
    table = create_table()
    table.append(double_rows((1, 0.0), (2, -0.0), (3, NAN), (4, -NAN), (5, None), (6, 1.5)))
    table.overwrite_partitions(double_rows((10, 0.0)))
    assert row_ids(table.read()) == [2, 3, 4, 5, 6, 10]
    table.overwrite_partitions(double_rows((11, -0.0), (12, NAN)))
    assert row_ids(table.read()) == [5, 6, 10, 11, 12]
    table.overwrite_partitions(double_rows((13, 0.0), (14, None), (15, -0.0)))
    assert row_ids(table.read()) == [6, 12, 13, 14, 15]
    other = pt.Lake(str(tmp_path)).table("t.t")
    with concurrent_change(table, lambda: other.append(double_rows((16, -0.0)))):
        table.overwrite_partitions(double_rows((17, 0.0)))
    assert row_ids(table.read()) == [6, 12, 14, 15, 16, 17]
    with concurrent_change(table, lambda: other.append(double_rows((18, -0.0)))), expected_conflict():
        table.overwrite_partitions(double_rows((19, -0.0)))
    assert row_ids(table.read()) == [6, 12, 14, 15, 16, 17, 18]
