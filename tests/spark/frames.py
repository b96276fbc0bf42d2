"""DataFrames of typed values, values of vectors, and session settings that must make no difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from partita.algebra.types import DecimalType, ListType, LogicalType, MapType, StructType, TypeKind
from partita.arrow.schema import to_arrow_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

T = TypeVar("T")
SESSION_MODES = tuple(product(("true", "false"), ("UTC", "America/New_York", "Asia/Kolkata")))
"""ANSI mode and the session's time zone."""
DRAWN_MODES = SESSION_MODES if settings().max_examples > 100 else SESSION_MODES[1::4]
"""The modes that random examples are for: all of them in a long run, and in a normal one two that share no setting.

Neither of the two compiles plans, for which vectors are enough.
"""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's own settings, which the tests' session replaces by `INTERPRETED`."""

# An example is a Spark job over many values, so a fiftieth of the usual number is enough.
few_examples = settings(
    max_examples=max(4, settings.default.max_examples // 50) if settings.default else 4,
    suppress_health_check=list(HealthCheck),
)


def draw_examples(strategy: st.SearchStrategy[T]) -> list[T]:
    """Return as many examples as `few_examples` tries, for one Spark job over all of them."""
    examples: list[T] = []

    @settings(few_examples, phases=[Phase.generate])
    @given(strategy)
    def draw(example: T) -> None:
        examples.append(example)

    draw()
    return examples


def draw_by_mode(strategy: st.SearchStrategy[T], number: int | None = None) -> dict[tuple[str, str], list[T]]:
    """Return examples by the mode of the session that they are for.

    With the number of a strategy among several, all of its examples are for one mode in a normal run.
    """
    is_long = len(DRAWN_MODES) == len(SESSION_MODES)
    modes = DRAWN_MODES if is_long or number is None else SESSION_MODES[1 + number % 5 :][:1]
    by_mode: dict[tuple[str, str], list[T]] = {}
    for mode, example in draw_examples(st.tuples(st.sampled_from(modes), strategy)):
        by_mode.setdefault(mode, []).append(example)
    return by_mode


@contextmanager
def session_mode(spark: SparkSession, mode: tuple[str, str]) -> Iterator[None]:
    """Set the ANSI mode and the time zone of a session; plans in the first mode are compiled."""
    ansi, time_zone = mode
    settings = {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": time_zone}
    if mode == SESSION_MODES[0]:
        settings |= COMPILED
    # TIME needs a setting in Spark 4.1.
    with session_settings(spark, {**settings, "spark.sql.timeType.enabled": "true"}):
        yield


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session while a block runs."""
    original = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, original_value in original.items():
            if original_value is not None:
                spark.conf.set(name, original_value)


def typed_frame(spark: SparkSession, columns: Mapping[str, tuple[LogicalType, Sequence[object]]]) -> DataFrame:
    """Return a DataFrame of typed columns, in one partition so that the rows keep their order.

    Nulls follow in a column that has fewer values than another.
    """
    length = max(len(values) for _, values in columns.values())
    arrays = [
        pa.array([*values, *[None] * (length - len(values))], to_arrow_type(type_))
        for type_, values in columns.values()
    ]
    schema = spark_types.StructType([spark_types.StructField(n, spark_type(t)) for n, (t, _) in columns.items()])
    return spark.createDataFrame(pa.table(arrays, names=list(columns)), schema).coalesce(1)


def typed_value(text: Any, type_: LogicalType) -> object:
    """Return the value that the JSON of a vector stands for."""
    if type_.kind in _VALUE_PARSERS and text is not None:
        return _VALUE_PARSERS[type_.kind](text)
    return text


def physical_plan_text(df: DataFrame, capsys: Any) -> str:
    """Return the text of the physical plan."""
    capsys.readouterr()
    df.explain(mode="formatted")
    plan: str = capsys.readouterr().out
    return plan


def spark_type(type_: LogicalType) -> DataType:
    """Return the Spark type of a logical type."""
    if isinstance(type_, StructType):
        return spark_types.StructType([spark_types.StructField(f.name, spark_type(f.type)) for f in type_.fields])
    if isinstance(type_, ListType):
        return spark_types.ArrayType(spark_type(type_.element))
    if isinstance(type_, MapType):
        return spark_types.MapType(spark_type(type_.key), spark_type(type_.value))
    if isinstance(type_, DecimalType):
        return spark_types.DecimalType(type_.precision, type_.scale)
    return _SPARK_TYPES[type_.kind]


_VALUE_PARSERS: dict[TypeKind, Callable[[str], object]] = {
    TypeKind.DATE: date.fromisoformat,
    TypeKind.TIME: time.fromisoformat,
    TypeKind.TIMESTAMP: datetime.fromisoformat,
    TypeKind.TIMESTAMP_NTZ: datetime.fromisoformat,
    TypeKind.DECIMAL: Decimal,
    TypeKind.BINARY: bytes.fromhex,
}
_SPARK_TYPES: dict[TypeKind, DataType] = {
    TypeKind.BOOLEAN: spark_types.BooleanType(),
    TypeKind.BYTE: spark_types.ByteType(),
    TypeKind.SHORT: spark_types.ShortType(),
    TypeKind.INT: spark_types.IntegerType(),
    TypeKind.LONG: spark_types.LongType(),
    TypeKind.FLOAT: spark_types.FloatType(),
    TypeKind.DOUBLE: spark_types.DoubleType(),
    TypeKind.DATE: spark_types.DateType(),
    TypeKind.TIME: spark_types.TimeType(),
    TypeKind.TIMESTAMP: spark_types.TimestampType(),
    TypeKind.TIMESTAMP_NTZ: spark_types.TimestampNTZType(),
    TypeKind.STRING: spark_types.StringType(),
    TypeKind.BINARY: spark_types.BinaryType(),
    TypeKind.NULL: spark_types.NullType(),
}
