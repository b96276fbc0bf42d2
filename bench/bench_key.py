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
from partita.spark import id_column, key_column, session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# So many that what a query takes before its first row doesn't count: a tenth of a second or two.
ROWS = 5_000_000
UDF_ROWS = 200_000
SOURCES = {
    "at": "timestamp_micros(id * 17000051)",
    "big": "id * 7919",
    "day": "date_from_unix_date(int(id % 20000))",
    "flag": "id % 3 = 0",
    "region": "concat('us-éast-', id % 1000)",
}


def rows() -> Iterator[Row]:
    """Both over the same columns of a Parquet file."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        made = session().range(ROWS).selectExpr(*(f"{sql} as {name}" for name, sql in SOURCES.items()))
        made.write.parquet(f"{folder}/rows")
        for names in (("big", "day", "flag"), ("big", "day", "flag", "region"), tuple(SOURCES)):
            yield from _keys(session().read.parquet(f"{folder}/rows").select(*names))


def _keys(df: DataFrame) -> Iterator[Row]:
    names, some = df.columns, df.where(F.col("big") < UDF_ROWS * 7919)
    what = f"key and id of {', '.join(names)}"
    typed = id_column("orders", key_column(**{name: (name, df.schema[name].dataType) for name in names}))
    named = id_column("orders", key_column(**{name: name for name in names}))
    untyped = id_column("orders", key_column(**{name: F.col(name) for name in names}))
    bare = Side("sha2(concat(cast to string))", partial(run, df, bare_hash(df)))
    udf = Side("pandas UDF", partial(run, some, udf_id(some)), share=UDF_ROWS / ROWS)
    ours = Side("key_column, types given", partial(run, df, typed))
    yield compare(what, ours=ours, theirs=bare, goal=at_least(1 / 1.3), repeat=9)
    yield compare(what, ours=Side("key_column, names", partial(run, df, named)), theirs=bare, goal=at_least(1 / 1.3))
    yield compare(what, ours=Side("key_column, Columns alone", partial(run, df, untyped)), theirs=bare)
    yield compare(what, ours=ours, theirs=udf, repeat=1)


def run(df: DataFrame, column: Column) -> None:
    """Compute the column for all rows, and drop it."""
    df.select(column).write.format("noop").mode("overwrite").save()


def bare_hash(df: DataFrame) -> Column:
    """What an id can't cost less than: a text of all values, and its SHA-256."""
    return F.sha2(F.concat(*(F.col(name).cast("string") for name in df.columns)), 256)


def udf_id(df: DataFrame) -> Column:
    """The scalar definition, row by row in a Python worker."""
    names = df.columns

    def ids(columns: pd.DataFrame) -> pd.Series:
        rows = zip(*(_values(columns[name]) for name in names), strict=True)
        return pd.Series([PartitionKey.of(dict(zip(names, row, strict=True))).id("orders") for row in rows])

    made: Column = pandas_udf(ids, "string")(F.struct(*names))  # type: ignore[call-overload] # the overloads want a type code
    return made


def _values(column: pd.Series) -> pd.Series:
    """Instants with their zone, which a pandas UDF gets without."""
    return column.dt.tz_localize("UTC") if pd.api.types.is_datetime64_dtype(column) else column
