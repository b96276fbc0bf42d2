"""The status spec's display rules, for one row, for a table, and in an answer."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from partita.lake import Lake
from partita.status.states import MARKS, DisplayStatus, StaleReason, compute_display_status
from tests.status.histories import KEY, hours_after_start

Row = dict[str, Any]


def row(materialized: float | None, outcome: str | None, attempted: float | None, stale: float | None = None) -> Row:
    return {
        "last_materialization_at": None if materialized is None else hours_after_start(materialized),
        "last_attempt_outcome": outcome,
        "last_attempt_at": None if attempted is None else hours_after_start(attempted),
        "stale_since": None if stale is None else hours_after_start(stale),
    }


CASES: dict[str, tuple[Row, str]] = {
    "never tried": (row(None, None, None), "NEVER_MATERIALIZED"),
    "failed without ever succeeding": (row(None, "FAILED", 1), "NEVER_MATERIALIZED"),
    "cancelled without ever succeeding": (row(None, "CANCELLED", 1), "NEVER_MATERIALIZED"),
    "succeeded": (row(1, "SUCCEEDED", 1), "MATERIALIZED"),
    "failed after success": (row(1, "FAILED", 2), "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED"),
    "failed after success, and stale": (row(1, "FAILED", 2, 3), "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED"),
    "failed at the moment of the success": (row(1, "FAILED", 1), "MATERIALIZED"),
    "failed at the moment of the success, and stale": (row(1, "FAILED", 1, 3), "STALE"),
    "failed before a late success": (row(2, "FAILED", 1), "MATERIALIZED"),
    "cancelled after success": (row(1, "CANCELLED", 2), "MATERIALIZED"),
    "cancelled after success, and stale": (row(1, "CANCELLED", 2, 3), "STALE"),
    "stale": (row(1, "SUCCEEDED", 1, 2), "STALE"),
    "materialized without an attempt": (row(1, None, None), "MATERIALIZED"),
}


@pytest.mark.parametrize("name", CASES)
def test_compute_display_status_of_one_row(name: str) -> None:
    given, expected = CASES[name]
    assert compute_display_status(given) is DisplayStatus(expected)


def test_compute_display_status_of_a_table_is_that_of_each_row() -> None:
    every = [
        row(*values)
        for values in product([None, 1, 2], [None, "SUCCEEDED", "FAILED", "CANCELLED"], [None, 1, 2], [None, 3])
    ]
    instants = pa.timestamp("us", "UTC")
    types = {"last_attempt_outcome": pa.string()}
    table = pa.table({n: pa.array([r[n] for r in every], types.get(n, instants)) for n in every[0]})
    assert compute_display_status(table).to_pylist() == [compute_display_status(r).value for r in every]
    assert compute_display_status(table.slice(0, 0)).to_pylist() == []


HISTORIES: dict[str, tuple[list[tuple[str, float]], str, set[str]]] = {
    "succeeded": ([("succeeded", 1)], "MATERIALIZED", set()),
    "failed without ever succeeding": ([("failed", 1)], "NEVER_MATERIALIZED", {"failed"}),
    "failed after success": ([("succeeded", 1), ("failed", 2)], "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED", set()),
    "cancelled": ([("cancelled", 1)], "NEVER_MATERIALIZED", {"cancelled"}),
    "cancelled after success": ([("succeeded", 1), ("cancelled", 2)], "MATERIALIZED", {"cancelled"}),
    "cancelled before success": ([("cancelled", 1), ("succeeded", 2)], "MATERIALIZED", set()),
    "running": ([("started", 1)], "NEVER_MATERIALIZED", {"running"}),
    "running again": ([("succeeded", 1), ("started", 2)], "MATERIALIZED", {"running"}),
}


@pytest.mark.slow(reason="several status queries")
def test_running_failed_and_cancelled_stand_beside_the_display_status(lake: Lake) -> None:
    for name, (history, _, _) in HISTORIES.items():
        for number, (outcome, hours) in enumerate(history):
            lake.record(name, KEY, outcome=outcome, run_id=f"r{number}", at=hours_after_start(hours))
    rows = {row["asset_key"]: row for row in lake.status().to_pylist()}
    assert set(rows) == set(HISTORIES)
    for name, (_, display, beside) in HISTORIES.items():
        row = rows[name]
        assert row["display_status"] == display, name
        assert {flag for flag in ("running", "failed", "cancelled") if row[flag]} == beside, name
        assert compute_display_status(row).value == display, name


def test_marks_have_an_order_of_precedence_and_of_severity() -> None:
    for order in ("precedence", "severity"):
        assert sorted(getattr(mark, order) for mark in MARKS) == list(range(len(MARKS)))
    for distinct in ("name", "label", "glyph", "color", "shape"):
        assert len({getattr(mark, distinct) for mark in MARKS}) == len(MARKS)


@pytest.mark.slow(reason="several status queries")
def test_every_stale_reason_is_a_column_of_the_view(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="succeeded", run_id="r1", at=hours_after_start(1))
    with lake.open_status_reader("sales") as reader:
        assert reader.row_values([reason.since_column for reason in StaleReason]) == [(None,) * len(StaleReason)]
    assert all(reason.value == reason.name for reason in StaleReason)
