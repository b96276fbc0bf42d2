"""Scans without deleted rows: by a condition, by a checksum of the path, or by the path itself."""

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

from partita.formats.operations.paths import spark_file_path
from partita.spark import deleted_rows
from partita.spark.frames import frame_from_arrow
from partita.spark.positions import FILE_INDEX, FILE_PATH, ROW_INDEX
from partita.spark.scan import FileGroup, ScanFiles, scan_files
from partita.spark.session_state import override_settings
from partita.storage.hadoop import hadoop_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = StructType().add("id", "long")
SIZE = 2000


def write_files(folder: Path, names: list[str]) -> ScanFiles:
    """Write files of `SIZE` rows each, with ids from 0."""
    for index, name in enumerate(names):
        pq.write_table(pa.table({"id": range(index * SIZE, (index + 1) * SIZE)}), folder / name)
    locations = [hadoop_location(str(folder / name)) for name in names]
    group = FileGroup(np.arange(len(names)), SCHEMA)
    reported_paths, columns = list(map(spark_file_path, locations)), (("id", SCHEMA["id"].dataType, "id"),)
    return ScanFiles(locations, reported_paths, ("id",), (group,), pa.table({}), columns)


def row_positions(files: ScanFiles, ids: list[int]) -> pa.Table:
    return pa.table(
        {
            FILE_PATH: [files.reported_paths[i // SIZE] for i in ids],
            ROW_INDEX: pa.array([i % SIZE for i in ids], pa.int64()),
        }
    )


@pytest.mark.parametrize("step", [500, 3], ids=["few", "many"])
@pytest.mark.parametrize("on_spark", [False, True], ids=["in arrow", "on spark"])
@pytest.mark.parametrize("has_collisions", [False, True], ids=["unique checksums", "equal checksums"])
def test_deleted_rows_are_left_out(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    step: int,
    on_spark: bool,
    has_collisions: bool,
) -> None:
    if has_collisions:
        monkeypatch.setattr(deleted_rows, "crc32", lambda _: 7)
    files = write_files(tmp_path, ["a.parquet", "b c%20'é.parquet", "c.parquet"])
    ids = list(range(0, 2 * SIZE, step))
    table = row_positions(files, ids)
    rows = scan_files(spark, files, deleted_rows=frame_from_arrow(spark, table) if on_spark else table)
    assert sorted(row.id for row in rows.collect()) == sorted(set(range(3 * SIZE)) - set(ids))


def test_no_row_is_deleted(spark: SparkSession, tmp_path: Path) -> None:
    files = write_files(tmp_path, ["a.parquet"])
    assert scan_files(spark, files, deleted_rows=row_positions(files, [])).count() == SIZE


@pytest.mark.parametrize("count", [2, 9], ids=["few", "many"])
def test_positions_are_the_file_and_the_row(spark: SparkSession, tmp_path: Path, count: int) -> None:
    """The indices of a few files are a part of the select; those of more are joined."""
    files = write_files(tmp_path, [f"b c%20'{index}.parquet" for index in range(count)])
    rows = scan_files(spark, files, positions=True)
    collected = rows.where(f"id % {SIZE} = 7").collect()
    assert sorted((row.id, row[FILE_INDEX], row[ROW_INDEX]) for row in collected) == [
        (index * SIZE + 7, index, 7) for index in range(count)
    ]
    with redirect_stdout(io.StringIO()) as plan:
        rows.explain()
    assert ("Join" in plan.getvalue()) is (count == 9)
    other_files = replace(files, reported_paths=["elsewhere", *files.reported_paths[1:]])
    with pytest.raises(PySparkException, match="a file that was not asked for"):
        scan_files(spark, other_files, positions=True).collect()


@pytest.mark.parametrize("setting", ["parser.escapedStringLiterals", "ansi.doubleQuotedIdentifiers"])
@pytest.mark.parametrize(
    "text", ["", "a-b_c=1+2 %20", "a\\nb", "a\nb", "it's", '"', "`", "${spark.app.name}", "é", "\0", "-- /*", ":x ?"]
)
def test_a_constant_is_the_same_text_with_any_parser_setting(
    spark: SparkSession, tmp_path: Path, text: str, setting: str
) -> None:
    files = write_files(tmp_path, ["a.parquet"])
    with_constant = replace(
        files, constants=pa.table({"p": [text]}), columns=(*files.columns, ("p", StringType(), "p"))
    )
    with override_settings(spark, {f"spark.sql.{setting}": "true"}):
        scan = scan_files(spark, with_constant, deleted_rows=row_positions(files, [3]))
        rows = scan.where("id < 5").collect()
    assert sorted(map(tuple, rows)) == [(number, text) for number in (0, 1, 2, 4)]
