"""What an asset's function reads: the upstream partitions that its mapping names."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

import partita as pt
from partita.lake import Lake
from tests.assets.shop import Shop, day_key

pytestmark = pytest.mark.usefixtures("spark")


def test_an_asset_reads_the_partitions_that_it_is_mapped_to_and_no_other(lake: Lake, shop: Shop) -> None:
    files: list[str] = []

    def record_files(frame: Any) -> Any:
        files.extend(frame.inputFiles())
        return frame

    shop.reading = record_files
    lake.register(*shop.assets())
    lake.run(lake.plan(select="orders"))
    lake.run(lake.plan(select="daily", where="date = '2025-01-31'"))
    assert len(files) == 2
    assert all("date=2025-01-31" in file for file in files)


def test_window_offsets_and_functions_select_the_partitions_to_read(lake: Lake, shop: Shop) -> None:
    orders, *_ = shop.assets()
    dates: dict[str, list[date]] = {}
    days = pt.daily("date", start="2025-01-31", end="2025-02-03")

    def read(name: str, mapping: Any) -> pt.Asset:
        def read_orders(ctx: Any) -> None:
            dates[name] = sorted({row.date for row in ctx.read(orders).select("date").collect()})

        return pt.asset(name=name, partitions=days, upstream=[(orders, mapping)], code_version="1")(read_orders)

    def first(_: pt.PartitionKey) -> list[pt.PartitionKey]:
        return [day_key(30, "us")]

    assets = [read("before", pt.window_offset("date", -1)), read("week", pt.window_offset("date", -6, 0)),
              read("all", pt.all_partitions()), read("first", pt.mapped_by(first))]  # fmt: skip
    lake.register(orders, *assets)
    assert lake.run(lake.plan(where="date <= '2025-01-31'", select=["orders"])).ok
    assert lake.run(lake.plan(where="date = '2025-01-31'", select=["before", "week", "first"])).ok
    jan = [date(2025, 1, 30), date(2025, 1, 31)]
    assert dates == {"before": jan[:1], "week": jan, "first": jan[:1]}
    plan = lake.plan(select="all")
    assert (len(plan), set(plan.blocked["by_asset"].to_pylist())) == (0, {"orders"})
