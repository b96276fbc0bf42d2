"""The Spark that Partita starts by itself: local, quiet, and the same on every machine.

None of its settings is needed: tables work in every session that a user makes, classic or Spark Connect
(`tests/sessions`).
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from warnings import catch_warnings, filterwarnings

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from partita.errors import JavaMissing


def running_session() -> SparkSession | None:
    """The session of this thread, or else that of the process; None where none runs, and then none is started."""
    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return found if is_remote() or _has_context() else None


def _has_context() -> bool:
    """Whether the Spark of this process runs: a session stays after its context was stopped alone."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None  # noqa: SLF001 - it has no other name


_time_zone: ContextVar[str] = ContextVar("time_zone", default="UTC")


@contextmanager
def started_in(time_zone: str) -> Iterator[None]:
    """A session that is started in this block has that time zone, and not UTC; one that runs keeps its own."""
    before = _time_zone.set(time_zone)
    try:
        yield
    finally:
        _time_zone.reset(before)


def session(app_name: str = "partita", **conf: str) -> SparkSession:
    """The session that is running, or else a new one in this process: all cores, UTC, UTF-8, no ports to the outside.

    `conf` are settings of Spark (`**{"spark.driver.memory": "4g"}`); they win over Partita's. A session that runs
    already keeps its own settings but for these, and Spark refuses those that can't change any more. Where
    `SPARK_REMOTE` names a Spark Connect server, that one is used. With `spark.master` the work is done on a cluster,
    which must reach this process, so then nothing is said of ports; its Python is `PYSPARK_PYTHON`.
    """
    running = running_session()
    if running is not None:
        for key, value in conf.items():
            running.conf.set(key, value)
        return running
    builder = SparkSession.builder.appName(app_name)
    is_local = conf.get("spark.master", "local").startswith("local")
    for key, value in {**_settings(is_local), **conf}.items():
        builder = builder.config(key, value)
    _quiet_python()
    if _is_connect():
        if os.environ.get("SPARK_REMOTE", "").startswith("local"):
            # Such a server is started here, and its workers are to have the packages that this process has.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return builder.getOrCreate()
    _require_java()
    with _environment(is_local):
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise JavaMissing from error


_LOOPBACK = "127.0.0.1"

_QUERY = {
    # The default is INT96, which is deprecated and carries no statistics to skip row groups by.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def _settings(is_local: bool) -> dict[str, str]:
    """What Partita sets: for a Connect server only what a query may set, for a cluster only what holds anywhere."""
    query = {**_QUERY, "spark.sql.session.timeZone": _time_zone.get()}
    if _is_connect():
        return query
    log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
    anywhere = {
        **query,
        "spark.ui.showConsoleProgress": "false",
        # Java 17 takes the encoding of files from the locale.
        "spark.driver.extraJavaOptions": f"-Dfile.encoding=UTF-8 -Dlog4j2.configurationFile={log_settings}",
    }
    if not is_local:
        return {**anywhere, "spark.executor.extraJavaOptions": "-Dfile.encoding=UTF-8"}
    cores = os.cpu_count() or 1
    return {
        **anywhere,
        "spark.master": f"local[{cores}]",
        # 200, the default, is for clusters: local jobs would spend their time on starting tasks.
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Spark fills a task with the largest files first; with a task for each core, one would read nearly all of a few
        # small ones.
        "spark.sql.files.minPartitionNum": str(2 * cores),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
    }


def _is_connect() -> bool:
    return is_remote() or "SPARK_REMOTE" in os.environ


@contextmanager
def _environment(is_local: bool) -> Iterator[None]:
    """What the JVM inherits as it starts; the variables that Python workers need stay."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    # Java takes the encoding of file names from the locale alone, and warns of host names that don't resolve.
    inherited = ({"SPARK_LOCAL_IP": _LOOPBACK} if is_local else {}) | ({} if _is_utf8() else {"LC_ALL": "C.UTF-8"})
    before = {name: os.environ.get(name) for name in inherited}
    os.environ.update(inherited)
    try:
        with catch_warnings():
            # Lance warns of each fork of a process that has it loaded; what is forked here runs Java at once.
            filterwarnings("ignore", message="lance is not fork-safe")
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _is_utf8() -> bool:
    named = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "C")
    return named.lower().replace("-", "").endswith("utf8")


def _quiet_python() -> None:
    # PySpark logs each failed query as a page of JSON, and py4j each broken connection; both raise the same besides.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        raise JavaMissing
