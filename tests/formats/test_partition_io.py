"""Partitions read and replaced by the values of some fields, the same in every format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.formats.table_version import TableVersion

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FORMATS = ("delta", "iceberg", "lance")
SCHEMA = pt.Schema.of({"id": "long", "day": "date", "region": "string", "n": "int"})
FIRST, SECOND, THIRD = (date(2025, 1, day) for day in (1, 2, 3))

pytestmark = pytest.mark.usefixtures("spark")


def rows(*given: tuple[int, date | None, str | None]) -> pa.Table:
    ids, days, regions = zip(*given, strict=True) if given else ((), (), ())
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.date32()),
                     "region": pa.array(regions, pa.string()), "n": pa.array([0] * len(ids), pa.int32())})  # fmt: skip


def ids(frame: Any) -> list[int]:
    return sorted(frame.toArrow()["id"].to_pylist())


GIVEN = rows(
    (1, FIRST, "eu"), (2, FIRST, "us"), (3, FIRST, None), (4, SECOND, "eu"), (5, SECOND, "us"), (6, None, "eu"),
    (7, THIRD, "eu"), (8, FIRST, "eu"),
)  # fmt: skip


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pt.Table:
    lake = pt.Lake(str(tmp_path))
    made = lake.create_table("t.t", SCHEMA, format=request.param, partition_by=["day", "region"])
    made.append(GIVEN)
    return made


def asked(**columns: Any) -> pa.Table:
    types = {"day": pa.date32(), "region": pa.string(), "ts_day": pa.date32()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


READ = [
    (asked(day=[FIRST]), [1, 2, 3, 8]),
    (asked(day=[FIRST, FIRST, THIRD]), [1, 2, 3, 7, 8]),
    (asked(region=["us"]), [2, 5]),
    (asked(region=[None]), [3]),
    (asked(day=[None]), [6]),
    (asked(day=[FIRST, SECOND], region=["eu", "us"]), [1, 5, 8]),
    (asked(region=[None, "eu"], day=[FIRST, None]), [3, 6]),
    (asked(day=[date(1999, 1, 1)]), []),
    (asked(day=[]), []),
    (pa.table({}), [1, 2, 3, 4, 5, 6, 7, 8]),
]


def test_exactly_the_rows_of_the_partitions_are_read(table: pt.Table) -> None:
    for partitions, expected in READ:
        assert ids(table.read_partitions(partitions)) == expected, partitions
    nothing = table.read_partitions(asked(day=[]), ["region", "id"])
    assert nothing.columns == ["region", "id"]
    assert table.read_partitions(asked(region=["us"]), ["n"]).toArrow()["n"].to_pylist() == [0, 0]


@pytest.mark.parametrize(
    ("partitions", "problem"),
    [
        (pa.table({"n": [1]}), "no partition field 'n'"),
        (pa.table({"day": ["2025-01-01"]}), "'day' is date32"),
        (pa.table({"region": [1]}), "'region' is string"),
        (pa.table([["eu"], ["us"]], names=["region", "Region"]), "twice"),
        ([{"region": "eu"}], "an Arrow table"),
    ],
)
def test_what_is_no_partition_of_the_table_is_refused(table: pt.Table, partitions: Any, problem: str) -> None:
    before = table.version
    for use in (table.read_partitions, lambda given: table.replace_partitions(rows(), given)):
        with pytest.raises((pt.PartitionsError, pt.SpecError), match=problem):
            use(partitions)
    assert table.version == before


def test_types_that_hold_the_same_values_are_taken(table: pt.Table) -> None:
    coded = pa.table({"region": pa.array(["us"]).dictionary_encode()})
    assert ids(table.read_partitions(coded)) == [2, 5]
    assert ids(table.read_partitions(pa.table({"region": pa.array(["us"], pa.large_string())}))) == [2, 5]
    assert ids(table.read_partitions(pa.table({"day": pa.nulls(1)}))) == [6]


def test_partitions_are_replaced_and_emptied_and_nothing_else_changes(table: pt.Table) -> None:
    before = table.partitions().filter(pa.compute.equal(table.partitions()["region"], "us"))
    wanted = asked(day=[FIRST, SECOND, THIRD], region=["eu", "eu", "eu"])
    done = table.replace_partitions(rows((10, FIRST, "eu"), (11, FIRST, "eu")), wanted)
    assert done.version == table.version
    assert ids(table.read()) == [2, 3, 5, 6, 10, 11]
    after = table.partitions()
    assert after.filter(pa.compute.equal(after["region"], "us")).equals(before)
    assert done.written_partitions is not None
    assert done.written_partitions.select(["day", "region", "rows"]).to_pylist() == [
        {"day": FIRST, "region": "eu", "rows": 2}
    ]
    assert done.written_partitions["files"].to_pylist() in ([1], [2])
    assert done.written_partitions["bytes"][0].as_py() > 0


def test_what_was_written_is_told_by_the_fields_that_were_asked_for(table: pt.Table) -> None:
    given = rows((10, FIRST, "eu"), (11, FIRST, "new"), (12, FIRST, None), (13, SECOND, "eu"))
    done = table.replace_partitions(given, asked(day=[SECOND, FIRST, THIRD]))
    assert ids(table.read()) == [6, 10, 11, 12, 13]
    assert done.written_partitions is not None
    assert done.written_partitions.column_names == ["day", "rows", "files", "bytes"]
    found = sorted((row["day"], row["rows"]) for row in done.written_partitions.to_pylist())
    assert found == [(FIRST, 3), (SECOND, 1)]
    assert done.written_partitions.schema.field("day").type == pa.date32()


def test_all_partitions_are_replaced_where_no_field_is_asked_for(table: pt.Table) -> None:
    done = table.replace_partitions(rows((10, FIRST, "eu")), pa.table({}))
    assert ids(table.read()) == [10]
    assert done.written_partitions is not None
    assert done.written_partitions["rows"].to_pylist() == [1]


def test_rows_outside_change_nothing_and_are_shown(table: pt.Table) -> None:
    version, files = table.version, data_files(table)
    given = rows((10, FIRST, "eu"), (11, SECOND, "eu"), (12, SECOND, "eu"), (13, SECOND, None), (14, FIRST, "us"))
    with pytest.raises(pt.RowsOutsidePartitions) as caught:
        table.replace_partitions(given, asked(day=[FIRST]))
    assert table.version == version
    assert data_files(table) == files
    assert ids(table.read()) == list(range(1, 9))
    error = caught.value
    assert error.partitions[0] == ({"day": SECOND, "region": "eu"}, 2)
    assert error.partitions[1] == ({"day": SECOND, "region": None}, 1)
    assert {row["id"] for row in error.samples} <= {11, 12, 13}
    assert len(error.samples) == 3
    assert "region=eu (2 rows)" in str(error)
    assert "id=13" in str(error)
    assert isinstance(error, pt.ConstraintError)


def data_files(table: pt.Table) -> set[str]:
    from pathlib import Path

    endings = (".parquet", ".lance", ".arrow", ".bin")
    return {str(path) for path in Path(table.uri).rglob("*") if path.is_file() and path.name.endswith(endings)}


def test_nothing_asked_for_takes_no_rows(table: pt.Table) -> None:
    assert table.replace_partitions(rows(), asked(day=[])).version is None
    with pytest.raises(pt.RowsOutsidePartitions):
        table.replace_partitions(rows((10, FIRST, "eu")), asked(day=[]))
    assert ids(table.read()) == list(range(1, 9))


def test_a_transaction_is_noted_also_where_nothing_is_written(table: pt.Table) -> None:
    nowhere = asked(day=[date(1999, 1, 1)])
    once = table.replace_partitions(rows(), nowhere, transaction=("run", 1))
    assert once.version == table.version
    assert table.has_transaction(("run", 1))
    again = table.replace_partitions(rows((10, FIRST, "eu")), asked(day=[FIRST]), transaction=("run", 1))
    assert again.version is None
    assert ids(table.read()) == list(range(1, 9))


def test_a_partition_that_is_emptied_is_gone_or_has_no_rows(table: pt.Table) -> None:
    table.replace_partitions(rows(), asked(region=["us"]))
    assert ids(table.read()) == [1, 3, 4, 6, 7, 8]
    left = table.partitions()
    us = left.filter(pa.compute.equal(left["region"], "us"))
    assert us["rows"].to_pylist() in ([], [0, 0])


# --- beside others


@contextmanager
def meanwhile(table: pt.Table, early: Callable[[], object]) -> Iterator[None]:
    """A block in which another's change lands after the table was looked at and before its change is committed."""
    kind: type[TableVersion] = type(table._store.current_version())
    real, left = kind.commit, [early]

    def commit(table_version: TableVersion, change: Any) -> int:
        if left:
            left.pop()()
        return real(table_version, change)

    kind.commit = commit  # type: ignore[method-assign,assignment] # put back below
    try:
        yield
    finally:
        kind.commit = real  # type: ignore[method-assign]
    assert not left


def another(table: pt.Table) -> pt.Table:
    store = table._store
    if store.format.name == "iceberg":
        from partita.formats.iceberg.store import IcebergTableStore

        return pt.Table(table.name, IcebergTableStore(store._table))  # type: ignore[attr-defined]
    return pt.open_table(table.uri, format=store.format.name)


@pytest.mark.parametrize(
    ("given", "lands"),
    [
        ((20, FIRST, "eu"), False),
        ((20, FIRST, "never before"), False),
        ((20, date(2030, 1, 1), "eu"), True),
        ((20, SECOND, "us"), True),
    ],
)
def test_an_append_into_what_is_replaced_is_a_conflict(
    table: pt.Table, given: tuple[int, date, str], *, lands: bool
) -> None:
    other = another(table)
    replacing = meanwhile(table, lambda: other.append(rows(given)))
    if lands:
        with replacing:
            table.replace_partitions(rows((10, FIRST, "eu")), asked(day=[FIRST]))
        assert ids(table.read()) == [4, 5, 6, 7, 10, 20]
    else:
        with pytest.raises(pt.CommitConflict), replacing:
            table.replace_partitions(rows((10, FIRST, "eu")), asked(day=[FIRST]))
        assert ids(table.read()) == [*range(1, 9), 20]


def test_two_that_replace_the_same_empty_partition_are_a_conflict(table: pt.Table) -> None:
    other, empty = another(table), asked(day=[date(2031, 1, 1)])
    given = rows((10, date(2031, 1, 1), "eu"))
    with pytest.raises(pt.CommitConflict), meanwhile(table, lambda: other.replace_partitions(given, empty)):
        table.replace_partitions(given, empty)


def test_a_delete_in_what_is_replaced_is_a_conflict(table: pt.Table) -> None:
    other = another(table)
    with pytest.raises(pt.CommitConflict), meanwhile(table, lambda: other.delete("id = 1")):
        table.replace_partitions(rows((10, FIRST, "eu")), asked(day=[FIRST]))
    assert ids(table.read()) == list(range(2, 9))


# --- without partitions, and of other specs


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_without_partitions_is_one(tmp_path: Path, form: str) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=form, partition_by=[])
    table.append(GIVEN)
    assert ids(table.read_partitions(pa.table({}))) == list(range(1, 9))
    done = table.replace_partitions(rows((10, FIRST, "eu"), (11, FIRST, "eu")), pa.table({}))
    assert ids(table.read()) == [10, 11]
    assert done.written_partitions is not None
    assert done.written_partitions.select(["rows"]).to_pylist() == [{"rows": 2}]
    table.replace_partitions(rows(), pa.table({}))
    assert ids(table.read()) == []
    with pytest.raises(pt.SpecError, match="its fields are none"):
        table.read_partitions(asked(day=[FIRST]))


EVENTS = pt.Schema.of({"id": "long", "ts": "timestamp", "region": "string"})


def events(*given: tuple[int, int | None, str | None]) -> pa.Table:
    """Rows of ids, days of January 2025, and regions."""
    numbers, days, regions = zip(*given, strict=True) if given else ((), (), ())
    times = [None if day is None else datetime(2025, 1, day, 12, tzinfo=UTC) for day in days]
    return pa.table({"id": pa.array(numbers, pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC")),
                     "region": pa.array(regions, pa.string())})  # fmt: skip


def evolved(folder: Path, **properties: str) -> pt.Table:
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
    table = evolved(tmp_path)
    assert ids(table.read_partitions(asked(region=["eu"]))) == [1, 2, 5, 7, 8, 11, 12]
    assert ids(table.read_partitions(asked(ts_day=[FIRST]))) == [1, 3, 5, 8, 11]
    assert ids(table.read_partitions(FIRST_AS_ORDINAL)) == [1, 3, 5, 8, 11]
    assert ids(table.read_partitions(asked(ts_day=[None], region=[None]))) == [4, 10, 13]
    assert ids(table.read_partitions(asked(ts_day=[FIRST, SECOND], region=["eu", "us"]), ["id"])) == [1, 5, 6, 8, 9, 11]
    assert ids(table.read_partitions(asked(ts_day=[]))) == []
    assert ids(table.read_partitions(pa.table({}))) == list(range(1, 14))


MODES = [{}, {"write.replace_partitions.mode": "copy-on-write"}, {"format-version": "1"}]


@pytest.mark.parametrize("properties", MODES, ids=["merge on read", "copy on write", "version 1"])
def test_partitions_are_replaced_whichever_spec_their_rows_were_written_under(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = evolved(tmp_path, **properties)
    done = table.replace_partitions(events((20, 1, "us")), asked(ts_day=[FIRST, None]))
    assert ids(table.read()) == [2, 6, 9, 12, 20]
    assert done.written_partitions is not None
    assert done.written_partitions.select(["ts_day", "rows"]).to_pylist() == [{"ts_day": FIRST, "rows": 1}]
    with pytest.raises(pt.RowsOutsidePartitions) as caught:
        table.replace_partitions(events((21, 2, "us")), asked(ts_day=[FIRST]))
    assert caught.value.partitions == (({"ts_day": SECOND, "region": "us"}, 1),)
    assert caught.value.samples[0]["id"] == 21
    assert ids(table.read()) == [2, 6, 9, 12, 20]


def test_an_append_of_another_spec_conflicts_where_its_rows_may_be(tmp_path: Path) -> None:
    table = evolved(tmp_path)

    def elsewhere(region: str) -> Callable[[], object]:
        def run() -> None:
            other = another(table)
            other.evolve(drop=["ts_day"])
            other.append(events((30, 2, region)))

        return run

    with meanwhile(table, elsewhere("us")):
        table.replace_partitions(events((20, 1, "eu")), asked(ts_day=[FIRST], region=["eu"]))
    assert ids(table.read()) == [2, 3, 4, 6, 7, 9, 10, 12, 13, 20, 30]
    table.evolve(add=[pt.day("ts")])
    with pytest.raises(pt.CommitConflict), meanwhile(table, elsewhere("eu")):
        table.replace_partitions(events((21, 1, "eu")), asked(ts_day=[FIRST], region=["eu"]))


def test_the_functions_of_lance_choose_by_their_results(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table(
        "t.t", EVENTS, format="lance", partition_by=[pt.day("ts"), pt.bucket("id", 2)]
    )
    table.append(events((1, 1, "eu"), (2, 2, "eu"), (3, 1, "us"), (4, None, None)))
    first = pa.table({"ts_day": pa.array([1], pa.int64())})
    assert ids(table.read_partitions(first)) == [1, 3]
    with pytest.raises(pt.RowsOutsidePartitions) as caught:
        table.replace_partitions(events((5, 2, "eu")), first)
    assert caught.value.samples[0]["id"] == 5
    table.replace_partitions(events((5, 1, "eu")), first)
    assert ids(table.read()) == [2, 4, 5]


def test_columns_that_are_generated_choose_in_delta(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", EVENTS, format="delta", partition_by=[pt.day("ts"), "region"])
    table.append(events((1, 1, "eu"), (2, 2, "eu"), (3, 1, "us"), (4, None, None)))
    name = table.spec.names[0]
    wanted = table.partitions().filter(pa.compute.equal(table.partitions()["region"], "us")).select([name])
    assert ids(table.read_partitions(wanted)) == [1, 3]
    table.replace_partitions(events((5, 1, "new")), wanted)
    assert ids(table.read()) == [2, 4, 5]
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
        assert ids(table.read_partitions(pa.table({"x": pa.array([value], pa.float64())}))) == expected
