"""Running now: an attempt runs from its start until its own end, whatever others do meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.lake import Lake
from partita.status.engine import connect, listed
from partita.status.events import FINISHED, STARTED, Event, to_arrow
from partita.status.running import open_attempts
from tests.status.histories import KEY, at, event, failed, histories, succeeded


def running(events: list[Event]) -> dict[tuple[str, str], tuple[int, str]]:
    """Since when, in microseconds, and the run, by partition."""
    with connect() as connection:
        connection.register("events", to_arrow(events))
        sql = (
            f"SELECT asset_key, partition_key, epoch_us(running_since), running_run_id FROM ({open_attempts('events')})"  # noqa: S608
        )
        return {(asset, key): (since, run) for asset, key, since, run in listed(connection, sql)}


def model(events: list[Event]) -> dict[tuple[str, str], tuple[int, str]]:
    """The same by the definition, start by start."""
    found: dict[tuple[str, str], tuple[Any, str, str]] = {}
    for start in (e for e in events if e.kind == STARTED):
        same = ("asset_key", "partition_key", "run_id", "attempt")
        ends = [e for e in events if e.kind in FINISHED and all(getattr(e, n) == getattr(start, n) for n in same)]
        starts = [e for e in events if e.kind == STARTED and all(getattr(e, n) == getattr(start, n) for n in same)]
        is_first = start.occurred_at == min(e.occurred_at for e in starts)
        if all(end.occurred_at < start.occurred_at for end in ends) and not (ends and is_first):
            which = (start.asset_key, start.partition_key or "")
            this = (start.occurred_at, start.event_id, start.run_id or "")
            found[which] = max(found.get(which, this), this)
    return {which: (round(since.timestamp() * 1_000_000), run) for which, (since, _, run) in found.items()}


R1, R2 = event(STARTED, 1), event(STARTED, 2, "r2")
CASES: dict[str, tuple[list[Event], str | None]] = {
    "started": ([R1], "r1"),
    "ended": ([R1, succeeded(2)], None),
    "ended at the moment of its start": ([R1, succeeded(1)], None),
    "another run ended that nobody saw start": ([R1, failed(2, "r2")], "r1"),
    "the first of two ended": ([R1, R2, succeeded(3, "r1")], "r2"),
    "the second of two ended": ([R1, R2, succeeded(3, "r2")], "r1"),
    "the second of two ended, with its start": ([R1, R2, succeeded(3, "r2", started_at=at(2))], "r1"),
    "both ended": ([R1, R2, succeeded(3, "r2"), failed(4, "r1")], None),
    "a second attempt of a run": ([R1, failed(2), event(STARTED, 3, attempt=2)], "r1"),
    "started again under the same name": ([R1, failed(2), event(STARTED, 3)], "r1"),
    "ended before it started, by another clock": ([event(STARTED, 3), succeeded(2)], None),
    "and started again": ([event(STARTED, 3), succeeded(2), event(STARTED, 4)], "r1"),
    "another attempt ended before it started": ([event(STARTED, 3), succeeded(2, attempt=2)], "r1"),
    "and ended again": ([R1, failed(2), event(STARTED, 3), succeeded(4)], None),
}


@pytest.mark.parametrize("name", CASES)
def test_an_end_ends_the_attempt_that_it_names_and_no_other(name: str) -> None:
    events, run = CASES[name]
    for order in (events, events[::-1], events * 2):
        assert [found for _, found in running(order).values()] == ([] if run is None else [run])


@settings(max_examples=settings().max_examples // 5)
@given(st.data(), histories())
def test_any_order_and_duplication_has_the_same_attempts_open(data: st.DataObject, events: list[Event]) -> None:
    shuffled = data.draw(st.permutations(events + events[: len(events) // 2]))
    assert running(shuffled) == model(events)


def test_blocks_that_overlap_are_each_running_until_they_end(lake: Lake) -> None:
    def now() -> tuple[bool, str | None]:
        (row,) = lake.status("sales").to_pylist()
        return row["running"], row["running_run_id"]

    one, two = lake.attempt("sales", KEY, run_id="r1"), lake.attempt("sales", KEY, run_id="r2")
    one.__enter__()
    two.__enter__()
    assert now() == (True, "r2")
    two.__exit__(None, None, None)
    assert now() == (True, "r1")
    lake.fold()
    assert now() == (True, "r1")
    one.__exit__(None, None, None)
    assert now() == (False, None)


def test_a_start_that_names_no_run_is_ended_by_an_end_that_names_none(lake: Lake) -> None:
    keys = [{"n": 1}, {"n": 2}]
    lake.record("sales", keys, outcome="started", at=at(1))
    lake.record("sales", keys, outcome="succeeded", at=at(2), run_id="other")
    assert lake.status("sales", state="running").num_rows == 2
    lake.record("sales", keys, outcome="succeeded", at=at(3))
    assert lake.status("sales", state="running").num_rows == 0


def test_an_end_that_names_no_run_ends_nothing_that_starts_after_it(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="succeeded", at=at(1))
    lake.record("sales", KEY, outcome="started", at=at(2))
    assert lake.status("sales", state="running").num_rows == 1


def test_what_runs_at_a_moment_of_the_past_can_be_asked(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="started", at=at(1), run_id="r1")
    lake.record("sales", KEY, outcome="succeeded", at=at(3), run_id="r1")
    assert [lake.status("sales", now=at(h), state="running").num_rows for h in (0.5, 2, 4)] == [0, 1, 0]
