"""Rows that a scan leaves out: by a condition, by a checksum of the path, or by the path itself."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructType

from partita.formats.on_spark.paths import located, reported
from partita.spark import scan as scanning
from partita.spark.scan import FILE, PATH, ROW, FileGroup, Files, frame_of, scan, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = StructType().add("id", "long")
SIZE = 2000


def files(folder: Path, names: list[str]) -> Files:
    """Files of `SIZE` rows each, numbered through."""
    for at, name in enumerate(names):
        pq.write_table(pa.table({"id": range(at * SIZE, (at + 1) * SIZE)}), folder / name)
    locations = [located(str(folder / name)) for name in names]
    group = FileGroup(np.arange(len(names)), SCHEMA)
    reported_as, columns = [reported(at) for at in locations], (("id", SCHEMA["id"].dataType, "id"),)
    return Files(locations, reported_as, ("id",), (group,), pa.table({}), columns)


def gone(given: Files, ids: list[int]) -> pa.Table:
    return pa.table(
        {PATH: [given.reported[i // SIZE] for i in ids], ROW: pa.array([i % SIZE for i in ids], pa.int64())}
    )


@pytest.mark.parametrize("step", [500, 3], ids=["few", "many"])
@pytest.mark.parametrize("on_spark", [False, True], ids=["in arrow", "on spark"])
@pytest.mark.parametrize("alike", [False, True], ids=["told apart", "alike"])
def test_rows_that_are_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, step: int, on_spark: bool, alike: bool
) -> None:
    if alike:
        monkeypatch.setattr(scanning, "crc32", lambda _: 7)
    given = files(tmp_path, ["a.parquet", "b c%20'é.parquet", "c.parquet"])
    ids = list(range(0, 2 * SIZE, step))
    table = gone(given, ids)
    rows = scan(spark, given, gone=frame_of(spark, table) if on_spark else table)
    assert sorted(row.id for row in rows.collect()) == sorted(set(range(3 * SIZE)) - set(ids))


def test_nothing_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    given = files(tmp_path, ["a.parquet"])
    assert scan(spark, given, gone=gone(given, [])).count() == SIZE


@pytest.mark.parametrize("count", [2, 9], ids=["few", "many"])
def test_positions_say_the_file_and_the_row(spark: SparkSession, tmp_path: Path, count: int) -> None:
    """The numbers of a few files are a part of the select; those of more are joined."""
    given = files(tmp_path, [f"b c%20'{at}.parquet" for at in range(count)])
    rows = scan(spark, given, positions=True)
    found = rows.where(f"id % {SIZE} = 7").collect()
    assert sorted((row.id, row[FILE], row[ROW]) for row in found) == [(at * SIZE + 7, at, 7) for at in range(count)]
    with redirect_stdout(io.StringIO()) as shown:
        rows.explain()
    assert ("Join" in shown.getvalue()) is (count == 9)
    some = replace(given, reported=["elsewhere", *given.reported[1:]])
    with pytest.raises(PySparkException, match="a file that was not asked for"):
        scan(spark, some, positions=True).collect()


@pytest.mark.parametrize("setting", ["parser.escapedStringLiterals", "ansi.doubleQuotedIdentifiers"])
@pytest.mark.parametrize(
    "text", ["", "a-b_c=1+2 %20", "a\\nb", "a\nb", "it's", '"', "`", "${spark.app.name}", "é", "\0", "-- /*", ":x ?"]
)
def test_any_text_is_itself_whatever_the_session_makes_of_it(
    spark: SparkSession, tmp_path: Path, text: str, setting: str
) -> None:
    given = files(tmp_path, ["a.parquet"])
    of_file = replace(given, constants=pa.table({"p": [text]}), columns=(*given.columns, ("p", StringType(), "p")))
    with settings(spark, {f"spark.sql.{setting}": "true"}):
        found = scan(spark, of_file, gone=gone(given, [3])).where("id < 5").collect()
    assert sorted(map(tuple, found)) == [(number, text) for number in (0, 1, 2, 4)]
