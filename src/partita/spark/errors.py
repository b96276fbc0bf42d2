"""Errors of Spark as errors of Partita.

Spark reports failures of tasks as text, so this module finds out from the text what happened: a constraint that a row
violates, an error of Partita's that an executor raised, a Python worker or a file system that is missing, a data file
that can't be read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException, PythonException

from partita import errors
from partita.errors import ConstraintError, PartitaError, PartitionValueError, PredicateError, StorageError, TableError
from partita.spark.constraints import VIOLATION_PREFIX

_NEWLINE = "\n"
_SQLSTATE_LABEL = " SQLSTATE: "
_PARTITION_VALUE_ERROR = re.compile(
    r"partition column '(?P<column>.*?)': expected (?P<expected>.*?), found (?P<found>.*?)(?: SQLSTATE|$)"
)
"""The text of a `PartitionValueError`."""


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Raise errors of Spark in this block as subclasses of `PartitaError`."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise TableError(
                f"a file of the table is gone: {_missing_path(error)}; restore it, or the table"
            ) from error
        raise PredicateError(f"Spark can't analyse the expression: {_first_line(str(error))}") from error
    except (PySparkException, Py4JError) as error:
        raise _translated_error(error) from error


def _translated_error(error: PySparkException | Py4JError) -> PartitaError:
    """Return the error of Partita's that the text of a failed query stands for."""
    text = str(error)
    hint = missing_file_system_hint(text)
    if hint is not None:
        return StorageError(hint)
    for prefix in (VIOLATION_PREFIX, "ConstraintError: "):
        if prefix in text:
            problem = text.partition(prefix)[2].partition(_NEWLINE)[0].partition(_SQLSTATE_LABEL)[0]
            return ConstraintError(problem.strip())
    value = _PARTITION_VALUE_ERROR.search(text)
    if value is not None:
        return PartitionValueError(value["column"], value["expected"], value["found"])
    executor_error = _error_from_executor(text)
    if executor_error is not None:
        return executor_error
    mismatch = _PYTHON_MISMATCH.search(text)
    if mismatch is not None:
        reason = mismatch[0].partition(_SQLSTATE_LABEL)[0].strip()
        return TableError(
            f"Spark's Python workers can't run what Partita sends them ({reason}); before the "
            "session starts, set the environment variable PYSPARK_PYTHON (with spark-submit: spark.pyspark.python) "
            f"to a Python {sys.version_info[0]}.{sys.version_info[1]} that has pyarrow, such as {sys.executable}"
        )
    unreadable = _UNREADABLE_FILE.search(text)
    if unreadable is not None:
        return TableError(
            f"a data file of the table is damaged or gone, and nothing was changed: {unreadable['path']}: "
            f"{_jvm_problem(text)}"
        )
    if isinstance(error, PythonException):
        lines = [line for line in text.splitlines() if line.strip()]
        return TableError(f"an executor failed: {lines[-1].strip()}")
    return TableError(f"Spark failed, and nothing was changed: {_jvm_problem(text)}")


def _missing_path(error: AnalysisException) -> str:
    """Return the path that Spark didn't find."""
    path = (error.getMessageParameters() or {}).get("path")
    return path or _first_line(str(error))


_PYTHON_MISMATCH = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*|(?:ModuleNotFoundError|ImportError)[^\n]*|"
    r"\[(?:UNSUPPORTED_PACKAGE_VERSION|PACKAGE_NOT_INSTALLED)\][^\n]*|Cannot run program [^\n]*"
)
"""The message of a worker whose Python has another version or lacks a package, or of a Python that doesn't start."""
_PARTITA_ERROR = re.compile(r"^partita\.errors\.(?P<name>\w+): (?P<text>.*)", re.MULTILINE | re.DOTALL)


def _error_from_executor(text: str) -> PartitaError | None:
    """Return the error of Partita's that a worker's traceback ends with, by its class and its message.

    A class whose constructor takes fields, which the text doesn't have, is replaced by its nearest base class that
    takes a message.
    """
    match = _PARTITA_ERROR.search(text)
    error_class = getattr(errors, match["name"], None) if match is not None else None
    if match is None or not isinstance(error_class, type) or not issubclass(error_class, PartitaError):
        return None
    plain_class = next(base for base in error_class.__mro__ if "__init__" not in vars(base))
    message = match["text"].partition("\n\nJVM stacktrace")[0].partition(_SQLSTATE_LABEL)[0]
    message = message.partition("\n\tat ")[0].strip()
    return plain_class(f"on an executor: {message}") if issubclass(plain_class, PartitaError) else TableError(message)


_UNREADABLE_FILE = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (?P<path>\S+?)\.?\s")
"""Spark's message for a file of a scan that it can't read."""
_LOST_TASK = re.compile(r"most recent failure: (?:Lost task [^:]*: )?(?P<reason>.*)")
_CAUSE = re.compile(r"^Caused by: (?P<reason>.*)", re.MULTILINE)


def _jvm_problem(text: str) -> str:
    """Return why a task failed and the innermost cause, from the text of a JVM error."""
    lost_task, causes = _LOST_TASK.search(text), _CAUSE.findall(text)
    if lost_task is None:
        return causes[-1].strip() if causes else _first_line(text)
    return "; ".join(dict.fromkeys([lost_task["reason"].strip(), *causes[-1:]]))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "without a message")


_MISSING_FILE_SYSTEM_ERROR = re.compile(
    r"Class (?P<class>org\.apache\.hadoop\.fs\.[\w.]+|com\.google\.[\w.]+) not found"
    r"|No FileSystem for scheme:? \"?(?P<scheme>\w+)"
)
_CONNECTOR_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "azure": "org.apache.hadoop:hadoop-azure",
    "google": "com.google.cloud.bigdataoss:gcs-connector",
}
"""The packages by which Spark's Hadoop layer reaches object stores."""
_STORES_BY_SCHEME = {"s3": "s3a", "s3n": "s3a", "abfs": "azure", "abfss": "azure", "wasbs": "azure", "gs": "google"}


def missing_file_system_hint(text: str) -> str | None:
    """Return how to give Spark the classes of an object store, if the text of an error says that it lacks them."""
    match = _MISSING_FILE_SYSTEM_ERROR.search(text)
    if match is None:
        return None
    class_name, scheme = match["class"] or "", match["scheme"] or ""
    store = next((name for name in _CONNECTOR_PACKAGES if name in class_name), _STORES_BY_SCHEME.get(scheme, scheme))
    package = _CONNECTOR_PACKAGES.get(store)
    if package is None:
        return f"Spark has no file system for {scheme or class_name}; add its package by spark.jars.packages"
    version = _hadoop_version() if package.startswith("org.apache.hadoop") else None
    exact = f"{package}:{version or '<the version of its Hadoop>'}" if store != "google" else f"{package}:<version>"
    return (
        f"Spark can't reach the object store: {class_name or scheme} is not among its classes. Start the session with "
        f"spark.jars.packages={exact}; on a Spark Connect server or a cluster, it is the server's setting"
    )


def _hadoop_version() -> str | None:
    """Return the version of Hadoop that the Spark of this process ships; None if it ships none."""
    jars = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    return next((jar.stem.removeprefix("hadoop-client-api-") for jar in jars), None)
