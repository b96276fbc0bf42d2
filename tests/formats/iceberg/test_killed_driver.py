"""A merge whose driver is killed with its JVM, while executors write or right before the commit, changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import partita as pt
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.paused_merge import MERGE_CLAUSES, MERGE_CONDITION, SOURCE_QUERY
from tests.formats.iceberg.tables import agreed_rows, jvm_session, live_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "int", "k": "long"})


def kill_at(step: str, lake: Path, reached: Path) -> None:
    """Merge in another process, and kill it and its JVM when it has reached the step."""
    log_file = reached.with_suffix(".log")
    with log_file.open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.formats.iceberg.paused_merge", str(lake), step, str(reached)],
            cwd=Path(__file__).parents[3], env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + 300
        while not reached.exists():
            assert child.poll() is None, log_file.read_text()[-3000:]
            assert time.monotonic() < end, "the step was not reached"
            time.sleep(0.05)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


# Each step takes a JVM of its own. `tests/conformance/test_killed_writers.py` kills writers without one at many steps,
# and `tests/formats/iceberg/test_kills.py` at each step of a commit.
@pytest.mark.parametrize(
    "step",
    [
        pytest.param("write_target", marks=pytest.mark.long),
        "position_delete_writer",
        pytest.param("commit_snapshot", marks=pytest.mark.long),
    ],
)
def test_killed_at(spark: SparkSession, tmp_path: Path, step: str) -> None:
    lake = tmp_path / "lake"
    table = pt.Lake(str(lake)).create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])
    rows = spark.range(300).selectExpr("id", "int(id % 3) as p", "id as k")
    table.append(rows.where("id < 150"))
    table.evolve(add=[pt.bucket("id", 2)])
    table.append(rows.where("id >= 150"))
    before, version, files = sorted_rows(table.read()), table.version, {file.path for file in live_files(table)}

    kill_at(step, lake, tmp_path / "reached")
    assert table.version == version
    assert agreed_rows(table, jvm_session(spark, lake)) == before
    unreferenced = {f"{path}" for path in lake.rglob("*.parquet")} - {path.removeprefix("file://") for path in files}
    assert unreferenced, "it had begun"

    # The same again, by one who lives: no row twice, none lost.
    table.merge(spark.sql(SOURCE_QUERY), MERGE_CONDITION, *MERGE_CLAUSES)
    values = {i: i for i in range(300)}
    values |= {i: i + 1000 for i in range(100, 400) if i % 10}
    values |= {i: -1 for i in range(300, 400) if i % 10 == 0}
    after = [(i, i % 3, k) for i, k in values.items() if not (100 <= i < 300 and i % 10 == 0)]
    assert sorted(agreed_rows(table)) == sorted(after)

    # What the killed one left goes, and nothing else.
    assert table.remove_orphans() == []
    assert unreferenced <= {path.removeprefix("file://") for path in table.remove_orphans(timedelta(0))}
    assert sorted(agreed_rows(table, jvm_session(spark, lake))) == sorted(after)
