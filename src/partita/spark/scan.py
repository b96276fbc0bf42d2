"""Parquet files as a DataFrame: exactly those planned, with the columns that their table knows and they don't.

Partition values come from the table's metadata, never from the names of folders, so they are joined on by file. With
`positions`, each row says which file it is from and which row of it: that is what a row-level change is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from partita.errors import TableError
from partita.spark.schema import quoted

FILE = "__partita_file"
"""The column with the number of a row's file, in the order of the files that were scanned."""
ROW = "__partita_row"
"""The column with the number of a row in its file, from 0."""

_PATH = "__partita_path"
_LISTING = {
    # Spark lists more paths than the threshold in a job, with a task for each; for files that are named one by one
    # that takes ten times as long.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """Parquet files to read.

    `locations` are as Hadoop takes them, `reported` the same files as Spark's `_metadata.file_path` names them.
    `stored` are the columns in the files under the files' names, `constants` those that have one value a file.
    `columns` says for each column of the table, in order, its name, its type, and its name in the one or the other.
    """

    locations: list[str]
    reported: list[str]
    stored: StructType
    constants: pa.Table
    columns: tuple[tuple[str, spark_types.DataType, str], ...]


def scan(spark: SparkSession, files: Files, *, positions: bool = False) -> DataFrame:
    """The rows of the files, with the table's columns; with `positions`, `FILE` and `ROW` come after them."""
    _check_ids(spark, files.stored)
    if not files.locations:
        return _nothing(spark, files, positions=positions)
    wanted = {source for _, _, source in files.columns}
    stored = StructType([f for f in files.stored.fields if f.name in wanted])
    constants = files.constants.select([n for n in files.constants.column_names if n in wanted])
    rows = parquet(spark, stored, files.locations)
    literals = None if positions else _literals(constants)
    if literals is None:
        rows, literals = _with_constants(spark, rows, files, constants, positions=positions)
    columns = [
        literals.get(source, _stored(source, type_)).cast(type_).alias(name) for name, type_, source in files.columns
    ]
    return rows.select(*columns, *([F.col(FILE), F.col(ROW)] if positions else []))


def parquet(spark: SparkSession, schema: StructType | str, locations: Sequence[str]) -> DataFrame:
    """Exactly those Parquet files, by a schema of their own."""
    with settings(spark, _LISTING):
        return (
            spark.read.schema(schema)
            .option("__globPaths__", "false")
            .option("recursiveFileLookup", "true")
            .option("datetimeRebaseMode", "CORRECTED")
            .option("int96RebaseMode", "CORRECTED")
            .parquet(*locations)
        )


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session while a block runs."""
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a DataFrame; times without a zone stay so, whatever the session's zone."""
    # Without a schema Spark takes such times for the session's, and they pass through its zone, where some don't exist.
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        return spark.createDataFrame(table, schema)


_FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"


def _check_ids(spark: SparkSession, stored: StructType) -> None:
    """Columns that are found by id are found so only where the session says it."""
    asked = any("parquet.field.id" in f.metadata for f in stored.fields)
    if asked and (spark.conf.get(_FIELD_IDS, "false") or "").lower() != "true":
        raise TableError(f"the table finds its columns by Parquet's field ids; set {_FIELD_IDS} to true in the session")


def _nothing(spark: SparkSession, files: Files, *, positions: bool) -> DataFrame:
    schema = StructType([spark_types.StructField(name, type_) for name, type_, _ in files.columns])
    if positions:
        schema = schema.add(FILE, spark_types.IntegerType()).add(ROW, spark_types.LongType())
    return spark.createDataFrame([], schema)


def _stored(name: str, type_: spark_types.DataType) -> Column:
    """A column of the files; of a floating one, no filter reaches the files' own statistics, which leave out NaN."""
    column = F.col(quoted(name))
    if isinstance(type_, spark_types.FloatType | spark_types.DoubleType):
        return F.nanvl(column, F.lit(float("nan")).cast(type_))
    return column


def _literals(constants: pa.Table) -> dict[str, Column] | None:
    """The constants as literals, where all files have the same; None where they don't, or no literal holds one."""
    found: dict[str, Column] = {}
    for name in constants.column_names:
        values = pc.unique(constants[name].combine_chunks())
        if len(values) != 1:
            return None
        literal = _literal(values[0])
        if literal is None:
            return None
        found[name] = literal
    return found


def _literal(value: pa.Scalar) -> Column | None:
    if not value.is_valid:
        return F.lit(None)
    if pa.types.is_date32(value.type):
        return F.date_from_unix_date(F.lit(value.value))
    if pa.types.is_timestamp(value.type):
        return F.timestamp_micros(F.lit(value.value).cast("long")) if value.type.tz else None
    if pa.types.is_string(value.type) or pa.types.is_integer(value.type) or pa.types.is_boolean(value.type):
        return F.lit(value.as_py())
    return None


def _with_constants(
    spark: SparkSession, rows: DataFrame, files: Files, constants: pa.Table, *, positions: bool
) -> tuple[DataFrame, dict[str, Column]]:
    """The rows with what is known of each one's file."""
    numbers = pa.array(range(len(files.locations)), pa.int32())
    numbered = pa.table({_PATH: pa.array(files.reported, pa.string()), FILE: numbers})
    names = {name: f"__partita_constant_{at}" for at, name in enumerate(constants.column_names)}
    for name, under in names.items():
        numbered = numbered.append_column(under, constants[name])
    known = frame_of(spark, numbered)
    place = [F.col("_metadata.file_path").alias(_PATH)]
    if positions:
        place.append(F.col("_metadata.row_index").alias(ROW))
    joined = rows.select("*", *place).join(F.broadcast(known), _PATH, "left")
    unknown = F.raise_error(F.concat(F.lit("Spark read a file that was not asked for: "), F.col(_PATH)))
    found = {name: F.when(F.col(FILE).isNotNull(), F.col(under)).otherwise(unknown) for name, under in names.items()}
    if positions:
        joined = joined.withColumn(FILE, F.coalesce(F.col(FILE), unknown.cast("int")))
    return joined, found
