"""Lakes for the tests of pages: every state there is, names and errors that are hostile, and tables without a JVM."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

import partita as pt
from partita.formats.iceberg.catalogs import lake_catalog
from partita.lake import Lake

NOW = datetime.now(UTC).replace(microsecond=0)
FIRST_DAY = date(2026, 6, 1)
DAY_COUNT = 60
HOSTILE_TEXT = "\"><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
HOSTILE_ASSET = "<script>document.title='owned'</script>&asset=x"
REGIONS = ("ap", "eu", HOSTILE_TEXT, "us")
ERROR_TEXT = f"Traceback (most recent call last):\n  disk full {HOSTILE_TEXT}\n</pre></table><b>bold</b>"


def fill_sample_lake(lake: Lake) -> Lake:
    """A small warehouse: raw orders, sales by day and region, an hourly feed, a report, and names meant to hurt."""
    end = FIRST_DAY + timedelta(days=DAY_COUNT)
    days = pt.daily("date", start=FIRST_DAY, end=end)
    raw = pt.asset(name="raw_orders", partitions=days, table="web.orders", code_version="1")(print)
    sales = pt.asset(
        name="daily_sales",
        partitions=days * pt.static("region", REGIONS),
        upstream=[raw],
        table="web.sales",
        code_version="3",
        freshness=timedelta(days=400),
    )(print)
    clicks = pt.asset(name="clicks", partitions=pt.hourly("hour", start="2026-07-01", end="2026-07-08"))(print)
    report = pt.asset(name="report", upstream=[(sales, pt.all_partitions())])(print)
    shards = pt.asset(name="shards", partitions=pt.static("shard", range(120)))(print)
    lake.register(raw, sales, clicks, report, shards, pt.asset(name=HOSTILE_ASSET, upstream=[raw])(print))
    _record_attempts(lake)
    return lake


def fill_dense_lake(lake: Lake) -> Lake:
    """An asset with more partitions than a map has lines; one in ten is missing, and evenly so."""
    days = [FIRST_DAY + timedelta(days=d) for d in range(3)]
    partitions = pt.daily("date", start=FIRST_DAY, end=days[-1] + timedelta(days=1)) * pt.static("shard", range(600))
    lake.register(pt.asset(name="dense", partitions=partitions)(print))
    made = [{"date": day, "shard": n} for day in days for n in range(600) if n % 10]
    lake.record("dense", made, outcome="succeeded", at=datetime(2026, 8, 1, tzinfo=UTC))
    return lake


def _record_attempts(lake: Lake) -> None:
    def keys(start: int, stop: int, *regions: str) -> list[Any]:
        found = [FIRST_DAY + timedelta(days=d) for d in range(start, stop)]
        return [{"date": d, "region": r} for d in found for r in regions] if regions else [{"date": d} for d in found]

    at = datetime(2026, 8, 1, tzinfo=UTC)
    lake.record("raw_orders", keys(0, 55), outcome="succeeded", run_id="load-1", at=at, code_version="1", rows=1000)
    sold = at + timedelta(hours=1)
    lake.record(
        "daily_sales", keys(0, 50, *REGIONS), outcome="succeeded", run_id="sales-1", at=sold, code_version="3", rows=10
    )
    lake.record("daily_sales", keys(0, 6, "eu"), outcome="succeeded", run_id="s0", at=sold, code_version="2")
    lake.record("raw_orders", keys(20, 26), outcome="succeeded", run_id="load-2", at=at + timedelta(hours=2))
    failed = at + timedelta(hours=3)
    lake.record("daily_sales", keys(40, 43, "us"), outcome="failed", run_id="sales-2", at=failed, error=ERROR_TEXT)
    lake.record(
        "daily_sales",
        keys(51, 53, "eu", HOSTILE_TEXT),
        outcome="failed",
        run_id=HOSTILE_TEXT,
        at=failed,
        error=ERROR_TEXT,
    )
    lake.record("daily_sales", keys(54, 56, "ap"), outcome="started", run_id="sales-3", at=failed)
    lake.record("daily_sales", keys(-2, 0, "us"), outcome="succeeded", run_id="early", at=sold, code_version="3")
    hours = [datetime(2026, 7, 1, tzinfo=UTC) + timedelta(hours=h) for h in range(24 * 6)]
    lake.record("clicks", [{"hour": h} for h in hours if h.hour != 3], outcome="succeeded", run_id="c1", at=at)
    lake.record("shards", [{"shard": n} for n in range(0, 120, 3)], outcome="succeeded", run_id="x", at=at)
    lake.record("report", outcome="succeeded", run_id="r1", at=at)
    lake.record(HOSTILE_ASSET, outcome="failed", run_id=HOSTILE_TEXT, at=at, error=ERROR_TEXT)
    lake.record("unregistered", {"date": FIRST_DAY, "n": 1}, outcome="succeeded", run_id="r", at=at)


def add_tables(lake: Lake) -> Lake:
    """The tables of `raw_orders`, in Delta, and `daily_sales`, in Iceberg with two specs; as others write them."""
    dates = [FIRST_DAY + timedelta(days=d) for d in range(10)]
    for _ in range(6):
        rows = pa.table({"id": pa.array(range(10), pa.int64()), "date": pa.array(dates, pa.date32())})
        write_deltalake(f"{lake.uri}/web/orders", rows, partition_by=["date"], mode="append")
    table = lake.create_table(
        "web.sales",
        pt.Schema.of({"id": "long", "date": "date", "region": "string"}),
        format="iceberg",
        partition_by=["date"],
    )
    _append_rows(lake, dates[:4], 50_000)
    table.evolve(add=["region"])
    _append_rows(lake, dates[4:], 20)
    return lake


def _append_rows(lake: Lake, dates: list[date], size: int) -> None:
    for number, day in enumerate(dates):
        count = size if number == 0 else 20
        rows = pa.table(
            {
                "id": pa.array(range(count), pa.int64()),
                "date": pa.array([day] * count, pa.date32()),
                "region": pa.array([REGIONS[n % 4] for n in range(count)], pa.string()),
            }
        )
        lake_catalog(lake.storage).load_table("web.sales").append(rows)
