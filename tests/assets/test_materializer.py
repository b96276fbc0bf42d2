"""Materializing partitions of each format: what is written, what is recorded, and what is refused."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

import partita as pt
from partita.lake import Lake
from tests.assets.shop import REGIONS, Shop, day_key, partitions_not_current, table_rows

FORMATS = ("delta", "iceberg", "lance")


pytestmark = pytest.mark.usefixtures("spark")


# `test_one_lake_with_all_three_formats` runs always too.
@pytest.mark.parametrize("format_name", ["delta", pytest.param("iceberg", marks=pytest.mark.long), "lance"])
def test_a_pipeline_over_its_life(lake: Lake, shop: Shop, format_name: str) -> None:
    """All that is missing runs in order, changed code runs again with its downstreams, and partitions become empty."""
    lake.register(*shop.assets(format_name))
    events: list[dict[str, Any]] = []
    result = lake.run(lake.plan(), listener=lambda event: events.append(dict(event)))
    assert (result.succeeded, result.ok) == (8 + 4 + 2, True)
    assert shop.calls == [("orders", 8), ("daily", 4), ("monthly", 2)], "each asset by one job"
    assert len(table_rows(lake, "shop.orders")) == 24
    assert table_rows(lake, "shop.daily") == [(date(2025, m, d), 12) for m, d in ((1, 30), (1, 31), (2, 1), (2, 2))]
    assert table_rows(lake, "shop.monthly") == [(date(2025, 1, 1), 24), (date(2025, 2, 1), 24)]
    assert partitions_not_current(lake) == {"orders": [], "daily": [], "monthly": []}
    assert [event["event"] for event in events if event["event"] != "started"] == ["begun", *["succeeded"] * 3, "ended"]
    (row,) = [r for r in lake.status("orders").to_pylist() if r["partition_key"] == str(day_key(30, REGIONS[1]))]
    assert (row["last_materialization_rows"], row["last_materialization_run_id"]) == (3, result.run_id)
    assert row["last_materialization_started_at"] <= row["last_materialization_at"]
    assert len(lake.plan()) == 0

    shop.times = 10
    lake.register(*shop.assets(format_name, version="2"))
    plan = lake.plan(where="date = '2025-01-31'")
    assert plan.partitions["reasons"].to_pylist() == [["CODE_CHANGED"]] * 2 + [["UPSTREAM_PLANNED"]]
    assert lake.run(plan).succeeded == 3
    assert table_rows(lake, "shop.daily")[:2] == [(date(2025, 1, 30), 12), (date(2025, 1, 31), 120)]
    assert len(table_rows(lake, "shop.orders")) == 24, "replaced, not added"
    rest = {(row["asset_key"], row["partition_key"]): row["reasons"] for row in lake.plan().partitions.to_pylist()}
    assert len(rest) == 6 + 3 + 2
    assert rest["monthly", str(day_key(1))] == ["UPSTREAM_CHANGED", "UPSTREAM_PLANNED"]

    shop.times = 1
    shop.empty = {day_key(30, region) for region in REGIONS}
    lake.register(*shop.assets(format_name, version="3"))
    assert lake.run(lake.plan()).ok
    assert table_rows(lake, "shop.daily") == [(date(2025, m, d), 12) for m, d in ((1, 31), (2, 1), (2, 2))]
    assert partitions_not_current(lake) == {"orders": [], "daily": [], "monthly": []}
    (row,) = [r for r in lake.status("daily").to_pylist() if r["partition_key"] == str(day_key(30))]
    assert row["last_materialization_rows"] == 0


@pytest.mark.parametrize("format_name", FORMATS)
def test_rows_outside_of_the_requested_partitions_fail_with_samples(lake: Lake, shop: Shop, format_name: str) -> None:
    shop.stray = [(date(2024, 12, 31), "xx", 77)]
    lake.register(*shop.assets(format_name))
    result = lake.run(lake.plan(select="orders", where="date = '2025-01-30'"))
    assert (result.succeeded, result.failed) == (0, 2)
    assert "77" in result.failures[0].error
    assert "2024" in result.failures[0].error
    assert table_rows(lake, "shop.orders") == []


def test_an_asset_without_a_table_and_one_without_partitions(lake: Lake, shop: Shop) -> None:
    orders, *_ = shop.assets()
    row_counts: list[int] = []

    @pt.asset(upstream=[(orders, pt.all_partitions())])
    def mail(ctx: Any) -> None:
        row_counts.append(ctx.read(orders).count())

    @pt.asset(table="total", upstream=[(orders, pt.all_partitions())])
    def total(ctx: Any) -> Any:
        return ctx.read(orders).groupBy().sum("n").toDF("n")

    lake.register(orders, mail, total)
    assert lake.run(lake.plan()).succeeded == 10
    assert row_counts == [24]
    assert table_rows(lake, "total") == [(48,)]
    lake.wipe("total")
    assert lake.run(lake.plan()).succeeded == 1
    assert table_rows(lake, "total") == [(48,)]


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (lambda _: None, "returned nothing"),
        (lambda _: 7, "rows are a Spark DataFrame"),
        (lambda ctx: ctx.spark.range(1), "no column 'p'"),
        (lambda ctx: ctx.read("elsewhere"), "not an upstream of 'bad'"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_an_invalid_result_of_a_function_is_a_failed_attempt(lake: Lake, returned: Any, error: str) -> None:
    lake.register(pt.asset(name="bad", table="bad", partitions=pt.static("p", ["a"]))(returned))
    result = lake.run(lake.plan())
    assert result.failed == 1
    assert error in result.failures[0].error
    assert lake.status("bad", state="failed").num_rows == 1


def test_a_table_that_could_not_hold_the_partitions_is_not_made(lake: Lake) -> None:
    @pt.asset(table="bad", partitions=pt.static("p", ["a"]))
    def bad(ctx: Any) -> Any:
        return ctx.spark.createDataFrame([(1, 2)], "p int, n int")

    lake.register(bad)
    (failure,) = lake.run(lake.plan()).failures
    assert "can't hold 'a' in a key" in failure.error
    assert lake.tables() == []
    assert lake.register(bad) == [], "as before"


def test_one_lake_with_all_three_formats(lake: Lake) -> None:
    days = pt.daily("date", start="2025-01-01", end="2025-01-04")

    @pt.asset(table="raw", format="iceberg", partitions=days, code_version="1")
    def raw(ctx: Any) -> Any:
        return ctx.spark.createDataFrame([(k["date"], n) for k in ctx.keys for n in range(4)], "date date, n long")

    @pt.asset(table="clean", format="delta", partitions=days, upstream=[raw], code_version="1")
    def clean(ctx: Any) -> Any:
        return ctx.read(raw).where("n > 0")

    @pt.asset(table="vectors", format="lance", partitions=pt.static("id_bucket", [0, 1]),
              partition_by=[pt.bucket("id", 2)], upstream=[(clean, pt.all_partitions())], code_version="1")  # fmt: skip
    def vectors(ctx: Any) -> Any:
        return ctx.filter_to_keys(
            ctx.read(clean).selectExpr("n AS id", "array(float(n), float(1)) AS vector").distinct()
        )

    lake.register(raw, clean, vectors)
    assert lake.run(lake.plan()).succeeded == 3 + 3 + 2
    assert lake.table("vectors").read().count() == 3
    lake.wipe("vectors", {"id_bucket": 1})
    assert lake.run(lake.plan()).succeeded == 1
    assert lake.table("vectors").read().count() == 3
    lake.table("raw").delete("n = 2 AND date = '2025-01-02'")
    anew = pt.asset(name="clean", table="clean", partitions=days, upstream=[raw], code_version="2")
    lake.register(anew(clean))
    assert lake.run(lake.plan()).succeeded == 3 + 2
    assert lake.table("clean").read().count() == 8
    assert lake.status_counts()["current"].to_pylist() == [3, 3, 2]


def test_the_schema_of_a_new_table_may_say_what_spark_cannot(lake: Lake) -> None:
    columns = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), 2))])

    @pt.asset(table="vectors", format="lance", partitions=pt.static("id_bucket", [0, 1]), schema=columns,
              partition_by=[pt.bucket("id", 2)])  # fmt: skip
    def vectors(ctx: Any) -> Any:
        return ctx.filter_to_keys(ctx.spark.range(4).selectExpr("id", "array(float(id), float(1)) AS vector"))

    lake.register(vectors)
    assert lake.run(lake.plan()).ok
    table: Any = lake.table("vectors")
    assert table.search([3.0, 1.0], "vector", k=2)["id"].to_pylist() == [3, 2]
