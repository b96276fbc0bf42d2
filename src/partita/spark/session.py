"""The Spark session that Partita uses: the one that runs, or else a local one with the same settings everywhere.

No setting is required: tables work in every session that a user starts, classic or Spark Connect (`tests/sessions`).
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from warnings import catch_warnings, filterwarnings

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from partita.errors import JavaMissing, PartitaError, value_repr
from partita.untrusted_input import is_unicode


def running_session() -> SparkSession | None:
    """Return the session of this thread, or else of the process; None if none runs. It never starts one."""
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return session if is_remote() or _has_context() else None


def _has_context() -> bool:
    """Whether the Spark context of this process runs; a session remains when only its context was stopped."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None  # noqa: SLF001 - it has no other name


def require_session() -> None:
    """Raise `PartitaError` if no session runs that could make a Column."""
    if not is_remote() and not _has_context():
        raise PartitaError("a Column needs a running Spark session; start one with partita.spark.spark_session()")


_time_zone: ContextVar[str] = ContextVar("time_zone", default="UTC")


@contextmanager
def new_session_time_zone(time_zone: str) -> Iterator[None]:
    """Start new sessions in this block with that time zone instead of UTC; a running one keeps its own."""
    token = _time_zone.set(time_zone)
    try:
        yield
    finally:
        _time_zone.reset(token)


def spark_session(app_name: str = "partita", **conf: str | float | bool) -> SparkSession:
    """Return the running session, or else start one in this process: all cores, UTC, UTF-8, only on the loopback.

    `conf` are settings of Spark (`**{"spark.driver.memory": "4g"}`), which take precedence over Partita's. They are set
    in a running session too, and Spark refuses those that can't change any more. If `SPARK_REMOTE` names a Spark
    Connect server, the session is one of that server. With `spark.master` it is one of a cluster, which must reach this
    process: then no address is set, and the Python of the workers is `PYSPARK_PYTHON`.

    Raises `JavaMissing` if a JVM must be started and can't be, and `PartitaError` for a name that is no text, or a
    setting that is no text, number or bool.
    """
    if not is_unicode(app_name):
        raise PartitaError(f"app_name is a text, not {value_repr(app_name)}")
    settings = _setting_texts(conf)
    running = running_session()
    if running is not None:
        for key, value in settings.items():
            running.conf.set(key, value)
        return running
    builder = SparkSession.builder.appName(app_name)
    is_local = settings.get("spark.master", "local").startswith("local")
    for key, value in {**_session_settings(is_local), **settings}.items():
        builder = builder.config(key, value)
    _silence_loggers()
    if _is_connect():
        if os.environ.get("SPARK_REMOTE", "").startswith("local"):
            # PySpark starts such a server here; its workers need the packages of this process.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return builder.getOrCreate()
    _require_java()
    with _jvm_environment(is_local):
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise JavaMissing from error


def _setting_texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings as Spark takes them; raise `PartitaError` for one that is no text, number or bool."""
    texts = {}
    for key, value in settings.items():
        is_number = isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 64)
        if not is_unicode(key) or not (is_number or is_unicode(value)):
            raise PartitaError(f"a setting is a text, number or bool; {value_repr(key)} is {value_repr(value)}")
        texts[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


_LOOPBACK = "127.0.0.1"

_QUERY_SETTINGS = {
    # The default is INT96, which is deprecated and carries no statistics to skip row groups by.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def _session_settings(is_local: bool) -> dict[str, str]:
    """Return the settings of a new session; a Connect server takes only those of queries, a cluster no addresses."""
    query_settings = {**_QUERY_SETTINGS, "spark.sql.session.timeZone": _time_zone.get()}
    if _is_connect():
        return query_settings
    log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
    driver_settings = {
        **query_settings,
        "spark.ui.showConsoleProgress": "false",
        # Java 17 takes the default encoding of files from the locale.
        "spark.driver.extraJavaOptions": f"-Dfile.encoding=UTF-8 -Dlog4j2.configurationFile={log_settings}",
    }
    if not is_local:
        return {**driver_settings, "spark.executor.extraJavaOptions": "-Dfile.encoding=UTF-8"}
    cores = os.cpu_count() or 1
    return {
        **driver_settings,
        "spark.master": f"local[{cores}]",
        # The default of 200 is for clusters: a local job would spend its time on starting tasks.
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Spark packs the largest files first; with one task for each core, a single task would read nearly all of a
        # few small files.
        "spark.sql.files.minPartitionNum": str(2 * cores),
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
    }


def _is_connect() -> bool:
    return is_remote() or "SPARK_REMOTE" in os.environ


@contextmanager
def _jvm_environment(is_local: bool) -> Iterator[None]:
    """Set the environment that the JVM inherits when it starts; the variables for Python workers stay set after it."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    # Java takes the encoding of file names from the locale, and warns about host names that don't resolve.
    variables = ({"SPARK_LOCAL_IP": _LOOPBACK} if is_local else {}) | (
        {} if _has_utf8_locale() else {"LC_ALL": "C.UTF-8"}
    )
    original = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        with catch_warnings():
            # Lance warns about each fork of a process that has imported it; this fork becomes Java at once.
            filterwarnings("ignore", message="lance is not fork-safe")
            yield
    finally:
        for name, value in original.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _has_utf8_locale() -> bool:
    locale = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "C")
    return locale.lower().replace("-", "").endswith("utf8")


def _silence_loggers() -> None:
    # PySpark logs each failed query as a page of JSON, and py4j each broken connection; both raise an error too.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        raise JavaMissing
