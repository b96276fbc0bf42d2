"""Partitions chosen by the values of fields where a format has its own ways: evolved specs, functions, floats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from tests.conformance.row_model import concurrent_change, row_ids

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FIRST, SECOND = date(2025, 1, 1), date(2025, 1, 2)

pytestmark = pytest.mark.usefixtures("spark")


def partition_values(**columns: Any) -> pa.Table:
    types = {"ts_day": pa.date32(), "region": pa.string()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


EVENTS = pt.Schema.of({"id": "long", "ts": "timestamp", "region": "string"})


def events(*given: tuple[int, int | None, str | None]) -> pa.Table:
    """Rows of ids, days of January 2025, and regions."""
    numbers, days, regions = zip(*given, strict=True) if given else ((), (), ())
    times = [None if day is None else datetime(2025, 1, day, 12, tzinfo=UTC) for day in days]
    return pa.table({"id": pa.array(numbers, pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC")),
                     "region": pa.array(regions, pa.string())})  # fmt: skip


def evolved_table(folder: Path, **properties: str) -> pt.Table:
    """A table of files by region, by region and day, by nothing, and by day and region again."""
    lake = pt.Lake(str(folder))
    table = lake.create_table("t.t", EVENTS, format="iceberg", partition_by=["region"], properties=properties)
    table.append(events((1, 1, "eu"), (2, 2, "eu"), (3, 1, "us"), (4, None, None)))
    table.evolve(add=[pt.day("ts")])
    table.append(events((5, 1, "eu"), (6, 2, "us"), (7, None, "eu")))
    table.evolve(drop=["region", "ts_day"])
    table.append(events((8, 1, "eu"), (9, 2, "us"), (10, None, None)))
    table.evolve(add=[pt.day("ts"), "region"])
    table.append(events((11, 1, "eu"), (12, 2, "eu"), (13, None, None)))
    return table


FIRST_AS_ORDINAL = pa.table({"ts_day": pa.array([(FIRST - date(1970, 1, 1)).days], pa.int32())})


def test_files_of_other_specs_are_chosen_by_what_they_share(tmp_path: Path) -> None:
    table = evolved_table(tmp_path)
    assert row_ids(table.read_partitions(partition_values(region=["eu"]))) == [1, 2, 5, 7, 8, 11, 12]
    assert row_ids(table.read_partitions(partition_values(ts_day=[FIRST]))) == [1, 3, 5, 8, 11]
    assert row_ids(table.read_partitions(FIRST_AS_ORDINAL)) == [1, 3, 5, 8, 11]
    assert row_ids(table.read_partitions(partition_values(ts_day=[None], region=[None]))) == [4, 10, 13]
    assert row_ids(table.read_partitions(partition_values(ts_day=[FIRST, SECOND], region=["eu", "us"]), ["id"])) == [
        1,
        5,
        6,
        8,
        9,
        11,
    ]
    assert row_ids(table.read_partitions(partition_values(ts_day=[]))) == []
    assert row_ids(table.read_partitions(pa.table({}))) == list(range(1, 14))


MODES = [{}, {"write.replace_partitions.mode": "copy-on-write"}, {"format-version": "1"}]


@pytest.mark.parametrize(
    "properties",
    [MODES[0], pytest.param(MODES[1], marks=pytest.mark.long), MODES[2]],
    ids=["merge on read", "copy on write", "version 1"],
)
def test_partitions_are_replaced_whichever_spec_their_rows_were_written_under(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = evolved_table(tmp_path, **properties)
    done = table.replace_partitions(events((20, 1, "us")), partition_values(ts_day=[FIRST, None]))
    assert row_ids(table.read()) == [2, 6, 9, 12, 20]
    assert done.written_partitions is not None
    assert done.written_partitions.select(["ts_day", "rows"]).to_pylist() == [{"ts_day": FIRST, "rows": 1}]
    with pytest.raises(pt.RowsOutsidePartitions) as caught:
        table.replace_partitions(events((21, 2, "us")), partition_values(ts_day=[FIRST]))
    assert caught.value.partitions == (({"ts_day": SECOND, "region": "us"}, 1),)
    assert caught.value.samples[0]["id"] == 21
    assert row_ids(table.read()) == [2, 6, 9, 12, 20]


def test_an_append_of_another_spec_conflicts_where_its_rows_may_be(tmp_path: Path) -> None:
    table = evolved_table(tmp_path)

    def append_elsewhere(region: str) -> Callable[[], object]:
        def run() -> None:
            other = pt.Lake(str(tmp_path)).table("t.t")
            other.evolve(drop=["ts_day"])
            other.append(events((30, 2, region)))

        return run

    with concurrent_change(table, append_elsewhere("us")):
        table.replace_partitions(events((20, 1, "eu")), partition_values(ts_day=[FIRST], region=["eu"]))
    assert row_ids(table.read()) == [2, 3, 4, 6, 7, 9, 10, 12, 13, 20, 30]
    table.evolve(add=[pt.day("ts")])
    with concurrent_change(table, append_elsewhere("eu")), pytest.raises(pt.CommitConflict):
        table.replace_partitions(events((21, 1, "eu")), partition_values(ts_day=[FIRST], region=["eu"]))


def test_the_functions_of_lance_choose_by_their_results(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "t.t", EVENTS, format="lance", partition_by=[pt.day("ts"), pt.bucket("id", 2)]
    )
    table.append(events((1, 1, "eu"), (2, 2, "eu"), (3, 1, "us"), (4, None, None)))
    first = pa.table({"ts_day": pa.array([1], pa.int64())})
    assert row_ids(table.read_partitions(first)) == [1, 3]
    with pytest.raises(pt.RowsOutsidePartitions) as caught:
        table.replace_partitions(events((5, 2, "eu")), first)
    assert caught.value.samples[0]["id"] == 5
    table.replace_partitions(events((5, 1, "eu")), first)
    assert row_ids(table.read()) == [2, 4, 5]


def test_columns_that_are_generated_choose_in_delta(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", EVENTS, format="delta", partition_by=[pt.day("ts"), "region"])
    table.append(events((1, 1, "eu"), (2, 2, "eu"), (3, 1, "us"), (4, None, None)))
    name = table.spec.names[0]
    wanted = table.partitions().filter(pa.compute.equal(table.partitions()["region"], "us")).select([name])
    assert row_ids(table.read_partitions(wanted)) == [1, 3]
    table.replace_partitions(events((5, 1, "new")), wanted)
    assert row_ids(table.read()) == [2, 4, 5]
    with pytest.raises(pt.RowsOutsidePartitions):
        table.replace_partitions(events((6, 2, "new")), wanted)


def test_floats_choose_as_sql_joins_them(tmp_path: Path, spark: SparkSession) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "t.t", pt.Schema.of({"id": "long", "x": "double"}), format="iceberg", partition_by=["x"]
    )
    values = [0.0, -0.0, float("nan"), None, 1.5]
    table.append(spark.createDataFrame(list(enumerate(values)), "id long, x double"))
    choices = {0.0: [0, 1], float("nan"): [2], None: [3], 1.5: [4]}
    for value, expected in choices.items():
        assert row_ids(table.read_partitions(pa.table({"x": pa.array([value], pa.float64())}))) == expected


@pytest.mark.parametrize(
    ("properties", "type_text"), [(MODES[0], "double"), (MODES[2], "float")], ids=["merge on read", "version 1"]
)
def test_an_overwrite_tells_zeros_apart_in_files_of_other_specs(
    tmp_path: Path, spark: SparkSession, properties: dict[str, str], type_text: str
) -> None:
    def rows(*given: tuple[int, float | None]) -> DataFrame:
        return spark.createDataFrame(
            [(number, x, "eu") for number, x in given], f"id long, x {type_text}, region string"
        )

    table = pt.Lake(str(tmp_path)).create_table(
        "t.t",
        pt.Schema.of({"id": "long", "x": type_text, "region": "string"}),
        format="iceberg",
        partition_by=[],
        properties=properties,
    )
    nan = float("nan")
    table.append(rows((1, 0.0), (2, -0.0), (3, nan), (4, None), (5, 0.1)))
    table.evolve(add=[pt.identity("x")])
    table.append(rows((6, 0.0), (7, -0.0), (8, nan), (9, None), (10, 0.1)))
    table.evolve(add=[pt.identity("region")])
    table.overwrite_partitions(rows((20, 0.0), (21, 0.1)))
    assert row_ids(table.read()) == [2, 3, 4, 7, 8, 9, 20, 21]
    table.overwrite_partitions(rows((22, -0.0), (23, nan), (24, None)))
    assert row_ids(table.read()) == [20, 21, 22, 23, 24]
