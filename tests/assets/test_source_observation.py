"""Sources: a commit by another writer is recorded once as a materialization of its partitions, at its time."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import partita as pt
from partita.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


DAYS = pt.daily("day", start="2025-01-01", end="2025-01-04")


SCHEMA = pa.schema([("day", pa.date32()), ("region", pa.string()), ("n", pa.int64())])


def rows(*days: int, region: str = "us") -> pa.Table:
    return pa.table({"day": [date(2025, 1, d) for d in days], "region": [region] * len(days), "n": list(days)}, SCHEMA)


def append_to_delta(lake: Lake, table: pa.Table) -> None:
    from deltalake import write_deltalake

    write_deltalake(lake.table("raw").uri, table, mode="append")


def append_to_iceberg(lake: Lake, table: pa.Table) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    from partita.formats.iceberg.catalogs import CATALOG_FILE

    uri = f"sqlite:///{lake.uri}/{CATALOG_FILE}"
    store = lake.table("raw")._store
    catalog = SqlCatalog(store._table.catalog.name, uri=uri)  # type: ignore[attr-defined] # Iceberg's own
    catalog.load_table(store._table.name()).append(table)  # type: ignore[attr-defined] # the same


def append_to_lance(lake: Lake, table: pa.Table) -> None:
    import lance

    plan = lake.table("raw").plan()
    for index, key in enumerate(plan.files["key"].to_pylist()):
        values = pt.PartitionKey.parse(key)
        leaf_rows = table.filter(pa.compute.equal(table["day"], values["day"])).drop_columns(["day"])
        if leaf_rows.num_rows:
            lance.write_dataset(leaf_rows, f"{lake.table('raw').uri}/{plan.files['path'][index]}", mode="append")


WRITERS: dict[str, Callable[[Lake, pa.Table], None]] = {
    "delta": append_to_delta, "iceberg": append_to_iceberg, "lance": append_to_lance,
}  # fmt: skip


@pytest.fixture(params=WRITERS)
def format_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def raw(lake: Lake, format_name: str, spark: SparkSession) -> pt.Asset:
    """A source whose table has two days."""
    assert spark is not None
    table = lake.create_table("raw", SCHEMA, format=format_name, partition_by=["day"])
    if format_name == "lance":
        # Lance itself appends only to partitions that are there.
        table.append(rows(1, 2))
    else:
        WRITERS[format_name](lake, rows(1, 2))
    source = pt.source("raw", partitions=DAYS)
    lake.register(source)
    return source


def materializations(lake: Lake) -> dict[str, tuple[Any, ...]]:
    status = lake.status("raw").to_pylist()
    return {r["partition_key"]: (r["last_materialization_run_id"], r["last_materialization_at"])
            for r in status if r["last_materialization_at"] is not None}  # fmt: skip


def test_a_commit_by_another_writer_is_observed_once_with_its_time(lake: Lake, raw: pt.Asset, format_name: str) -> None:
    assert raw.is_source
    assert lake.status("raw", observe=False, state="materialized").num_rows == 0
    first = materializations(lake)
    assert sorted(first) == ["day=d:2025-01-01", "day=d:2025-01-02"]
    assert lake.status("raw", state="materialized").num_rows == 2
    before = datetime.now(UTC) - timedelta(milliseconds=5)
    WRITERS[format_name](lake, rows(2))
    second = materializations(lake)
    assert second["day=d:2025-01-01"] == first["day=d:2025-01-01"]
    assert second["day=d:2025-01-02"] != first["day=d:2025-01-02"]
    assert second["day=d:2025-01-02"][1] >= before
    assert lake.observe() == []
    assert materializations(lake) == second
    assert lake.history(raw, "day=d:2025-01-02").num_rows == 2


def test_a_source_without_its_cursor_is_observed_again_and_counts_once(lake: Lake, raw: pt.Asset) -> None:
    first = materializations(lake)
    (cursor,) = (Path(lake.uri) / "_partita" / "default" / "default" / "observed").iterdir()
    cursor.write_text(json.dumps({**json.loads(cursor.read_text()), "cursor": None}))
    (observation,) = lake.observe()
    assert (observation.asset, observation.partitions) == ("raw", 2)
    assert materializations(lake) == first
    assert lake.history(raw, "day=d:2025-01-01").num_rows == 1


def test_an_asset_runs_when_another_writer_changed_its_source(lake: Lake, raw: pt.Asset, format_name: str) -> None:
    @pt.asset(table="counts", format=format_name, partitions=DAYS, upstream=[raw])
    def counts(ctx: Any) -> Any:
        return ctx.read(raw).groupBy("day").sum("n").toDF("day", "n")

    lake.register(counts)
    plan = lake.plan()
    assert (len(plan), plan.blocked["by_partition"].to_pylist()) == (2, ["day=d:2025-01-03"])
    assert lake.run(plan).ok
    assert len(lake.plan()) == 0
    WRITERS[format_name](lake, rows(2))
    again = lake.plan()
    assert again.partitions.select(["partition_key", "reasons"]).to_pylist() == [
        {"partition_key": "day=d:2025-01-02", "reasons": ["UPSTREAM_CHANGED"]}
    ]
    assert lake.run(again).ok
    assert sorted(map(tuple, lake.table("counts").read().collect())) == [(date(2025, 1, 1), 1), (date(2025, 1, 2), 4)]
    assert len(lake.plan(allow_missing=True)) == 1, "the day that the source never had"


@pytest.mark.slow(reason="several plans of a lake")
def test_a_sweep_and_an_export_observe_sources_first(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("raw", SCHEMA, format="delta", partition_by=["day"])
    raw = pt.source("raw", partitions=DAYS)
    counts = pt.asset(name="counts", partitions=DAYS, upstream=[raw])(print)
    lake.register(raw, counts)
    lake.record(counts, {"day": date(2025, 1, 1)}, outcome="succeeded")
    append_to_delta(lake, rows(1))

    def stale_reason_of_counts(table: pa.Table) -> Any:
        return next(r["stale_reason_code"] for r in table.to_pylist() if r["asset_key"] == "counts")

    def export(**options: Any) -> Any:
        lake.export_status(str(tmp_path / "partition_status.parquet"), **options)
        return stale_reason_of_counts(pq.read_table(tmp_path / "partition_status.parquet"))

    def sweep(**options: Any) -> Any:
        lake.sweep(**options)
        return stale_reason_of_counts(DeltaTable(lake._workspace.status_table.uri).to_pyarrow_table())

    assert (export(observe=False), sweep(observe=False)) == (None, None)
    assert export() == "UPSTREAM_CHANGED"
    lake.record(counts, {"day": date(2025, 1, 1)}, outcome="succeeded")
    append_to_delta(lake, rows(1))
    assert sweep() == "UPSTREAM_CHANGED"


@pytest.mark.slow(reason="several plans of a lake")
def test_a_table_that_is_not_there_yet_and_one_that_comes_later(lake: Lake) -> None:
    lake.register(pt.source("later", partitions=DAYS))
    assert lake.observe() == []
    assert lake.status("later", state="missing").num_rows == 3
    with pytest.raises(pt.DefinitionError, match="nothing to call"):
        pt.source("later")()
    lake.retire("later")
    assert lake.observe() == []


def test_a_commit_of_a_spec_without_a_dimension_changes_every_partition_that_it_may_contain(
    lake: Lake, spark: SparkSession
) -> None:
    assert spark is not None
    table = lake.create_table("events", SCHEMA, format="iceberg", partition_by=["day"])
    table.append(rows(1))
    table.evolve(add=["region"])
    lake.register(pt.source("events", partitions=DAYS * pt.static("region", ["us", "eu"])))
    lake.observe()
    keys = lake.status("events", state="materialized")["partition_key"].to_pylist()
    assert keys == [str(pt.PartitionKey.of(day=date(2025, 1, 1), region=region)) for region in ("eu", "us")]
    table.append(rows(2, region="eu"))
    assert lake.status("events", state="materialized").num_rows == 3


def run_counts(lake: Lake, raw: pt.Asset, format_name: str) -> None:
    @pt.asset(name="counts", table="counts", format=format_name, partitions=DAYS, upstream=[raw], code_version="1")
    def counts(ctx: Any) -> Any:
        return ctx.read(raw).groupBy("day").sum("n").toDF("day", "n")

    lake.register(raw, counts)
    assert lake.run(lake.plan(allow_missing=True)).ok


def test_a_commit_observed_after_a_read_counts_as_later_whatever_its_timestamp(
    lake: Lake, raw: pt.Asset, format_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.formats.table import Table

    run_counts(lake, raw, format_name)
    WRITERS[format_name](lake, rows(2))
    change_feed = Table.change_feed

    def slow_clock(self: Table, after: str | None = None) -> Any:
        feed = change_feed(self, after)
        earlier = [replace(c, committed_at=c.committed_at - timedelta(hours=1)) for c in feed.commits]
        return replace(feed, commits=tuple(earlier))

    monkeypatch.setattr(Table, "change_feed", slow_clock)
    assert lake.plan(stale=True).partitions["partition_key"].to_pylist() == ["day=d:2025-01-02"]


def test_a_source_that_gets_another_dimension_is_observed_anew(lake: Lake, spark: SparkSession) -> None:
    assert spark is not None
    lake.create_table("raw", SCHEMA, format="delta", partition_by=["day", "region"]).append(rows(1, 2))
    lake.register(pt.source("raw", partitions=DAYS))
    assert lake.status("raw", state="materialized").num_rows == 2
    lake.register(pt.source("raw", partitions=DAYS * pt.static("region", ["us", "eu"])))
    keys = lake.status("raw", state="materialized")["partition_key"].to_pylist()
    assert str(pt.PartitionKey.of(day=date(2025, 1, 1), region="us")) in keys


@pytest.mark.parametrize("format_name", ["delta", "lance"], indirect=True)
def test_a_source_that_was_created_again_changes_the_partitions_that_it_lost(
    lake: Lake, raw: pt.Asset, format_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_counts(lake, raw, format_name)
    shutil.rmtree(lake.table("raw").uri)
    assert len(lake.plan()) == 0
    assert "can't observe the source raw" in caplog.text
    lake.create_table("raw", SCHEMA, format=format_name, partition_by=["day"]).append(rows(2))
    assert lake.run(lake.plan()).ok
    assert sorted(map(tuple, lake.table("counts").read().collect())) == [(date(2025, 1, 2), 2)]


@pytest.mark.parametrize("format_name", ["delta"], indirect=True)
def test_one_source_that_cannot_be_read_leaves_the_others(lake: Lake, raw: pt.Asset) -> None:
    lake.create_table("other", SCHEMA, format="delta", partition_by=["day"]).append(rows(3))
    lake.register(raw, pt.source("other", partitions=DAYS))
    lake.observe()
    (Path(lake.table("raw").uri) / "_delta_log" / f"{2:020}.json").write_text("nonsense")
    append_to_delta_table(lake, "other", rows(1))
    observations = {observation.asset: observation for observation in lake.observe()}
    assert observations["raw"].error is not None
    assert (observations["other"].commits, observations["other"].error) == (1, None)


def append_to_delta_table(lake: Lake, name: str, table: pa.Table) -> None:
    from deltalake import write_deltalake

    write_deltalake(lake.table(name).uri, table, mode="append")
