"""The benchmarks' harness: sides take turns, the median counts, goals are judged and never raised."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from bench import harness
from bench.harness import Row, Side, at_least, compare, measure, within_seconds
from bench.run import benchmark_subjects, main, report_table


class Clock:
    """Time that only passes where a side says so."""

    now = 0.0

    def side(self, label: str, *seconds: float, log: list[str] | None = None, share: float = 1.0) -> Side:
        """Takes the first of `seconds` in its unmeasured turn, then the others."""
        turns = iter(seconds)

        def run() -> None:
            self.now += next(turns)
            if log is not None:
                log.append(label)

        return Side(label, run, share)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(harness, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    # Collecting the garbage of a whole test run takes a second.
    monkeypatch.setattr(harness, "gc", SimpleNamespace(collect=lambda: 0))
    return clock


def test_sides_take_turns(clock: Clock) -> None:
    log: list[str] = []
    ours, theirs = (
        clock.side("a", *itertools.repeat(1.0, 4), log=log),
        clock.side("b", *itertools.repeat(1.0, 4), log=log),
    )
    compare("turns", ours=ours, theirs=theirs, repeat=3)
    assert "".join(log) == "abababab"


def test_the_median_counts_and_the_first_turn_does_not(clock: Clock) -> None:
    row = compare(
        "median",
        ours=clock.side("ours", 99.0, 1.0, 2.0, 50.0),
        theirs=clock.side("theirs", 0.0, 8.0, 6.0, 7.0),
        goal=at_least(3.5),
        repeat=3,
    )
    assert row == Row("median", "ours", 2.0, "theirs", 7.0, 3.5, ">= 3.5x", ok=True)


def test_a_share_is_scaled_up(clock: Clock) -> None:
    row = compare("share", ours=clock.side("a", 1.0, 1.0), theirs=clock.side("b", 1.0, 1.0, share=0.01), repeat=1)
    assert (row.ratio, row.goal, row.ok) == (100.0, None, None)


@pytest.mark.parametrize(("seconds", "met"), [(0.25, True), (0.3, True), (0.4, False)])
def test_a_goal_in_seconds(clock: Clock, seconds: float, *, met: bool) -> None:
    assert measure("cold", clock.side("ours", 0.0, seconds), goal=within_seconds(0.3), repeat=1).ok is met


def test_the_report_shows_ratio_and_goal() -> None:
    console = Console(file=io.StringIO(), width=160)
    console.print(
        report_table([Row("keys", "arrow", 0.002, "loop", 3.0, 1500.0, ">= 20x", ok=True), Row("start", "cold", 5e-6)])
    )
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert all(text in shown for text in ("2 ms", "3 s", "1.5e+03x", ">= 20x", "met", "5 µs"))


def test_subjects_are_found_and_picked(tmp_path: Path) -> None:
    for name in ("bench_keys.py", "bench_prune.py", "run.py"):
        (tmp_path / name).touch()
    assert benchmark_subjects(tmp_path) == ["keys", "prune"]
    assert benchmark_subjects(tmp_path, "pru") == ["prune"]


def test_an_unknown_benchmark_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("no such benchmark") == 1
    assert "no such benchmark" in capsys.readouterr().out
