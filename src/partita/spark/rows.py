"""Rows as a table stores them: cast to its schema, with its generated columns, checked and selected by column.

The types of pyspark in `__all__` are for annotations in rooms that may not import pyspark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from partita.algebra.transforms import PartitionFunction
from partita.errors import SchemaError
from partita.spark.constraints import Violation, null_violations, refuse_violations
from partita.spark.schema import find_column, has_columns, is_assignable
from partita.spark.sql_text import cast_sql, column_sql, quote_identifier, select_sql
from partita.spark.transforms import apply

__all__ = [
    "Column",
    "DataFrame",
    "SparkSession",
    "StructType",
    "column_by_name",
    "conform_to_schema",
    "drop_matching_rows",
    "is_string_or_binary",
    "keep_exactly_matching_rows",
    "keep_matching_rows",
    "partition_value_columns",
    "repartition_by_size",
    "replace_empty_with_null",
    "select_columns",
    "select_fields",
    "select_stored_columns",
    "with_columns",
]


def conform_to_schema(rows: DataFrame, schema: StructType, generated_columns: Mapping[str, Column]) -> DataFrame:
    """Cast incoming rows to the table schema, fill generated columns and check them and required fields.

    Columns are matched by name, ignoring case. A column that is missing in the rows is null, or generated; a generated
    column that the rows have must have the generated value.

    Raises `SchemaError` for a column that the table doesn't have, for a type that can't be assigned to the table's, and
    for a required column that is missing. A null in a required column fails the query.
    """
    source_names = _source_column_names(rows.schema, schema)
    source_types = {f.name: f.dataType for f in rows.schema.fields}
    columns: list[tuple[str, str]] = []
    for f in schema.fields:
        source_name = source_names.get(f.name)
        if source_name is None:
            if f.name not in generated_columns and not f.nullable:
                raise SchemaError(f"column {f.name!r} is missing, and may not be null")
            columns.append((cast_sql("NULL", f.dataType), f.name))
            continue
        source_type = source_types[source_name]
        if not is_assignable(source_type, f.dataType):
            raise SchemaError(
                f"column {f.name!r} is {f.dataType.simpleString()} in the table, "
                f"and {source_type.simpleString()} in the rows; cast it"
            )
        columns.append((cast_sql(column_sql(source_name), f.dataType), f.name))
    filled_columns = {
        name: value.cast(schema[name].dataType) for name, value in generated_columns.items() if name not in source_names
    }
    generation_violations = [
        Violation(~column_by_name(name).eqNullSafe(value), f"column {name!r} is not what it is generated as")
        for name, value in generated_columns.items()
        if name in source_names
    ]
    has_table_columns = has_columns(rows.schema, [(f.name, f.dataType) for f in schema.fields])
    table_rows = rows if has_table_columns else select_sql(rows, columns)
    return refuse_violations(
        with_columns(table_rows, filled_columns), [*generation_violations, *null_violations(schema)]
    )


def _source_column_names(source: StructType, target: StructType) -> dict[str, str]:
    """Return the name in the rows of each column of the table that they have."""
    target_names = {name.casefold(): name for name in target.fieldNames()}
    source_names: dict[str, str] = {}
    for source_name in source.fieldNames():
        name = target_names.get(source_name.casefold())
        if name is None:
            columns = ", ".join(target.fieldNames())
            raise SchemaError(f"the table has no column {source_name!r}; its columns are: {columns}")
        if name in source_names:
            raise SchemaError(f"the rows have column {name!r} twice, as {source_names[name]!r} and {source_name!r}")
        source_names[name] = source_name
    return source_names


def column_by_name(name: str) -> Column:
    """Return a column of any name; Spark reads dots and backquotes in an unquoted one."""
    return F.col(quote_identifier(name))


def with_columns(rows: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Add or replace columns; return the same DataFrame if there are none."""
    return rows.withColumns(dict(columns)) if columns else rows


def partition_value_columns(
    rows: DataFrame, functions: Sequence[PartitionFunction], prefix: str, *, family: str
) -> list[Column]:
    """Return the partition values of rows as Columns that are named by a prefix and the position of the function."""
    values = []
    for index, function in enumerate(functions):
        source, data_type = find_column(rows.schema, function.source)
        values.append(apply(function, source, data_type, family=family).alias(f"{prefix}{index}"))
    return values


def keep_matching_rows(rows: DataFrame, values: Sequence[Column], wanted_values: DataFrame) -> DataFrame:
    """Keep the rows whose values are a row of another DataFrame; null equals null."""
    return _join_on_values(rows, values, wanted_values, "left_semi")


def keep_exactly_matching_rows(rows: DataFrame, values: Sequence[Column], wanted_values: DataFrame) -> DataFrame:
    """Keep the rows whose values are a row of another DataFrame; null equals null, and -0.0 is not 0.0."""
    # Spark has no function for the bits of a float. Each float has a text of its own, and all NaNs have one.
    fields = wanted_values.schema.fields
    exact_values = [_text_of_float(value, f.dataType) for value, f in zip(values, fields, strict=True)]
    # Names of fields may differ by case alone.
    names = [f"value_{index}" for index in range(len(fields))]
    wanted_columns = [_text_of_float(F.col(name), f.dataType) for name, f in zip(names, fields, strict=True)]
    return keep_matching_rows(rows, exact_values, wanted_values.toDF(*names).select(*wanted_columns))


def _text_of_float(value: Column, data_type: DataType) -> Column:
    is_float = isinstance(data_type, spark_types.FloatType | spark_types.DoubleType)
    return value.cast("double").cast("string") if is_float else value


def drop_matching_rows(rows: DataFrame, values: Sequence[Column], wanted_values: DataFrame) -> DataFrame:
    """Drop the rows whose values are a row of another DataFrame; null equals null."""
    return _join_on_values(rows, values, wanted_values, "left_anti")


def _join_on_values(rows: DataFrame, values: Sequence[Column], wanted_values: DataFrame, join_type: str) -> DataFrame:
    names = [f"__partita_wanted_{index}" for index in range(len(values))]
    condition = F.lit(True)
    for value, name in zip(values, names, strict=True):
        condition = condition & value.eqNullSafe(F.col(name))
    return rows.join(F.broadcast(wanted_values.toDF(*names)), condition, join_type)


def repartition_by_size(rows: DataFrame, byte_count: int) -> DataFrame:
    """Distribute rows of that size over tasks of at most 128 MiB each."""
    return rows.repartition(max(1, -(-byte_count // _BYTES_PER_TASK)))


_BYTES_PER_TASK = 128 * 2**20


def is_string_or_binary(data_type: DataType) -> bool:
    """Whether values of the type can be empty."""
    return isinstance(data_type, spark_types.StringType | spark_types.BinaryType)


def replace_empty_with_null(rows: DataFrame, names: Iterable[str]) -> DataFrame:
    """Replace empty strings and binaries by null in some columns."""
    return with_columns(
        rows, {n: F.when(F.octet_length(column_by_name(n)) > F.lit(0), column_by_name(n)) for n in names}
    )


def select_fields(schema: StructType, names: set[str]) -> StructType:
    """Return some columns of a schema, in its order."""
    return StructType([f for f in schema.fields if f.name in names])


def select_columns(rows: DataFrame, names: Iterable[str]) -> DataFrame:
    """Select columns by name, in the order of the names."""
    column_names = list(names)
    if rows.columns == column_names:
        return rows
    return select_sql(rows, [(column_sql(name), name) for name in column_names])


def select_stored_columns(
    rows: DataFrame, leading_columns: Mapping[str, Column], columns: Iterable[tuple[str, str, DataType]]
) -> DataFrame:
    """Select columns under their stored names and types, after some leading columns.

    `columns` has the name, the stored name and the stored type of each column; the type differs from the column's own
    by the names of nested fields at most.
    """
    stored_columns = list(columns)
    is_renamed = any(name != stored_name for name, stored_name, _ in stored_columns)
    if (
        not leading_columns
        and not is_renamed
        and has_columns(rows.schema, [(name, type_) for name, _, type_ in stored_columns])
    ):
        return rows
    if leading_columns:
        rows = rows.select("*", *(value.alias(name) for name, value in leading_columns.items()))
    stored_sql = [(cast_sql(column_sql(name), type_), stored_name) for name, stored_name, type_ in stored_columns]
    return select_sql(rows, [*((name, name) for name in leading_columns), *stored_sql])
