"""Partition functions as Spark Columns: `partita.algebra.transforms` without a Python worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from partita.algebra.calendar import HOUR
from partita.algebra.transforms import Family, PartitionFunction
from partita.algebra.types import BITS, DecimalType, Kind, LogicalType
from partita.errors import SpecError
from partita.spark.decimals import rescaled, unscaled
from partita.spark.hashing import murmur3
from partita.spark.instants import day_of, floor_div, long
from partita.spark.schema import find_column, to_logical

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def apply(f: PartitionFunction, column: Column | str, data_type: DataType, *, family: str) -> Column:
    """The function of a column of that type, in the family's meaning.

    A type that the function doesn't take is a `TransformError`. A truncated number that is below what its type can
    hold fails the query.
    """
    source = F.col(column) if isinstance(column, str) else column
    type_ = to_logical(data_type)
    f.transform.check(type_, Family.of(family), f.source)
    return _applied(f, source, type_, data_type, Family.of(family)).alias(f.name)


def with_partitions(df: DataFrame, functions: Mapping[str, PartitionFunction], *, family: str) -> DataFrame:
    """The rows with one more column for each function, under the names that the mapping gives.

    A name that the rows have already is refused, but for the identity of that very column.
    """
    added: dict[str, Column] = {}
    taken = {name.casefold() for name in df.columns}
    for name, f in functions.items():
        if name.casefold() in taken:
            if f.transform.name == "identity" and f.source.casefold() == name.casefold():
                continue
            raise SpecError(f"{f} can't be called {name!r}: the rows have a column of that name; give it an alias")
        column, data_type = find_column(df.schema, f.source)
        added[name] = apply(f, column, data_type, family=family)
    return df.withColumns(added) if added else df


def _applied(f: PartitionFunction, column: Column, type_: LogicalType, data_type: DataType, family: Family) -> Column:
    name, width = f.transform.name, f.transform.width
    if name == "identity":
        return column
    if name == "void":
        return F.lit(None).cast(data_type)
    if name == "hash":
        digits = F.hex(murmur3(column, type_).cast("long").bitwiseAND(long(0xFFFF_FFFF)))
        return F.lower(F.lpad(digits, 8, "0"))
    if name == "bucket":
        return murmur3(column, type_).bitwiseAND(F.lit(0x7FFF_FFFF)) % F.lit(cast("int", width))
    if name == "truncate":
        return _truncated(column, type_, data_type, f)
    return _time_part(name, column, type_, family)


def _truncated(column: Column, type_: LogicalType, data_type: DataType, f: PartitionFunction) -> Column:
    width = cast("int", f.transform.width)
    if type_.kind in (Kind.STRING, Kind.BINARY):
        return F.substring(column, 1, width)
    below = F.raise_error(F.concat(F.lit(f"{f} is below what {type_} can hold, of "), column.cast("string")))
    if isinstance(type_, DecimalType):
        number = unscaled(column)
        floored = number - F.pmod(number, F.lit(width).cast("decimal(10,0)"))
        result = rescaled(floored, type_.precision, type_.scale)
        return F.coalesce(result, F.when(column.isNotNull(), below))
    number = column.cast("long")
    over = F.pmod(number, long(width))
    fits = number >= long(-(1 << (BITS[type_.kind] - 1))) + over
    return F.when(fits, (number - over).cast(data_type)).when(column.isNotNull(), below)


def _time_part(name: str, column: Column, type_: LogicalType, family: Family) -> Column:
    if name == "hour":
        return _hour(column, type_, family)
    day = day_of(F.unix_micros(column)) if type_.kind is Kind.TIMESTAMP else column.cast("date")
    if family is Family.LANCE:
        return {"year": F.year, "month": F.month, "day": F.day}[name](day)
    if name == "day":
        return F.unix_date(day)
    years = F.year(day) - F.lit(1970)
    return years if name == "year" else years * F.lit(12) + F.month(day) - F.lit(1)


_FAR = "hour: a timestamp that is over 245,000 years from 1970"


def _hour(column: Column, type_: LogicalType, family: Family) -> Column:
    if type_.kind is Kind.TIMESTAMP:
        hours = floor_div(F.unix_micros(column), HOUR)
        if family is Family.LANCE:
            return F.pmod(hours, long(24)).cast("int")
        # Spark's timestamps reach to years whose hours don't fit an int; outside of ANSI mode the cast would wrap.
        return F.coalesce(hours.try_cast("int"), F.when(column.isNotNull(), F.raise_error(F.lit(_FAR))))
    hour = F.hour(column)
    return hour if family is Family.LANCE else F.unix_date(column.cast("date")) * F.lit(24) + hour
