"""Parquet files as DataFrames, with a cache of those that Spark has loaded.

To read five files, Spark lists them, creates a relation and analyses the schema, which takes as long as the rest of a
small read. Files of a table never change, so the DataFrame is kept for the next read of the same files (ADR 22). Files
that others may replace under the same path have revisions that distinguish their contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from partita.cache import LruCache
from partita.spark.session_state import override_settings, session_state
from partita.spark.sql_text import alias_names, has_variable, quote_identifier

ALWAYS_TRUE = "true"
"""The condition in SQL of a read that keeps every row."""

_MAX_CACHED_FILES, _MAX_CACHED_READERS = 20_000, 100
_FrameCache: TypeAlias = LruCache[tuple[StructType | str, tuple[str, ...], str, tuple[str, ...]], DataFrame]
_ReaderCache: TypeAlias = LruCache[StructType | str, DataFrameReader]

_LISTING_SETTINGS = {
    # Spark lists more paths than the threshold in a job with a task for each, which takes ten times as long for files
    # that are given one by one.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
_LISTING_THRESHOLD = 32
"""Spark's default of that threshold."""
_READ_OPTIONS = {
    "__globPaths__": "false", "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED",
    # A session may be set to skip missing and corrupt files; a table must not lose rows by that.
    "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false",
}  # fmt: skip


def read_parquet(
    spark: SparkSession,
    schema: StructType | str,
    locations: Sequence[str],
    where: str = ALWAYS_TRUE,
    *,
    revisions: tuple[str, ...] = (),
) -> DataFrame:
    """Return the rows of these Parquet files that a condition in SQL keeps, from the session's cache if it has them.

    The columns are named as `scan_column_names` says. Callers must select them under new names, because Spark can't
    join two uses of the same DataFrame.
    """
    cache: _FrameCache = session_state(spark, "parquet_frames", lambda: LruCache(_MAX_CACHED_FILES))
    key = schema, tuple(locations), where, revisions
    cached_reader = cache.get(key)
    if cached_reader is not None:
        return cached_reader
    with override_settings(spark, _LISTING_SETTINGS if len(locations) > _LISTING_THRESHOLD else {}):
        rows = _alias_columns(_parquet_reader(spark, schema).parquet(*locations), schema)
    return cache.put(key, rows if where == ALWAYS_TRUE else rows.where(where), len(locations))


def _parquet_reader(spark: SparkSession, schema: StructType | str) -> DataFrameReader:
    """Return a reader for a schema; it is cached too, because creating one takes a dozen calls to the JVM."""
    cache: _ReaderCache = session_state(spark, "parquet_readers", lambda: LruCache(_MAX_CACHED_READERS))
    return cache.get(schema) or cache.put(schema, spark.read.schema(schema).options(**_READ_OPTIONS), 1)


def scan_column_names(schema: StructType) -> list[str]:
    """Return the names that `read_parquet` gives the columns of a schema.

    A column has an alias if its name means something else in SQL text: Spark has a column `_metadata` of its own, and
    replaces `${...}`.
    """
    return alias_names(schema.fieldNames(), _is_plain_name)


def _is_plain_name(name: str) -> bool:
    return not has_variable(name) and name.lower() != _METADATA_COLUMN and not name.lower().startswith("__partita_")


_METADATA_COLUMN = "_metadata"


def _alias_columns(rows: DataFrame, schema: StructType | str) -> DataFrame:
    if isinstance(schema, str) or all(map(_is_plain_name, schema.fieldNames())):
        return rows
    names = scan_column_names(schema)
    if not any(name.lower() == _METADATA_COLUMN for name in schema.fieldNames()):
        return rows.toDF(*names)
    columns = (F.col(quote_identifier(old)).alias(new) for old, new in zip(schema.fieldNames(), names, strict=True))
    return rows.select(*columns, rows.metadataColumn(_METADATA_COLUMN).alias(_METADATA_COLUMN))
