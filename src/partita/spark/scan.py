"""Parquet files as a DataFrame: exactly those planned, with the columns that their table knows and they don't.

Partition values come from the table's metadata, never from the names of folders, so they are joined on by file. With
`positions`, each row says which file it is from and which row of it: that is what a row-level change is made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
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
from pyspark.sql.utils import is_remote

from partita.errors import TableError
from partita.kept import Kept
from partita.spark.schema import cast_sql, quoted, text_sql, type_sql

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
    # A session may leave out files that are gone or broken; rows of a table are all there, or it is an error.
    "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class FileGroup:
    """Files that have the same names for their columns, by their numbers.

    `schema` has the columns under those names. `missing` are nested fields that the files lack, and `alike` fields with
    a sibling in the files whose name differs only in case; both for messages, under the table's names.
    """

    files: np.ndarray
    schema: StructType
    missing: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """Parquet files to read.

    `locations` are as Hadoop takes them, `reported` the same files as Spark's `_metadata.file_path` names them.
    `stored` are the names of the columns that are in files, which each of `groups` has under the names of its files, in
    the same order; every file is in one group. `constants` are the columns that have one value a file. `columns` says
    for each column of the table, in order, its name, its type, and its name in `stored` or in `constants`.
    """

    locations: list[str]
    reported: list[str]
    stored: tuple[str, ...]
    groups: tuple[FileGroup, ...]
    constants: pa.Table
    columns: tuple[tuple[str, spark_types.DataType, str], ...]


def scan(
    spark: SparkSession, files: Files, *, positions: bool = False, gone: pa.Table | DataFrame | None = None
) -> DataFrame:
    """The rows of the files, with the table's columns; with `positions`, `FILE` and `ROW` come after them.

    Rows of `gone`, by `PATH` and `ROW`, are left out; there may be as many as every executor can hold, in files of less
    than 2^32 rows.
    """
    if not files.locations:
        return _nothing(spark, files, positions=positions)
    left_out = None if gone is None else _Gone(gone, _differ_by_checksum(files.reported))
    scans = [_scan_group(spark, files, group, left_out, positions=positions) for group in files.groups]
    return reduce(lambda rows, more: rows.unionAll(more), scans)


def _differ_by_checksum(paths: Sequence[str]) -> bool:
    return len({crc32(path.encode()) for path in paths}) == len(paths)


@dataclass(frozen=True, slots=True, eq=False)
class _Gone:
    """Rows to leave out, and whether the checksums of the files' paths tell all files apart."""

    rows: pa.Table | DataFrame
    by_checksum: bool


def _scan_group(
    spark: SparkSession, files: Files, group: FileGroup, gone: _Gone | None, *, positions: bool
) -> DataFrame:
    wanted = {source for _, _, source in files.columns}
    stored = [(source, f) for source, f in zip(files.stored, group.schema.fields, strict=True) if source in wanted]
    schema = StructType([f for _, f in stored])
    _check_names(spark, schema, group)
    constants = files.constants.select([n for n in files.constants.column_names if n in wanted])
    rows = _undeleted(spark, schema, files, group, gone)
    literals = _literals(constants)
    if literals is not None and positions:
        literals = {**literals, **_position_sql(files, group)} if len(group.files) <= _MOST_FILES else None
    if literals is None:
        rows, literals = _with_constants(spark, rows, files, group, constants, positions=positions)
    # Texts and not Columns: each step of a Column is a call to the JVM, and together they take longer than small reads.
    found = {source: (name, f.dataType) for (source, f), name in zip(stored, column_names(schema), strict=True)}
    values = [(literals[source], None) if source in literals else (_stored(found[source][0], type_), found[source][1])
              for _, type_, source in files.columns]  # fmt: skip
    names, types = [name for name, _, _ in files.columns], [type_ for _, type_, _ in files.columns]
    place = [f"{literals[name]} AS {name}" for name in (FILE, ROW)] if positions else []
    texts = [_as(value, stored_as, type_) for (value, stored_as), type_ in zip(values, types, strict=True)]
    if any("$" in text for text in [*texts, *names]):
        # In a text, Spark puts settings in place of what stands after it in braces.
        columns = [F.expr(value) if stored_as == type_ else F.expr(value).cast(_nullable(type_))
                   for (value, stored_as), type_ in zip(values, types, strict=True)]  # fmt: skip
        return rows.select(*columns, *map(F.expr, place)).toDF(*names, *([FILE, ROW] if positions else []))
    named = (f"{text} AS {quoted(name)}" for text, name in zip(texts, names, strict=True))
    return rows.selectExpr(*named, *place)


def _position_sql(files: Files, group: FileGroup) -> dict[str, str]:
    """`FILE` and `ROW` in SQL for a few files: a join with their numbers would be one more step for every column."""
    path = "_metadata.file_path"
    cases = (f"WHEN {text_sql(files.reported[number])} THEN {number}" for number in group.files.tolist())
    unknown = f"CAST({_unknown_file(path)} AS INT)"
    return {FILE: f"CASE {path} {' '.join(cases)} ELSE {unknown} END", ROW: "_metadata.row_index"}


def _unknown_file(path: str) -> str:
    return f"raise_error(concat('Spark read a file that was not asked for: ', {path}))"


def _check_names(spark: SparkSession, schema: StructType, group: FileGroup) -> None:
    """Refuse names that Spark would not find in the files, or read wrongly."""
    replaced = list(_replaced_fields(schema))
    have_ids = all(_FIELD_ID in f.metadata for f in replaced)
    if replaced and not (have_ids and _is_on(spark, _BY_ID)):
        way = f"set {_BY_ID} to true in the session, " if have_ids else ""
        raise TableError(
            f"files of the table have a column {replaced[0].name!r}, in whose name Hadoop takes the braces for a "
            f"variable; {way}read other columns, or rewrite the files with that column under another name"
        )
    if group.missing and _is_on(spark, _NULL_STRUCTS):
        raise TableError(
            f"files of the table lack {group.missing[0]!r}, and with {_NULL_STRUCTS} Spark takes what holds it for "
            "null; unset that in the session"
        )
    if group.alike and not _is_on(spark, _CASE_SENSITIVE):
        raise TableError(
            f"files of the table have two names for {group.alike[0]!r} that differ only in case; "
            f"set {_CASE_SENSITIVE} to true in the session, or read other columns"
        )


def _replaced_fields(type_: spark_types.DataType) -> Iterator[spark_types.StructField]:
    """The fields of a type, at every depth, whose names Hadoop may replace a part of."""
    if isinstance(type_, StructType):
        for f in type_.fields:
            if _VARIABLE.search(f.name):
                yield f
            yield from _replaced_fields(f.dataType)
    elif isinstance(type_, spark_types.ArrayType):
        yield from _replaced_fields(type_.elementType)
    elif isinstance(type_, spark_types.MapType):
        yield from _replaced_fields(type_.keyType)
        yield from _replaced_fields(type_.valueType)


_VARIABLE = re.compile(r"\$\{[^} $]+\}")
"""What Hadoop replaces in the schema that Spark hands to its Parquet reader, where such a variable is set."""
_BY_ID, _FIELD_ID = "spark.sql.parquet.fieldId.read.enabled", "parquet.field.id"
"""With this setting Spark finds a column by the id that the metadata of its field says, whatever its name."""
_NULL_STRUCTS = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
_CASE_SENSITIVE = "spark.sql.caseSensitive"


def _is_on(spark: SparkSession, key: str) -> bool:
    return (spark.conf.get(key, "false") or "").lower() == "true"


_MOST_ROWS, _MOST_FILES = 1000, 8
"""Rows and files that a condition in SQL can name, which spares Spark a join."""
_KEY = "__partita_key"


def _undeleted(
    spark: SparkSession, schema: StructType, files: Files, group: FileGroup, gone: _Gone | None
) -> DataFrame:
    locations = [files.locations[number] for number in group.files.tolist()]
    if gone is None:
        return parquet(spark, schema, locations)
    named = gone.rows
    if isinstance(named, pa.Table) and len(files.groups) > 1:
        own = pa.array([files.reported[number] for number in group.files.tolist()], pa.string())
        named = named.filter(pc.is_in(named[PATH], value_set=own))
    if isinstance(named, pa.Table) and named.num_rows <= _MOST_ROWS and len(pc.unique(named[PATH])) <= _MOST_FILES:
        return parquet(spark, schema, locations, _unless_named(named))
    return _without(parquet(spark, schema, locations), named, by_checksum=gone.by_checksum)


def _without(rows: DataFrame, gone: pa.Table | DataFrame, *, by_checksum: bool) -> DataFrame:
    here = isinstance(gone, pa.Table)
    if not by_checksum:
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
    left = [f"(_metadata.file_path <> {text_sql(place[PATH])} OR _metadata.row_index NOT IN "
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
    DataFrames of it gives its columns new names, or two of them could not be joined. They are called as
    `column_names` says.
    """
    # It is kept on the session itself, and so goes with it.
    loaded: _Loaded = vars(spark).setdefault(_LOADED, Kept(_MOST_LOADED))
    key = schema, tuple(locations), where
    found = loaded.find(key)
    if found is not None:
        return found
    with settings(spark, _LISTING if len(locations) > _LISTED_AT_ONCE else {}):
        rows = _plainly_named(_reader(spark, schema).parquet(*locations), schema)
    return loaded.keep(key, rows if where == _ALL else rows.where(where), len(locations))


def column_names(schema: StructType) -> list[str]:
    """What `parquet` calls the columns of a schema: by their names, but for those that mean something else in a text.

    Spark calls a column of its own `_metadata`, and replaces what stands in braces after a `$`.
    """
    return [f"__partita_column_{at}" if _is_odd(name) else name for at, name in enumerate(schema.fieldNames())]


def _is_odd(name: str) -> bool:
    return "$" in name or name.lower() == _METADATA or name.lower().startswith("__partita_")


_METADATA = "_metadata"


def _plainly_named(rows: DataFrame, schema: StructType | str) -> DataFrame:
    if isinstance(schema, str) or not any(map(_is_odd, schema.fieldNames())):
        return rows
    names = column_names(schema)
    if not any(name.lower() == _METADATA for name in schema.fieldNames()):
        return rows.toDF(*names)
    columns = (F.col(quoted(old)).alias(new) for old, new in zip(schema.fieldNames(), names, strict=True))
    return rows.select(*columns, rows.metadataColumn(_METADATA).alias(_METADATA))


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
    needed = {_BATCH_SIZE: _SIZE} if not is_remote() and spark.conf.get(_BATCH_SIZE) != _SIZE else {}
    with settings(spark, needed):
        return spark.createDataFrame(table, schema)


_BATCH_SIZE, _SIZE = "spark.sql.execution.arrow.maxRecordsPerBatch", "10000"
"""PySpark cuts an Arrow table by it, a task for each piece; it fails where the value means no limit, 0 and less."""


def _nothing(spark: SparkSession, files: Files, *, positions: bool) -> DataFrame:
    schema = StructType([spark_types.StructField(name, type_) for name, type_, _ in files.columns])
    if positions:
        schema = schema.add(FILE, spark_types.IntegerType()).add(ROW, spark_types.LongType())
    return spark.createDataFrame([], schema)


def _as(value: str, found: spark_types.DataType | None, wanted: spark_types.DataType) -> str:
    return value if found == wanted else cast_sql(value, wanted)


def _nullable(type_: spark_types.DataType) -> spark_types.DataType:
    """The type with null allowed at every depth, which every cast may make."""
    if isinstance(type_, StructType):
        return StructType([spark_types.StructField(f.name, _nullable(f.dataType)) for f in type_.fields])
    if isinstance(type_, spark_types.ArrayType):
        return spark_types.ArrayType(_nullable(type_.elementType))
    if isinstance(type_, spark_types.MapType):
        return spark_types.MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return type_


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


def _literal(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return "NULL"
    if pa.types.is_date32(value.type):
        return f"date_from_unix_date({value.value})"
    if pa.types.is_timestamp(value.type):
        return f"timestamp_micros(CAST('{value.value}' AS BIGINT))" if value.type.tz else None
    if pa.types.is_string(value.type):
        return text_sql(value.as_py())
    if pa.types.is_integer(value.type):
        return f"CAST('{value.as_py()}' AS BIGINT)"
    return str(value.as_py()).lower() if pa.types.is_boolean(value.type) else None


def _with_constants(  # noqa: PLR0913 - what a scan is of
    spark: SparkSession, rows: DataFrame, files: Files, group: FileGroup, constants: pa.Table, *, positions: bool
) -> tuple[DataFrame, dict[str, str]]:
    """The rows with what is known of each one's file, and how to say it."""
    numbers = pa.array(group.files.astype(np.int32))
    numbered = pa.table({PATH: pa.array(files.reported, pa.string()).take(numbers), _NUMBER: numbers})
    if constants.num_columns:
        constants = constants.take(numbers)
    names = {name: f"__partita_constant_{at}" for at, name in enumerate(constants.column_names)}
    for name, under in names.items():
        numbered = numbered.append_column(under, constants[name])
    known = F.broadcast(frame_of(spark, numbered))
    place = _POSITION if positions else _POSITION[:1]
    joined = rows.selectExpr("*", *place).join(known, PATH, "left")
    unknown = _unknown_file(PATH)
    found = {name: f"CASE WHEN {_NUMBER} IS NOT NULL THEN {under} ELSE {unknown} END" for name, under in names.items()}
    if positions:
        found |= {FILE: f"coalesce({_NUMBER}, CAST({unknown} AS INT))", ROW: ROW}
    return joined, found
