"""Partition keys and ids as Spark Columns: `partita.algebra.key` without a Python worker.

A Column tells its type only when Spark analyses it against a DataFrame. `with_key` has the DataFrame; `key_column`
needs the types from its caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType

from partita.algebra.key import check_dimension_name, id_prefix
from partita.errors import KeyValueError, SchemaError, value_repr
from partita.spark.arguments import check_column_name, check_data_type, check_frame, to_column
from partita.spark.base64url import base64url_pieces
from partita.spark.datetimes import (
    OUTSIDE_YEARS_PROBLEM,
    date_pieces,
    timestamp_pieces,
    value_if_date_in_range,
    value_if_timestamp_in_range,
)
from partita.spark.errors import translate_spark_errors
from partita.spark.session import require_session

TypedColumn: TypeAlias = tuple[Column | str, DataType]
"""A column or its name, with its Spark type."""


@translate_spark_errors()
def with_key(
    df: DataFrame, name: str = "partition_key", *, dimensions: Mapping[str, Column | str] | Iterable[str]
) -> DataFrame:
    """Return the DataFrame with one more column: the canonical text of each row's partition key.

    `dimensions` maps each dimension of the key to a column or the name of one; a list of names stands for columns that
    are called like their dimensions. The types come from the schema of the DataFrame.

    Raises `KeyValueError` for a name or a type that no key can hold, `PredicateError` for a column that the DataFrame
    lacks, and `SchemaError` if it has a column `name` already. A value that no key can hold fails the query.
    """
    check_frame(df)
    check_column_name(name)
    if name.casefold() in {column.casefold() for column in df.columns}:
        raise SchemaError(f"the rows have a column {name!r} already; give the key's column another name")
    columns = _dimension_columns(dimensions)
    sources = df.select(*(column.alias(dimension) for dimension, column in columns.items()))
    types = [field.dataType for field in sources.schema.fields]
    typed_columns = dict(zip(columns, zip(columns.values(), types, strict=True), strict=True))
    return df.withColumn(name, key_column(**typed_columns))


@translate_spark_errors()
def key_column(**dimensions: TypedColumn) -> Column:
    """Return the canonical text of each row's partition key; the names of the arguments are the dimensions.

    Each dimension is a column with its Spark type, as in `ts=(F.col("ts"), TimestampType())`, or the name of a column
    with its type. `with_key` finds the types in the schema of a DataFrame.

    Raises `KeyValueError` for a column without a type, and for a name or a type that no key can hold. A value that no
    key can hold fails the query, with the dimension's name except for bytes that are not UTF-8.
    """
    require_session()
    pieces: list[Column] = []
    for name in sorted(dimensions):
        check_dimension_name(name)
        label = f"{',' if pieces else ''}{name}="
        pieces += _dimension_pieces(name, label, *_typed_column(name, dimensions[name]))
    # Spark concatenates bytes faster than strings: each string that it creates costs several memory fences.
    octets = F.concat(*pieces) if pieces else F.lit(b"")
    return octets.cast("string").alias("key")


@translate_spark_errors()
def id_column(asset_id: str | Column, key: Column | str) -> Column:
    """Return the id of each row's partition, from the asset's id and the canonical text of the key."""
    require_session()
    text = to_column("the key", key)
    if isinstance(asset_id, Column):
        non_empty_asset_id = F.when(F.octet_length(asset_id) > F.lit(0), asset_id)
        asset = F.coalesce(
            non_empty_asset_id, F.raise_error(F.lit("asset_id: an asset's id is not empty and not null"))
        )
        prefix = F.concat(asset, F.lit(":")).cast("binary")
    else:
        prefix = F.lit(id_prefix(asset_id))
    digest = F.sha2(F.concat(prefix, text.cast("string").cast("binary")), 256).cast("binary")
    # Padding the prefix with the digest takes its first 32 digits without a copy of them.
    return F.rpad(F.lit(b"part_"), F.lit(len("part_") + 32), digest).cast("string").alias("id")


def _dimension_columns(dimensions: object) -> dict[str, Column]:
    """Return the column of each dimension. Raise `KeyValueError` for a name that no dimension can have."""
    if isinstance(dimensions, str):
        dimensions = [dimensions]
    # A Column can be iterated over as far as Python knows, and raises when it is.
    if isinstance(dimensions, Column) or not isinstance(dimensions, Iterable):
        raise SchemaError(
            "dimensions are a mapping of names to columns, or a list of names, as in dimensions={'date': 'd'}, not "
            f"{type(dimensions).__name__}"
        )
    pairs = dimensions.items() if isinstance(dimensions, Mapping) else [(name, name) for name in dimensions]
    return {
        check_dimension_name(name): to_column(f"the dimension {value_repr(name)}", source) for name, source in pairs
    }


def _typed_column(name: str, dimension: object) -> tuple[Column, DataType]:
    """Return the column and its type. Raise `KeyValueError` without a type, and `SchemaError` for a wrong one."""
    if not isinstance(dimension, tuple) or len(dimension) == 1 or dimension[1:] == (None,):
        raise KeyValueError(
            name,
            "Spark doesn't tell the type of a column without its DataFrame; use partita.spark.with_key(df, "
            f"dimensions=...), or give the type: key_column({name}=(column, df.schema[...].dataType))",
        )
    subject = f"the dimension {name!r}"
    if len(dimension) != 2:
        raise SchemaError(f"{subject} is a pair of a column and its type, not a tuple of {len(dimension)}")
    source, data_type = dimension
    check_data_type(subject, data_type)
    return to_column(subject, source), data_type


def _dimension_pieces(name: str, label: str, column: Column, data_type: DataType) -> tuple[Column, ...]:
    """Return the parts of the key's text that one dimension adds, as bytes that are never null."""
    first, *more_pieces = _value_pieces(name, label, column.cast(data_type), data_type)
    labelled_value = F.coalesce(first, F.lit(f"{label}n:null")).cast("binary")
    return labelled_value, *(F.coalesce(piece.cast("binary"), F.lit(b"")) for piece in more_pieces)


def _value_pieces(name: str, label: str, column: Column, data_type: DataType) -> tuple[Column, ...]:
    """Return the parts of a value's text, as strings or bytes.

    The first part starts with the label and the tag of the type, and is null where the value is null.
    """
    has_value = column.isNotNull()
    if isinstance(data_type, _INTEGER_TYPES):
        return F.when(has_value, F.lit(f"{label}i:")), column.cast("string")
    if isinstance(data_type, spark_types.BooleanType):
        return (F.when(column, F.lit(f"{label}b:true")).when(has_value, F.lit(f"{label}b:false")),)
    outside_years = f"partition key dimension {name!r}: {OUTSIDE_YEARS_PROBLEM}"
    if isinstance(data_type, spark_types.DateType):
        first, *more_pieces = date_pieces(column, prefix=f"{label}d:")
        return value_if_date_in_range(column, outside_years, first), *more_pieces
    if isinstance(data_type, spark_types.TimestampType):
        first, *more_pieces = timestamp_pieces(column, prefix=f"{label}t:")
        return value_if_timestamp_in_range(column, outside_years, first), *more_pieces
    if isinstance(data_type, spark_types.StringType | spark_types.VarcharType):
        # Bytes that are not UTF-8 fail the query with Spark's own error, which shows them; a check that also names the
        # dimension would make the key a fifth slower.
        octets = F.validate_utf8(column).cast("binary")
        return F.when(has_value, F.lit(f"{label}s:")), *base64url_pieces(octets, byte_count=F.octet_length(column))
    if isinstance(data_type, spark_types.NullType):
        return (column.cast("string"),)
    raise KeyValueError(
        name,
        f"a column of type {data_type.simpleString()} can't be in a key; "
        "use a string, an integer, a boolean, a date or a timestamp",
    )


_INTEGER_TYPES = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
