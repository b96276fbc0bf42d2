"""Running now: an attempt runs from its start until its own end, whatever others do meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.lake import Lake
from partita.status.duckdb_engine import fetch_rows, open_connection
from partita.status.duckdb_sql import Sql, sql
from partita.status.events import FINISHED_KINDS, Event, EventKind, events_to_arrow
from partita.status.selected_partitions import open_attempts_sql
from tests.status.histories import KEY, event, event_histories, failure_event, hours_after_start, success_event


def running(events: list[Event]) -> dict[tuple[str, str], tuple[int, str]]:
    """Since when, in microseconds, and the run, by partition."""
    with open_connection() as connection:
        connection.register("events", events_to_arrow(events))
        select = "SELECT asset_key, partition_key, epoch_us(running_since), running_run_id FROM ({attempts})"
        rows = fetch_rows(connection, sql(select, attempts=open_attempts_sql(Sql("events"))))
        return {(asset, key): (since, run) for asset, key, since, run in rows}


def model(events: list[Event]) -> dict[tuple[str, str], tuple[int, str]]:
    """The same by the definition, start by start."""
    found: dict[tuple[str, str], tuple[Any, str, str]] = {}
    for start in (e for e in events if e.kind == EventKind.STARTED):
        same = ("asset_key", "partition_key", "run_id", "attempt")
        ends = [e for e in events if e.kind in FINISHED_KINDS and all(getattr(e, n) == getattr(start, n) for n in same)]
        starts = [
            e for e in events if e.kind == EventKind.STARTED and all(getattr(e, n) == getattr(start, n) for n in same)
        ]
        is_first = start.occurred_at == min(e.occurred_at for e in starts)
        if all(end.occurred_at < start.occurred_at for end in ends) and not (ends and is_first):
            which = (start.asset_key, start.partition_key or "")
            this = (start.occurred_at, start.event_id, start.run_id or "")
            found[which] = max(found.get(which, this), this)
    return {which: (round(since.timestamp() * 1_000_000), run) for which, (since, _, run) in found.items()}


R1, R2 = event(EventKind.STARTED, 1), event(EventKind.STARTED, 2, "r2")
CASES: dict[str, tuple[list[Event], str | None]] = {
    "started": ([R1], "r1"),
    "ended": ([R1, success_event(2)], None),
    "ended at the moment of its start": ([R1, success_event(1)], None),
    "another run ended that nobody saw start": ([R1, failure_event(2, "r2")], "r1"),
    "the first of two ended": ([R1, R2, success_event(3, "r1")], "r2"),
    "the second of two ended": ([R1, R2, success_event(3, "r2")], "r1"),
    "the second of two ended, with its start": (
        [R1, R2, success_event(3, "r2", started_at=hours_after_start(2))],
        "r1",
    ),
    "both ended": ([R1, R2, success_event(3, "r2"), failure_event(4, "r1")], None),
    "a second attempt of a run": ([R1, failure_event(2), event(EventKind.STARTED, 3, attempt=2)], "r1"),
    "started again under the same name": ([R1, failure_event(2), event(EventKind.STARTED, 3)], "r1"),
    "ended before it started, by another clock": ([event(EventKind.STARTED, 3), success_event(2)], None),
    "and started again": ([event(EventKind.STARTED, 3), success_event(2), event(EventKind.STARTED, 4)], "r1"),
    "another attempt ended before it started": ([event(EventKind.STARTED, 3), success_event(2, attempt=2)], "r1"),
    "and ended again": ([R1, failure_event(2), event(EventKind.STARTED, 3), success_event(4)], None),
}


@pytest.mark.parametrize("name", CASES)
def test_an_end_ends_the_attempt_that_it_names_and_no_other(name: str) -> None:
    events, run = CASES[name]
    for order in (events, events[::-1], events * 2):
        assert [found for _, found in running(order).values()] == ([] if run is None else [run])


@settings(max_examples=settings().max_examples // 5)
@given(st.data(), event_histories())
def test_any_order_and_duplication_has_the_same_attempts_open(data: st.DataObject, events: list[Event]) -> None:
    shuffled = data.draw(st.permutations(events + events[: len(events) // 2]))
    assert running(shuffled) == model(events)


@pytest.mark.slow(reason="several status queries")
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


@pytest.mark.slow(reason="several status queries")
def test_a_start_that_names_no_run_is_ended_by_an_end_that_names_none(lake: Lake) -> None:
    keys = [{"n": 1}, {"n": 2}]
    lake.record("sales", keys, outcome="started", at=hours_after_start(1))
    lake.record("sales", keys, outcome="succeeded", at=hours_after_start(2), run_id="other")
    assert lake.status("sales", state="running").num_rows == 2
    lake.record("sales", keys, outcome="succeeded", at=hours_after_start(3))
    assert lake.status("sales", state="running").num_rows == 0


@pytest.mark.slow(reason="several status queries")
def test_an_end_that_names_no_run_ends_nothing_that_starts_after_it(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="succeeded", at=hours_after_start(1))
    lake.record("sales", KEY, outcome="started", at=hours_after_start(2))
    assert lake.status("sales", state="running").num_rows == 1


@pytest.mark.slow(reason="several status queries")
def test_running_partitions_as_of_a_past_time(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="started", at=hours_after_start(1), run_id="r1")
    lake.record("sales", KEY, outcome="succeeded", at=hours_after_start(3), run_id="r1")
    assert [lake.status("sales", now=hours_after_start(h), state="running").num_rows for h in (0.5, 2, 4)] == [0, 1, 0]
