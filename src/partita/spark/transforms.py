"""Partition functions as Spark Columns: the Spark rendering of `partita.algebra.transforms`, without Python workers.

Each function registers its rendering in `_transform_column` by its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from partita.algebra.calendar import MICROS_PER_HOUR
from partita.algebra.transforms import (
    BucketTransform,
    DayTransform,
    HashTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    PartitionFunction,
    Transform,
    TransformFamily,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from partita.algebra.types import INTEGER_BITS, DecimalType, LogicalType, TypeKind
from partita.errors import SpecError, value_repr
from partita.spark.arguments import check_column_name, check_data_type, check_frame, to_column
from partita.spark.datetimes import floor_div, long_literal, utc_date
from partita.spark.decimals import decimal_from_unscaled, unscaled_value
from partita.spark.errors import translate_spark_errors
from partita.spark.hashing import murmur3
from partita.spark.schema import find_column, logical_type
from partita.spark.session import require_session


@translate_spark_errors()
def apply(f: PartitionFunction, column: Column | str, data_type: DataType, *, family: str) -> Column:
    """Apply a partition function of a family to a column of the given type.

    Raises `TransformError` if the function does not take the type. The query fails if a truncated number is below the
    range of its type.
    """
    _check_function(f)
    check_data_type("the column", data_type)
    require_session()
    source = to_column("the column", column)
    type_, transform_family = logical_type(data_type), TransformFamily.of(family)
    f.transform.check_type(type_, transform_family, f.source)
    return _transform_column(f.transform, source, type_, data_type, transform_family).alias(f.name)


@translate_spark_errors()
def with_partitions(df: DataFrame, functions: Mapping[str, PartitionFunction], *, family: str) -> DataFrame:
    """Add a column for each function, with the name that the mapping gives it.

    Raises `SpecError` if the rows have a column of that name already, unless the function is the identity of it.
    """
    check_frame(df)
    if not isinstance(functions, Mapping):
        raise SpecError(f"functions map names of columns to partition functions, not {type(functions).__name__}")
    TransformFamily.of(family)
    new_columns: dict[str, Column] = {}
    existing_names = {name.casefold() for name in df.columns}
    for name, f in functions.items():
        check_column_name(name)
        _check_function(f)
        if name.casefold() in existing_names:
            if f.transform.is_identity and f.source.casefold() == name.casefold():
                continue
            raise SpecError(f"{f} can't be called {name!r}: the rows have a column of that name; give it an alias")
        column, data_type = find_column(df.schema, f.source)
        new_columns[name] = apply(f, column, data_type, family=family)
    return df.withColumns(new_columns) if new_columns else df


def _check_function(f: object) -> None:
    """Raise `SpecError` for anything but a partition function."""
    if not isinstance(f, PartitionFunction):
        raise SpecError(f"a partition function is one such as pt.bucket('id', 16), not {value_repr(f)}")


@singledispatch
def _transform_column(
    transform: Transform, column: Column, type_: LogicalType, data_type: DataType, family: TransformFamily
) -> Column:
    raise NotImplementedError(f"{transform} has no Spark rendering")


@_transform_column.register
def _identity_column(_: IdentityTransform, column: Column, *__: Any) -> Column:
    return column


@_transform_column.register
def _void_column(_: VoidTransform, __: Column, ___: LogicalType, data_type: DataType, ____: TransformFamily) -> Column:
    return F.lit(None).cast(data_type)


@_transform_column.register
def _hash_column(_: HashTransform, column: Column, type_: LogicalType, *__: Any) -> Column:
    digits = F.hex(murmur3(column, type_).cast("long").bitwiseAND(long_literal(0xFFFF_FFFF)))
    return F.lower(F.lpad(digits, 8, "0"))


@_transform_column.register
def _bucket_column(transform: BucketTransform, column: Column, type_: LogicalType, *_: Any) -> Column:
    return murmur3(column, type_).bitwiseAND(F.lit(0x7FFF_FFFF)) % F.lit(transform.num_buckets)


@_transform_column.register
def _truncate_column(
    transform: TruncateTransform, column: Column, type_: LogicalType, data_type: DataType, _: TransformFamily
) -> Column:
    if type_.kind in (TypeKind.STRING, TypeKind.BINARY):
        return F.substring(column, 1, transform.width)
    overflow = F.raise_error(
        F.concat(F.lit(f"{transform} is below the range of type {type_} for the value "), column.cast("string"))
    )
    if isinstance(type_, DecimalType):
        number = unscaled_value(column)
        lower_multiple = number - F.pmod(number, F.lit(transform.width).cast("decimal(10,0)"))
        result = decimal_from_unscaled(lower_multiple, type_.precision, type_.scale)
        return F.coalesce(result, F.when(column.isNotNull(), overflow))
    number = column.cast("long")
    remainder = F.pmod(number, long_literal(transform.width))
    fits = number >= long_literal(-(1 << (INTEGER_BITS[type_.kind] - 1))) + remainder
    return F.when(fits, (number - remainder).cast(data_type)).when(column.isNotNull(), overflow)


@_transform_column.register
def _year_column(_: YearTransform, column: Column, type_: LogicalType, __: DataType, family: TransformFamily) -> Column:
    year = F.year(_to_date(column, type_))
    return year if family is TransformFamily.LANCE else year - F.lit(1970)


@_transform_column.register
def _month_column(
    _: MonthTransform, column: Column, type_: LogicalType, __: DataType, family: TransformFamily
) -> Column:
    day = _to_date(column, type_)
    if family is TransformFamily.LANCE:
        return F.month(day)
    return (F.year(day) - F.lit(1970)) * F.lit(12) + F.month(day) - F.lit(1)


@_transform_column.register
def _day_column(_: DayTransform, column: Column, type_: LogicalType, __: DataType, family: TransformFamily) -> Column:
    day = _to_date(column, type_)
    return F.day(day) if family is TransformFamily.LANCE else F.unix_date(day)


_HOUR_OVERFLOW = "hour: a timestamp is more than 245,000 years from 1970"


@_transform_column.register
def _hour_column(_: HourTransform, column: Column, type_: LogicalType, __: DataType, family: TransformFamily) -> Column:
    if type_.kind is TypeKind.TIMESTAMP:
        hours = floor_div(F.unix_micros(column), MICROS_PER_HOUR)
        if family is TransformFamily.LANCE:
            return F.pmod(hours, long_literal(24)).cast("int")
        # Spark's timestamps reach to years whose hours exceed an int; outside of ANSI mode the cast would wrap around.
        return F.coalesce(hours.try_cast("int"), F.when(column.isNotNull(), F.raise_error(F.lit(_HOUR_OVERFLOW))))
    hour = F.hour(column)
    return hour if family is TransformFamily.LANCE else F.unix_date(column.cast("date")) * F.lit(24) + hour


def _to_date(column: Column, type_: LogicalType) -> Column:
    return utc_date(F.unix_micros(column)) if type_.kind is TypeKind.TIMESTAMP else column.cast("date")
