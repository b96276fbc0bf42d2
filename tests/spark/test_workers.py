"""Tasks in Python workers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from partita.spark.workers import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = StructType([StructField("archives", LongType()), StructField("read_again", LongType())])


def count_archives(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many archives the worker has modules from, and how many of them Python would read again."""
    for _ in batches:
        found = [finder for finder in sys.path_importer_cache.values() if isinstance(finder, zipimporter)]
        again = [finder for finder in found if "invalidate_caches" not in vars(finder)]
        yield pa.RecordBatch.from_pydict({"archives": [len(found)], "read_again": [len(again)]})


def test_archives_are_not_read_again_for_each_task(spark: SparkSession) -> None:
    counts = map_in_arrow(spark.range(0, 4, 1, 4), count_archives, COUNTS).toArrow()
    assert counts.num_rows == 4
    # PySpark's own archives, and the jars of the connectors.
    assert min(counts["archives"].to_pylist()) > 4
    assert counts["read_again"].to_pylist() == [0, 0, 0, 0]
