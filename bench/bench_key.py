"""Partition keys and ids of rows on Spark: our Columns, the barest hash that could stand for them, and a pandas UDF."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from bench.harness import Row, Side, at_least, compare
from partita.algebra.key import PartitionKey
from partita.spark import id_column, key_column, session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROWS = 2_000_000
UDF_ROWS = 40_000
SOURCES = {
    "at": "timestamp_micros(id * 17000051)",
    "big": "id * 7919",
    "day": "date_from_unix_date(int(id % 20000))",
    "flag": "id % 3 = 0",
    "region": "concat('us-éast-', id % 1000)",
}


def rows() -> Iterator[Row]:
    """Both over the same columns, made in the same query."""
    for names in (("big", "day", "flag", "region"), ("at", "big", "day", "region")):
        df = session().range(ROWS).selectExpr(*(f"{SOURCES[name]} as {name}" for name in names))
        typed = key_column(**{name: (name, df.schema[name].dataType) for name in names})
        alone = key_column(**{name: name for name in names})
        bare = Side("sha2(concat(cast to string))", lambda df=df: run(df, bare_hash(df)))
        what = f"key and id of {', '.join(names)}"
        ours = Side("key_column, types given", lambda df=df, key=typed: run(df, id_column("orders", key)))
        yield compare(what, ours=ours, theirs=bare, goal=at_least(1 / 1.3))
        ours = Side("key_column", lambda df=df, key=alone: run(df, id_column("orders", key)))
        yield compare(what, ours=ours, theirs=bare, goal=at_least(1 / 1.3))
        udf = Side("pandas UDF", lambda df=df: run(df.limit(UDF_ROWS), udf_id(df)), share=UDF_ROWS / ROWS)
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

    @F.pandas_udf("string")  # type: ignore[call-overload, untyped-decorator] # the types are in the annotations
    def ids(columns: pd.DataFrame) -> pd.Series:
        keys = (PartitionKey.of(dict(zip(names, row, strict=True))) for row in zip(*(_values(columns[n]) for n in names)))
        return pd.Series([key.id("orders") for key in keys])

    made: Column = ids(F.struct(*names))
    return made


def _values(column: pd.Series) -> pd.Series:
    """Instants with their zone, which a pandas UDF gets without."""
    return column.dt.tz_localize("UTC") if pd.api.types.is_datetime64_dtype(column) else column
