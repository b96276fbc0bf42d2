"""Scans: the planned Parquet files of a table as a DataFrame with the columns of the table.

Partition values come from the table's metadata, never from the names of folders: they are literals where all files
share them, and joined by file where they don't. With `positions`, each row has its file and its index in that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructType

from partita.errors import TableError
from partita.spark.deleted_rows import MAX_LITERAL_FILES, POSITION_COLUMNS, DeletedRows
from partita.spark.frames import frame_from_arrow
from partita.spark.nullability import relax_nullability
from partita.spark.parquet_reader import read_parquet, scan_column_names
from partita.spark.positions import FILE_INDEX, FILE_PATH, ROW_INDEX
from partita.spark.sql_text import cast_sql, has_variable, quote_identifier, string_literal_sql, type_sql

_JOINED_FILE_INDEX = "__partita_number"


@dataclass(frozen=True, slots=True, eq=False)
class FileGroup:
    """Files of a scan that have the same names for their columns, by their indices in the scan.

    `schema` has the columns under those names. `missing_fields` are nested fields that the files lack, and
    `ambiguous_fields` fields with a sibling in the files whose name differs only in case; both are named as in the
    table, for messages.
    """

    file_indices: np.ndarray
    schema: StructType
    missing_fields: tuple[str, ...] = ()
    ambiguous_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ScanFiles:
    """Parquet files to scan.

    `locations` are the files as Hadoop takes them, `reported_paths` the same files as Spark's `_metadata.file_path`
    spells them. `stored_names` are the columns that the files have; each of `groups` has them in the same order, under
    the names of its files, and every file is in one group. `constants` has a row for each file, with the columns that
    have one value in a file. `columns` has for each column of the table, in order, its name, its type, and its name in
    `stored_names` or in `constants`. `revisions` tell the contents of each file from earlier ones under the same path,
    if other writers may replace the files of the table.
    """

    locations: list[str]
    reported_paths: list[str]
    stored_names: tuple[str, ...]
    groups: tuple[FileGroup, ...]
    constants: pa.Table
    columns: tuple[tuple[str, spark_types.DataType, str], ...]
    revisions: tuple[str, ...] = ()


def scan_files(
    spark: SparkSession, files: ScanFiles, *, positions: bool = False, deleted_rows: pa.Table | DataFrame | None = None
) -> DataFrame:
    """Return the rows of the files with the columns of the table; with `positions`, also `FILE_INDEX` and `ROW_INDEX`.

    `deleted_rows`, by `FILE_PATH` and `ROW_INDEX`, are left out. They must fit into the memory of each executor, and
    the files may have up to 2^32 rows each.
    """
    if not files.locations:
        return _empty_scan(spark, files, positions=positions)
    row_filter = None if deleted_rows is None else DeletedRows.of(deleted_rows, files.reported_paths)
    scans = [_scan_group(spark, files, group, row_filter, positions=positions) for group in files.groups]
    return reduce(lambda rows, more_rows: rows.unionAll(more_rows), scans)


def _scan_group(
    spark: SparkSession, files: ScanFiles, group: FileGroup, deleted_rows: DeletedRows | None, *, positions: bool
) -> DataFrame:
    sources = {source for _, _, source in files.columns}
    stored_fields = [
        (source, f) for source, f in zip(files.stored_names, group.schema.fields, strict=True) if source in sources
    ]
    schema = StructType([f for _, f in stored_fields])
    _check_field_names(spark, schema, group)
    constants = files.constants.select([name for name in files.constants.column_names if name in sources])
    rows = _read_group(spark, schema, files, group, deleted_rows)
    expressions = _constant_literals(constants)
    if expressions is not None and positions:
        expressions = (
            {**expressions, **_position_sql(files, group)} if len(group.file_indices) <= MAX_LITERAL_FILES else None
        )
    if expressions is None:
        rows, expressions = _join_constants(rows, files, group, constants, positions=positions)
    stored_columns = {
        source: (name, f.dataType) for (source, f), name in zip(stored_fields, scan_column_names(schema), strict=True)
    }
    columns = [
        (name, type_, expressions[source], None)
        if source in expressions
        else (name, type_, _stored_column_sql(stored_columns[source][0], type_), stored_columns[source][1])
        for name, type_, source in files.columns
    ]
    position_names = (FILE_INDEX, ROW_INDEX) if positions else ()
    return _select_table_columns(rows, columns, [(expressions[name], name) for name in position_names])


def _read_group(
    spark: SparkSession, schema: StructType, files: ScanFiles, group: FileGroup, deleted_rows: DeletedRows | None
) -> DataFrame:
    """Return the rows of a group's files, under the names of the files, without deleted rows."""
    indices = group.file_indices.tolist()
    locations = [files.locations[index] for index in indices]
    if deleted_rows is None:
        return read_parquet(spark, schema, locations, revisions=files.revisions)
    paths = [files.reported_paths[index] for index in indices] if len(files.groups) > 1 else None
    return deleted_rows.read_other_rows(spark, schema, locations, paths)


def _select_table_columns(
    rows: DataFrame,
    columns: Sequence[tuple[str, spark_types.DataType, str, spark_types.DataType | None]],
    position_columns: Sequence[tuple[str, str]],
) -> DataFrame:
    """Select the columns of the table, then those of the position.

    `columns` has the name and the type of each column, its value in SQL and the type of that value, if known. The
    select is text where it can be: each step of a Column is a call to the JVM, and together they take longer than a
    small read.
    """
    names = [name for name, _, _, _ in columns]
    texts = [sql if sql_type == type_ else cast_sql(sql, type_) for _, type_, sql, sql_type in columns]
    if has_variable(*texts, *names):
        values = [
            F.expr(sql) if sql_type == type_ else F.expr(sql).cast(relax_nullability(type_))
            for _, type_, sql, sql_type in columns
        ]
        position_values = (F.expr(sql) for sql, _ in position_columns)
        return rows.select(*values, *position_values).toDF(*names, *(name for _, name in position_columns))
    named_texts = (f"{text} AS {quote_identifier(name)}" for text, name in zip(texts, names, strict=True))
    return rows.selectExpr(*named_texts, *(f"{sql} AS {name}" for sql, name in position_columns))


def _position_sql(files: ScanFiles, group: FileGroup) -> dict[str, str]:
    """Return `FILE_INDEX` and `ROW_INDEX` in SQL for a few files, which is faster than a join with the files."""
    path = "_metadata.file_path"
    cases = (
        f"WHEN {string_literal_sql(files.reported_paths[index])} THEN {index}" for index in group.file_indices.tolist()
    )
    unknown = f"CAST({_unknown_file_sql(path)} AS INT)"
    return {FILE_INDEX: f"CASE {path} {' '.join(cases)} ELSE {unknown} END", ROW_INDEX: "_metadata.row_index"}


def _unknown_file_sql(path: str) -> str:
    return f"raise_error(concat('Spark read a file that was not asked for: ', {path}))"


def _check_field_names(spark: SparkSession, schema: StructType, group: FileGroup) -> None:
    """Refuse fields that Spark would not find in the files, or would read wrongly."""
    variable_fields = list(_variable_fields(schema))
    have_ids = all(_FIELD_ID in f.metadata for f in variable_fields)
    if variable_fields and not (have_ids and _is_enabled(spark, _READ_BY_FIELD_ID)):
        way_out = f"set {_READ_BY_FIELD_ID} to true in the session, " if have_ids else ""
        raise TableError(
            f"files of the table have a column {variable_fields[0].name!r}, in whose name Hadoop takes the braces for "
            f"a variable; {way_out}read other columns, or rewrite the files with that column under another name"
        )
    if group.missing_fields and _is_enabled(spark, _NULL_STRUCTS):
        raise TableError(
            f"files of the table lack {group.missing_fields[0]!r}, and with {_NULL_STRUCTS} Spark reads the struct "
            "around it as null; unset that in the session"
        )
    if group.ambiguous_fields and not _is_enabled(spark, _CASE_SENSITIVE):
        raise TableError(
            f"files of the table have two names for {group.ambiguous_fields[0]!r} that differ only in case; "
            f"set {_CASE_SENSITIVE} to true in the session, or read other columns"
        )


def _variable_fields(data_type: spark_types.DataType) -> Iterator[spark_types.StructField]:
    """Yield the fields of a type, at every depth, in whose names Hadoop may replace a variable."""
    if isinstance(data_type, StructType):
        for f in data_type.fields:
            if _HADOOP_VARIABLE.search(f.name):
                yield f
            yield from _variable_fields(f.dataType)
    elif isinstance(data_type, spark_types.ArrayType):
        yield from _variable_fields(data_type.elementType)
    elif isinstance(data_type, spark_types.MapType):
        yield from _variable_fields(data_type.keyType)
        yield from _variable_fields(data_type.valueType)


_HADOOP_VARIABLE = re.compile(r"\$\{[^} $]+\}")
"""What Hadoop replaces in the schema that Spark gives to its Parquet reader, if such a variable is set."""
_READ_BY_FIELD_ID, _FIELD_ID = "spark.sql.parquet.fieldId.read.enabled", "parquet.field.id"
"""With this setting Spark finds a column by the id in the metadata of its field, whatever its name."""
_NULL_STRUCTS = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
_CASE_SENSITIVE = "spark.sql.caseSensitive"


def _is_enabled(spark: SparkSession, setting: str) -> bool:
    return (spark.conf.get(setting, "false") or "").lower() == "true"


def _empty_scan(spark: SparkSession, files: ScanFiles, *, positions: bool) -> DataFrame:
    schema = StructType([spark_types.StructField(name, type_) for name, type_, _ in files.columns])
    if positions:
        schema = schema.add(FILE_INDEX, spark_types.IntegerType()).add(ROW_INDEX, spark_types.LongType())
    return spark.createDataFrame([], schema)


def _stored_column_sql(name: str, data_type: spark_types.DataType) -> str:
    """Return a column of the files in SQL.

    A float or a double is wrapped so that Spark doesn't skip row groups by its statistics, which leave out NaN.
    """
    column = quote_identifier(name)
    if isinstance(data_type, spark_types.FloatType | spark_types.DoubleType):
        return f"nanvl({column}, CAST('NaN' AS {type_sql(data_type)}))"
    return column


def _constant_literals(constants: pa.Table) -> dict[str, str] | None:
    """Return the constants as literals in SQL; None if files differ in one, or one has no literal."""
    literals: dict[str, str] = {}
    for name in constants.column_names:
        values = pc.unique(constants[name].combine_chunks())
        if len(values) != 1:
            return None
        literal = _literal_sql(values[0])
        if literal is None:
            return None
        literals[name] = literal
    return literals


def _literal_sql(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return "NULL"
    if pa.types.is_date32(value.type):
        return f"date_from_unix_date({value.value})"
    if pa.types.is_timestamp(value.type):
        return f"timestamp_micros(CAST('{value.value}' AS BIGINT))" if value.type.tz else None
    if pa.types.is_string(value.type):
        return string_literal_sql(value.as_py())
    if pa.types.is_integer(value.type):
        return f"CAST('{value.as_py()}' AS BIGINT)"
    return str(value.as_py()).lower() if pa.types.is_boolean(value.type) else None


def _join_constants(
    rows: DataFrame, files: ScanFiles, group: FileGroup, constants: pa.Table, *, positions: bool
) -> tuple[DataFrame, dict[str, str]]:
    """Join the constants of each row's file; return the rows, and each constant and position in SQL."""
    indices = pa.array(group.file_indices.astype(np.int32))
    file_table = pa.table(
        {FILE_PATH: pa.array(files.reported_paths, pa.string()).take(indices), _JOINED_FILE_INDEX: indices}
    )
    if constants.num_columns:
        constants = constants.take(indices)
    joined_names = {name: f"__partita_constant_{index}" for index, name in enumerate(constants.column_names)}
    for name, joined_name in joined_names.items():
        file_table = file_table.append_column(joined_name, constants[name])
    position_columns = POSITION_COLUMNS if positions else POSITION_COLUMNS[:1]
    joined_rows = rows.selectExpr("*", *position_columns).join(
        F.broadcast(frame_from_arrow(rows.sparkSession, file_table)), FILE_PATH, "left"
    )
    unknown = _unknown_file_sql(FILE_PATH)
    expressions = {
        name: f"CASE WHEN {_JOINED_FILE_INDEX} IS NOT NULL THEN {joined_name} ELSE {unknown} END"
        for name, joined_name in joined_names.items()
    }
    if positions:
        expressions |= {FILE_INDEX: f"coalesce({_JOINED_FILE_INDEX}, CAST({unknown} AS INT))", ROW_INDEX: ROW_INDEX}
    return joined_rows, expressions
