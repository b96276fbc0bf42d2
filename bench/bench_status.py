"""Status: the fold, stale queries, counts, appends and a cold start, beside bare DuckDB and Dagster.

Dagster is measured where it is installed (`pip install --group bench`); it takes partitions one by one, so a
sample of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

import partita as pt
from bench.dagster_peer import dagster_instance, has_dagster
from bench.events import EVENT_COUNT, PARTITION_COUNT, SHARD_COUNT, append_events
from bench.harness import Goal, Row, Side, at_least, compare, measure
from partita.lake import Lake
from partita.status.duckdb_engine import fetch_arrow, open_connection
from partita.status.duckdb_sql import Sql
from partita.status.events import PARTITION_EVENT_KINDS
from partita.status.fold import fold_sql, partition_values_sql
from partita.status.schema import status_schema

EVENTS_PER_APPEND = min(EVENT_COUNT, 1_000_000)
SAMPLE_SIZE = 200
APPEND_COUNT = 30
PARTITA_COMMAND = str(Path(sys.executable).with_name("partita"))


def rows() -> Iterator[Row]:
    """Each measures both sides in this run, over the same files."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        yield from _compare_folds(Lake(f"{folder}/fold"))
        yield from _compare_stale_queries(Path(folder))
        yield from _compare_appends(Path(folder))
        yield from _compare_cold_start(Lake(f"{folder}/cold"))


# --- the fold


def _compare_folds(lake: Lake) -> Iterator[Row]:
    kind = "CASE WHEN hash(i) % 10 = 0 THEN 'failed' ELSE 'succeeded' END"
    for start in range(0, EVENT_COUNT, EVENTS_PER_APPEND):
        append_events(
            lake,
            "sales",
            kind,
            f"{start} + range",
            "1735689600000000 + (hash(i * 7) % 86400000000)::BIGINT",
            EVENTS_PER_APPEND,
        )
    ledger = lake._workspace.ledger  # noqa: SLF001 - its files are what both sides read
    uris = DeltaTable(ledger.uri).file_uris()

    def ours() -> Any:
        files = ledger.files()
        with open_connection() as connection:
            ledger.create_view(connection, Sql("events"), files.files_of(*PARTITION_EVENT_KINDS))
            return fetch_arrow(connection, fold_sql(Sql("events")), status_schema())

    def bare() -> Any:
        with duckdb.connect() as connection:
            return connection.sql(f"""
                SELECT tenant_id, workspace_id, asset_key, partition_key,
                       arg_max(run_id, occurred_at) FILTER (WHERE kind = 'succeeded') AS last_materialization_run_id,
                       max(occurred_at) FILTER (WHERE kind = 'succeeded') AS last_materialization_at,
                       arg_max(code_version, occurred_at) FILTER (WHERE kind = 'succeeded') AS code_version,
                       arg_max(run_id, occurred_at) AS last_attempt_run_id, max(occurred_at) AS last_attempt_at,
                       arg_max(kind, occurred_at) AS last_attempt_outcome, max(event_id) AS row_version,
                       {partition_values_sql(Sql("partition_key"))} AS partition_values
                FROM read_parquet({uris!r}, hive_partitioning = true) GROUP BY ALL
            """).to_arrow_table()  # noqa: S608 - our own names

    assert ours().num_rows == bare().num_rows == PARTITION_COUNT
    yield compare(
        f"fold {EVENT_COUNT:,} events to {PARTITION_COUNT:,} rows",
        ours=Side("fold", ours),
        theirs=Side("bare DuckDB aggregation to the status spec's columns", bare),
        goal=at_least(1 / 2),
        repeat=2,
    )


# --- questions


def _compare_stale_queries(folder: Path) -> Iterator[Row]:
    lake = Lake(str(folder / "ask"))
    last = date(2020, 1, 1) + timedelta(days=PARTITION_COUNT // SHARD_COUNT)
    partitions = pt.daily("date", start="2020-01-01", end=last) * pt.static("shard", range(SHARD_COUNT))
    orders = pt.asset(name="orders", partitions=partitions, code_version="1")(print)
    sales = pt.asset(name="sales", partitions=partitions, upstream=[orders], code_version="1")(print)
    lake.register(orders, sales)
    early, later = "1735689600000000 + i", "1735776000000000 + i"
    append_events(lake, "orders", "'succeeded'", "range", early, PARTITION_COUNT)
    append_events(lake, "sales", "'succeeded'", f"{PARTITION_COUNT} + range", later, PARTITION_COUNT)
    # One partition in ten is stale; half of these by an upstream that succeeded twice since.
    for number in range(2):
        after = f"1735862400000000 + i + {number} * 1000000"
        step = 10 * (number + 1)
        append_events(
            lake,
            "orders",
            "'succeeded'",
            f"{(number + 2) * PARTITION_COUNT} + range * {step}",
            after,
            PARTITION_COUNT // step,
        )
    lake.fold()
    table, ledger = lake._workspace.status_table, lake._workspace.ledger  # noqa: SLF001 - the files of both sides

    def hand_written_join() -> Any:
        status = DeltaTable(table.uri).file_uris()
        events = [uri for uri in DeltaTable(ledger.uri).file_uris() if "kind=succeeded" in uri]
        with duckdb.connect() as connection:
            return connection.sql(f"""
                WITH rows AS (FROM read_parquet({status!r})), stale AS (
                    SELECT s.* FROM rows AS s JOIN rows AS o ON o.partition_key = s.partition_key
                    WHERE s.asset_key = 'sales' AND o.asset_key = 'orders'
                      AND o.last_materialization_at > s.last_materialization_at
                )
                SELECT stale.*, first.since FROM stale JOIN (
                    SELECT s.partition_key, min(e.occurred_at) AS since FROM stale AS s
                    JOIN read_parquet({events!r}) AS e ON e.partition_key = s.partition_key
                    WHERE e.asset_key = 'orders' AND e.occurred_at > s.last_materialization_at GROUP BY ALL
                ) AS first USING (partition_key) ORDER BY partition_key
            """).to_arrow_table()  # noqa: S608 - our own names

    def ours() -> Any:
        return lake.status("sales", state="stale")

    assert ours()["stale_since"].to_pylist() == hand_written_join()["since"].to_pylist()
    assert ours().num_rows == PARTITION_COUNT // 10
    what = f"what is stale of {PARTITION_COUNT:,} partitions with one upstream"
    yield compare(
        what,
        ours=Side("lake.status", ours),
        theirs=Side("hand-written join", hand_written_join),
        goal=at_least(1 / 3),
        repeat=3,
    )
    resolver = _dagster_resolver(folder)
    if resolver is not None:
        sampled = Side(f"Dagster's resolver, {SAMPLE_SIZE} of them", resolver, share=SAMPLE_SIZE / PARTITION_COUNT)
        yield compare(what, ours=Side("lake.status", ours), theirs=sampled, goal=at_least(1_000), repeat=3)
    counts = lake.status_counts("sales").to_pylist()[0]
    assert (counts["partitions"], counts["stale"]) == (PARTITION_COUNT, PARTITION_COUNT // 10)
    yield measure(
        f"counts over {PARTITION_COUNT:,} partitions",
        Side("lake.status_counts", lambda: lake.status_counts("sales")),
        repeat=3,
    )


# --- appends


def _compare_appends(folder: Path) -> Iterator[Row]:
    lake = Lake(str(folder / "appends"))
    number = count()

    def one_by_one() -> None:
        for _ in range(APPEND_COUNT):
            lake.record("sales", {"n": next(number)}, outcome="succeeded")

    def at_once() -> None:
        lake.record("sales", [{"n": next(number)} for _ in range(10_000)], outcome="succeeded")

    report = _dagster_reporter(folder)
    if report is None:
        yield measure(f"append {APPEND_COUNT} events one by one", Side("lake.record", one_by_one), repeat=3)
        return
    theirs = Side("Dagster's runless events", partial(report, APPEND_COUNT))
    yield compare(
        f"append {APPEND_COUNT} events one by one", ours=Side("lake.record", one_by_one), theirs=theirs, repeat=3
    )
    shared = Side("Dagster's runless events", partial(report, APPEND_COUNT), share=APPEND_COUNT / 10_000)
    yield compare("append 10,000 events at once", ours=Side("lake.record", at_once), theirs=shared, repeat=3)


# --- a cold start


def _compare_cold_start(lake: Lake) -> Iterator[Row]:
    days = pt.daily("date", start="2025-01-01", end="2025-04-01")
    orders = pt.asset(name="orders", partitions=days, code_version="1")(print)
    lake.register(
        orders, pt.asset(name="sales", partitions=days * pt.static("region", ["us", "eu"]), upstream=[orders])(print)
    )
    for number in range(5):
        lake.record(
            "orders", [f"date=d:2025-01-{d:02}" for d in range(1, 30)], outcome="succeeded", run_id=f"r{number}"
        )
    yield compare(
        "partita status",
        ours=Side("cold start", partial(_run_command, PARTITA_COMMAND, "status", "--lake", lake.uri)),
        theirs=Side("python -c pass", partial(_run_command, sys.executable, "-c", "pass")),
        goal=Goal("<= +0.7 s", lambda ours, ratio: ratio is not None and ours - ours * ratio <= 0.7),
        repeat=9,
    )


def _run_command(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - our own command


# --- Dagster


def _dagster_reporter(folder: Path) -> Callable[[int], None] | None:
    """Reports so many materializations outside of runs, to an instance on disk."""
    if not has_dagster():
        return None
    import dagster

    instance = dagster_instance(folder / "dagster")
    number = count()

    def report(size: int) -> None:
        for _ in range(size):
            event = dagster.AssetMaterialization("sales", partition=str(next(number)))
            instance.report_runless_asset_event(event)

    return report


def _dagster_resolver(folder: Path) -> Callable[[], object] | None:
    """Judges a sample of partitions of an asset with one upstream that changed, as Dagster's own pages do.

    The instance is on disk, as ours is.
    """
    if not has_dagster():
        return None
    import dagster
    from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
    from dagster._core.loader import LoadingContextForTest

    names = [str(number) for number in range(SAMPLE_SIZE)]
    partitions = dagster.StaticPartitionsDefinition(names)

    @dagster.asset(partitions_def=partitions)
    def orders() -> None: ...

    @dagster.asset(partitions_def=partitions, deps=[orders])
    def sales() -> None: ...

    instance = dagster_instance(folder / "dagster-ask")
    made_from = {"dagster/input_data_version/orders": "1", "dagster/code_version": "1"}
    for asset, tags in (
        ("orders", {"dagster/data_version": "1"}),
        ("sales", made_from),
        ("orders", {"dagster/data_version": "2"}),
    ):
        for name in names:
            instance.report_runless_asset_event(dagster.AssetMaterialization(asset, partition=name, tags=tags))
    graph: Any = dagster.Definitions(assets=[orders, sales]).resolve_asset_graph()
    key = dagster.AssetKey("sales")

    def judge() -> list[Any]:
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        return [resolver.get_status(key, name) for name in names]

    assert set(judge()) == {StaleStatus.STALE}
    return judge
