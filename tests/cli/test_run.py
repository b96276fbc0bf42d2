"""`partita run`: exit codes, plans from files, resuming, and signals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from partita.cli.signals import interrupt_on_signals
from partita.lake import Lake
from tests.cli.projects import PROJECT_TOML, change_directory, write_project
from tests.cli.terminal import PARTITA_COMMAND, SPARK_ENVIRONMENT, CommandRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """The lake of a project in which the commands run."""
    change_directory(write_project(tmp_path / "shop"), monkeypatch)
    monkeypatch.delenv("POISON", raising=False)
    return Lake(str(tmp_path / "shop" / "lake"))


@pytest.mark.usefixtures("spark")
def test_a_run_plans_and_materializes_everything(shop: Lake, partita: CommandRunner) -> None:
    done = partita("run")
    lines = done.out.splitlines()
    assert done.code == 0, done.out + done.err
    assert lines[0].endswith(": 8 partitions of orders, sums")
    assert lines[1:5] == [
        "orders: 4 partitions started",
        "orders: 4 partitions made, 4 rows  [4/8]",
        "sums: 4 partitions started",
        "sums: 4 partitions made, 4 rows  [8/8]",
    ]
    assert "8 partitions made, in " in lines[5]
    assert done.err == "orders: making 4\n"
    assert sorted(row["n"] for row in shop.table("sums").read().collect()) == [1, 1, 1, 1]
    again = partita("run")
    assert (again.code, again.out, again.err) == (0, "", "nothing to run\n")


@pytest.mark.usefixtures("spark")
def test_failed_and_skipped_partitions_exit_with_1(
    shop: Lake, partita: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POISON", "2025-01-03")
    done = partita("run", "--json")
    assert done.code == 1
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [events[0]["event"], events[-2]["event"]] == ["begun", "ended"]
    result = events[-1]
    assert {name: result[name] for name in ("event", "succeeded", "failed", "skipped", "left", "ok")} == {
        "event": "result", "succeeded": 6, "failed": 1, "skipped": 1, "left": 0, "ok": False
    }  # fmt: skip
    (failure,) = result["failures"]
    assert (failure["asset"], failure["key"]) == ("orders", "date=d:2025-01-03")
    assert "ValueError: poisoned" in failure["error"]
    assert partita("status", "orders", "--failed").out.startswith("orders  date=2025-01-03")
    stopped = partita("run", "--max-failures", "0", "--select", "orders")
    assert stopped.code == 1
    assert "failed: orders[date=2025-01-03]" in stopped.out
    monkeypatch.delenv("POISON")
    assert partita("run", "--failed", "--select", "orders").code == 0
    assert partita("run").code == 0


@pytest.mark.usefixtures("spark")
def test_a_stored_plan_runs_unless_its_inputs_changed(shop: Lake, partita: CommandRunner) -> None:
    partita("plan", "--out", "plan.jsonl", "--select", "orders", "--where", "date = '2025-01-01'")
    assert partita("run", "plan.jsonl").code == 0
    moved = partita("run", "plan.jsonl")
    assert moved.code == 2
    assert "the plan is out of date: orders changed" in moved.err
    assert partita("run", "no-such-file").code == 2
    Path("plan.jsonl").write_text("{}")
    assert "is not a plan of Partita" in partita("run", "plan.jsonl").err


@pytest.mark.usefixtures("spark")
def test_partitions_recorded_since_the_plan_are_planned_again(
    shop: Lake, partita: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.cli import run
    from partita.cli.plan_option import plan_from_arguments

    made = []

    def plan_then_record_failure(*given: Any) -> object:
        plan = plan_from_arguments(*given)
        made.append(plan)
        if len(made) == 1:
            shop.record("orders", {"date": date(2025, 1, 1)}, outcome="failed")
        return plan

    monkeypatch.setattr(run, "plan_from_arguments", plan_then_record_failure)
    done = partita("run")
    assert done.code == 0, done.err
    assert len(made) == 2


@pytest.mark.usefixtures("spark")
def test_a_plan_of_held_back_partitions_starts_no_spark(
    shop: Lake, partita: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partita.cli import run

    monkeypatch.setattr(run, "start_spark", pytest.fail)
    done = partita("run", "--select", "sums")
    assert (done.code, done.out, done.err) == (0, "", "nothing to run, 4 held back\n")


def test_a_run_takes_no_now(partita: CommandRunner) -> None:
    done = partita("run", "--now", "2025-01-02")
    assert done.code == 2
    assert "unrecognized arguments: --now" in done.err


@pytest.mark.usefixtures("spark")
def test_an_unknown_run_cannot_be_resumed(shop: Lake, partita: CommandRunner) -> None:
    assert "there is nothing to resume" in partita("run", "--resume").err
    assert "'nonsense' is not the id of a run" in partita("run", "--resume", "nonsense").err


SLOW = """
import os, time
from pathlib import Path

import partita as pt

DAYS = pt.daily("date", start="2025-01-01", end="2025-01-04")


@pt.asset(table="orders", partitions=DAYS, code_version="1")
def orders(ctx):
    rows = ctx.spark.createDataFrame([(key["date"], 1) for key in ctx.keys], "date date, n int")
    if Path("stop").exists() and any(key["date"].day == 2 for key in ctx.keys):
        return rows.mapInArrow(slowly, rows.schema)
    return rows


def slowly(batches):
    for batch in batches:
        Path(os.environ["AT_WORK"]).touch()
        time.sleep(120)
        yield batch
"""


# An interrupt is handled as a termination is; `test_both_signals_interrupt_and_are_as_before_after` has both.
@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_signal_cancels_and_the_run_is_resumed(
    tmp_path: Path, spark: SparkSession, partita: CommandRunner, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    """What is cancelled is a process; what resumes its run is another one, that of the tests."""
    shop = write_project(tmp_path / "shop", PROJECT_TOML + "batch_partitions = 1\n", SLOW)
    at_work = tmp_path / "at_work"
    (shop / "stop").touch()
    environ = {**os.environ, **SPARK_ENVIRONMENT, "AT_WORK": str(at_work)}
    environ.pop("PARTITA_LAKE", None)
    with subprocess.Popen(
        [PARTITA_COMMAND, "run", "--json"],
        cwd=shop, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=_hear_interrupts,  # noqa: PLW1509 - a background shell ignores them, and processes inherit that
    ) as running:  # fmt: skip
        _wait_for(at_work.exists, running)
        running.send_signal(how)
        out, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    ended = json.loads(out.splitlines()[-1])
    assert (ended["event"], ended["succeeded"], ended["cancelled"], ended["left"]) == ("ended", 1, 1, 1)
    run_id = ended["run_id"]
    assert f"run {run_id} was interrupted: 1 succeeded, 0 failed, 1 cancelled, 1 left" in err
    assert f"resume it with `partita run --resume {run_id}`" in err
    history = Lake(str(shop / "lake")).history("orders", "date=d:2025-01-02").to_pylist()
    assert [event["kind"] for event in history] == ["started", "cancelled"]
    (shop / "stop").unlink()
    change_directory(shop, monkeypatch)
    done = partita("run", "--resume")
    assert done.code == 0, done.out + done.err
    assert f"run {run_id}: 3 partitions made" in done.out
    assert Lake(str(shop / "lake")).table("orders").partitions()["rows"].to_pylist() == [1, 1, 1]


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait_for(done: Callable[[], bool], running: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 180
    while not done():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.jvm
@pytest.mark.long
def test_a_terminal_gets_a_live_display(tmp_path: Path) -> None:
    shop = write_project(tmp_path / "shop")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [PARTITA_COMMAND, "run"],
        cwd=shop,
        env={**os.environ, **SPARK_ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"},
        stdout=theirs,
        stderr=theirs,
    ) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                # Linux says so when the other end is closed.
                break
            if not part:
                break
            shown += part
    os.close(ours)
    text = shown.decode()
    assert running.returncode == 0, text
    assert "running orders: 4 partitions" in text
    assert "partitions/s" in text
    assert "8/8" in text
    assert text.rstrip().endswith(" s")
    assert "8 partitions made, in " in text


def test_both_signals_interrupt_and_are_as_before_after(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        handler = signal.getsignal(signal.SIGTERM)
        for number in (signal.SIGINT, signal.SIGTERM):
            with pytest.raises(KeyboardInterrupt), interrupt_on_signals():
                signal.raise_signal(number)
        assert signal.getsignal(signal.SIGTERM) == handler
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_only_the_main_thread_hears_signals() -> None:
    script = (
        "import threading\nfrom partita.cli.signals import interrupt_on_signals\n"
        "def f():\n    with interrupt_on_signals():\n        print('ok')\n"
        "t = threading.Thread(target=f); t.start(); t.join()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "ok\n"
