"""What every test may ask for: one Spark for each process, Spark Connect in one of its own, Hypothesis profiles."""

from __future__ import annotations

import fcntl
import gc
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import SparkSession

    from partita.lake import Lake

JVM_FIXTURES = {"spark", "run_in_connect"}
CONNECTOR_PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    # What the runtime's JDBC catalog talks to SQLite and Postgres with.
    "org.xerial:sqlite-jdbc:3.46.1.3",
    "org.postgresql:postgresql:42.7.7",
)
CONNECTOR_EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
CONNECTOR_CONFIG = {
    "spark.jars.packages": ",".join(CONNECTOR_PACKAGES),
    "spark.sql.extensions": ",".join(CONNECTOR_EXTENSIONS),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # It replays a log in 50 tasks unless told otherwise; the tests' have a few lines.
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""The connectors that run on the JVM, which Partita doesn't need; the first run fetches them."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark interprets plans, as compiling one takes longer than running it over a few rows.

Vectors run compiled too (`tests.spark.frames.session_mode`), and so do all operations in `tests/sessions`.
"""

# JVMs that run for minutes over a few rows spend their time on compiling and on threads that collect garbage.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")

# A test run gives one answer for one tree, so `quick` and `default` draw the same examples each time.
# `prove` draws new ones, and prints what replays a failure.
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
settings.register_profile("default", max_examples=100, deadline=None, derandomize=True)
settings.register_profile(
    "prove",
    max_examples=5_000,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and exempt what lives until the end from it.

    Imported modules and collected tests are hundreds of thousands of objects, which each full collection would visit.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark `jvm` whatever uses a fixture that starts one, directly or through another fixture."""
    for item in items:
        if JVM_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.jvm)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One classic Spark session, as Partita makes it, shared by all, with the connectors that ours is held to."""
    from partita.spark import spark_session

    with _session_start_lock(), pytest.MonkeyPatch.context() as environment:
        # Where the JVM finds the module of the workers' daemon.
        environment.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        running = spark_session(
            "partita-tests",
            **{
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.files.minPartitionNum": "2",
                **INTERPRETED,
                "spark.python.daemon.module": "tests.preloaded_workers",
                **CONNECTOR_CONFIG,
            },
        )
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def _restore_active_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the shared session the active one again after each test: `createDataFrame` of another one replaces it."""
    yield
    if "spark" in request.fixturenames:
        shared: SparkSession = request.getfixturevalue("spark")
        if type(shared).active() is not shared:
            shared.createDataFrame([], "x int")


@contextmanager
def _session_start_lock() -> Iterator[None]:
    """One process at a time: the first run fetches the connectors, and Ivy's cache takes one writer."""
    with (Path(tempfile.gettempdir()) / "partita-tests-spark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class RunInConnect(Protocol):
    """Runs a script under Spark Connect; returns what it printed."""

    def __call__(self, script: Path, *args: str) -> str: ...


@pytest.fixture
def run_in_connect(tmp_path: Path) -> RunInConnect:
    """Run a Python script in a process whose `SparkSession.builder.getOrCreate()` is a local Spark Connect.

    A process holds either a classic session or a Connect one, and this one holds the classic `spark`. The script runs
    in an empty folder, with warnings as errors; leaving with anything but 0 fails the test and shows both streams.
    """

    def run(script: Path, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(script), *args],
            # While Spark takes itself to be tested, its server has a port of its own and not the one that all have.
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[1]),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_REMOTE": "local[2]",
                "SPARK_TESTING": "1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script} left with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake."""
    from partita.lake import Lake

    return Lake(str(tmp_path / "lake"))
