"""Side by side: our way and a peer's, measured in turn in the same run, shown as a ratio.

A benchmark is a module `bench/bench_<subject>.py` with one function:

    from bench.harness import Row, Side, at_least, compare

    def rows() -> Iterator[Row]:
        table = make_data()                                    # what both sides share is made outside the clock
        yield compare(
            "key texts of 1,000,000 rows",
            ours=Side("partita.arrow", lambda: key_texts(table)),
            theirs=Side("str(PartitionKey) in a loop", lambda: loop(table[:10_000]), share=0.01),
            goal=at_least(20),
        )
        yield measure("import partita", Side("cold", import_partita), goal=within(0.3))

`make bench` runs them all; `make bench ONLY=key` those modules whose name has `key` in it. A ratio is the peer's
seconds over ours: 20x means that we are twenty times as fast. A goal that is missed is shown and is no error, for a
busy machine is no bug.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Side:
    """One way to do the work. `share` is how much of the work `run` does, where all of it would take too long."""

    label: str
    run: Callable[[], object]
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row should reach, in words and as a test of our seconds and the ratio."""

    text: str
    is_met: Callable[[float, float | None], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report. `ratio` is None without a peer, and `ok` is None without a goal."""

    name: str
    ours_label: str
    ours_seconds: float
    theirs_label: str | None = None
    theirs_seconds: float | None = None
    ratio: float | None = None
    goal: str | None = None
    ok: bool | None = None


def at_least(ratio: float) -> Goal:
    """Ours takes at most one `ratio`th of the peer's time; 0.5 allows twice as long."""
    return Goal(f">= {ratio:.3g}x", lambda _, reached: reached is not None and reached >= ratio)


def within_seconds(seconds: float) -> Goal:
    """Ours takes at most so many seconds."""
    return Goal(f"<= {seconds:g} s", lambda ours, _: ours <= seconds)


def compare(name: str, *, ours: Side, theirs: Side, goal: Goal | None = None, repeat: int = 5) -> Row:
    """Both sides in turn (ours, theirs, ours, ...), after one unmeasured turn each; the median of each counts."""
    ours_seconds, theirs_seconds = _median_seconds((ours, theirs), repeat)
    ratio = theirs_seconds / ours_seconds
    return Row(
        name,
        ours.label,
        ours_seconds,
        theirs.label,
        theirs_seconds,
        ratio,
        goal.text if goal else None,
        goal.is_met(ours_seconds, ratio) if goal else None,
    )


def measure(name: str, ours: Side, *, goal: Goal | None = None, repeat: int = 5) -> Row:
    """Ours alone, for a goal in seconds."""
    (seconds,) = _median_seconds((ours,), repeat)
    return Row(
        name,
        ours.label,
        seconds,
        goal=goal.text if goal else None,
        ok=goal.is_met(seconds, None) if goal else None,
    )


def _median_seconds(sides: tuple[Side, ...], repeat: int) -> list[float]:
    for side in sides:
        side.run()
    turns = [[_timed_seconds(side) for side in sides] for _ in range(repeat)]
    return [statistics.median(times) for times in zip(*turns, strict=True)]


def _timed_seconds(side: Side) -> float:
    """The seconds that all of the work would take, with the garbage of the turn before cleared first."""
    gc.collect()
    start = time.perf_counter()
    side.run()
    return (time.perf_counter() - start) / side.share
