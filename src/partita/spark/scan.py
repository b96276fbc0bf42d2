"""Parquet files as a DataFrame: exactly those planned, with the columns that their table knows and they don't.

Partition values come from the table's metadata, never from the names of folders, so they are joined on by file. With
`positions`, each row says which file it is from and which row of it: that is what a row-level change is made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from partita.errors import TableError
from partita.kept import Kept
from partita.spark.schema import quoted, type_sql

FILE = "__partita_file"
"""The column with the number of a row's file, in the order of the files that were scanned."""
ROW = "__partita_row"
"""The column with the number of a row in its file, from 0."""

PATH = "__partita_path"
"""The column with a row's file, as Spark's `_metadata.file_path` names it."""

_NUMBER = "__partita_number"
_POSITION = (f"_metadata.file_path AS {PATH}", f"_metadata.row_index AS {ROW}")
_LISTING = {
    # Spark lists more paths than the threshold in a job, with a task for each; for files that are named one by one
    # that takes ten times as long.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
_LISTED_AT_ONCE = 32
"""Spark's own threshold."""
_AS_WRITTEN = {
    "__globPaths__": "false", "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED",
}  # fmt: skip


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


def scan(
    spark: SparkSession, files: Files, *, positions: bool = False, gone: pa.Table | DataFrame | None = None
) -> DataFrame:
    """The rows of the files, with the table's columns; with `positions`, `FILE` and `ROW` come after them.

    Rows of `gone`, by `PATH` and `ROW`, are left out; there may be as many as every executor can hold, in files of less
    than 2^32 rows.
    """
    _check_ids(spark, files.stored)
    if not files.locations:
        return _nothing(spark, files, positions=positions)
    wanted = {source for _, _, source in files.columns}
    stored = StructType([f for f in files.stored.fields if f.name in wanted])
    constants = files.constants.select([n for n in files.constants.column_names if n in wanted])
    rows = _undeleted(spark, stored, files, gone)
    literals = None if positions else _literals(constants)
    if literals is None:
        rows, literals = _with_constants(spark, rows, files, constants, positions=positions)
    # Texts and not Columns: each step of a Column is a call to the JVM, and together they take longer than small reads.
    types = {f.name: f.dataType for f in stored.fields}
    texts = [_as(literals.get(source) or _stored(source, type_), types.get(source), type_)
             for _, type_, source in files.columns]  # fmt: skip
    names, place = [name for name, _, _ in files.columns], [FILE, ROW] if positions else []
    if any("$" in name for name in names):
        # In a text, Spark puts settings in place of what stands after it in braces.
        return rows.selectExpr(*texts, *place).toDF(*names, *place)
    named = (f"{text} AS {quoted(name)}" for text, name in zip(texts, names, strict=True))
    return rows.selectExpr(*named, *place)


_MOST_ROWS, _MOST_FILES = 1000, 8
"""Rows that a condition in SQL can name, which spares Spark a join."""
_KEY = "__partita_key"


def _undeleted(spark: SparkSession, stored: StructType, files: Files, gone: pa.Table | DataFrame | None) -> DataFrame:
    if isinstance(gone, pa.Table) and gone.num_rows <= _MOST_ROWS and len(pc.unique(gone[PATH])) <= _MOST_FILES:
        return parquet(spark, stored, files.locations, _unless_named(gone))
    rows = parquet(spark, stored, files.locations)
    return rows if gone is None else _without(rows, gone, files.reported)


def _without(rows: DataFrame, gone: pa.Table | DataFrame, reported: Sequence[str]) -> DataFrame:
    here = isinstance(gone, pa.Table)
    if len({crc32(path.encode()) for path in reported}) < len(reported):
        known = F.broadcast(frame_of(rows.sparkSession, gone) if here else gone)
        return rows.selectExpr("*", *_POSITION).join(known, [PATH, ROW], "left_anti").drop(PATH, ROW)
    # Where the checksum of a path tells it from the others, one number tells a row, and Spark finds that in a fifth of
    # the time that a long text and a number take.
    keys = _listed(rows.sparkSession, _keys(gone)) if here else gone.selectExpr(f"{_key(PATH, ROW)} AS {_KEY}")
    keyed = rows.selectExpr("*", f"{_key('_metadata.file_path', '_metadata.row_index')} AS {_KEY}")
    return keyed.join(F.broadcast(keys), _KEY, "left_anti").drop(_KEY)


def _listed(spark: SparkSession, keys: pa.Array) -> DataFrame:
    """Numbers as a column, from one row with a list: many rows of its own making take Spark longer to plan and send."""
    listed = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys)
    return frame_of(spark, pa.table({_KEY: listed})).selectExpr(f"explode({_KEY}) AS {_KEY}")


def _keys(gone: pa.Table) -> pa.Array:
    paths = gone[PATH].combine_chunks().dictionary_encode()
    checksums = np.array([crc32(path.encode()) for path in paths.dictionary.to_pylist()], np.uint64)
    keys = (checksums[paths.indices.to_numpy()] << np.uint64(32)) | gone[ROW].to_numpy().astype(np.uint64)
    return pa.array(keys.view(np.int64))


def _key(path: str, row: str) -> str:
    return f"shiftleft(crc32(CAST({path} AS BINARY)), 32) | {row}"


def _unless_named(gone: pa.Table) -> str:
    places = gone.group_by(PATH, use_threads=False).aggregate([(ROW, "list")]).to_pylist()
    # In the form that Spark would bring it into: each step on the way there is one more turn of all its rules.
    left = [f"(_metadata.file_path <> {_text(place[PATH])} OR _metadata.row_index NOT IN "
            f"({','.join([f'{row}L' for row in place[f'{ROW}_list']])}))" for place in places]  # fmt: skip
    return " AND ".join(left) or _ALL


_ALL = "true"
_LOADED, _MOST_LOADED = "_partita_loaded", 20_000
_READERS, _MOST_READERS = "_partita_readers", 100
_Loaded: TypeAlias = Kept[tuple[StructType | str, tuple[str, ...], str], DataFrame]
_Readers: TypeAlias = Kept[StructType | str, DataFrameReader]


def parquet(spark: SparkSession, schema: StructType | str, locations: Sequence[str], where: str = _ALL) -> DataFrame:
    """Rows of exactly those Parquet files, by a schema of their own.

    A table's files never change, so what Spark found out of some is kept for the next who reads the same. Who makes
    DataFrames of it gives its columns new names, or two of them could not be joined.
    """
    # It is kept on the session itself, and so goes with it.
    loaded: _Loaded = vars(spark).setdefault(_LOADED, Kept(_MOST_LOADED))
    key = schema, tuple(locations), where
    found = loaded.find(key)
    if found is not None:
        return found
    with settings(spark, _LISTING if len(locations) > _LISTED_AT_ONCE else {}):
        rows = _reader(spark, schema).parquet(*locations)
    return loaded.keep(key, rows if where == _ALL else rows.where(where), len(locations))


def _reader(spark: SparkSession, schema: StructType | str) -> DataFrameReader:
    """Who reads files by a schema, kept as well: to make one takes a dozen calls to the JVM."""
    readers: _Readers = vars(spark).setdefault(_READERS, Kept(_MOST_READERS))
    return readers.find(schema) or readers.keep(schema, spark.read.schema(schema).options(**_AS_WRITTEN), 1)


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session while a block runs; of threads that want the same at once, the last puts it back."""
    held: dict[str, tuple[str | None, int]] = vars(spark).setdefault(_HELD, {})
    taken: list[str] = []
    try:
        with _lock:
            for key, value in conf.items():
                before, users = held[key] if key in held else (spark.conf.get(key, None), 0)
                spark.conf.set(key, value)
                held[key] = before, users + 1
                taken.append(key)
        yield
    finally:
        with _lock:
            for key in taken:
                before, users = held.pop(key)
                if users > 1:
                    held[key] = before, users - 1
                elif before is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, before)


_HELD = "_partita_held"
_lock = Lock()


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a DataFrame; times without a zone stay so, whatever the session's zone."""
    # Without a schema Spark takes such times for the session's, and they pass through its zone, where some don't exist.
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    with settings(spark, _ZONE if "timestamp" in schema.simpleString() else {}):
        return spark.createDataFrame(table, schema)


_ZONE = {"spark.sql.session.timeZone": "UTC"}


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


def _as(value: str, found: spark_types.DataType | None, wanted: spark_types.DataType) -> str:
    return value if found == wanted else f"CAST({value} AS {type_sql(wanted)})"


def _stored(name: str, type_: spark_types.DataType) -> str:
    """A column of the files; of a floating one, no filter reaches the files' own statistics, which leave out NaN."""
    column = quoted(name)
    if isinstance(type_, spark_types.FloatType | spark_types.DoubleType):
        return f"nanvl({column}, CAST('NaN' AS {type_sql(type_)}))"
    return column


def _literals(constants: pa.Table) -> dict[str, str] | None:
    """The constants in SQL, where all files have the same; None where they don't, or no literal holds one."""
    found: dict[str, str] = {}
    for name in constants.column_names:
        values = pc.unique(constants[name].combine_chunks())
        if len(values) != 1:
            return None
        literal = _literal(values[0])
        if literal is None:
            return None
        found[name] = literal
    return found


def _text(value: str) -> str:
    """A text in SQL; what else may stand in quotes, and what it means there, is for the session to say."""
    return f"'{value}'" if _PLAIN(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


_PLAIN = re.compile(r"[A-Za-z0-9_/:.=%+ -]*").fullmatch


def _literal(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return "NULL"
    if pa.types.is_date32(value.type):
        return f"date_from_unix_date({value.value})"
    if pa.types.is_timestamp(value.type):
        return f"timestamp_micros(CAST('{value.value}' AS BIGINT))" if value.type.tz else None
    if pa.types.is_string(value.type):
        return _text(value.as_py())
    if pa.types.is_integer(value.type):
        return f"CAST('{value.as_py()}' AS BIGINT)"
    return str(value.as_py()).lower() if pa.types.is_boolean(value.type) else None


def _with_constants(
    spark: SparkSession, rows: DataFrame, files: Files, constants: pa.Table, *, positions: bool
) -> tuple[DataFrame, dict[str, str]]:
    """The rows with what is known of each one's file, and how to say it."""
    numbers = pa.array(range(len(files.locations)), pa.int32())
    numbered = pa.table({PATH: pa.array(files.reported, pa.string()), _NUMBER: numbers})
    names = {name: f"__partita_constant_{at}" for at, name in enumerate(constants.column_names)}
    for name, under in names.items():
        numbered = numbered.append_column(under, constants[name])
    known = F.broadcast(frame_of(spark, numbered))
    place = _POSITION if positions else _POSITION[:1]
    joined = rows.selectExpr("*", *place).join(known, PATH, "left")
    unknown = f"raise_error(concat('Spark read a file that was not asked for: ', {PATH}))"
    found = {name: f"CASE WHEN {_NUMBER} IS NOT NULL THEN {under} ELSE {unknown} END" for name, under in names.items()}
    if positions:
        joined = joined.selectExpr("*", f"coalesce({_NUMBER}, CAST({unknown} AS INT)) AS {FILE}")
    return joined, found
