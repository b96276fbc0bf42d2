"""Leaves of a Lance table as a DataFrame: each Spark task reads some leaves or fragments with Lance."""

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


class TaskReader(Protocol):
    """Reads the rows of scan tasks on executors; it is pickled."""

    def read(self, task: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, by its index."""


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to a Spark schema; raise `SchemaError` for a type that Spark doesn't have."""
    fields: list[StructField] = []
    for f in schema:
        try:
            spark_type = from_arrow_schema(
                pa.schema([f.with_type(spark_arrow_type(f.type))]), prefer_timestamp_ntz=True
            )
        except Exception as error:  # PySpark raises several classes
            raise SchemaError(f"column {f.name!r}: Spark has no type for {f.type}") from error
        fields.append(StructField(f.name, spark_type.fields[0].dataType, f.nullable))
    return StructType(fields)


def arrow_schema(schema: StructType, *, positions: bool = False) -> pa.Schema:
    """Return the Arrow schema in which Spark takes rows of a schema, with `positions` of `schema_with_positions`."""
    return to_arrow_schema(schema_with_positions(schema) if positions else schema)


def schema_with_positions(schema: StructType) -> StructType:
    """Add `FILE_INDEX` and `ROW_INDEX` to a schema."""
    return StructType([*schema.fields, StructField(FILE_INDEX, IntegerType()), StructField(ROW_INDEX, LongType())])


def scan_leaves(spark: SparkSession, reader: TaskReader, task_count: int, schema: StructType) -> DataFrame:
    """Return the rows of all scan tasks as a DataFrame."""
    nullable = StructType([StructField(f.name, f.dataType) for f in schema.fields])
    if not task_count:
        return spark.createDataFrame([], nullable)

    def read_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from reader.read(task)

    return map_in_arrow(spark.range(0, task_count, 1, task_count), read_tasks, nullable)


def nearest_rows(rows: DataFrame, k: int) -> DataFrame:
    """Return the k rows with the least distance, nearest first."""
    return rows.orderBy(F.col(DISTANCE_COLUMN).asc()).limit(k)


def min_task_count(spark: SparkSession) -> int:
    """Return the number of tasks that keeps every core busy."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
