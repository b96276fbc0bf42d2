"""Generated columns of a Delta table as Spark Columns, in UTC whatever the session's time zone."""

from __future__ import annotations

from functools import singledispatch

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampType

from partita.algebra.calendar import MICROS_PER_DAY, MICROS_PER_HOUR
from partita.algebra.transforms import (
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from partita.spark.datetimes import integral_div, long_literal, utc_date
from partita.spark.sql_text import quote_identifier


def generated_function_column(transform: Transform, source: str, data_type: DataType) -> Column:
    """Apply a partition function to a column, as its generation expression in Delta does."""
    return _generated_column(transform, F.col(quote_identifier(source)), data_type)


@singledispatch
def _generated_column(transform: Transform, _: Column, __: DataType) -> Column:
    raise NotImplementedError(f"{transform} has no rendering as a generated column")


@_generated_column.register
def _generated_truncate(transform: TruncateTransform, column: Column, _: DataType) -> Column:
    return F.substring(column, 1, transform.width)


@_generated_column.register
def _generated_year(_: YearTransform, column: Column, data_type: DataType) -> Column:
    return F.year(_to_date(column, data_type))


@_generated_column.register
def _generated_month(_: MonthTransform, column: Column, data_type: DataType) -> Column:
    return F.date_format(_to_date(column, data_type), "yyyy-MM")


@_generated_column.register
def _generated_day(_: DayTransform, column: Column, data_type: DataType) -> Column:
    return _to_date(column, data_type)


@_generated_column.register
def _generated_hour(_: HourTransform, column: Column, data_type: DataType) -> Column:
    hour = integral_div(F.pmod(F.unix_micros(column), long_literal(MICROS_PER_DAY)), MICROS_PER_HOUR).cast("string")
    return F.concat(F.date_format(_to_date(column, data_type), "yyyy-MM-dd-"), F.lpad(hour, 2, "0"))


def _to_date(column: Column, data_type: DataType) -> Column:
    return utc_date(F.unix_micros(column)) if isinstance(data_type, TimestampType) else column


def generated_expression_column(expression: str) -> Column:
    """Return any other generation expression as a Column."""
    return F.expr(expression)
