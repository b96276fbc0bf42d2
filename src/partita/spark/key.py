"""Partition keys and ids as Spark Columns: `partita.algebra.key` without a Python worker."""

from __future__ import annotations

from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType

from partita.algebra.key import checked_name, id_prefix
from partita.errors import KeyValueError
from partita.spark.base64 import base64url
from partita.spark.instants import OUTSIDE, date_text, timestamp_text

Dimension: TypeAlias = Column | str | tuple[Column | str, DataType]
"""A column or its name, alone or with its type."""

_INTEGERS = {
    spark_types.ByteType: "tinyint", spark_types.ShortType: "smallint",
    spark_types.IntegerType: "int", spark_types.LongType: "bigint",
}  # fmt: skip
_TAKES = "use a string, an integer, a boolean, a date or a timestamp"


def key_column(**columns: Dimension) -> Column:
    """The canonical text of each row's partition key; the names of the arguments are the dimensions.

    A column alone tells its type by itself; one with its type, as in `ts=(F.col("ts"), TimestampType())`, makes a
    shorter plan and is faster for timestamps. A type or a value that no key can hold is a `KeyValueError` where the
    type is given, and fails the query where it isn't, with the dimension's name but for bytes that are not UTF-8.
    """
    pieces: list[Column] = []
    for name in sorted(columns):
        checked_name(name)
        label = f"{',' if pieces else ''}{name}="
        pieces += _dimension(name, label, columns[name])
    return (F.concat(*pieces) if pieces else F.lit("")).alias("key")


def id_column(asset_id: str | Column, key: Column | str) -> Column:
    """The id of each row's partition, given the asset's id and the key's canonical text."""
    text = F.col(key) if isinstance(key, str) else key
    if isinstance(asset_id, Column):
        named = F.when(asset_id != F.lit(""), asset_id)
        prefix = F.coalesce(named, F.raise_error(F.lit("asset_id: an asset's id is not empty and not null")))
        whole = F.concat(prefix, F.lit(":"), text)
    else:
        whole = F.concat(F.lit(id_prefix(asset_id).decode()), text)
    # A substring of bytes is a copy; one of text counts characters.
    digest = F.substring(F.sha2(whole, 256).cast("binary"), 1, 32)
    return F.concat(F.lit(b"part_"), digest).cast("string").alias("id")


def _dimension(name: str, label: str, given: Dimension) -> tuple[Column, ...]:
    """The pieces that a dimension adds to the key: label and tag, then the value; one concat then copies once."""
    source, data_type = given if isinstance(given, tuple) else (given, None)
    column = F.col(source) if isinstance(source, str) else source
    if isinstance(data_type, spark_types.BooleanType):
        return (_boolean(label, column.cast(data_type)),)
    if data_type is not None:
        column = column.cast(data_type)
        tag, text = _typed(name, column, data_type)
    else:
        tag, text = _dispatched(name, column)
    label_and_tag = F.when(column.isNull(), F.lit(f"{label}n:null")).otherwise(F.concat(F.lit(label), tag))
    return label_and_tag, F.coalesce(text, F.lit(""))


def _boolean(label: str, column: Column) -> Column:
    """All that there is to say of a boolean, as one of three constants."""
    true, false, null = (F.lit(f"{label}{value}") for value in ("b:true", "b:false", "n:null"))
    return F.when(column, true).when(column.isNull(), null).otherwise(false)


def _typed(name: str, column: Column, data_type: DataType) -> tuple[Column, Column]:
    if type(data_type) in _INTEGERS:
        return F.lit("i:"), column.cast("string")
    if isinstance(data_type, spark_types.DateType):
        return F.lit("d:"), date_text(column, _problem(name, OUTSIDE))
    if isinstance(data_type, spark_types.TimestampType):
        return F.lit("t:"), timestamp_text(column, _problem(name, OUTSIDE))
    if isinstance(data_type, spark_types.StringType | spark_types.VarcharType):
        return F.lit("s:"), _base64url(column)
    if isinstance(data_type, spark_types.NullType):
        return F.lit(""), column.cast("string")
    raise KeyValueError(name, f"a column of type {data_type.simpleString()} can't be in a key; {_TAKES}")


def _dispatched(name: str, column: Column) -> tuple[Column, Column]:
    """Tag and text by the column's own type.

    `typeof` is a constant to the optimizer, so one branch is left of each; but until then every branch must suit
    every type, which is why each goes through text.
    """
    kind = F.typeof(column)
    text = column.cast("string")
    is_string = kind.startswith("string") | kind.startswith("varchar")
    plain = kind.isin("void", "boolean", *_INTEGERS.values())
    tag = (
        F.when(kind.isin(*_INTEGERS.values()), F.lit("i:"))
        .when(kind == "boolean", F.lit("b:"))
        .when(kind == "date", F.lit("d:"))
        .when(kind == "timestamp", F.lit("t:"))
        .otherwise(F.lit("s:"))
    )
    refused = F.concat(F.lit(_problem(name, "a column of type ")), kind, F.lit(f" can't be in a key; {_TAKES}"))
    value = (
        F.when(plain, text)
        .when(kind == "date", date_text(text, _problem(name, OUTSIDE)))
        .when(kind == "timestamp", _timestamp_json(column, _problem(name, OUTSIDE)))
        .when(is_string, _base64url(text))
        .otherwise(F.raise_error(refused))
    )
    return tag, value


def _timestamp_json(column: Column, problem: str) -> Column:
    """The text of what may be a timestamp: JSON takes every type, and formats in the zone that its options say."""
    form = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'", "ignoreNullFields": "true"}
    json = F.to_json(F.struct(column.alias("t")), form)
    # A null's JSON is `{}`, whose 7th character on is empty. The JSON stands in both branches, so it is made once.
    fits = (F.length(json) == len('{"t":"0001-01-01T00:00:00.000000Z"}')) & (json >= F.lit('{"t":"0001'))
    outside = F.raise_error(F.concat(F.lit(problem), json))
    return F.when(column.isNull() | fits, F.substring(json, 7, 27)).otherwise(outside)


def _base64url(column: Column) -> Column:
    # Bytes that are not UTF-8 fail the query with Spark's own error, which shows them; a check that names the
    # dimension as well would cost a fifth of the key.
    return base64url(F.validate_utf8(column).cast("binary"), size=F.octet_length(column))


def _problem(name: str, reason: str) -> str:
    return f"partition key dimension {name!r}: {reason}"
