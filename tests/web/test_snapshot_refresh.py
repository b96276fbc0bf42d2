"""Snapshots: taken anew when something was recorded, or time went by; and what went wrong is said, not raised."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import partita as pt
from partita.display.status_snapshot import StatusSnapshot
from partita.errors import StorageError
from partita.lake import Lake
from partita.web import snapshot_refresh as watching
from partita.web.snapshot_refresh import SnapshotRefresher


@pytest.fixture
def counted_lake(lake: Lake) -> Lake:
    """A lake with an asset of three partitions, none of them made."""
    lake.register(pt.asset(name="counted", partitions=pt.static("n", [1, 2, 3]))(print))
    return lake


def until(is_so: Callable[[], bool]) -> None:
    """Wait for another thread, as long as a test may take."""
    while not is_so():
        time.sleep(0.01)


def current_count(snapshot: StatusSnapshot) -> int:
    return snapshot.asset("counted").state_counts["current"]


@pytest.mark.slow(reason="several status queries")
def test_a_recorded_event_refreshes_the_snapshot(counted_lake: Lake) -> None:
    watch = SnapshotRefresher(counted_lake, poll_seconds=0.01)
    watch.start()
    before = watch.latest
    counted_lake.record("counted", {"n": 1}, outcome="succeeded")
    until(lambda: current_count(watch.latest) == 1)
    watch.stop()
    assert current_count(before) == 0
    assert before.fetch_rows("SELECT count(*) FROM partitions") == [(3,)]
    assert watch.latest.ledger_version > before.ledger_version


@pytest.mark.slow(reason="several status queries")
def test_a_snapshot_is_refreshed_by_its_age(counted_lake: Lake) -> None:
    watch = SnapshotRefresher(counted_lake, poll_seconds=0.01, max_age_seconds=0.0)
    watch.start()
    first = watch.latest
    until(lambda: watch.latest.as_of > first.as_of)
    watch.stop()
    assert watch.latest.ledger_version == first.ledger_version


@pytest.mark.slow(reason="several status queries")
def test_a_snapshot_is_not_due_without_new_events(counted_lake: Lake) -> None:
    watch = SnapshotRefresher(counted_lake, max_age_seconds=1e9)
    first = watch.refresh()
    watch._refreshed_at -= 1_000 * first.build_seconds
    assert not watch._is_due()
    counted_lake.record("counted", {"n": 1}, outcome="succeeded")
    assert watch._is_due()


@pytest.mark.slow(reason="several status queries")
def test_a_busy_ledger_does_not_refresh_at_once(counted_lake: Lake) -> None:
    watch = SnapshotRefresher(counted_lake, max_age_seconds=0.0)
    watch.refresh()
    watch._refreshed_at += 3_600
    counted_lake.record("counted", {"n": 1}, outcome="succeeded")
    assert not watch._is_due()


@pytest.mark.slow(reason="several status queries")
def test_a_requested_refresh_comes_soon(counted_lake: Lake) -> None:
    watch = SnapshotRefresher(counted_lake, poll_seconds=3_600)
    watch.start()
    first = watch.latest
    watch.request_refresh()
    until(lambda: watch.latest is not first)
    watch.stop()


def broken(_: Lake) -> StatusSnapshot:
    raise StorageError("the disk is gone")


@pytest.mark.slow(reason="several status queries")
def test_a_failed_refresh_is_reported_and_keeps_the_last_snapshot(
    counted_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = SnapshotRefresher(counted_lake)
    first = watch.refresh()
    monkeypatch.setattr(watching, "take_snapshot", broken)
    assert watch.refresh() is first
    said = [watch.problem]
    monkeypatch.undo()
    assert watch.refresh() is not first
    assert [*said, watch.problem] == ["the disk is gone", None]


@pytest.mark.slow(reason="several status queries")
def test_a_lake_that_is_gone_is_a_problem_and_not_empty(counted_lake: Lake) -> None:
    watch = SnapshotRefresher(counted_lake)
    first = watch.refresh()
    folder = Path(counted_lake.uri.removeprefix("file://"))
    folder.rename(folder.with_name("elsewhere"))
    assert watch.refresh() is first
    assert watch.problem is not None
    assert "fewer events than before" in watch.problem
    folder.with_name("elsewhere").rename(folder)
    assert watch.refresh() is not first
    assert watch.problem is None


def test_a_first_snapshot_that_fails_is_an_error(counted_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "take_snapshot", broken)
    with pytest.raises(StorageError, match="gone"):
        SnapshotRefresher(counted_lake).start()
