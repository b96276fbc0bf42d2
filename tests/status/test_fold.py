"""The fold: the status spec's update logic, held for every order, repetition and split of a history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partita.algebra.key import PartitionKey
from partita.status.events import Event, EventKind, events_to_arrow
from partita.status.fold import fold_events, merge_status_rows
from partita.status.schema import PARTITION_STATUS_COLUMNS, status_schema
from tests.status.histories import (
    KEY,
    cancellation_event,
    event,
    event_histories,
    expected_status_rows,
    failure_event,
    hours_after_start,
    split_events,
    status_rows,
    success_event,
)


def folded_row(*events: Event) -> dict[str, Any]:
    """The one row of a history of one partition."""
    (row,) = fold_events(events_to_arrow(events)).to_pylist()
    assert isinstance(row, dict)
    return row


@pytest.mark.slow(reason="several status queries")
def test_record_attempt_is_called_for_any_outcome() -> None:
    for one in (success_event(1), failure_event(1), cancellation_event(1)):
        row = folded_row(one)
        assert (row["last_attempt_run_id"], row["last_attempt_at"]) == ("r1", hours_after_start(1))
        assert row["last_attempt_outcome"] == one.kind.upper()


@pytest.mark.slow(reason="several status queries")
def test_mark_materialized_is_called_only_on_success() -> None:
    for one in (failure_event(1), cancellation_event(1)):
        assert folded_row(one)["last_materialization_at"] is None
    row = folded_row(success_event(1, version="7"))
    names = ("run_id", "at", "code_version")
    assert [row[f"last_materialization_{name}"] for name in names] == ["r1", hours_after_start(1), "7"]


def test_a_failed_retry_after_success_keeps_the_materialization() -> None:
    row = folded_row(success_event(1, "r1"), failure_event(2, "r2", error="boom"))
    assert (row["last_materialization_run_id"], row["last_materialization_at"]) == ("r1", hours_after_start(1))
    assert (row["last_attempt_run_id"], row["last_attempt_outcome"]) == ("r2", "FAILED")
    assert row["last_attempt_error"] == "boom"


def test_a_late_success_after_a_newer_failure_is_a_materialization_and_not_the_last_attempt() -> None:
    row = folded_row(failure_event(5, "r2"), success_event(3, "r1"))
    assert (row["last_materialization_at"], row["last_attempt_at"]) == (hours_after_start(3), hours_after_start(5))
    assert row["last_attempt_outcome"] == "FAILED"


def test_cancelled_after_success_is_the_last_attempt() -> None:
    row = folded_row(success_event(1), cancellation_event(2, "r2"))
    assert (row["last_materialization_at"], row["last_attempt_outcome"]) == (hours_after_start(1), "CANCELLED")


def test_of_equal_timestamps_the_greater_event_id_counts() -> None:
    one, two = success_event(1, "r1"), failure_event(1, "r2")
    assert one.event_id < two.event_id
    for events in ((one, two), (two, one)):
        assert folded_row(*events)["last_attempt_run_id"] == "r2"


@pytest.mark.slow(reason="several status queries")
def test_duplicates_count_once() -> None:
    one = success_event(1)
    assert folded_row(one, one, one) == folded_row(one)


def test_of_two_reports_of_one_attempt_the_latest_counts() -> None:
    row = folded_row(success_event(1), success_event(2))
    assert row["last_materialization_at"] == hours_after_start(2)


def test_a_failure_reported_under_the_run_of_a_success_keeps_the_materialization() -> None:
    assert folded_row(success_event(1), failure_event(2))["last_materialization_at"] == hours_after_start(1)


def test_a_wiped_partition_is_not_materialized() -> None:
    row = folded_row(success_event(1), event(EventKind.WIPED, 2))
    assert (row["last_materialization_at"], row["last_materialization_run_id"]) == (None, None)
    assert (row["last_attempt_at"], row["wiped_at"]) == (hours_after_start(1), hours_after_start(2))


@pytest.mark.slow(reason="several status queries")
def test_a_success_after_a_wipe_counts_and_a_late_one_from_before_does_not() -> None:
    wiped = event(EventKind.WIPED, 2)
    assert folded_row(wiped, success_event(3))["last_materialization_at"] == hours_after_start(3)
    snapshot = fold_events(events_to_arrow([success_event(1, "r0"), wiped]))
    (row,) = merge_status_rows(snapshot, fold_events(events_to_arrow([success_event(1.5, "r1")]))).to_pylist()
    assert row["last_materialization_at"] is None


def test_the_output_of_an_attempt_is_kept() -> None:
    row = folded_row(success_event(1, rows=10, files=2, bytes=512, table_version=7))
    written = [row[f"last_materialization_{name}"] for name in ("rows", "files", "bytes", "table_version")]
    assert written == [10, 2, 512, 7]


@pytest.mark.slow(reason="several status queries")
def test_an_unknown_kind_is_passed_over() -> None:
    assert fold_events(events_to_arrow([event("from_the_future", 1)])).num_rows == 0
    one = success_event(1)
    assert folded_row(one, event("from_the_future", 2)) == folded_row(one)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (PartitionKey.of(), []),
        (PartitionKey.of(region="us-östlich ~"), [("region", "us-östlich ~")]),
        (PartitionKey.of(a="", b=None, c=True, d=-5), [("a", ""), ("b", None), ("c", "true"), ("d", "-5")]),
        (PartitionKey.of(t=datetime(2025, 1, 1, tzinfo=UTC)), [("t", "2025-01-01T00:00:00.000000Z")]),
    ],
)
def test_partition_values_are_texts_by_dimension(key: PartitionKey, values: list[tuple[str, str | None]]) -> None:
    assert folded_row(success_event(1, key=key))["partition_values"] == values


def test_the_rows_have_the_columns_of_the_status_table() -> None:
    assert fold_events(events_to_arrow([success_event(1)])).schema == status_schema()


# Each example is a whole history of many partitions, and asks DuckDB several times.
FEWER = settings(max_examples=settings().max_examples // 10)


@FEWER
@given(event_histories())
def test_the_fold_equals_the_seeds_update_logic_in_order(events: list[Event]) -> None:
    found = {
        key: {name: row[name] for name in PARTITION_STATUS_COLUMNS}
        for key, row in status_rows(fold_events(events_to_arrow(events))).items()
    }
    assert found == expected_status_rows(events)


@pytest.mark.slow(reason="many orders of many events")
@FEWER
@given(st.data(), event_histories())
def test_any_order_duplication_and_split_folds_to_the_same_rows(data: st.DataObject, events: list[Event]) -> None:
    whole = status_rows(fold_events(events_to_arrow(events)))
    shuffled = data.draw(st.permutations(events + events[: len(events) // 2]))
    assert status_rows(fold_events(events_to_arrow(shuffled))) == whole
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(shuffled), max_size=len(shuffled)))
    parts = [fold_events(events_to_arrow(part)) for part in split_events(shuffled, places)]
    assert status_rows(merge_status_rows(*parts)) == whole
    assert status_rows(merge_status_rows(merge_status_rows(*parts[:2]), *parts[1:], *parts)) == whole


@pytest.mark.slow(reason="merges of random histories")
@FEWER
@given(event_histories())
def test_merging_rows_with_themselves_changes_nothing(events: list[Event]) -> None:
    rows = fold_events(events_to_arrow(events))
    assert status_rows(merge_status_rows(rows, rows)) == status_rows(rows)


def test_the_key_is_part_of_every_row() -> None:
    row = folded_row(success_event(1))
    assert [row[name] for name in ("tenant_id", "workspace_id", "asset_key", "partition_key")] == [
        "default",
        "default",
        "sales",
        str(KEY),
    ]
