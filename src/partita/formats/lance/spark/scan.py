"""Leaves of a Lance table as a DataFrame: each task reads its pack of them, through Lance.

What a pack is and how it is read is the format's: it gives a `Reader`, which travels to the executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from partita.errors import SchemaError
from partita.spark.arrow_types import spark_arrow_type
from partita.spark.positions import FILE_INDEX, ROW_INDEX
from partita.spark.workers import map_in_arrow

DISTANCE_COLUMN = "_distance"


class PackReader(Protocol):
    """How a pack is read."""

    def read(self, pack: int) -> Iterator[pa.RecordBatch]:
        """The rows of that pack."""


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns of an Arrow schema as Spark has them; a type that it has none for is a `SchemaError`."""
    fields: list[StructField] = []
    for f in schema:
        try:
            one = from_arrow_schema(pa.schema([f.with_type(spark_arrow_type(f.type))]), prefer_timestamp_ntz=True)
        except Exception as error:  # PySpark raises of its own kind
            raise SchemaError(f"column {f.name!r}: Spark has no type for {f.type}") from error
        fields.append(StructField(f.name, one.fields[0].dataType, f.nullable))
    return StructType(fields)


def arrow_schema(schema: StructType, *, positions: bool = False) -> pa.Schema:
    """The Arrow types in which Spark takes rows of a schema."""
    return to_arrow_schema(schema_with_positions(schema) if positions else schema)


def schema_with_positions(schema: StructType) -> StructType:
    """A schema with the columns that say where a row is from."""
    return StructType([*schema.fields, StructField(FILE_INDEX, IntegerType()), StructField(ROW_INDEX, LongType())])


def scan_packs(spark: SparkSession, reader: PackReader, pack_count: int, schema: StructType) -> DataFrame:
    """The rows of all packs, a task for each."""
    nullable = StructType([StructField(f.name, f.dataType) for f in schema.fields])
    if not pack_count:
        return spark.createDataFrame([], nullable)

    def read_packs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pack in batch.column(0).to_pylist():
                yield from reader.read(pack)

    return map_in_arrow(spark.range(0, pack_count, 1, pack_count), read_packs, nullable)


def nearest_rows(rows: DataFrame, k: int) -> DataFrame:
    """The k rows with the least distance, nearest first."""
    return rows.orderBy(F.col(DISTANCE_COLUMN).asc()).limit(k)


def task_count(spark: SparkSession) -> int:
    """How many tasks a job has at least, to have work for every core."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
