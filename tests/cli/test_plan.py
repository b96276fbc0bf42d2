"""`partita plan`, `observe`, `adopt`, `tables`, `partitions` and `evolve`; none needs Java."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import partita as pt
from partita.lake import Lake
from tests.cli.projects import PROJECT_TOML, change_directory, write_project
from tests.cli.terminal import CommandRunner

ALL = {"orders": 4, "sums": 4}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """The lake of a project in which the commands run, without Spark."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    change_directory(write_project(tmp_path / "shop"), monkeypatch)
    return Lake(str(tmp_path / "shop" / "lake"))


def planned_partitions(partita: CommandRunner, *words: str) -> list[tuple[str, str]]:
    """The assets and days of a plan."""
    done = partita("plan", "--json", *words)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()[1:]]
    return [(row["asset_key"], row["partition_key"].removeprefix("date=d:2025-01-")) for row in rows]


@pytest.mark.slow(reason="several commands on a lake")
def test_a_plan_of_all(shop: Lake, partita: CommandRunner) -> None:
    done = partita("plan")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:3] == [
        "8 partitions in 2 batches, 0 held back",
        "orders: 4 partitions in 1 batch",
        "  date=2025-01-01  MISSING",
    ]
    assert shop.partitions_of("sums") is not None


@pytest.mark.slow(reason="several commands on a lake")
def test_options_narrow_the_plan(shop: Lake, partita: CommandRunner) -> None:
    partita("plan")
    for day in (1, 2, 3):
        shop.record("orders", {"date": date(2025, 1, day)}, outcome="succeeded", code_version="1")
    shop.record("orders", {"date": date(2025, 1, 3)}, outcome="failed", error="boom")
    assert planned_partitions(partita, "--failed", "--select", "orders") == [("orders", "03")]
    assert planned_partitions(partita, "--missing", "--select", "orders") == [("orders", "04")]
    assert planned_partitions(partita, "--select", "tag:base", "--where", "date >= '2025-01-04'") == [("orders", "04")]
    assert ("sums", "01") in planned_partitions(partita, "--select", "orders+")
    assert planned_partitions(partita, "--since", "2025-01-04", "--missing", "--select", "orders") == [("orders", "04")]
    assert planned_partitions(partita, "--now", "2025-01-02T00:00:00Z", "--select", "orders") == [("orders", "01")]
    assert partita("plan", "--select", "nothing").code == 2
    assert partita("plan", "--where", "no_such = 1").code == 2


@pytest.mark.slow(reason="several commands on a lake")
def test_batch_limits_come_from_the_project(
    tmp_path: Path, partita: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_directory(write_project(tmp_path, PROJECT_TOML + "batch_partitions = 3\n"), monkeypatch)
    assert partita("plan").out.startswith("8 partitions in 4 batches")


@pytest.mark.slow(reason="several commands on a lake")
def test_a_plan_is_a_file(shop: Lake, partita: CommandRunner) -> None:
    done = partita("plan", "--out", "plan.jsonl", "--select", "orders")
    assert done.err == "plan.jsonl: run the plan with `partita run plan.jsonl`\n"
    assert len(pt.load_plan("plan.jsonl")) == 4
    assert (
        Path("plan.jsonl").read_text().splitlines()[1:]
        == partita("plan", "--json", "--select", "orders").out.splitlines()[1:]
    )
    assert "can't be written" in partita("plan", "--out", "no/such/plan").err


@pytest.mark.slow(reason="several commands on a lake")
def test_one_partition_is_explained(shop: Lake, partita: CommandRunner) -> None:
    done = partita("plan", "--explain", "sums", "date=2025-01-02")
    said, *why = done.out.splitlines()
    assert said.startswith("sums[date=2025-01-02] runs in batch 1 of sums: MISSING, UPSTREAM_PLANNED")
    assert why == ["sums[date=2025-01-02]: NEVER_MATERIALIZED", "  it was never tried"]
    document = json.loads(partita("plan", "--explain", "sums", "date=2025-01-02", "--json").out)
    assert (document["asset"], document["key"]) == ("sums", "date=d:2025-01-02")
    assert document["why"]["display_status"] == "NEVER_MATERIALIZED"
    held = partita("plan", "--explain", "sums", "date=2025-01-02", "--select", "sums").out
    assert held.startswith("sums[date=2025-01-02] is held back: orders[date=2025-01-02] is missing")
    assert partita("plan", "--explain", "sums", "date=2025-01-02", "more").code == 2
    assert partita("plan", "--explain", "nothing").code == 2


@pytest.mark.slow(reason="several commands on a lake")
def test_a_lake_without_a_project_is_planned_from_what_was_registered(
    lake: Lake, partita: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_directory(tmp_path, monkeypatch)
    lake.register(pt.asset(name="report")(print))
    assert partita("plan", "--lake", lake.uri).out.splitlines()[-1] == "  the whole asset  MISSING"
    assert partita("plan", "--lake", lake.uri, "--explain", "report", "-").out.startswith("report runs in batch 1")
    done = partita("run", "--lake", lake.uri)
    assert done.code == 2
    assert "there is no partita.toml here or above; `partita init` creates one" in done.err


@pytest.mark.slow(reason="several commands on a lake")
def test_assets_removed_from_the_pipeline_are_left_out_and_can_be_retired(shop: Lake, partita: CommandRunner) -> None:
    shop.register(pt.asset(name="old name", partitions=pt.static("p", ["a"]))(print), pt.source("raw.old"))
    done = partita("plan")
    assert done.out.startswith("8 partitions in 2 batches")
    assert done.err == (
        "the pipeline does not define old name; if they are no longer made: `partita retire 'old name'`\n"
    )
    assert partita("plan", "--select", "orders").err == ""
    assert "'old name' selects no asset" in partita("plan", "--select", "old name").err
    assert "1 missing" in partita("status", "old name").out
    assert partita("retire", "old name").out == "old name is retired\n"
    assert "missing" not in partita("status", "old name").out
    assert json.loads(partita("retire", "raw.old", "--json").out) == {"asset": "raw.old", "retired": True}
    assert partita("plan").err == ""
    held = partita("retire", "raw.old", "orders")
    assert held.code == 2
    assert "the pipeline still defines 'orders' and would register it again; remove the definition first" in held.err
    assert "shop_pipeline.py:" in held.err
    assert partita("retire", "nobody").code == 2


def test_a_missing_pipeline(tmp_path: Path, partita: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    change_directory(write_project(tmp_path, '[pipeline]\nmodule = "no_such"\n'), monkeypatch)
    done = partita("plan")
    assert done.code == 2
    assert "name the module that has the assets in partita.toml" in done.err
    (tmp_path / "partita.toml").write_text("")
    done = partita("run")
    assert done.code == 2
    assert "pipeline.module is not set" in done.err


def append_days(shop: Lake, *days: int) -> None:
    """A stranger's append to the source's table."""
    rows = pa.table({"date": [date(2025, 1, day) for day in days], "n": pa.array([1] * len(days), pa.int64())})
    write_deltalake(f"{shop.uri}/raw/events", rows, partition_by=["date"], mode="append")


@pytest.mark.slow(reason="several commands on a lake")
def test_observe_lists_commits_of_other_writers(shop: Lake, partita: CommandRunner) -> None:
    assert partita("observe").err == "no new commits\n"
    append_days(shop, 1, 2)
    append_days(shop, 2)
    assert partita("observe").out == "raw.events: 2 commits, 3 partitions\n"
    append_days(shop, 3)
    seen = {"asset": "raw.events", "commits": 1, "partitions": 1, "error": None}
    assert json.loads(partita("observe", "--json").out) == seen
    shutil.rmtree(f"{shop.uri}/raw/events")
    done = partita("observe")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("raw.events can't be observed: ")
    done = partita("observe", "--json")
    assert (done.code, json.loads(done.out)["commits"], json.loads(done.out)["error"] is None) == (1, 0, False)


@pytest.mark.slow(reason="several commands on a lake")
def test_status_why_and_plan_can_leave_sources_alone(shop: Lake, partita: CommandRunner) -> None:
    partita("plan")
    append_days(shop, 1)
    key = ("raw.events", "date=2025-01-01")
    assert "1 current" not in partita("status", "raw.events", "--no-observe").out
    partita("plan", "--no-observe")
    assert "NEVER_MATERIALIZED" in partita("why", *key, "--no-observe").out
    assert "1 current, 3 missing" in partita("status", "raw.events").out
    assert "NEVER_MATERIALIZED" not in partita("why", *key, "--no-observe").out


@pytest.mark.slow(reason="several commands on a lake")
def test_adopt_brings_a_table_in(shop: Lake, partita: CommandRunner, tmp_path: Path) -> None:
    there = Lake(str(tmp_path / "there"))
    append_days(there, 1, 2)
    uri = f"{there.uri}/raw/events"
    assert partita("adopt", uri, "--format", "delta", "--name", "theirs").out == (
        "theirs is now a source, partitioned by date\n"
    )
    assert "theirs: 2 current" in partita("status", "theirs").out
    assert json.loads(partita("adopt", uri, "--format", "delta", "--json").out) == {
        "asset": "events", "uri": uri, "dimensions": ["date"]
    }  # fmt: skip
    assert partita("tables", "--names").out == "events\ntheirs\n"
    assert partita("adopt", str(tmp_path / "nothing"), "--format", "delta").code == 2
    assert partita("adopt", "db.t", "--format", "iceberg").code == 2
    assert partita("adopt", "db.t", "--format", "csv").code == 2


def test_adopt_takes_a_catalog(shop: Lake, partita: CommandRunner, tmp_path: Path) -> None:
    there = Lake(str(tmp_path / "there"))
    there.create_table("db.t", pt.Schema.of({"day": "date"}), format="iceberg", partition_by=["day"])
    words = ("--catalog", "type=sql", "--catalog", f"uri=sqlite:///{there.uri}/catalog.db", "--catalog", "name=partita")
    assert partita("adopt", "db.t", "--format", "iceberg", *words).out == "db.t is now a source, partitioned by day\n"
    assert partita("adopt", "db.t", "--format", "iceberg", "--catalog", "odd").code == 2


SCHEMA = pt.Schema.of({"ts": "timestamp", "user_id": "long", "region": "string"})


@pytest.fixture
def tables(shop: Lake) -> Lake:
    """A table of each format."""
    shop.create_table("logs.clicks", SCHEMA, format="delta", partition_by=["region"])
    shop.create_table("sales.orders", SCHEMA, format="iceberg", partition_by=[pt.day("ts")])
    shop.create_table("vectors", SCHEMA, format="lance", partition_by=[pt.bucket("user_id", 4)])
    shop.create_table("plain", SCHEMA, format="iceberg")
    return shop


def test_tables_of_all_formats(tables: Lake, partita: CommandRunner) -> None:
    assert tables.tables() == ["logs.clicks", "plain", "sales.orders", "vectors"]
    assert [tables.table(name).format for name in tables.tables()] == ["delta", "iceberg", "iceberg", "lance"]
    shown = partita("tables").out.splitlines()
    assert shown[0] == "logs.clicks  delta  partitioned by region  version 0"
    assert shown[2].startswith("sales.orders  iceberg  partitioned by day(ts)  version ")
    rows = [json.loads(line) for line in partita("tables", "--json").out.splitlines()]
    assert [(row["table"], row["format"], row["partitioned_by"]) for row in rows] == [
        ("logs.clicks", "delta", "region"),
        ("plain", "iceberg", ""),
        ("sales.orders", "iceberg", "day(ts)"),
        ("vectors", "lance", "bucket(4, user_id)"),
    ]


def test_the_tables_of_status_are_none_of_the_lakes(shop: Lake, partita: CommandRunner) -> None:
    shop.record("a", outcome="succeeded")
    shop.fold()
    done = partita("tables")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"there are no tables in {shop.uri}\n"


def test_a_table_that_cannot_be_opened_is_named(tables: Lake, partita: CommandRunner) -> None:
    next(Path(tables.uri, "logs/clicks/_delta_log").glob("*.json")).write_text("{}")
    done = partita("tables")
    assert done.code == 1
    assert done.out.splitlines()[0].startswith("logs.clicks  can't be opened: ")
    assert len(done.out.splitlines()) == 4


def test_partitions_of_a_table(shop: Lake, partita: CommandRunner) -> None:
    append_days(shop, 1, 2, 3)
    shown = partita("partitions", "raw.events")
    assert shown.code == 0
    assert "date=d:2025-01-02" in shown.out
    assert shown.err == "3 partitions\n"
    assert partita("partitions", "raw.events", "--limit", "1").err == "the first 1 partitions; --limit shows more\n"
    (row,) = map(
        json.loads,
        partita("partitions", "raw.events", "--json", "--where", "date = '2025-01-02'").out.splitlines(),
    )
    assert (row["key"], row["files"], row["rows"], row["date"]) == ("date=d:2025-01-02", 1, 1, "2025-01-02")
    assert partita("partitions", "no.such").code == 2


@pytest.mark.slow(reason="several commands on a lake")
def test_evolve_changes_how_a_table_is_partitioned(tables: Lake, partita: CommandRunner) -> None:
    done = partita("evolve", "sales.orders", "--add", "bucket(16, user_id)", "--add", "region", "--drop", "ts_day")
    assert done.out == "sales.orders is partitioned by bucket(16, user_id), region\n"
    said = json.loads(partita("evolve", "sales.orders", "--rename", "user_id_bucket=shard", "--json").out)
    assert said["partitioned_by"] == "bucket(16, user_id) AS shard, region"
    assert len(tables.table("sales.orders").specs) == 3
    for words in (
        ["sales.orders"], ["sales.orders", "--rename", "shard"], ["sales.orders", "--add", "no_such"],
        ["logs.clicks", "--drop", "region"], ["no.such", "--drop", "x"],
    ):  # fmt: skip
        assert partita("evolve", *words).code == 2
