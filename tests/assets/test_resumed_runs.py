"""A run that is killed at any step and resumed leaves the same tables, status and commits as one that is not."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.lake import Lake
from tests.assets.killed_run import ProcessKilled, StepCounter, kill_at_step
from tests.assets.shop import Shop, day_key, partitions_not_current, table_rows

pytestmark = pytest.mark.usefixtures("spark")

TABLES = ("shop.orders", "shop.daily", "shop.monthly")
REFUSED = {day_key(31, "us")}
FEW = pt.daily("date", start="2025-01-31", end="2025-02-02")


def outcome(lake: Lake) -> dict[str, Any]:
    """Return what a run leaves, without times and ids."""
    status = lake.status().select(
        ["asset_key", "partition_key", "display_status", "running", "last_materialization_rows"]
    )
    return {
        "rows": {table: table_rows(lake, table) for table in TABLES},
        "states": partitions_not_current(lake),
        "status": status.to_pylist(),
    }


def partitions_committed_twice(lake: Lake) -> list[str]:
    """Return the partitions that were committed more than once."""
    commit_counts = Counter(
        f"{table} {partition}"
        for table in TABLES
        for commit in lake.table(table).change_feed().commits
        for partition in commit.partitions.to_pylist()
    )
    return [partition for partition, commits in commit_counts.items() if commits > 1]


def create_shop_lake(folder: Path, format_name: str) -> tuple[Lake, Shop]:
    shop = Shop(refused=set(REFUSED), days=FEW)
    lake = Lake(str(folder))
    lake.register(*shop.assets(format_name))
    return lake, shop


@pytest.fixture(scope="module")
def uninterrupted_runs(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> dict[str, Any]:
    """For each format, the outcome of a run that is not killed, and how many steps it has."""
    assert spark is not None
    runs = {}
    for format_name in ("delta", "iceberg", "lance"):
        lake, _ = create_shop_lake(tmp_path_factory.mktemp("whole") / format_name, format_name)
        plan = lake.plan()
        with kill_at_step(StepCounter()) as steps:
            assert lake.run(plan, parallel=1).failed == 1
        assert not partitions_committed_twice(lake)
        runs[format_name] = (outcome(lake), steps.count)
    return runs


# One random step of each format runs always; more steps prove the same again, so only `make prove` takes them.
CASES = [
    pytest.param(format_name, number, marks=() if number == 0 else pytest.mark.long)
    for format_name in ("delta", "iceberg", "lance")
    for number in range(4)
]


@pytest.mark.parametrize(("format_name", "number"), CASES)
def test_killed_at_a_random_step_and_resumed(
    format_name: str, number: int, tmp_path: Path, uninterrupted_runs: dict[str, Any]
) -> None:
    expected, count = uninterrupted_runs[format_name]
    rng = random.Random(f"{format_name} {number}")  # noqa: S311 - no secret
    last = rng.randrange(3, count + 1)
    lake, _ = create_shop_lake(tmp_path / "lake", format_name)
    plan = lake.plan()
    with kill_at_step(StepCounter(last, after=rng.random() < 0.5)) as steps, suppress(ProcessKilled):
        lake.run(plan, parallel=1)
    assert steps.dead
    resumed = Lake(lake.uri)
    resumed.register(*Shop(refused=set(REFUSED), days=FEW).assets(format_name))
    with suppress_nothing_left():
        resumed.resume(parallel=1)
    assert outcome(resumed) == expected, f"killed at step {last} of {count}"
    assert not partitions_committed_twice(resumed), f"killed at step {last} of {count}"


def suppress_nothing_left() -> Any:
    """A run that was killed after its result was stored has ended, and resuming it is refused."""
    return suppress(pt.PlanError)


def killed_at_its_first_rows(folder: Path) -> tuple[Lake, Shop]:
    """Return a lake whose run over orders was killed at its second commit, the first after creating the table."""
    lake, shop = create_shop_lake(folder / "lake", "delta")
    shop.refused = set()
    plan = lake.plan(select="orders")
    with kill_at_step(StepCounter(2, only="DeltaLog.write_commit")) as steps, suppress(ProcessKilled):
        lake.run(plan, parallel=1)
    assert steps.dead
    return lake, shop


def test_open_attempts_of_a_killed_run_are_recorded_as_failed(tmp_path: Path) -> None:
    lake, _ = killed_at_its_first_rows(tmp_path)
    assert lake.status("orders", state="running").num_rows == 4
    assert lake.resume().ok
    kinds = lake.history("orders", day_key(31, "us")).select(["kind", "attempt"]).to_pylist()
    assert [(row["kind"], row["attempt"]) for row in kinds] == [
        ("started", 1), ("failed", 1), ("started", 2), ("succeeded", 2),
    ]  # fmt: skip
    assert "ended before it did" in str(lake.history("orders", day_key(31, "us"))["error"].to_pylist())
    with pytest.raises(pt.PlanError, match="nothing to resume"):
        lake.resume()


def test_the_next_run_settles_the_attempts_of_a_killed_run(tmp_path: Path) -> None:
    lake, shop = killed_at_its_first_rows(tmp_path)
    lake.record("orders", day_key(31, "us"), outcome="started", run_id="elsewhere")
    result = lake.run(lake.plan())
    assert result.ok
    running = lake.status("orders", state="running")
    assert running["running_run_id"].to_pylist() == ["elsewhere"], "which is not ours to settle"
    kinds = [
        (row["kind"], row["run_id"] == result.run_id) for row in lake.history("orders", day_key(1, "us", 2)).to_pylist()
    ]
    assert kinds == [("started", False), ("failed", False), ("started", True), ("succeeded", True)]
    calls, before = list(shop.calls), outcome(lake)
    resumed_run = lake.resume()
    assert (resumed_run.ok, resumed_run.succeeded, resumed_run.run_id == result.run_id) == (True, 4, False)
    assert (shop.calls, outcome(lake)) == (calls, before)
    assert not partitions_committed_twice(lake)


def test_a_resume_keeps_partitions_that_others_made_since(tmp_path: Path) -> None:
    lake, shop = killed_at_its_first_rows(tmp_path)
    lake.record("orders", day_key(31, "us"), outcome="succeeded", run_id="elsewhere", code_version="1")
    assert lake.resume().ok
    assert shop.calls == [("orders", 4), ("orders", 3)]
    assert partitions_not_current(lake)["orders"] == []
    kinds = [row["kind"] for row in lake.history("orders", day_key(31, "us")).to_pylist()]
    assert kinds == ["started", "failed", "succeeded"]


def test_an_unknown_run_id_is_refused(lake: Lake) -> None:
    with pytest.raises(pt.PlanError, match="no run '01J"):
        lake.resume("01JZZZZZZZZZZZZZZZZZZZZZZZ")
    with pytest.raises(pt.PlanError, match="is a ULID"):
        lake.resume("../../etc")
