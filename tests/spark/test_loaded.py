"""What Spark found out of some files is kept for the next who reads the same, and nobody notices but by the time."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
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
from partita.formats.on_spark.paths import located
from partita.spark.scan import frame_of, parquet, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "n": "long"})
ROWS = pa.table({"id": range(8), "p": ["a", "b"] * 4, "n": [10 * at for at in range(8)]})


def test_the_same_files_are_loaded_once(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "y": [3, 4]}), tmp_path / "a.parquet")
    files = [located(str(tmp_path / "a.parquet"))]
    first = parquet(spark, "x long", files)
    assert parquet(spark, "x long", list(files)) is first
    assert parquet(spark, "x long", files, "x > 1") is parquet(spark, "x long", files, "x > 1")
    others = [parquet(spark, "y long", files), parquet(spark, "x long", files, "x > 1"),
              parquet(spark.newSession(), "x long", files)]  # fmt: skip
    assert all(other is not first for other in others)
    found = [sorted(map(tuple, rows.collect())) for rows in (first, *others)]
    assert found == [[(1,), (2,)], [(3,), (4,)], [(2,)], [(1,), (2,)]]


def test_one_reader_by_schema_reads_for_many(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(8):
        pq.write_table(pa.table({"x": [at], "y": [-at]}), tmp_path / f"{at}.parquet")
    other = spark.newSession()
    made: list[StructType | str] = []
    of_schema = DataFrameReader.schema

    def noted(reader: DataFrameReader, schema: StructType | str) -> DataFrameReader:
        made.append(schema)
        return of_schema(reader, schema)

    monkeypatch.setattr(DataFrameReader, "schema", noted)

    def read(at: int) -> object:
        of_x, of_y = (parquet(other, f"{name} long", [located(str(tmp_path / f"{at}.parquet"))]) for name in "xy")
        return of_x.collect() + of_y.collect()

    assert read(0) == [(0,), (0,)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(read, range(1, 8))) == [[(at,), (-at,)] for at in range(1, 8)]
    assert made == ["x long", "y long"]


def test_what_is_kept_goes_with_its_session(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")

    def used() -> weakref.ref[SparkSession]:
        other = spark.newSession()
        assert parquet(other, "x long", [located(str(tmp_path / "a.parquet"))]).count() == 2
        return weakref.ref(other)

    sessions = [used() for _ in range(3)]
    gc.collect()
    # PySpark itself holds the last one.
    assert sum(session() is not None for session in sessions) <= 1


def test_threads_leave_the_settings_as_they_were(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    changed = {"spark.sql.session.timeZone": "UTC", "spark.partita.test": "1"}
    both, seen = Barrier(2), []

    def one(first: bool) -> None:
        if not first:
            both.wait()
        with settings(session, changed):
            if first:
                both.wait()
            both.wait()
            seen.append([session.conf.get(key) for key in changed])
            both.wait()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(one, [True, False]))
    assert seen == [["UTC", "1"]] * 2
    assert [session.conf.get(key, None) for key in changed] == ["Asia/Tokyo", None]


def test_settings_are_put_back_after_an_error(spark: SparkSession) -> None:
    session = spark.newSession()
    with pytest.raises(AnalysisException), settings(session, {"spark.partita.test": "1", "spark.driver.memory": "1g"}):
        pass
    with pytest.raises(ZeroDivisionError), settings(session, {"spark.partita.test": "1"}):
        raise ZeroDivisionError
    assert session.conf.get("spark.partita.test", None) is None


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> pt.Table:
    made = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=request.param, partition_by=["p"])
    made.append(ROWS)
    return made


@pytest.mark.parametrize("where", ["p = 'a'", "n > 15", None])
def test_two_reads_of_the_same_rows_can_be_joined(table: pt.Table, where: str | None) -> None:
    for _ in range(2):
        left, right = table.read(where), table.read(where)
        size = left.count()
        assert size > 0
        assert left.join(right, left.id == right.id).count() == size
        assert left.join(right, left.id < right.id).count() == size * (size - 1) // 2
        assert left.join(right, "id").select(left.n, right.n).where(left.n == right.n).count() == size
        assert left.unionAll(right).count() == 2 * size
        assert left.where(left.id < 4).join(right.where(right.id >= 4), left.id == right.id).count() == 0
        # The second time with deletes.
        table.delete("id = 2")


def test_every_change_is_seen(table: pt.Table) -> None:
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
def test_any_size_of_batches(spark: SparkSession, size: str) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", size)
    frame = frame_of(other, ROWS)
    assert frame.toArrow().sort_by("id").equals(ROWS)
    assert sorted(map(tuple, frame.collect()))[7] == (7, "b", 70)
    assert other.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == size


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("problem", ["missing", "corrupt"])
def test_files_are_never_left_out(spark: SparkSession, tmp_path: Path, form: str, problem: str) -> None:
    """Whatever the session says of missing and corrupt files."""
    made = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=form, partition_by=["p"])
    made.append(ROWS)
    other = spark.newSession()
    for what in ("Missing", "Corrupt"):
        other.conf.set(f"spark.sql.files.ignore{what}Files", "true")
    read = made.read(spark=other)
    file = next(Path(made.uri.removeprefix("file://")).rglob("*.parquet"))
    if problem == "missing":
        file.unlink()
    else:
        file.write_bytes(b"PAR1" + b"x" * (file.stat().st_size - 8) + b"PAR1")
    with pytest.raises((PySparkException, Py4JError)):
        read.collect()
