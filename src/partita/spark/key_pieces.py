"""What a column of a known type adds to a partition key: pieces that are put together in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.errors import KeyValueError
from partita.spark.base64 import base64url_pieces
from partita.spark.instants import OUTSIDE, date_pieces, if_date_fits, if_timestamp_fits, timestamp_pieces

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

INTEGERS = ("tinyint", "smallint", "int", "bigint")
TAKES = "use a string, an integer, a boolean, a date or a timestamp"


def typed_pieces(name: str, label: str, column: Column, data_type: DataType) -> tuple[Column, ...]:
    """First one that starts with the label and the tag, and is null of null; then the others, texts or bytes."""
    known = column.isNotNull()
    if data_type.simpleString() in INTEGERS:
        return F.when(known, F.lit(f"{label}i:")), column.cast("string")
    if isinstance(data_type, spark_types.BooleanType):
        return (F.when(column, F.lit(f"{label}b:true")).when(known, F.lit(f"{label}b:false")),)
    if isinstance(data_type, spark_types.DateType):
        first, *others = date_pieces(column, before=f"{label}d:")
        return if_date_fits(column, problem(name, OUTSIDE), first), *others
    if isinstance(data_type, spark_types.TimestampType):
        first, *others = timestamp_pieces(column, before=f"{label}t:")
        return if_timestamp_fits(column, problem(name, OUTSIDE), first), *others
    if isinstance(data_type, spark_types.StringType | spark_types.VarcharType):
        # Bytes that are not UTF-8 fail the query with Spark's own error, which shows them; a check that names the
        # dimension as well would cost a fifth of the key.
        octets = F.validate_utf8(column).cast("binary")
        return F.when(known, F.lit(f"{label}s:")), *base64url_pieces(octets, size=F.octet_length(column))
    if isinstance(data_type, spark_types.NullType):
        return (column.cast("string"),)
    raise KeyValueError(name, f"a column of type {data_type.simpleString()} can't be in a key; {TAKES}")


def problem(name: str, reason: str) -> str:
    """What a query fails with."""
    return f"partition key dimension {name!r}: {reason}"
