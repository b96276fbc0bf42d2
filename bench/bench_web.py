"""The page to look at the lake: server time and bytes of the heat map, beside sending every partition."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import write_deltalake
from starlette.testclient import TestClient

import partita as pt
from bench.harness import Row, Side, compare, measure, within_seconds
from partita.display.status_snapshot import take_snapshot
from partita.lake import Lake
from partita.status.duckdb_engine import open_connection
from partita.status.events import event_schema
from partita.web.access_control import AccessPolicy
from partita.web.app import make_app
from partita.web.site import Site

PARTITION_COUNTS = (1_000, 100_000, 1_000_000)
DAY_COUNT = 1_000
ASSET_COUNT = 100
TOKEN = "a-token-of-the-benchmark"  # noqa: S105 - of this run alone


def rows() -> Iterator[Row]:
    """Each in a lake of its own; the last has a hundred assets, a million partitions in all."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        for size in PARTITION_COUNTS:
            yield from _compare_heat_maps(_fill_lake(Lake(f"{folder}/{size}"), size, 1), size)
        yield from _measure_pages(_fill_lake(Lake(f"{folder}/wide"), PARTITION_COUNTS[-1] // ASSET_COUNT, ASSET_COUNT))


def _compare_heat_maps(lake: Lake, partition_count: int) -> Iterator[Row]:
    site, client = _site_and_client(lake)

    def ours() -> Any:
        return client.get("/api/heatmap", params={"asset": "sales_0"})

    def every_partition() -> bytes:
        found = site.snapshots.latest.fetch_rows("SELECT partition_key, mark FROM partitions WHERE asset = 0")
        return json.dumps(found).encode()

    answer = ours()
    assert answer.json()["partitions"] == len(json.loads(every_partition())) == partition_count
    sent = int(answer.headers.get("content-length", 0))
    yield compare(
        f"heat map of {partition_count:,} partitions",
        ours=Side(f"/api/heatmap: {sent:,} bytes", ours),
        theirs=Side(f"every key and state as JSON: {len(every_partition()):,} bytes", every_partition),
        goal=within_seconds(0.1),
    )
    zoomed = answer.json()["view"].split(",")
    near = ",".join([zoomed[0], str(int(zoomed[0]) + 60), zoomed[2], zoomed[2]])
    yield measure(
        f"a part of the map of {partition_count:,} partitions",
        Side("/api/heatmap?view=...", lambda: client.get("/api/heatmap", params={"asset": "sales_0", "view": near})),
        goal=within_seconds(0.1),
    )
    yield measure(
        f"snapshot of {partition_count:,} partitions, in the background",
        Side("take_snapshot", lambda: take_snapshot(lake)),
        repeat=1,
    )
    client.close()


def _measure_pages(lake: Lake) -> Iterator[Row]:
    write_deltalake(
        f"{lake.uri}/web/orders",
        pa.table({"id": range(DAY_COUNT), "day": [date(2020, 1, 1) + timedelta(days=n) for n in range(DAY_COUNT)]}),
        partition_by=["day"],
    )
    _, client = _site_and_client(lake)
    assert client.get("/").text.count('class="edge"') == ASSET_COUNT // 2
    for name, path in (
        ("overview with its graph", "/"),
        ("asset's page", "/asset?asset=sales_7"),
        ("list of what is stale", "/asset/partitions?asset=sales_7&state=stale"),
        (f"table's page, of {DAY_COUNT:,} files, in a lake", "/table/facts?name=web.orders"),
    ):
        yield measure(
            f"{name} of {ASSET_COUNT} assets with {PARTITION_COUNTS[-1]:,} partitions",
            Side(path.partition("?")[0], lambda path=path: client.get(path)),  # type: ignore[misc] # a default
            goal=within_seconds(0.1),
        )
    days = count()

    def get_heat_map(word: str) -> Any:
        """A predicate that was not asked before: the answers to others are kept."""
        where = f"shard = 3 {word} date > '{date(2020, 1, 1) + timedelta(days=next(days))}'"
        return client.get("/api/heatmap", params={"asset": "sales_7", "where": where})

    assert get_heat_map("AND").json()["partitions"] == DAY_COUNT - 1
    for word in ("AND", "OR"):
        name = (
            f"heat map with a new predicate ({word}) of {ASSET_COUNT} assets with {PARTITION_COUNTS[-1]:,} partitions"
        )
        side = Side("/api/heatmap?where=...", lambda word=word: get_heat_map(word))  # type: ignore[misc] # a default
        yield measure(name, side, goal=within_seconds(0.1))
    some = {"asset": "sales_7", "key": "date=d:2020-01-02,shard=i:3"}
    below = {**some, "asset": f"sales_{ASSET_COUNT // 2 + 7}"}
    for name, path, query in (
        ("why", "/api/why", some),
        ("why, of what is made from another,", "/api/why", below),
        ("history", "/api/history", some),
        ("plan of one asset", "/api/plan", some),
    ):
        yield measure(
            f"{name} of {ASSET_COUNT} assets with {PARTITION_COUNTS[-1]:,} partitions, from the lake itself",
            Side(path, lambda path=path, query=query: client.get(path, params=query)),  # type: ignore[misc] # defaults
            goal=within_seconds(0.1),
        )
    client.close()
    yield from _measure_over_socket(lake)


def _measure_over_socket(lake: Lake) -> Iterator[Row]:
    """A server of its own, and one connection that is kept, as a browser has it."""
    command = [sys.executable, "-m", "partita.cli", "ui", "--lake", lake.uri, "--port", "0", "--no-open", "--json"]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PARTITA_TOKEN": TOKEN}
    ) as server:
        assert server.stdout is not None
        url = urlsplit(json.loads(server.stdout.readline())["url"])
        connection = HTTPConnection(url.netloc)

        def get_version() -> bytes:
            connection.request("GET", "/api/version", headers={"Authorization": f"Bearer {TOKEN}"})
            return connection.getresponse().read()

        yield measure("a small answer over a socket", Side("/api/version", get_version), goal=within_seconds(0.1))
        connection.close()
        server.send_signal(signal.SIGINT)


def _site_and_client(lake: Lake) -> tuple[Site, TestClient]:
    site = Site.of(lake, AccessPolicy(TOKEN, port=1))
    site.snapshots.refresh()
    app = make_app(site)
    return site, TestClient(app, base_url="http://127.0.0.1:1", headers={"Authorization": f"Bearer {TOKEN}"})


def _fill_lake(lake: Lake, size: int, assets: int) -> Lake:
    """A lake whose every asset has so many partitions, a tenth of them made with an earlier version of its code.

    Of several assets the second half is made from the first.
    """
    shards = max(1, size // DAY_COUNT)
    end = date(2020, 1, 1) + timedelta(days=size // shards)
    partitions = pt.daily("date", start="2020-01-01", end=end) * pt.static("shard", range(shards))
    for version in ("1", "2"):
        made: list[pt.Asset] = []
        for n in range(assets):
            upstream = [made[n - assets // 2]] if assets > 1 and n >= assets // 2 else []
            given: Any = {"partitions": partitions, "code_version": version, "upstream": upstream}
            made.append(pt.asset(name=f"sales_{n}", **given)(print))
        lake.register(*made)
    values = {
        "kind": "'succeeded'", "tenant_id": "'default'", "workspace_id": "'default'",
        "asset_key": f"'sales_' || (i // {size})::VARCHAR",
        "partition_key": f"'date=d:' || (DATE '2020-01-01' + (i % {size} // {shards})::INTEGER)::VARCHAR "
                         f"|| ',shard=i:' || (i % {shards})::VARCHAR",
        "event_id": "printf('%026d', i + 1)", "occurred_at": "make_timestamptz(1735689600000000 + i)",
        "run_id": "'run-' || (i // 1000)::VARCHAR", "attempt": "1",
        "code_version": "CASE WHEN hash(i) % 10 = 0 THEN '1' ELSE '2' END", "rows": "i", "files": "1",
    }  # fmt: skip
    schema = event_schema()
    selected = ", ".join(f"{values.get(name, 'NULL')} AS {name}" for name in schema.names)
    with open_connection() as connection:
        events = connection.sql(
            f"SELECT {selected} FROM (SELECT range AS i FROM range({size * assets}))"  # noqa: S608 - our own names
        ).to_arrow_table()
    lake._workspace.ledger.append_rows(events.cast(schema))  # noqa: SLF001 - as rows, which the face has no use for
    lake.fold()
    return lake
