"""Tasks in Python workers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from zipimport import zipimporter

import pyarrow as pa
import pytest
from pyspark.errors import PythonException, SparkRuntimeException
from pyspark.sql.types import LongType, StructField, StructType

from partita.errors import TableError
from partita.spark.errors import translate_spark_errors
from partita.spark.workers import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = StructType([StructField("archives", LongType()), StructField("read_again", LongType())])


def count_archives(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the archives that the worker has modules from, and those that Python would read again."""
    for _ in batches:
        finders = [finder for finder in sys.path_importer_cache.values() if isinstance(finder, zipimporter)]
        unpatched = [finder for finder in finders if "invalidate_caches" not in vars(finder)]
        yield pa.RecordBatch.from_pydict({"archives": [len(finders)], "read_again": [len(unpatched)]})


def test_archives_are_not_read_again_for_each_task(spark: SparkSession) -> None:
    counts = map_in_arrow(spark.range(0, 4, 1, 4), count_archives, COUNTS).toArrow()
    assert counts.num_rows == 4
    # PySpark's own archives, and the jars of the connectors.
    assert min(counts["archives"].to_pylist()) > 4
    assert counts["read_again"].to_pylist() == [0, 0, 0, 0]


def test_entries_of_the_path_that_are_no_folders(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, "x" * 5000, "a\0b", "/no/such/folder"])
    assert map_in_arrow(spark.range(0, 4, 1, 4), count_archives, COUNTS).toArrow().num_rows == 4


@pytest.mark.parametrize(
    "problem",
    [
        PythonException("Traceback ...\nModuleNotFoundError: No module named 'pyarrow'"),
        PythonException(
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11"
        ),
        SparkRuntimeException('java.io.IOException: Cannot run program "python3": error=2, No such file or directory'),
    ],
    ids=["package", "version", "none"],
)
def test_a_python_that_lacks_something_is_named(problem: Exception) -> None:
    with (
        pytest.raises(TableError, match=r"set the environment variable PYSPARK_PYTHON .*spark\.pyspark\.python"),
        translate_spark_errors(),
    ):
        raise problem
