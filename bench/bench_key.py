"""Partition keys and ids of rows on Spark: our Columns, the barest hash that could stand for them, and a pandas UDF."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from bench.harness import Row, Side, at_least, compare
from partita.algebra.key import PartitionKey
from partita.spark import id_column, key_column, spark_session, with_key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# So many that what a query takes before its first row doesn't count: a tenth of a second or two.
ROWS = 5_000_000
UDF_ROWS = 200_000
SOURCE_COLUMNS = {
    "at": "timestamp_micros(id * 17000051)",
    "big": "id * 7919",
    "day": "date_from_unix_date(int(id % 20000))",
    "flag": "id % 3 = 0",
    "region": "concat('us-éast-', id % 1000)",
}


def rows() -> Iterator[Row]:
    """Both over the same columns of a Parquet file."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        made = spark_session().range(ROWS).selectExpr(*(f"{sql} as {name}" for name, sql in SOURCE_COLUMNS.items()))
        made.write.parquet(f"{folder}/rows")
        for names in (("big", "day", "flag"), ("big", "day", "flag", "region"), tuple(SOURCE_COLUMNS)):
            yield from _compare_keys(spark_session().read.parquet(f"{folder}/rows").select(*names))


def _compare_keys(df: DataFrame) -> Iterator[Row]:
    names, some = df.columns, df.where(F.col("big") < UDF_ROWS * 7919)
    what = f"key and id of {', '.join(names)}"
    typed = id_column("orders", key_column(**{name: (name, df.schema[name].dataType) for name in names}))
    keyed = with_key(df, dimensions=names)
    bare = Side("sha2(concat(cast to string))", partial(compute_column, df, bare_hash_column(df)))
    udf = Side("pandas UDF", partial(compute_column, some, udf_id_column(some)), share=UDF_ROWS / ROWS)
    ours = Side("key_column, types given", partial(compute_column, df, typed))
    yield compare(what, ours=ours, theirs=bare, goal=at_least(1 / 1.3), repeat=9)
    framed = Side("with_key", partial(compute_column, keyed, id_column("orders", "partition_key")))
    yield compare(what, ours=framed, theirs=bare, goal=at_least(1 / 1.3))
    yield compare(what, ours=ours, theirs=udf, repeat=1)


def compute_column(df: DataFrame, column: Column) -> None:
    """Compute the column for all rows, and drop it."""
    df.select(column).write.format("noop").mode("overwrite").save()


def bare_hash_column(df: DataFrame) -> Column:
    """What an id can't cost less than: a text of all values, and its SHA-256."""
    return F.sha2(F.concat(*(F.col(name).cast("string") for name in df.columns)), 256)


def udf_id_column(df: DataFrame) -> Column:
    """The scalar definition, row by row in a Python worker."""
    names = df.columns

    def ids(columns: pd.DataFrame) -> pd.Series:
        rows = zip(*(_with_time_zone(columns[name]) for name in names), strict=True)
        return pd.Series([PartitionKey.of(dict(zip(names, row, strict=True))).id("orders") for row in rows])

    made: Column = pandas_udf(ids, "string")(F.struct(*names))  # type: ignore[call-overload] # the overloads want a type code
    return made


def _with_time_zone(column: pd.Series) -> pd.Series:
    """Instants with their zone, which a pandas UDF gets without."""
    return column.dt.tz_localize("UTC") if pd.api.types.is_datetime64_dtype(column) else column
