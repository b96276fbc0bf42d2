"""What Spark found out of some files is kept for the next who reads the same, and nobody notices but by the time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructType

import partita as pt
from partita.formats.on_spark.paths import located
from partita.spark.scan import parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "n": "long"})
ROWS = pa.table({"id": range(8), "p": ["a", "b"] * 4, "n": [10 * at for at in range(8)]})


def stored(name: str, number: int) -> StructType:
    return StructType().add(name, LongType(), metadata={"parquet.field.id": number})


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


def test_columns_of_other_ids_are_others(spark: SparkSession, tmp_path: Path) -> None:
    fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(at)}) for at, name in ((1, "x"), (2, "y"))]
    pq.write_table(pa.table([[1], [2]], schema=pa.schema(fields)), tmp_path / "a.parquet")
    files = [located(str(tmp_path / "a.parquet"))]
    for number in (1, 2, 1):
        assert parquet(spark, stored("c", number), files).collect() == [(number,)]


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
