"""A merge whose driver is killed, with its JVM, while executors write or right before the commit, did not happen."""

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
from tests.formats.delta.tables import rows
from tests.formats.iceberg.held import CLAUSES, ON, SOURCE
from tests.formats.iceberg.tables import agreed, jvm_session, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "int", "k": "long"})


def kill_at(step: str, lake: Path, reached: Path) -> None:
    """Merge in a process of its own, and kill it and its JVM when it has come to the step."""
    said = reached.with_suffix(".log")
    with said.open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.formats.iceberg.held", str(lake), step, str(reached)],
            cwd=Path(__file__).parents[3], env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + 300
        while not reached.exists():
            assert child.poll() is None, said.read_text()[-3000:]
            assert time.monotonic() < end, "the step was not reached"
            time.sleep(0.05)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize("step", ["_target", "_marker", "commit"])
def test_killed_at(spark: SparkSession, tmp_path: Path, step: str) -> None:
    lake = tmp_path / "lake"
    table = pt.Lake(str(lake)).create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])
    given = spark.range(300).selectExpr("id", "int(id % 3) as p", "id as k")
    table.append(given.where("id < 150"))
    table.evolve(add=[pt.bucket("id", 2)])
    table.append(given.where("id >= 150"))
    before, version, files = rows(table.read()), table.version, {found.path for found in listed(table)}

    kill_at(step, lake, tmp_path / "reached")
    assert table.version == version
    assert agreed(table, jvm_session(spark, lake)) == before
    left = {f"{path}" for path in lake.rglob("*.parquet")} - {path.removeprefix("file://") for path in files}
    assert left, "it had begun"

    # The same again, by one who lives: no row twice, none lost.
    table.merge(spark.sql(SOURCE), ON, *CLAUSES)
    kept = {i: i for i in range(300)}
    kept |= {i: i + 1000 for i in range(100, 400) if i % 10}
    kept |= {i: -1 for i in range(300, 400) if i % 10 == 0}
    after = [(i, i % 3, k) for i, k in kept.items() if not (100 <= i < 300 and i % 10 == 0)]
    assert sorted(agreed(table)) == sorted(after)

    # What the killed one left goes, and nothing else.
    assert table.remove_orphans() == []
    assert left <= {path.removeprefix("file://") for path in table.remove_orphans(timedelta(0))}
    assert sorted(agreed(table, jvm_session(spark, lake))) == sorted(after)
