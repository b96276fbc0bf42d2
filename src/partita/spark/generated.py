"""Columns that a Delta table makes from others, in UTC whatever the session's time zone."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampType

from partita.algebra.calendar import DAY, HOUR
from partita.spark.instants import day_of, div, long
from partita.spark.schema import quoted


def generated_by(function: str, source: str, data_type: DataType, width: int) -> Column:
    """`year`, `month`, `day`, `hour` or `truncate` of a column, as Delta's SQL for them says."""
    column = F.col(quoted(source))
    if function == "truncate":
        return F.substring(column, 1, width)
    day = day_of(F.unix_micros(column)) if isinstance(data_type, TimestampType) else column
    if function == "day":
        return day
    if function == "year":
        return F.year(day)
    if function == "month":
        return F.date_format(day, "yyyy-MM")
    hour = div(F.pmod(F.unix_micros(column), long(DAY)), HOUR).cast("string")
    return F.concat(F.date_format(day, "yyyy-MM-dd-"), F.lpad(hour, 2, "0"))


def generated_as(expression: str) -> Column:
    """Any other expression, as Spark evaluates it."""
    return F.expr(expression)
