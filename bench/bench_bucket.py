"""Partition functions on Spark against Spark's own `hash`, which hashes otherwise and can't be told how."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.harness import Row, Side, at_least, compare
from partita.algebra.partition_functions import bucket
from partita.spark import apply, spark_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROWS = 10_000_000
SOURCE_COLUMNS = {
    "long": ("id * 7919", 1.2),
    "string": ("concat('user-', id % 1000000)", 2.2),
    "decimal": ("cast(id as decimal(18,2))", None),
    "wide decimal": ("cast(id as decimal(38,10)) * -1", None),
}


def rows() -> Iterator[Row]:
    """One column, read from memory so that the hash is what is measured."""
    spark = spark_session()
    for name, (sql, limit) in SOURCE_COLUMNS.items():
        count = ROWS if limit else ROWS // 20
        df = spark.range(count).selectExpr(f"{sql} as c").cache()
        df.count()
        column = apply(bucket("c", 16), "c", df.schema["c"].dataType, family="iceberg")
        yield compare(
            f"bucket(16) of {count:,} {name}s",
            ours=Side("partita.spark.apply", partial(sum_column, df, column)),
            theirs=Side("hash() % 16", partial(sum_column, df, F.hash("c") % 16)),
            goal=at_least(1 / limit) if limit else None,
        )
        df.unpersist()


def sum_column(df: DataFrame, column: Column) -> None:
    """Compute the column for all rows, and add it up."""
    df.select(column.alias("x")).agg(F.sum("x")).collect()
