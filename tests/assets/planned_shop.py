"""Assets that are planned and never run: orders by day and region, and what is made from them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import partita as pt

if TYPE_CHECKING:
    from partita.lake import Lake

DAYS = pt.daily("date", start="2025-01-01", end="2025-01-05")
BOTH = DAYS * pt.static("region", ["eu", "us"])


def define(name: str, partitions: pt.PartitionSet | None = None, **arguments: Any) -> pt.Asset:
    return pt.asset(name=name, partitions=partitions, **{"code_version": "1", **arguments})(lambda _: None)


def day(number: int, **others: object) -> pt.PartitionKey:
    return pt.PartitionKey.of(date=date(2025, 1, number), **others)


def register_shop(lake: Lake) -> Lake:
    """Orders by day and region, sales by day, their change by day, and one report."""
    orders = define("orders", BOTH, tags=["raw"])
    sales = define("sales", DAYS, upstream=[orders])
    change = define("change", DAYS, upstream=[(sales, pt.window_offset("date", -1, 0))], tags=["daily"])
    lake.register(orders, sales, change, define("report", upstream=[(change, pt.all_partitions())]))
    return lake


def record(lake: Lake, asset: str, *keys: object, outcome: str = "succeeded", **fields: Any) -> None:
    lake.record(asset, list(keys) or None, outcome=outcome, **{"code_version": "1", **fields})  # type: ignore[arg-type] # keys


def record_all(lake: Lake) -> None:
    record(lake, "orders", *[day(n, region=region) for n in range(1, 5) for region in ("eu", "us")])
    record(lake, "sales", *map(day, range(1, 5)))
    record(lake, "change", *map(day, range(1, 5)))
    record(lake, "report")


def planned_keys(plan: pt.RunPlan) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for row in plan.partitions.to_pylist():
        keys.setdefault(row["asset_key"], []).append(row["partition_key"])
    return keys
