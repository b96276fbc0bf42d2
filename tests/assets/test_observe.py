"""Sources: what strangers commit to a table is a materialization of what it touched, once, with the commit's time."""

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


def delta_stranger(lake: Lake, table: pa.Table) -> None:
    from deltalake import write_deltalake

    write_deltalake(lake.table("raw").uri, table, mode="append")


def iceberg_stranger(lake: Lake, table: pa.Table) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    from partita.formats.iceberg.catalogs import CATALOG_FILE

    uri = f"sqlite:///{lake.uri}/{CATALOG_FILE}"
    store = lake.table("raw")._store
    catalog = SqlCatalog(store._table.catalog.name, uri=uri)  # type: ignore[attr-defined] # Iceberg's own
    catalog.load_table(store._table.name()).append(table)  # type: ignore[attr-defined] # the same


def lance_stranger(lake: Lake, table: pa.Table) -> None:
    import lance

    plan = lake.table("raw").plan()
    for at, key in enumerate(plan.files["key"].to_pylist()):
        values = pt.PartitionKey.parse(key)
        mine = table.filter(pa.compute.equal(table["day"], values["day"])).drop_columns(["day"])
        if mine.num_rows:
            lance.write_dataset(mine, f"{lake.table('raw').uri}/{plan.files['path'][at]}", mode="append")


STRANGERS: dict[str, Callable[[Lake, pa.Table], None]] = {
    "delta": delta_stranger, "iceberg": iceberg_stranger, "lance": lance_stranger,
}  # fmt: skip


@pytest.fixture(params=STRANGERS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def raw(lake: Lake, form: str, spark: SparkSession) -> pt.Asset:
    """A source whose table has two days."""
    lake.create_table("raw", SCHEMA, format=form, partition_by=["day"]).append(rows(1, 2))
    source = pt.source("raw", partitions=DAYS)
    assert spark is not None
    lake.register(source)
    return source


def made(lake: Lake) -> dict[str, tuple[Any, ...]]:
    found = lake.status("raw").to_pylist()
    return {r["partition_key"]: (r["last_materialization_run_id"], r["last_materialization_at"])
            for r in found if r["last_materialization_at"] is not None}  # fmt: skip


def test_what_a_stranger_appends_is_seen_once_with_its_time(lake: Lake, raw: pt.Asset, form: str) -> None:
    first = made(lake)
    assert sorted(first) == ["day=d:2025-01-01", "day=d:2025-01-02"]
    before = datetime.now(UTC) - timedelta(milliseconds=5)
    STRANGERS[form](lake, rows(2))
    second = made(lake)
    assert second["day=d:2025-01-01"] == first["day=d:2025-01-01"]
    assert second["day=d:2025-01-02"] != first["day=d:2025-01-02"]
    assert second["day=d:2025-01-02"][1] >= before
    assert lake.observe() == []
    assert made(lake) == second
    assert lake.history(raw, "day=d:2025-01-02").num_rows == 2


def test_a_cursor_that_is_lost_costs_a_look_and_counts_nothing_twice(lake: Lake, raw: pt.Asset) -> None:
    first = made(lake)
    (cursor,) = (Path(lake.uri) / "_partita" / "default" / "default" / "observed").iterdir()
    cursor.write_text(json.dumps({**json.loads(cursor.read_text()), "cursor": None}))
    (seen,) = lake.observe()
    assert (seen.asset, seen.partitions) == ("raw", 2)
    assert made(lake) == first
    assert lake.history(raw, "day=d:2025-01-01").num_rows == 1


def test_what_is_made_from_a_source_runs_when_a_stranger_has_written(lake: Lake, raw: pt.Asset, form: str) -> None:
    @pt.asset(table="counts", format=form, partitions=DAYS, upstream=[raw])
    def counts(ctx: Any) -> Any:
        return ctx.read(raw).groupBy("day").sum("n").toDF("day", "n")

    lake.register(counts)
    plan = lake.plan()
    assert (len(plan), plan.blocked["by_partition"].to_pylist()) == (2, ["day=d:2025-01-03"])
    assert lake.run(plan).ok
    assert len(lake.plan()) == 0
    STRANGERS[form](lake, rows(2))
    again = lake.plan()
    assert again.partitions.select(["partition_key", "reasons"]).to_pylist() == [
        {"partition_key": "day=d:2025-01-02", "reasons": ["UPSTREAM_CHANGED"]}
    ]
    assert lake.run(again).ok
    assert sorted(map(tuple, lake.table("counts").read().collect())) == [(date(2025, 1, 1), 1), (date(2025, 1, 2), 4)]
    assert len(lake.plan(allow_missing=True)) == 1, "the day that the source never had"


def test_a_sweep_and_an_export_look_first(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("raw", SCHEMA, format="delta", partition_by=["day"])
    raw = pt.source("raw", partitions=DAYS)
    counts = pt.asset(name="counts", partitions=DAYS, upstream=[raw])(print)
    lake.register(raw, counts)
    lake.record(counts, {"day": date(2025, 1, 1)}, outcome="succeeded")
    delta_stranger(lake, rows(1))

    def of_counts(table: pa.Table) -> Any:
        return next(r["stale_reason_code"] for r in table.to_pylist() if r["asset_key"] == "counts")

    def exported(**given: Any) -> Any:
        lake.export_status(str(tmp_path / "partition_status.parquet"), **given)
        return of_counts(pq.read_table(tmp_path / "partition_status.parquet"))

    def swept(**given: Any) -> Any:
        lake.sweep(**given)
        return of_counts(DeltaTable(lake._workspace.table.uri).to_pyarrow_table())

    assert (exported(observe=False), swept(observe=False)) == (None, None)
    assert exported() == "UPSTREAM_CHANGED"
    lake.record(counts, {"day": date(2025, 1, 1)}, outcome="succeeded")
    delta_stranger(lake, rows(1))
    assert swept() == "UPSTREAM_CHANGED"


def test_status_can_be_asked_without_a_look(lake: Lake, raw: pt.Asset) -> None:
    assert raw.is_source
    assert lake.status("raw", observe=False, state="materialized").num_rows == 0
    assert lake.status("raw", state="materialized").num_rows == 2


def test_a_table_that_is_not_there_yet_and_one_that_comes_later(lake: Lake) -> None:
    lake.register(pt.source("later", partitions=DAYS))
    assert lake.observe() == []
    assert lake.status("later", state="missing").num_rows == 3
    with pytest.raises(pt.DefinitionError, match="nothing to call"):
        pt.source("later")()
    lake.retire("later")
    assert lake.observe() == []


def test_a_commit_of_a_spec_that_lacks_a_dimension_touches_all_that_it_may_hold(
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


def test_a_table_that_lies_elsewhere_is_adopted_with_its_history(
    lake: Lake, tmp_path: Path, form: str, spark: SparkSession
) -> None:
    assert spark is not None
    other = Lake(str(tmp_path / "other"))
    table = other.create_table("far.raw", SCHEMA, format=form, partition_by=["day"])
    table.append(rows(1))
    table.append(rows(1, 2))
    if form == "iceberg":
        store = table._store._table  # type: ignore[attr-defined] # Iceberg's own
        source = lake.adopt("far.raw", "iceberg", catalog={"name": store.catalog.name, **store.catalog.properties})
    else:
        source = lake.adopt(table.uri, form, name="far.raw")
    assert (source.name, source.is_source) == ("far.raw", True)
    assert lake.history("far.raw", "day=d:2025-01-01").num_rows == 2
    assert lake.table("far.raw").read().count() == 3
    table.append(rows(2))
    assert lake.history("far.raw", "day=d:2025-01-02").num_rows == 1
    lake.observe()
    assert lake.history("far.raw", "day=d:2025-01-02").num_rows == 2
    assert Lake(lake.uri).table("far.raw").read().count() == 4


def counting(lake: Lake, raw: pt.Asset, form: str) -> None:
    @pt.asset(name="counts", table="counts", format=form, partitions=DAYS, upstream=[raw], code_version="1")
    def counts(ctx: Any) -> Any:
        return ctx.read(raw).groupBy("day").sum("n").toDF("day", "n")

    lake.register(raw, counts)
    assert lake.run(lake.plan(allow_missing=True)).ok


def test_a_commit_that_came_to_light_after_a_read_counts_after_it_whatever_its_writer_says(
    lake: Lake, raw: pt.Asset, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.formats.table import Table

    counting(lake, raw, form)
    STRANGERS[form](lake, rows(2))
    commits = Table.commits

    def slow_clock(self: Table, after: str | None = None) -> Any:
        found = commits(self, after)
        return replace(found, commits=tuple(replace(c, at=c.at - timedelta(hours=1)) for c in found.commits))

    monkeypatch.setattr(Table, "commits", slow_clock)
    assert lake.plan(stale=True).partitions["partition_key"].to_pylist() == ["day=d:2025-01-02"]


def test_a_source_that_gets_another_dimension_is_observed_anew(lake: Lake, spark: SparkSession) -> None:
    assert spark is not None
    lake.create_table("raw", SCHEMA, format="delta", partition_by=["day", "region"]).append(rows(1, 2))
    lake.register(pt.source("raw", partitions=DAYS))
    assert lake.status("raw", state="materialized").num_rows == 2
    lake.register(pt.source("raw", partitions=DAYS * pt.static("region", ["us", "eu"])))
    found = lake.status("raw", state="materialized")["partition_key"].to_pylist()
    assert str(pt.PartitionKey.of(day=date(2025, 1, 1), region="us")) in found


@pytest.mark.parametrize("form", ["delta", "lance"], indirect=True)
def test_a_source_that_was_made_anew_takes_back_what_it_no_longer_has(
    lake: Lake, raw: pt.Asset, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    counting(lake, raw, form)
    shutil.rmtree(lake.table("raw").uri)
    assert len(lake.plan()) == 0
    assert "the source raw can't be observed" in caplog.text
    lake.create_table("raw", SCHEMA, format=form, partition_by=["day"]).append(rows(2))
    assert lake.run(lake.plan()).ok
    assert sorted(map(tuple, lake.table("counts").read().collect())) == [(date(2025, 1, 2), 2)]


@pytest.mark.parametrize("form", ["delta"], indirect=True)
def test_one_source_that_cannot_be_read_leaves_the_others(lake: Lake, raw: pt.Asset) -> None:
    lake.create_table("other", SCHEMA, format="delta", partition_by=["day"]).append(rows(3))
    lake.register(raw, pt.source("other", partitions=DAYS))
    lake.observe()
    (Path(lake.table("raw").uri) / "_delta_log" / f"{2:020}.json").write_text("nonsense")
    delta_stranger_of(lake, "other", rows(1))
    seen = {one.asset: one for one in lake.observe()}
    assert seen["raw"].error is not None
    assert (seen["other"].commits, seen["other"].error) == (1, None)


def delta_stranger_of(lake: Lake, name: str, table: pa.Table) -> None:
    from deltalake import write_deltalake

    write_deltalake(lake.table(name).uri, table, mode="append")


def test_secrets_of_a_catalog_are_not_kept(lake: Lake, tmp_path: Path, spark: SparkSession) -> None:
    assert spark is not None
    other = Lake(str(tmp_path / "other"))
    table = other.create_table("far.raw", SCHEMA, format="iceberg", partition_by=["day"])
    store = table._store._table  # type: ignore[attr-defined] # Iceberg's own
    secrets = {"adls.account-key": "hush", "header.Authorization": "hush", "ssl.client.key": "hush", "token": "hush"}
    lake.adopt("far.raw", "iceberg", catalog={"name": store.catalog.name, **store.catalog.properties, **secrets})
    assert "hush" not in (Path(lake.uri) / "_partita" / "adopted" / "far.raw.json").read_text()
    with pytest.raises(pt.TableExists, match="adopted"):
        lake.create_table("far.raw", SCHEMA, format="delta")
    with pytest.raises(pt.TableError, match="no table's name"):
        lake.adopt("far.raw", "iceberg", name="", catalog={})
