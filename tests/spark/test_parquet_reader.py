"""DataFrames of Parquet files are cached by session, and no read can tell except by its time."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrameReader

import partita as pt
from partita.spark.frames import frame_from_arrow
from partita.spark.parquet_reader import read_parquet
from partita.spark.session_state import override_settings
from partita.storage.hadoop import hadoop_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "n": "long"})
ROWS = pa.table({"id": range(8), "p": ["a", "b"] * 4, "n": [10 * number for number in range(8)]})


def test_the_same_files_are_loaded_once(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "y": [3, 4]}), tmp_path / "a.parquet")
    files = [hadoop_location(str(tmp_path / "a.parquet"))]
    first = read_parquet(spark, "x long", files)
    assert read_parquet(spark, "x long", list(files)) is first
    assert read_parquet(spark, "x long", files, "x > 1") is read_parquet(spark, "x long", files, "x > 1")
    others = [read_parquet(spark, "y long", files), read_parquet(spark, "x long", files, "x > 1"),
              read_parquet(spark.newSession(), "x long", files)]  # fmt: skip
    assert all(other is not first for other in others)
    collected = [sorted(map(tuple, rows.collect())) for rows in (first, *others)]
    assert collected == [[(1,), (2,)], [(3,), (4,)], [(2,)], [(1,), (2,)]]


def test_one_reader_for_each_schema(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        pq.write_table(pa.table({"x": [number], "y": [-number]}), tmp_path / f"{number}.parquet")
    other = spark.newSession()
    schemas: list[StructType | str] = []
    set_schema = DataFrameReader.schema

    def record_schema(reader: DataFrameReader, schema: StructType | str) -> DataFrameReader:
        schemas.append(schema)
        return set_schema(reader, schema)

    monkeypatch.setattr(DataFrameReader, "schema", record_schema)

    def read(number: int) -> object:
        x_rows, y_rows = (
            read_parquet(other, f"{name} long", [hadoop_location(str(tmp_path / f"{number}.parquet"))]) for name in "xy"
        )
        return x_rows.collect() + y_rows.collect()

    assert read(0) == [(0,), (0,)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(read, range(1, 8))) == [[(number,), (-number,)] for number in range(1, 8)]
    assert schemas == ["x long", "y long"]


def test_cached_frames_are_freed_with_their_session(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")

    def use_session() -> weakref.ref[SparkSession]:
        other = spark.newSession()
        assert read_parquet(other, "x long", [hadoop_location(str(tmp_path / "a.parquet"))]).count() == 2
        return weakref.ref(other)

    sessions = [use_session() for _ in range(3)]
    gc.collect()
    # PySpark itself keeps the last one.
    assert sum(session() is not None for session in sessions) <= 1


def test_threads_restore_overridden_settings(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    overrides = {"spark.sql.session.timeZone": "UTC", "spark.partita.test": "1"}
    barrier, values = Barrier(2), []

    def override(is_first: bool) -> None:
        if not is_first:
            barrier.wait()
        with override_settings(session, overrides):
            if is_first:
                barrier.wait()
            barrier.wait()
            values.append([session.conf.get(key) for key in overrides])
            barrier.wait()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(override, [True, False]))
    assert values == [["UTC", "1"]] * 2
    assert [session.conf.get(key, None) for key in overrides] == ["Asia/Tokyo", None]


def test_settings_are_restored_after_an_error(spark: SparkSession) -> None:
    session = spark.newSession()
    with (
        pytest.raises(AnalysisException),
        override_settings(session, {"spark.partita.test": "1", "spark.driver.memory": "1g"}),
    ):
        pass
    with pytest.raises(ZeroDivisionError), override_settings(session, {"spark.partita.test": "1"}):
        raise ZeroDivisionError
    assert session.conf.get("spark.partita.test", None) is None


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> pt.Table:
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=request.param, partition_by=["p"])
    table.append(ROWS)
    return table


@pytest.mark.parametrize("where", ["p = 'a'", "n > 15", pytest.param(None, marks=pytest.mark.long)])
def test_two_reads_of_the_same_rows_can_be_joined(table: pt.Table, where: str | None) -> None:
    for _ in range(2):
        left, right = table.read(where), table.read(where)
        frames = [
            left,
            left.join(right, left.id == right.id),
            left.join(right, left.id < right.id),
            left.join(right, "id").select(left.n, right.n).where(left.n == right.n),
            left.unionAll(right),
            left.where(left.id < 4).join(right.where(right.id >= 4), left.id == right.id),
        ]
        counts = [
            frame.groupBy().count().selectExpr(f"{index} AS frame", "count") for index, frame in enumerate(frames)
        ]
        rows = reduce(lambda a, b: a.unionAll(b), counts).collect()
        size, *others = [row["count"] for row in sorted(rows)]
        assert size > 0
        assert others == [size, size * (size - 1) // 2, size, 2 * size, 0]
        # The second time with deletes.
        table.delete("id = 2")


def test_reads_see_every_change(table: pt.Table) -> None:
    def ids(where: str | None) -> list[int]:
        return sorted(table.read(where).toArrow()["id"].to_pylist())

    assert (ids("p = 'a'"), ids(None)) == ([0, 2, 4, 6], list(range(8)))
    table.delete("id = 2")
    assert (ids("p = 'a'"), ids(None)) == ([0, 4, 6], [0, 1, 3, 4, 5, 6, 7])
    table.delete("id = 6")
    assert (ids("p = 'a'"), ids(None)) == ([0, 4], [0, 1, 3, 4, 5, 7])
    table.update({"n": "n + 1"}, "id = 4")
    assert table.read("p = 'a'").toArrow().sort_by("id")["n"].to_pylist() == [0, 41]


@pytest.mark.parametrize("size", ["-1", "0", "1"])
def test_any_batch_size(spark: SparkSession, size: str) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", size)
    frame = frame_from_arrow(other, ROWS)
    assert frame.toArrow().sort_by("id").equals(ROWS)
    assert sorted(map(tuple, frame.collect()))[7] == (7, "b", 70)
    assert other.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == size


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("problem", ["missing", "corrupt"])
def test_files_are_never_skipped(spark: SparkSession, tmp_path: Path, format_: str, problem: str) -> None:
    """A session that ignores missing and corrupt files still fails."""
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=format_, partition_by=["p"])
    table.append(ROWS)
    other = spark.newSession()
    for kind in ("Missing", "Corrupt"):
        other.conf.set(f"spark.sql.files.ignore{kind}Files", "true")
    read = table.read(spark=other)
    file = next(Path(table.uri.removeprefix("file://")).rglob("*.parquet"))
    if problem == "missing":
        file.unlink()
    else:
        file.write_bytes(b"PAR1" + b"x" * (file.stat().st_size - 8) + b"PAR1")
    with pytest.raises((PySparkException, Py4JError)):
        read.collect()
