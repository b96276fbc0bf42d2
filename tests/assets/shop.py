"""A small pipeline: orders by day and region, their sums by day and by month, in any format.

The functions read a `Shop`, so that a test can make partitions fail or change the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import partita as pt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from partita.lake import Lake

DAYS = pt.daily("date", start="2025-01-30", end="2025-02-03")
MONTHS = pt.monthly("date", start="2025-01-01", end="2025-03-01")
REGIONS = ["us", "a/b=c,ü"]
SCHEMA = "date date, region string, n long"


@dataclass
class Shop:
    """Partitions that fail, partitions that get no rows, and rows outside of the requested partitions.

    `poisoned` fail in their Spark job, `refused` already in the asset's function.
    """

    poisoned: set[pt.PartitionKey] = field(default_factory=set)
    refused: set[pt.PartitionKey] = field(default_factory=set)
    empty: set[pt.PartitionKey] = field(default_factory=set)
    stray: list[tuple[date, str, int]] = field(default_factory=list)
    times: int = 1
    days: pt.PartitionSet = DAYS
    calls: list[tuple[str, int]] = field(default_factory=list)
    reading: Callable[[DataFrame], DataFrame] = field(default=lambda frame: frame)

    def assets(self, format: str = "delta", version: str = "1", retries: int = 0) -> list[pt.Asset]:  # noqa: A002
        """Return the three assets, which write tables of this format."""
        shop = self

        @pt.asset(table="shop.orders", format=format, partitions=self.days * pt.static("region", REGIONS),
                  code_version=version, retries=retries, tags=["raw"])  # fmt: skip
        def orders(ctx: Any) -> Any:
            shop.calls.append(("orders", len(ctx.keys)))
            if shop.refused & set(ctx.keys):
                raise ValueError("refused")
            rows = [
                (k["date"], k["region"], shop.times * (i + 1))
                for k in ctx.keys
                if k not in shop.empty
                for i in range(3)
            ]
            frame = ctx.spark.createDataFrame(rows + shop.stray, SCHEMA)
            for key in shop.poisoned & set(ctx.keys):
                day, region = key["date"], str(key["region"]).replace("'", "''")
                condition = f"date = date'{day}' AND region = '{region}'"
                frame = frame.selectExpr(
                    "date", "region", f"IF({condition}, CAST(raise_error('poisoned {day}') AS BIGINT), n) AS n"
                )
            return frame

        @pt.asset(table="shop.daily", format=format, partitions=self.days, upstream=[orders], code_version="1")
        def daily(ctx: Any) -> Any:
            shop.calls.append(("daily", len(ctx.keys)))
            return shop.reading(ctx.read(orders)).groupBy("date").sum("n").toDF("date", "n")

        @pt.asset(table="shop.monthly", format=format, partitions=MONTHS, upstream=[daily], code_version="1")
        def monthly(ctx: Any) -> Any:
            shop.calls.append(("monthly", len(ctx.keys)))
            return (
                ctx.read(daily).selectExpr("trunc(date, 'MM') AS date", "n").groupBy("date").sum("n").toDF("date", "n")
            )

        return [orders, daily, monthly]


def day_key(day: int, region: str | None = None, month: int = 1) -> pt.PartitionKey:
    """Return the key of a day, or of a day and a region."""
    key = pt.PartitionKey.of(date=date(2025, month, day))
    return key if region is None else pt.PartitionKey.of({**key, "region": region})


def table_rows(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """Return the sorted rows of a table."""
    return sorted(tuple(row) for row in lake.table(table).read().collect())


def partitions_not_current(lake: Lake, assets: Iterable[str] = ("orders", "daily", "monthly")) -> dict[str, list[str]]:
    """Return the partitions that are not current, by asset."""
    rows = lake.status().select(["asset_key", "partition_key", "display_status"]).to_pylist()
    return {
        asset: [f"{r['partition_key']} {r['display_status']}" for r in rows
                if r["asset_key"] == asset and r["display_status"] != "MATERIALIZED"]
        for asset in assets
    }  # fmt: skip


def attempt_history(lake: Lake, asset: str, key: pt.PartitionKey) -> list[tuple[str, int]]:
    """Return the kind and the attempt of each event of a partition."""
    rows = lake.history(asset, key).to_pylist()
    return [(row["kind"], row["attempt"]) for row in rows]
