"""Every operation on every format works in any session, with nothing set by hand.

People come with sessions of their own, and Partita's tests otherwise run in one that Partita made. Each session here is
made by the test, in a process of its own, for a process has one JVM and one default session. `operations.py` runs the
same operations in each, and compares what they leave with a model.

Python workers run what a shell that has no environment activated would: the `python3` of the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EXTENSIONS, PACKAGES
from tests.sessions.operations import FORMATS, OPERATIONS
from tests.spark.standalone import standalone

SCRIPT = Path(__file__).with_name("operations.py")
ROOT = Path(__file__).parents[2]
_SQL = "spark.sql."
BATCH_SIZE = f"{_SQL}execution.arrow.maxRecordsPerBatch"
UNUSUAL = {
    f"{_SQL}session.timeZone": "Asia/Kathmandu",
    f"{_SQL}ansi.enabled": "false",
    f"{_SQL}caseSensitive": "true",
    f"{_SQL}legacy.timeParserPolicy": "LEGACY",
    f"{_SQL}adaptive.enabled": "false",
    BATCH_SIZE: "-1",
    f"{_SQL}sources.partitionOverwriteMode": "dynamic",
    f"{_SQL}storeAssignmentPolicy": "LEGACY",
    # Without adaptive execution each shuffle has so many tasks.
    f"{_SQL}shuffle.partitions": "3",
}
SESSIONS: dict[str, dict[str, str]] = {
    "defaults": {},
    "berlin": {f"{_SQL}session.timeZone": "Europe/Berlin"},
    "unusual": UNUSUAL,
}
LONG_SESSIONS: dict[str, dict[str, str]] = {
    "los angeles": {f"{_SQL}session.timeZone": "America/Los_Angeles"},
    "fixed offset": {f"{_SQL}session.timeZone": "+05:30"},
    "ansi off": {f"{_SQL}ansi.enabled": "false"},
    "case sensitive": {f"{_SQL}caseSensitive": "true"},
    "legacy time parser": {f"{_SQL}legacy.timeParserPolicy": "LEGACY"},
    "adaptive execution off": {f"{_SQL}adaptive.enabled": "false"},
    "batches of one row": {BATCH_SIZE: "1"},
    "batches without limit": {BATCH_SIZE: "-1"},
    "batches of no row": {BATCH_SIZE: "0"},
    "dynamic overwrite": {f"{_SQL}sources.partitionOverwriteMode": "dynamic"},
    "legacy store assignment": {f"{_SQL}storeAssignmentPolicy": "LEGACY"},
    "delta-spark": {
        "spark.jars.packages": PACKAGES[0],
        f"{_SQL}extensions": EXTENSIONS[0],
        f"{_SQL}catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg extensions": {"spark.jars.packages": PACKAGES[1], f"{_SQL}extensions": EXTENSIONS[1]},
    "local cluster": {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"},
}


@pytest.mark.jvm
@pytest.mark.parametrize("name", SESSIONS)
def test_session(tmp_path: Path, name: str) -> None:
    check(run(tmp_path, SESSIONS[name]))


@pytest.mark.jvm
def test_connect(tmp_path: Path) -> None:
    """A server that the process starts; while Spark takes itself to be tested, it has a port of its own."""
    check(run(tmp_path, {}, SPARK_REMOTE="local[2]", SPARK_TESTING="1"))


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.parametrize("name", LONG_SESSIONS)
def test_long_session(tmp_path: Path, name: str) -> None:
    check(run(tmp_path, LONG_SESSIONS[name], **_own_python(name)))


@pytest.mark.jvm
@pytest.mark.long
def test_connect_with_everything_unusual(tmp_path: Path) -> None:
    check(run(tmp_path, UNUSUAL, SPARK_REMOTE="local[2]", SPARK_TESTING="1"))


@pytest.mark.jvm
@pytest.mark.long
def test_standalone(tmp_path: Path) -> None:
    with standalone(tmp_path, 2) as url:
        settings = {"spark.master": url, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
        check(run(tmp_path, settings, PYSPARK_PYTHON=sys.executable))


def _own_python(name: str) -> dict[str, str]:
    """The workers of a cluster have their own Python, and it is theirs to have pyarrow."""
    return {"PYSPARK_PYTHON": sys.executable} if name == "local cluster" else {}


def run(folder: Path, settings: dict[str, str], **env: str) -> dict[str, Any]:
    """What `operations.py` says of a session with those settings and variables."""
    plain = {key: value for key, value in os.environ.items() if key not in ("PYSPARK_PYTHON", "SPARK_REMOTE")}
    # The Python that the environment is made from has none of its packages.
    path = f"{Path(sys.base_prefix, 'bin')}{os.pathsep}{plain.get('PATH', '')}"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder / "lake"), *(f"{key}={value}" for key, value in settings.items())],
        env={**plain, "PATH": path, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **env},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def check(found: dict[str, Any]) -> None:
    """Every cell is right, and the session has the settings that it had."""
    assert sorted(found["formats"]) == sorted(FORMATS)
    for form, cells in found["formats"].items():
        assert list(cells) == [operation.__name__ for operation in OPERATIONS], form
        wrong = {name: problem for name, problem in cells.items() if problem is not None}
        assert not wrong, f"{form}:\n" + "\n".join(f"{name}: {problem}" for name, problem in wrong.items())
    assert found["settings"] == []
