"""`partita status`, `why`, `history`, `record`, `fold` and `sweep`."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import partita as pt
from partita.cli.command import COMMANDS
from partita.lake import Lake
from tests.cli.projects import change_directory, write_project
from tests.cli.terminal import CommandRunner, run_installed_command
from tests.status.histories import hours_after_start

DAYS = pt.daily("date", start="2025-01-01", end="2025-01-05")


@pytest.fixture
def where(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with two assets, which the environment names."""
    monkeypatch.setenv("PARTITA_LAKE", lake.uri)
    orders = pt.asset(name="orders", partitions=DAYS)(print)
    lake.register(
        orders, pt.asset(name="sales", partitions=DAYS * pt.static("shard", [1, 2]), upstream=[orders])(print)
    )
    lake.record(
        "sales",
        [{"date": date(2025, 1, d), "shard": 1} for d in (1, 2, 3)],
        outcome="succeeded",
        at=hours_after_start(1),
        run_id="r1",
    )
    lake.record("orders", {"date": date(2025, 1, 2)}, outcome="succeeded", at=hours_after_start(2), run_id="r2")
    lake.record(
        "sales",
        {"date": date(2025, 1, 3), "shard": 1},
        outcome="failed",
        at=hours_after_start(3),
        run_id="r3",
        error="boom\nmore",
    )
    return lake


@pytest.mark.slow(reason="several commands on a lake")
def test_status_is_a_grid_for_each_asset(where: Lake, partita: CommandRunner) -> None:
    shown = partita("status")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "orders: 1 current, 3 missing",
        "  date: 2025-01-01 to 2025-01-04",
        "                           ·■··",
        "",
        "sales: 1 current, 1 stale, 1 last attempt failed, 5 missing",
        "  date: 2025-01-01 to 2025-01-04",
        "  shard=1                  ■◪▲·",
        "  shard=2                  ····",
        "",
        "■ current  ◪ stale  ▲ last attempt failed  · missing  ✗ failed  ▶ running  ? not expected  ◌ not known",
    ]


@pytest.mark.slow(reason="several commands on a lake")
def test_status_lists_what_is_asked_for(where: Lake, partita: CommandRunner) -> None:
    assert partita("status", "sales", "--stale").out == (
        "sales  date=2025-01-02,shard=1  STALE  UPSTREAM_CHANGED since 2025-01-01T02:00:00Z\n"
    )
    assert partita("status", "--failed").out == (
        "sales  date=2025-01-03,shard=1  MATERIALIZED_BUT_LAST_ATTEMPT_FAILED  boom\n"
    )
    missing = partita("status", "sales", "--missing", "--stale", "--where", "date <= '2025-01-02'").out.splitlines()
    assert [line.split()[1] for line in missing] == [
        "date=2025-01-01,shard=2",
        "date=2025-01-02,shard=1",
        "date=2025-01-02,shard=2",
    ]


@pytest.mark.slow(reason="several commands on a lake")
def test_status_as_json_and_as_of_a_moment(where: Lake, partita: CommandRunner) -> None:
    rows = [json.loads(line) for line in partita("status", "sales", "--json").out.splitlines()]
    assert len(rows) == 8
    (stale,) = [row for row in rows if row["display_status"] == "STALE"]
    assert (stale["stale_reasons"], stale["stale_since"]) == (["UPSTREAM_CHANGED"], "2025-01-01T02:00:00Z")
    then = [
        json.loads(line) for line in partita("status", "sales", "--json", "--now", "2025-01-01T01:30").out.splitlines()
    ]
    assert [row["display_status"] for row in then] == ["MATERIALIZED"] * 3


@pytest.mark.slow(reason="several commands on a lake")
def test_status_check_exits_with_1_when_something_is_not_current(where: Lake, partita: CommandRunner) -> None:
    assert partita("status", "--check").code == 1
    assert partita("status", "--check", "sales", "--where", "date = '2025-01-01' AND shard = 1").code == 0
    where.record("report", outcome="succeeded")
    assert partita("status", "--check", "report").code == 0
    assert partita("status", "nothing").code == 2


@pytest.mark.slow(reason="several commands on a lake")
def test_a_check_counts_partitions_that_are_not_listed(where: Lake, partita: CommandRunner) -> None:
    shown = partita("status", "--check", "--running")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == "partita: 10 partitions are not current\n"


@pytest.mark.slow(reason="several commands on a lake")
@pytest.mark.parametrize(
    "words", [("--lake", "/proc/nope"), ("--tenant", "typo"), ("--where", "date = '1999-01-01'"), ("typo",)]
)
def test_a_check_of_nothing_is_not_green(words: tuple[str, ...], where: Lake, partita: CommandRunner) -> None:
    assert partita("status", "--check", *words).code == 2
    if words[0] == "--where":
        assert partita("status", *words).out == "no partition matches\n"


def by_function(_: pt.PartitionKey) -> list[pt.PartitionKey]:
    return [pt.PartitionKey.of()]


@pytest.mark.slow(reason="several commands on a lake")
def test_partitions_of_unknown_staleness_are_marked_and_not_green(where: Lake, partita: CommandRunner) -> None:
    there = Lake(where.uri, workspace="other")
    there.register(pt.asset(name="a")(print), pt.asset(name="b", upstream=[("a", pt.mapped_by(by_function))])(print))
    there.record("a", outcome="succeeded")
    assert partita("status", "--check", "a", "--workspace", "other").code == 0
    there.record("b", outcome="succeeded")
    shown = partita("status", "--check", "--workspace", "other")
    assert shown.code == 1
    assert shown.out.splitlines()[3:5] == ["b: 1 not known", "  ◌"]
    assert json.loads(partita("status", "--unknown", "--json", "--workspace", "other").out)["staleness"] == "unknown"
    there.sweep()
    assert partita("status", "--check", "--workspace", "other").code == 0


@pytest.mark.slow(reason="several commands on a lake")
def test_hours_stand_in_the_grid_from_the_first_to_the_last(where: Lake, partita: CommandRunner) -> None:
    hours = pt.hourly("ts", start="2025-01-01", end="2025-01-01T03:00")
    where.register(pt.asset(name="hours", partitions=hours * pt.static("k", ["a,b"]))(print))
    assert partita("status", "hours").out.splitlines()[1:3] == [
        "  ts: 2025-01-01T00:00:00Z to 2025-01-01T02:00:00Z",
        "  k=s:YSxi                 ···",
    ]
    key = partita("status", "hours", "--missing").out.splitlines()[0].split()[1]
    assert partita("why", "hours", key).out.splitlines()[0] == (
        "hours[k=a,b,ts=2025-01-01T00:00:00Z]: NEVER_MATERIALIZED"
    )


HOSTILE = "\x1b[31mred\x07\nfake line: MATERIALIZED"


@pytest.mark.slow(reason="many commands on a lake")
def test_texts_that_others_wrote_are_one_line_and_command_no_terminal(where: Lake, partita: CommandRunner) -> None:
    errors = {f"a{number}{HOSTILE}": text for number, text in enumerate(("", "\n", HOSTILE, "x" * 1_000_000))}
    for asset, error in errors.items():
        where.record(asset, {"k": HOSTILE}, outcome="failed", error=error, run_id="r", at=hours_after_start(1))
    key = str(pt.PartitionKey.of(k=HOSTILE))
    of_one = [
        words
        for asset in errors
        for words in (
            ("status", asset), ("status", asset, "--failed"), ("why", asset, key), ("history", asset, key)
        )
    ]  # fmt: skip
    for words in (("status",), ("status", "--failed"), *of_one):
        shown = partita(*words)
        assert shown.code == 0
        assert not any(c in shown.out for c in "\x1b\x07")
        assert not any(line.startswith("fake") for line in shown.out.splitlines())
        assert len(shown.out) < 3_000


@pytest.mark.slow(reason="several commands on a lake")
def test_status_export_writes_the_seeds_file(where: Lake, partita: CommandRunner, tmp_path: Path) -> None:
    file = tmp_path / "partition_status.parquet"
    assert partita("status", "export", str(file)).code == 0
    assert pq.read_table(file).num_rows == 4
    assert partita("status", "one", "two").code == 2
    assert "needs the name of a file" in partita("status", "export").err
    assert "can't be written" in partita("status", "export", str(tmp_path / "no" / "x.parquet")).err
    assert partita("status", "export", str(tmp_path)).code == 2


@pytest.mark.slow(reason="several commands on a lake")
def test_an_export_refuses_options_that_it_would_ignore(where: Lake, partita: CommandRunner, tmp_path: Path) -> None:
    file = tmp_path / "partition_status.parquet"
    for words in (
        ("--stale",),
        ("--where", "shard = 1"),
        ("--where", ""),
        ("--check",),
        ("--json",),
        ("--transitive",),
    ):
        shown = partita("status", "export", str(file), *words)
        assert shown.code == 2
        assert f"does not take {words[0]}" in shown.err
        assert not file.exists()
    assert partita("status", "export", str(file), "--no-observe", "--now", "2025-01-01T01:30").code == 0
    assert pq.read_table(file).num_rows == 3


BY_FUNCTION = """
import partita as pt

orders = pt.asset(name="orders")(print)
sales = pt.asset(name="sales", upstream=[(orders, pt.mapped_by(lambda key: [key]))])(print)
"""


@pytest.mark.slow(reason="several commands on a lake")
def test_a_sweep_in_a_project_judges_what_its_pipeline_maps_by_functions(
    partita: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_directory(write_project(tmp_path / "shop", pipeline=BY_FUNCTION), monkeypatch)
    assert partita("sweep").code == 0
    assert partita("record", "sales", "--outcome", "succeeded").code == 0
    assert "run `lake.sweep()`" in partita("status", "sales").err
    assert partita("sweep").code == 0
    assert partita("status", "sales", "--check").code == 0


@pytest.mark.slow(reason="several commands on a lake")
def test_why_takes_human_keys(where: Lake, partita: CommandRunner) -> None:
    shown = partita("why", "sales", "date=2025-01-02,shard=1")
    assert shown.out.splitlines()[0] == "sales[date=2025-01-02,shard=1]: STALE"
    assert partita("why", "sales", "date=d:2025-01-02,shard=i:1").out == shown.out
    assert (
        json.loads(partita("why", "sales", "date=2025-01-02,shard=1", "--json").out)["causes"][0]["code"]
        == "UPSTREAM_CHANGED"
    )
    assert "never tried" in partita("why", "sales", "date=2025-01-02,shard:int=2").out
    assert partita("why", "sales", "date=soon").code == 2
    assert partita("why", "nothing").code == 2


@pytest.mark.slow(reason="several commands on a lake")
def test_a_key_of_a_dynamic_dimension_has_the_type_of_its_values(where: Lake, partita: CommandRunner) -> None:
    where.register(pt.asset(name="by_customer", partitions=pt.dynamic("customer"))(print))
    assert partita("why", "by_customer", "customer=42").code == 2
    where.add_partitions("by_customer", [{"customer": "41"}, {"customer": "42"}])
    assert "never tried" in partita("why", "by_customer", "customer=42").out


@pytest.mark.slow(reason="several commands on a lake")
def test_record_history_fold_and_sweep(where: Lake, partita: CommandRunner) -> None:
    words = ("--run", "r9", "--at", "2025-01-01T05:00:00Z", "--rows", "1000", "--code-version", "3")
    assert partita("record", "sales", "date=2025-01-04,shard=2", "--outcome", "succeeded", *words).code == 0
    assert partita("history", "sales", "date=2025-01-04,shard=2").out == (
        "2025-01-01T05:00:00Z  succeeded  run r9, attempt 1  code version 3  1,000 rows\n"
    )
    event = json.loads(partita("history", "sales", "date=2025-01-04,shard=2", "--json").out)
    assert (event["kind"], event["occurred_at"], event["rows"]) == ("succeeded", "2025-01-01T05:00:00Z", 1000)
    assert partita("fold").out.startswith("5 partitions")
    assert json.loads(partita("sweep", "--json").out)["rows"] == 5
    assert partita("record", "report", "--outcome", "failed", "--error", "disk full").code == 0
    assert "disk full" in partita("why", "report").out
    assert partita("record", "sales", "date=2025-01-04,shard=2", "--outcome", "lost").code == 2
    assert partita("record", "sales", "x=1", "--outcome", "failed").code == 2
    refused = partita("record", "sales", "date=2025-01-04", "--outcome", "failed")
    assert (refused.code, "its dimensions are: date, shard" in refused.err) == (2, True)


@pytest.mark.slow(reason="several commands on a lake")
def test_record_prints_its_events_as_json(where: Lake, partita: CommandRunner) -> None:
    shown = partita(
        "record", "sales", "date=2025-01-04,shard=2", "date=2025-01-04,shard=1", "--outcome", "failed", "--json"
    )
    assert [json.loads(line) for line in shown.out.splitlines()] == [
        {"asset": "sales", "key": f"date=d:2025-01-04,shard=i:{shard}", "outcome": "failed"} for shard in (2, 1)
    ]
    assert json.loads(partita("record", "report", "--outcome", "started", "--json").out)["key"] == ""


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "key"])
def test_every_command_has_json(name: str, partita: CommandRunner) -> None:
    assert "--json" in partita(name, "--help").out


@pytest.mark.slow(reason="several commands on a lake")
def test_the_history_of_an_unknown_partition_is_empty(where: Lake, partita: CommandRunner) -> None:
    assert partita("history", "nothing").code == 2
    shown = partita("history", "sales", "date=2025-01-04,shard=2")
    assert (shown.code, shown.out, shown.err) == (0, "", "no events are recorded for this partition\n")


@pytest.mark.slow(reason="several commands on a lake")
def test_other_workspaces_are_others(where: Lake, partita: CommandRunner) -> None:
    assert partita("status", "--workspace", "other").out == "no asset is registered or recorded here\n"
    assert partita("status", "--lake", where.uri, "--tenant", "default").out == partita("status").out


@pytest.mark.slow(reason="a process of its own")
def test_the_installed_command_answers_without_arrow(where: Lake) -> None:
    """Loading Arrow, numpy and pandas takes longer than the answer."""
    shown = run_installed_command("status", PARTITA_LAKE=where.uri, PYTHONPROFILEIMPORTTIME="1")
    assert shown.code == 0
    loaded = {line.rpartition("|")[2].strip() for line in shown.err.splitlines()}
    assert "duckdb" in loaded
    assert not {"pyarrow", "numpy", "pandas", "pyspark", "sqlglot"} & loaded
