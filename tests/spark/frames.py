"""Frames of typed values, vectors as values, and the settings that must make no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from partita.algebra.types import DecimalType, Kind, ListType, LogicalType, MapType, StructType
from partita.arrow.schema import to_arrow

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

MODES = tuple(product(("true", "false"), ("UTC", "America/New_York", "Asia/Kolkata")))
"""ANSI mode and the session's time zone."""
SETTINGS = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.timeType.enabled")

# An example is a Spark job over many values, so one in fifty of the usual number will do.
batched = settings(
    max_examples=max(4, settings.default.max_examples // 50) if settings.default else 4,
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def running_in(spark: SparkSession, mode: tuple[str, str]) -> Iterator[None]:
    """Spark in that ANSI mode and time zone."""
    # Spark 4.1 has TIME behind a setting.
    with set_to(spark, dict(zip(SETTINGS, (*mode, "true"), strict=True))):
        yield


@contextmanager
def set_to(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Spark with those settings."""
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is not None:
                spark.conf.set(name, old)


def frame(spark: SparkSession, columns: Mapping[str, tuple[LogicalType, Sequence[object]]]) -> DataFrame:
    """A frame of these columns, in one partition so that the rows keep their order."""
    arrays = [pa.array(values, to_arrow(type_)) for type_, values in columns.values()]
    schema = spark_types.StructType([spark_types.StructField(n, to_spark(t)) for n, (t, _) in columns.items()])
    return spark.createDataFrame(pa.table(arrays, names=list(columns)), schema).coalesce(1)


def typed_value(text: Any, type_: LogicalType) -> object:
    """The value that a vector's JSON stands for."""
    if type_.kind in _READ and text is not None:
        return _READ[type_.kind](text)
    return text


def plan_of(df: DataFrame, capsys: Any) -> str:
    """The text of the physical plan."""
    capsys.readouterr()
    df.explain(mode="formatted")
    plan: str = capsys.readouterr().out
    return plan


def to_spark(type_: LogicalType) -> DataType:
    """Spark's type of a logical one that Spark has."""
    if isinstance(type_, StructType):
        return spark_types.StructType([spark_types.StructField(f.name, to_spark(f.type)) for f in type_.fields])
    if isinstance(type_, ListType):
        return spark_types.ArrayType(to_spark(type_.element))
    if isinstance(type_, MapType):
        return spark_types.MapType(to_spark(type_.key), to_spark(type_.value))
    if isinstance(type_, DecimalType):
        return spark_types.DecimalType(type_.precision, type_.scale)
    return _ATOMS[type_.kind]


_READ: dict[Kind, Callable[[str], object]] = {
    Kind.DATE: date.fromisoformat,
    Kind.TIME: time.fromisoformat,
    Kind.TIMESTAMP: datetime.fromisoformat,
    Kind.TIMESTAMP_NTZ: datetime.fromisoformat,
    Kind.DECIMAL: Decimal,
    Kind.BINARY: bytes.fromhex,
}
_ATOMS: dict[Kind, DataType] = {
    Kind.BOOLEAN: spark_types.BooleanType(),
    Kind.BYTE: spark_types.ByteType(),
    Kind.SHORT: spark_types.ShortType(),
    Kind.INT: spark_types.IntegerType(),
    Kind.LONG: spark_types.LongType(),
    Kind.FLOAT: spark_types.FloatType(),
    Kind.DOUBLE: spark_types.DoubleType(),
    Kind.DATE: spark_types.DateType(),
    Kind.TIME: spark_types.TimeType(),
    Kind.TIMESTAMP: spark_types.TimestampType(),
    Kind.TIMESTAMP_NTZ: spark_types.TimestampNTZType(),
    Kind.STRING: spark_types.StringType(),
    Kind.BINARY: spark_types.BinaryType(),
    Kind.NULL: spark_types.NullType(),
}
