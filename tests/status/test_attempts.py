"""What jobs record: attempts as a call and as a block, and what a partition's history shows of them."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

import partita as pt
from partita.lake import Lake
from tests.status.histories import KEY, hours_after_start


def kinds(lake: Lake, key: Any = KEY) -> list[tuple[str, str, int]]:
    return [(e["kind"], e["run_id"], e["attempt"]) for e in lake.history("sales", key).to_pylist()]


def test_a_record_takes_a_key_in_any_form(lake: Lake) -> None:
    forms: list[Any] = [KEY, str(KEY), dict(KEY)]
    for number, key in enumerate(forms):
        lake.record("sales", key, outcome="succeeded", run_id=f"r{number}")
    assert len(kinds(lake)) == 3
    lake.record("sales", outcome="SUCCEEDED", run_id="r")
    assert kinds(lake, None) == [("succeeded", "r", 1)]


@pytest.mark.slow(reason="several status queries")
def test_a_record_takes_many_keys_in_one_commit(lake: Lake) -> None:
    lake.record("sales", outcome="failed")
    before = lake._workspace.ledger.files().version
    lake.record("sales", [{"n": n} for n in range(100)], outcome="succeeded", run_id="r")
    assert lake._workspace.ledger.files().version == before + 1
    assert lake.status("sales").num_rows == 101


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"outcome": "lost"}, "succeeded, failed, cancelled"),
        ({"outcome": "failed", "at": hours_after_start(1).replace(tzinfo=None)}, "time zone"),
        ({"outcome": "failed", "rows": -1}, "non-negative integer"),
        ({"outcome": "failed", "at": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))}, "years 1 to 9999"),
        ({"outcome": "failed", "mood": "good"}, "no field 'mood'; its fields are attempt, bytes"),
        ({"outcome": "failed", "run_id": ""}, "run_id must not be empty"),
        ({"outcome": "failed", "key": 5}, "not 5"),
        ({"outcome": "failed", "key": []}, "the list of partitions is empty"),
    ],
)
def test_invalid_events_are_refused(given: dict[str, Any], reason: str, lake: Lake) -> None:
    with pytest.raises(pt.StatusError, match=reason):
        lake.record("sales", **({"key": KEY} | given))
    assert lake.status().num_rows == 0


DAYS = pt.daily("date", start="2025-01-01", end="2025-01-05")


@pytest.mark.slow(reason="several status queries")
def test_a_key_of_other_dimensions_than_the_assets_is_refused(lake: Lake) -> None:
    def register_sales(partitions: pt.PartitionSet | None) -> None:
        Lake(lake.uri).register(pt.asset(name="sales", partitions=partitions)(print))

    first = pt.PartitionKey.of(date=date(2025, 1, 1))
    register_sales(DAYS)
    for wrong in (None, KEY, {"day": date(2025, 1, 1)}, [first, {"n": 1}]):
        with pytest.raises(pt.StatusError, match="its dimensions are: date"):
            lake.record("sales", wrong, outcome="succeeded")
        with pytest.raises(pt.StatusError, match="its dimensions are: date"), lake.attempt("sales", wrong):
            pass
    lake.record("sales", [first, {"date": date(1999, 1, 1)}], outcome="succeeded")
    assert lake.status("sales", state="unexpected").num_rows == 1
    register_sales(DAYS * pt.static("n", [1]))
    lake.record("sales", {**first, "n": 1}, outcome="succeeded")
    register_sales(None)
    lake.record("sales", outcome="succeeded")
    with pytest.raises(pt.StatusError, match="its dimensions are: none"):
        lake.record("sales", first, outcome="succeeded")
    lake.wipe("sales", first)
    lake.retire("sales")
    lake.record("sales", {"anything": "goes"}, outcome="succeeded")


@pytest.mark.slow(reason="several status queries")
def test_an_attempt_records_its_start_and_its_success(lake: Lake) -> None:
    with lake.attempt("sales", KEY, run_id="r1", code_version="3") as attempt:
        assert lake.status("sales").to_pylist()[0]["running"] is True
        attempt.record_output(rows=5, bytes=100)
    assert kinds(lake) == [("started", "r1", 1), ("succeeded", "r1", 1)]
    (row,) = lake.status("sales").to_pylist()
    assert (row["running"], row["display_status"]) == (False, "MATERIALIZED")
    assert (row["last_materialization_rows"], row["last_materialization_code_version"]) == (5, "3")


@pytest.mark.slow(reason="several status queries")
def test_an_attempt_that_raises_has_failed_and_the_error_goes_on(lake: Lake) -> None:
    with pytest.raises(ZeroDivisionError), lake.attempt("sales", KEY, run_id="r1"):
        _ = 1 / 0
    (row,) = lake.status("sales").to_pylist()
    assert row["failed"] is True
    assert row["last_attempt_error"] == "ZeroDivisionError: division by zero"


@pytest.mark.slow(reason="several status queries")
def test_interrupt_and_cancel_record_a_cancelled_attempt(lake: Lake) -> None:
    with pytest.raises(KeyboardInterrupt), lake.attempt("sales", KEY, run_id="r1"):
        raise KeyboardInterrupt
    with lake.attempt("sales", KEY, run_id="r2") as attempt:
        attempt.cancel()
    assert [kind for kind, *_ in kinds(lake)] == ["started", "cancelled", "started", "cancelled"]
    assert lake.status("sales").to_pylist()[0]["cancelled"] is True


@pytest.mark.slow(reason="several status queries")
def test_an_attempt_at_many_partitions(lake: Lake) -> None:
    with lake.attempt("sales", [{"n": 1}, {"n": 2}]) as attempt:
        assert [key["n"] for key in attempt.keys] == [1, 2]
    assert [row["display_status"] for row in lake.status("sales").to_pylist()] == ["MATERIALIZED"] * 2


def test_an_attempt_writes_nothing_else(lake: Lake) -> None:
    with pytest.raises(pt.StatusError, match="'speed'"), lake.attempt("sales", KEY) as attempt:
        attempt.record_output(speed=5)


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize("count", ["x", -1, 1.5, True])
def test_an_invalid_count_is_refused_at_once_and_the_attempt_ends(count: Any, lake: Lake) -> None:
    with lake.attempt("sales", KEY, run_id="r1") as attempt:
        with pytest.raises(pt.StatusError, match="non-negative integer"):
            attempt.record_output(rows=count)
        attempt.record_output(rows=np.int64(5))  # type: ignore[arg-type] # as Arrow and Spark count
    (row,) = lake.status("sales").to_pylist()
    assert (row["running"], row["last_materialization_rows"]) == (False, 5)


@pytest.mark.slow(reason="several status queries")
def test_an_attempt_has_the_code_version_of_its_asset_by_default(lake: Lake) -> None:
    sales = pt.asset(name="sales", code_version="1")(print)
    lake.register(sales)
    given: list[tuple[Any, dict[str, Any]]] = [("sales", {}), (sales, {}), ("sales", {"code_version": "0"})]
    found = []
    for asset, version in given:
        with lake.attempt(asset, **version):
            pass
        found.append(lake.status("sales").to_pylist()[0]["last_materialization_code_version"])
    assert found == ["1", "1", "0"]
    with lake.attempt(sales):
        pass
    lake.register(pt.asset(name="sales", code_version="2")(print))
    assert lake.status("sales", reason="CODE_CHANGED").num_rows == 1


@pytest.mark.slow(reason="several status queries")
def test_the_history_of_an_asset_that_nobody_knows_is_refused(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="succeeded")
    lake.register(pt.asset(name="orders")(print))
    assert lake.history("sales", {"n": 1}).num_rows == 0
    assert lake.history("orders").num_rows == 0
    with pytest.raises(pt.UnknownAsset, match="orders, sales"):
        lake.history("nothing", KEY)


@pytest.mark.slow(reason="several status queries")
def test_a_lake_goes_to_executors(lake: Lake) -> None:
    pickle.loads(pickle.dumps(lake)).record("sales", KEY, outcome="succeeded")  # noqa: S301 - our own
    assert lake.status("sales").num_rows == 1


def test_history_shows_each_event_once_in_order(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="failed", run_id="r2", at=hours_after_start(2))
    lake.record("sales", KEY, outcome="succeeded", run_id="r1", at=hours_after_start(1))
    lake.record("sales", KEY, outcome="succeeded", run_id="r1", at=hours_after_start(1))
    lake.record("sales", KEY, outcome="succeeded", run_id="r1", at=hours_after_start(1), attempt=2)
    lake.wipe("sales", KEY, at=hours_after_start(3))
    lake.record("sales", None, outcome="succeeded")
    found = [(e["kind"], e["run_id"], e["attempt"]) for e in lake.history("sales", KEY).to_pylist()]
    assert found == [("succeeded", "r1", 1), ("succeeded", "r1", 2), ("failed", "r2", 1), ("wiped", None, None)]
