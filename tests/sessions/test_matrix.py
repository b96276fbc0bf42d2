"""Every operation on every format works in any Spark session, without settings of Partita's.

Users have sessions of their own; the other tests run in one that Partita started. Each test here starts a session in a
process of its own, because a process has one JVM and one default session. `operations.py` runs the same operations in
each, and compares the tables with a model. A normal run starts one with Spark's defaults, and `test_connect.py` one of
Spark Connect with everything unusual. A long run starts a session of each kind.

Python workers run the `python3` of the machine, as from a shell without an activated environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from partita.formats.registry import FORMATS
from tests.conftest import CONNECTOR_EXTENSIONS, CONNECTOR_PACKAGES
from tests.sessions.operations import OPERATIONS
from tests.spark.standalone_cluster import run_standalone_cluster

SCRIPT = Path(__file__).with_name("operations.py")
ROOT = Path(__file__).parents[2]
_SQL = "spark.sql."
BATCH_SIZE = f"{_SQL}execution.arrow.maxRecordsPerBatch"
UNUSUAL = {
    # Its clocks go forward between the times of the rows.
    f"{_SQL}session.timeZone": "Europe/Berlin",
    f"{_SQL}ansi.enabled": "false",
    f"{_SQL}caseSensitive": "true",
    f"{_SQL}legacy.timeParserPolicy": "LEGACY",
    f"{_SQL}adaptive.enabled": "false",
    BATCH_SIZE: "-1",
    f"{_SQL}sources.partitionOverwriteMode": "dynamic",
    f"{_SQL}storeAssignmentPolicy": "LEGACY",
    # Without adaptive execution each shuffle has this number of tasks.
    f"{_SQL}shuffle.partitions": "3",
}
LONG_SESSIONS: dict[str, dict[str, str]] = {
    "unusual": UNUSUAL,
    "berlin": {f"{_SQL}session.timeZone": "Europe/Berlin"},
    "unusual, kathmandu": {**UNUSUAL, f"{_SQL}session.timeZone": "Asia/Kathmandu"},
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
        "spark.jars.packages": CONNECTOR_PACKAGES[0],
        f"{_SQL}extensions": CONNECTOR_EXTENSIONS[0],
        f"{_SQL}catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg extensions": {"spark.jars.packages": CONNECTOR_PACKAGES[1], f"{_SQL}extensions": CONNECTOR_EXTENSIONS[1]},
    "local cluster": {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"},
}


@pytest.mark.jvm
def test_default_session(tmp_path: Path) -> None:
    (report,) = run_operations(tmp_path, {})
    check_report(report, "defaults")


@pytest.mark.jvm
@pytest.mark.long
def test_settings_that_change_in_a_session(tmp_path: Path) -> None:
    sessions: list[dict[str, str]] = [UNUSUAL, {}]
    for report in run_operations(tmp_path, *sessions):
        check_report(report, "unusual, then defaults")


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.parametrize("name", LONG_SESSIONS)
def test_long_session(tmp_path: Path, name: str) -> None:
    (report,) = run_operations(tmp_path, LONG_SESSIONS[name], **_cluster_environment(name))
    check_report(report, name)


@pytest.mark.jvm
@pytest.mark.long
def test_standalone(tmp_path: Path) -> None:
    with run_standalone_cluster(tmp_path, 2) as url:
        settings = {"spark.master": url, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
        (report,) = run_operations(tmp_path, settings, PYSPARK_PYTHON=sys.executable)
    check_report(report, "standalone")


def _cluster_environment(name: str) -> dict[str, str]:
    """Return the environment of a cluster, whose workers need a Python with pyarrow."""
    return {"PYSPARK_PYTHON": sys.executable} if name == "local cluster" else {}


def run_operations(folder: Path, *settings: dict[str, str], **env: str) -> list[dict[str, Any]]:
    """Run `operations.py` in a session that has these settings in turn, and return its reports.

    `env` are environment variables of the process.
    """
    environment = {key: value for key, value in os.environ.items() if key not in ("PYSPARK_PYTHON", "SPARK_REMOTE")}
    # The Python from which the virtual environment was created has none of its packages.
    path = f"{Path(sys.base_prefix, 'bin')}{os.pathsep}{environment.get('PATH', '')}"
    process = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder / "lake"), *map(json.dumps, settings)],
        env={**environment, "PATH": path, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **env},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr[-5000:]}"
    reports: list[dict[str, Any]] = json.loads(process.stdout.strip().splitlines()[-1])
    return reports


def check_report(report: dict[str, Any], session: str) -> None:
    """Check that every operation succeeded, and that the session kept its settings."""
    assert sorted(report["formats"]) == sorted(FORMATS), session
    for format_, results in report["formats"].items():
        assert list(results) == [operation.__name__ for operation in OPERATIONS], (session, format_)
        problems = {name: problem for name, problem in results.items() if problem is not None}
        assert not problems, f"{session}, {format_}:\n" + "\n".join(
            f"{name}: {problem}" for name, problem in problems.items()
        )
    assert report["settings"] == [], session
