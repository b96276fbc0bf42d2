"""The rows that formats are compared over, and what is done to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import partita as pt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_COUNT = 5_000_000
PARTITION_COUNT = 200
_ORDER_COLUMNS = (
    "id",
    "id * 7919 % 1000003 as user_id",
    f"int(pmod(xxhash64(id), {PARTITION_COUNT})) as p",
    "id % 1000 / 7d as price",
    "cast(id % 99999 / 100 as decimal(12,2)) as amount",
    "timestamp_micros(1735689600000000 + id * 17000) as ts",
    "date_from_unix_date(int(20000 + id % 365)) as day",
    "id % 3 = 0 as flag",
    "concat('name-', id % 5000) as name",
    "concat('city-', id % 300) as city",
    "uuid() as code",
    "int(id % 97) as quantity",
)

ApplyChange = Callable[[pt.Table, "DataFrame"], object]
ROW_LEVEL_CHANGES: tuple[tuple[str, ApplyChange, str], ...] = (
    ("DELETE a scattered 1 %", lambda t, _: t.delete("id % 100 = 7"), "DELETE FROM {} WHERE id % 100 = 7"),
    (
        "UPDATE 1 %",
        lambda t, _: t.update({"price": "price * 2"}, "id % 100 = 7"),
        "UPDATE {} SET price = price * 2 WHERE id % 100 = 7",
    ),
    (
        "MERGE 2 %",
        lambda t, source: t.merge(
            source,
            "t.id = s.id",
            pt.when_matched().update({"price": "s.price"}),
            pt.when_not_matched().insert({"id": "s.id", "p": "0", "price": "s.price"}),
        ),
        (
            "MERGE INTO {} t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = s.price "
            "WHEN NOT MATCHED THEN INSERT (id, p, price) VALUES (s.id, 0, s.price)"
        ),
    ),
)
"""What a change is called, how we make it, and the same in SQL, with a place for the table."""


def order_rows(spark: SparkSession, folder: str) -> DataFrame:
    """The rows, in a Parquet file."""
    spark.range(0, ROW_COUNT, 1, 4).selectExpr(*_ORDER_COLUMNS).write.parquet(f"{folder}/rows")
    return spark.read.parquet(f"{folder}/rows")


def merge_source(spark: SparkSession, folder: str) -> DataFrame:
    """What the merge takes, half of it new; SQL finds it as `source`."""
    old = spark.range(0, ROW_COUNT, 100).selectExpr("id", "1.5D as price")
    new = spark.range(ROW_COUNT, ROW_COUNT + ROW_COUNT // 100).selectExpr("id", "2.5D as price")
    old.union(new).write.parquet(f"{folder}/source")
    source = spark.read.parquet(f"{folder}/source")
    source.createOrReplaceTempView("source")
    return source


def compute_rows(rows: DataFrame) -> None:
    """Compute all rows, and drop them."""
    rows.write.format("noop").mode("overwrite").save()
