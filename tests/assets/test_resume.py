"""A run that is killed anywhere and resumed leaves what a run without the kill does: tables, status, commits."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import partita as pt
from partita.lake import Lake
from tests.assets.dying import Killed, Steps, dying
from tests.assets.shop import Shop, key, rows_of, states

pytestmark = pytest.mark.usefixtures("spark")

TABLES = ("shop.orders", "shop.daily", "shop.monthly")
POISONED = {key(31, "us")}
FEW = pt.daily("date", start="2025-01-31", end="2025-02-02")


def outcome(lake: Lake) -> dict[str, Any]:
    """All that a run leaves, but for times and ids."""
    status = lake.status().select(
        ["asset_key", "partition_key", "display_status", "running", "last_materialization_rows"]
    )
    return {
        "rows": {table: rows_of(lake, table) for table in TABLES},
        "states": states(lake),
        "status": status.to_pylist(),
    }


def twice(lake: Lake) -> list[str]:
    """The partitions that were committed more than once."""
    touched = Counter(
        f"{table} {partition}"
        for table in TABLES
        for commit in lake.table(table).commits().commits
        for partition in commit.partitions.to_pylist()
    )
    return [one for one, times in touched.items() if times > 1]


def begun(folder: Path, form: str) -> tuple[Lake, Shop]:
    shop = Shop(poisoned=set(POISONED), days=FEW)
    lake = Lake(str(folder))
    lake.register(*shop.assets(form))
    return lake, shop


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> dict[str, Any]:
    """For each format, what a run without a kill leaves, and how many steps it has."""
    assert spark is not None
    found = {}
    for form in ("delta", "iceberg", "lance"):
        lake, _ = begun(tmp_path_factory.mktemp("whole") / form, form)
        plan = lake.plan()
        with dying(Steps()) as steps:
            assert lake.run(plan, parallel=1).failed == 1
        assert not twice(lake)
        found[form] = (outcome(lake), steps.count)
    return found


CASES = [
    pytest.param(form, number, marks=() if number < 2 else pytest.mark.long)
    for form in ("delta", "iceberg", "lance")
    for number in range(4)
]


@pytest.mark.parametrize(("form", "number"), CASES)
def test_killed_at_a_random_step_and_resumed(form: str, number: int, tmp_path: Path, whole: dict[str, Any]) -> None:
    wanted, count = whole[form]
    rng = random.Random(f"{form} {number}")  # noqa: S311 - no secret
    last = rng.randrange(3, count + 1)
    lake, _ = begun(tmp_path / "lake", form)
    plan = lake.plan()
    with dying(Steps(last, after=rng.random() < 0.5)) as steps, suppress(Killed):
        lake.run(plan, parallel=1)
    assert steps.dead
    resumed = Lake(lake.uri)
    resumed.register(*Shop(poisoned=set(POISONED), days=FEW).assets(form))
    with suppress_nothing_left():
        resumed.resume(parallel=1)
    found = outcome(resumed)
    assert found == wanted, f"killed at step {last} of {count}"
    assert not twice(resumed), f"killed at step {last} of {count}"


def suppress_nothing_left() -> Any:
    """A run that died after its last word has ended."""
    return suppress(pt.PlanError)


def killed_at_its_first_rows(folder: Path) -> tuple[Lake, Shop]:
    """A lake in which a run over orders died at its second commit, which is the first after the table was made."""
    lake, shop = begun(folder / "lake", "delta")
    shop.poisoned = set()
    plan = lake.plan(select="orders")
    with dying(Steps(2, only="DeltaLog.commit")) as steps, suppress(Killed):
        lake.run(plan, parallel=1)
    assert steps.dead
    return lake, shop


def test_what_was_running_when_it_died_is_recorded_as_failed(tmp_path: Path) -> None:
    lake, _ = killed_at_its_first_rows(tmp_path)
    assert lake.status("orders", state="running").num_rows == 4
    assert lake.resume().ok
    kinds = lake.history("orders", key(31, "us")).select(["kind", "attempt"]).to_pylist()
    assert [(row["kind"], row["attempt"]) for row in kinds] == [
        ("started", 1), ("failed", 1), ("started", 2), ("succeeded", 2),
    ]  # fmt: skip
    assert "ended before it did" in str(lake.history("orders", key(31, "us"))["error"].to_pylist())
    with pytest.raises(pt.PlanError, match="nothing to resume"):
        lake.resume()


def test_what_a_dead_run_began_is_settled_by_the_next_and_not_made_again(tmp_path: Path) -> None:
    lake, shop = killed_at_its_first_rows(tmp_path)
    lake.record("orders", key(31, "us"), outcome="started", run_id="elsewhere")
    made = lake.run(lake.plan())
    assert made.ok
    running = lake.status("orders", state="running")
    assert running["running_run_id"].to_pylist() == ["elsewhere"], "which is not ours to settle"
    kinds = [(row["kind"], row["run_id"] == made.run_id) for row in lake.history("orders", key(1, "us", 2)).to_pylist()]
    assert kinds == [("started", False), ("failed", False), ("started", True), ("succeeded", True)]
    calls, before = list(shop.calls), outcome(lake)
    dead = lake.resume()
    assert (dead.ok, dead.succeeded, dead.run_id == made.run_id) == (True, 4, False)
    assert (shop.calls, outcome(lake)) == (calls, before)
    assert not twice(lake)


def test_what_others_made_since_is_not_shown_as_failed_by_a_resume(tmp_path: Path) -> None:
    lake, shop = killed_at_its_first_rows(tmp_path)
    lake.record("orders", key(31, "us"), outcome="succeeded", run_id="elsewhere", code_version="1")
    assert lake.resume().ok
    assert shop.calls == [("orders", 4), ("orders", 3)]
    assert states(lake)["orders"] == []
    last = [row["kind"] for row in lake.history("orders", key(31, "us")).to_pylist()]
    assert last == ["started", "failed", "succeeded"]


def test_a_run_without_such_an_id(lake: Lake) -> None:
    with pytest.raises(pt.PlanError, match="no run '01J"):
        lake.resume("01JZZZZZZZZZZZZZZZZZZZZZZZ")
    with pytest.raises(pt.PlanError, match="is a ULID"):
        lake.resume("../../etc")
