"""Change an Iceberg table over Spark Connect while its partition spec evolves."""

from __future__ import annotations

import tempfile

from pyspark.sql import DataFrame

import partita as pt
from partita.spark import spark_session
from tests.connect.delta_table import merge_prices


def check_iceberg_table() -> None:
    spark = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        lake = pt.Lake(folder)
        schema = pt.Schema.of({"id": "long", "ts": "timestamp", "country": "string", "price": "double"})
        table = lake.create_table("sales.orders", schema, format="iceberg", partition_by=[pt.day("ts"), "country"])
        rows = spark.range(100).selectExpr(
            "id", "timestamp_seconds(id * 7200) AS ts", "concat('c', id % 3) AS country", "id / 10 AS price"
        )
        table.append(rows)
        table.evolve(add=[pt.bucket("id", 4)], drop=["country"])
        table.append(rows.selectExpr("id + 100 AS id", "ts", "country", "price"))
        assert table.delete("id % 10 = 7").counts["rows_deleted"] == 20
        assert table.update({"price": "-1"}, "country = 'c1' AND id % 100 < 5").counts["rows_updated"] == 4
        source = spark.createDataFrame([(0, 5.0), (1, 6.0), (101, 6.5), (200, 7.0)], "id long, price double")
        merge_prices(table, source)
        prices = {row.id: row.price for row in table.read().collect()}
        assert len(prices) == 200 - 20 - 1 + 1, len(prices)
        assert (prices[1], prices[101], prices[200]) == (6.0, 6.5, 7.0), prices
        assert sorted(id_ for id_, price in prices.items() if price == -1) == [4, 104], prices
        table.rewrite()
        assert {row.id: row.price for row in table.read().collect()} == prices
        counted = lake.sql("SELECT count(*) AS n FROM sales.orders WHERE id < 100")
        assert isinstance(counted, DataFrame)
        (row,) = counted.collect()
        assert row.n == sum(id_ < 100 for id_ in prices), row
        print(f"{len(table.specs)} specs")  # noqa: T201 - read by the test
