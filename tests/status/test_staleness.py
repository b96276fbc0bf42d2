"""Staleness: each reason, since when, all of them together, through every mapping, and as of any moment."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import partita as pt
from partita.lake import Lake
from tests.status.histories import hours_after_start


def day(number: int, **others: object) -> pt.PartitionKey:
    return pt.PartitionKey.of(date=date(2025, 1, number), **others)


def define(name: str, partitions: pt.PartitionSet | None = None, **given: Any) -> pt.Asset:
    return pt.asset(name=name, partitions=partitions, **given)(lambda _: None)


def succeed(lake: Lake, asset: str, key: object, hours: float, version: str | None = None) -> None:
    lake.record(asset, key, outcome="succeeded", at=hours_after_start(hours), code_version=version)  # type: ignore[arg-type] # a key


def stale(lake: Lake, asset: str, hours: float = 1000, **asked: Any) -> dict[str, tuple[Any, list[str]]]:
    """Since when and why, by key, of what is stale."""
    found = lake.status(asset, now=hours_after_start(hours), state="stale", **asked).to_pylist()
    return {row["partition_key"]: (row["stale_since"], row["stale_reasons"]) for row in found}


DAYS = pt.daily("date", start="2025-01-01", end="2025-01-11")


# --- freshness


@pytest.mark.slow(reason="several status queries")
def test_a_maximum_lag_makes_stale_once_it_has_passed(lake: Lake) -> None:
    lake.register(define("sales", freshness=timedelta(hours=26)))
    succeed(lake, "sales", None, 0)
    assert stale(lake, "sales", 26) == {}
    assert stale(lake, "sales", 26.001) == {"": (hours_after_start(26), ["FRESHNESS_POLICY"])}
    (row,) = lake.status("sales", now=hours_after_start(100)).to_pylist()
    assert (row["stale_since"], row["stale_reason_code"]) == (hours_after_start(26), "FRESHNESS_POLICY"), (
        "it doesn't move on its own"
    )


@pytest.mark.slow(reason="several status queries")
def test_a_cron_deadline_wants_a_materialization_between_any_two_moments(lake: Lake) -> None:
    lake.register(define("sales", freshness=pt.cron("0 9 * * *")))
    succeed(lake, "sales", None, 8)  # counts for 9:00 of the first day
    assert stale(lake, "sales", 24 + 9) == {}
    assert stale(lake, "sales", 24 + 9.001) == {"": (hours_after_start(24 + 9), ["FRESHNESS_POLICY"])}
    succeed(lake, "sales", None, 10)  # counts for 9:00 of the second day
    assert stale(lake, "sales", 24 + 10) == {}
    assert stale(lake, "sales", 48 + 10) == {"": (hours_after_start(48 + 9), ["FRESHNESS_POLICY"])}


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize("lag", [None, timedelta(hours=2)])
def test_a_cron_deadline_of_partitions_that_were_made_years_apart(lag: timedelta | None, lake: Lake) -> None:
    lake.register(define("sales", DAYS, freshness=pt.cron("*/5 * * * *", lag=lag)))
    years = 24 * 365
    for number, hours in enumerate((0.01, years + 0.01, 3 * years + 0.01), 1):
        succeed(lake, "sales", day(number), hours)
    late = 1 / 6 if lag is None else 2 + 1 / 12
    found = stale(lake, "sales", 3 * years + 0.1)
    assert {key: since for key, (since, _) in found.items()} == {
        str(day(1)): hours_after_start(late),
        str(day(2)): hours_after_start(years + late),
    }


@pytest.mark.slow(reason="several status queries")
def test_a_cron_deadline_with_a_lag(lake: Lake) -> None:
    lake.register(define("sales", freshness=pt.cron("0 9 * * *", lag=timedelta(hours=2))))
    succeed(lake, "sales", None, 7)
    assert stale(lake, "sales", 20) == {}
    succeed(lake, "sales", None, 6.999)
    assert stale(lake, "sales", 24 + 8) == {}, "an older success doesn't count"
    assert stale(lake, "sales", 24 + 10) == {"": (hours_after_start(24 + 9), ["FRESHNESS_POLICY"])}


@pytest.mark.slow(reason="several status queries")
def test_a_cron_deadline_is_in_its_time_zone_over_a_change_of_clocks(lake: Lake) -> None:
    lake.register(define("sales", freshness=pt.cron("0 9 * * *", time_zone="Europe/Berlin")))
    lake.record("sales", outcome="succeeded", at=datetime(2025, 3, 29, 7, tzinfo=UTC))  # 8:00, winter
    (row,) = lake.status("sales", now=datetime(2025, 3, 31, tzinfo=UTC)).to_pylist()
    assert row["stale_since"] == datetime(2025, 3, 30, 7, tzinfo=UTC)  # 9:00, summer


# --- code


@pytest.mark.slow(reason="several status queries")
def test_another_code_version_makes_stale_since_its_definition(lake: Lake) -> None:
    lake.register(define("sales", code_version="1"))
    lake.record("sales", outcome="succeeded", code_version="1")
    assert lake.status("sales", state="stale").num_rows == 0
    lake.register(define("sales", code_version="2"))
    (row,) = lake.status("sales").to_pylist()
    assert row["stale_reasons"] == ["CODE_CHANGED"]
    since = row["stale_since"]
    assert row["last_materialization_at"] < since <= datetime.now(UTC)
    lake.register(define("sales", code_version="3"))
    assert lake.status("sales").to_pylist()[0]["stale_since"] == since, "it was not current before already"


@pytest.mark.slow(reason="several status queries")
def test_code_that_is_rolled_back_makes_current_again(lake: Lake) -> None:
    for version in ("1", "2"):
        lake.register(define("sales", DAYS, code_version=version))
        lake.record("sales", day(int(version)), outcome="succeeded", code_version=version)
    lake.register(define("sales", DAYS, code_version="1"))
    rolled_back = lake.status("sales", state="stale").to_pylist()
    assert [row["partition_key"] for row in rolled_back] == [str(day(2))]
    assert rolled_back[0]["stale_since"] > rolled_back[0]["last_materialization_at"]


@pytest.mark.slow(reason="several status queries")
def test_a_materialization_by_old_code_is_stale_from_its_own_moment(lake: Lake) -> None:
    lake.register(define("sales", code_version="1"))
    lake.register(define("sales", code_version="2"))
    lake.record("sales", outcome="succeeded", code_version="1")
    (row,) = lake.status("sales").to_pylist()
    assert row["stale_since"] == row["last_materialization_at"]


@pytest.mark.slow(reason="several status queries")
def test_a_code_version_that_is_not_known_is_not_compared(lake: Lake) -> None:
    lake.register(define("sales", code_version="1"))
    lake.record("sales", outcome="succeeded")
    lake.record("others", outcome="succeeded", code_version="7")
    assert lake.status(state="stale").num_rows == 0


# --- upstreams


@pytest.mark.slow(reason="several status queries")
def test_an_upstream_materialized_after_ours_makes_stale_since_its_first_success_after(lake: Lake) -> None:
    lake.register(define("orders", DAYS), define("sales", DAYS, upstream=["orders"]))
    for hours in (1, 3, 5):
        succeed(lake, "orders", day(1), hours)
    succeed(lake, "sales", day(1), 2)
    succeed(lake, "orders", day(2), 1)
    succeed(lake, "sales", day(2), 2)
    succeed(lake, "orders", day(3), 4)
    succeed(lake, "sales", day(3), 2)
    assert stale(lake, "sales") == {
        str(day(1)): (hours_after_start(3), ["UPSTREAM_CHANGED"]),
        str(day(3)): (hours_after_start(4), ["UPSTREAM_CHANGED"]),
    }


@pytest.mark.slow(reason="several status queries")
def test_an_upstream_at_the_same_moment_is_not_after(lake: Lake) -> None:
    lake.register(define("orders"), define("sales", upstream=["orders"]))
    succeed(lake, "sales", None, 1)
    succeed(lake, "orders", None, 1)
    assert stale(lake, "sales") == {}


@pytest.mark.slow(reason="several status queries")
def test_an_upstream_that_was_never_materialized_makes_nothing_stale(lake: Lake) -> None:
    lake.register(define("orders", DAYS), define("sales", DAYS, upstream=["orders", "unknown"]))
    succeed(lake, "sales", day(1), 1)
    lake.record("orders", day(1), outcome="failed", at=hours_after_start(2))
    assert stale(lake, "sales") == {}


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize("mapping", [pt.same_key(), pt.all_partitions()])
def test_a_wipe_of_an_upstream_does_not_take_back_that_it_changed(mapping: Any, lake: Lake) -> None:
    lake.register(define("orders", DAYS), define("sales", DAYS, upstream=[("orders", mapping)]))
    succeed(lake, "orders", day(1), 0)
    succeed(lake, "sales", day(1), 1)
    lake.wipe("orders", day(1), at=hours_after_start(2))
    assert stale(lake, "sales") == {}, "what it was made from is gone, and nothing newer came"
    succeed(lake, "orders", day(1), 3)
    lake.wipe("orders", day(1), at=hours_after_start(4))
    assert stale(lake, "sales") == {str(day(1)): (hours_after_start(3), ["UPSTREAM_CHANGED"])}
    succeed(lake, "orders", day(1), 5)
    assert stale(lake, "sales") == {str(day(1)): (hours_after_start(3), ["UPSTREAM_CHANGED"])}, "it doesn't move"


@pytest.mark.slow(reason="several status queries")
def test_all_reasons_are_kept_and_the_earliest_sets_stale_since(lake: Lake) -> None:
    lake.register(
        define("orders"), define("sales", upstream=["orders"], freshness=timedelta(hours=5), code_version="2")
    )
    succeed(lake, "sales", None, 1, "1")
    succeed(lake, "orders", None, 3)
    (row,) = lake.status("sales").to_pylist()
    assert row["stale_reasons"] == ["UPSTREAM_CHANGED", "FRESHNESS_POLICY", "CODE_CHANGED"]
    assert (row["stale_since"], row["stale_reason_code"]) == (hours_after_start(3), "UPSTREAM_CHANGED")
    assert (row["stale_upstream_asset_key"], row["stale_upstream_partition_key"]) == ("orders", "")


WEEKS = pt.weekly("date", start="2024-12-30")
US = pt.static("region", ["us"])
WEEK = pt.PartitionKey.of(date=date(2025, 1, 6))
SHIFTED = pt.daily("date", start="2025-01-01", offset=timedelta(hours=6))
WINDOWS: dict[str, tuple[pt.PartitionSet, Any, pt.PartitionKey, Iterable[int]]] = {
    "the day before": (DAYS, pt.window_offset("date", -1), day(5), [4]),
    "three days": (DAYS, pt.window_offset("date", -2, 0), day(5), [3, 4, 5]),
    "all": (DAYS, pt.all_partitions(), day(5), range(1, 11)),
    "a function": (DAYS, pt.mapped_by(lambda _: [day(9)]), day(5), [9]),
    "finer windows": (WEEKS, pt.same_key(), WEEK, [6, 7, 8, 9, 10]),
    "the week before in days": (WEEKS, pt.window_offset("date", -1), WEEK, [1, 2, 3, 4, 5]),
    "other dimensions of ours are ignored": (DAYS * US, pt.same_key(), day(5, region="us"), [5]),
    "a dimension that only they have counts whole": (US, pt.same_key(), pt.PartitionKey.of(region="us"), range(1, 11)),
    "days that start later": (SHIFTED, pt.same_key(), day(5), [5, 6]),
}


@pytest.mark.slow(reason="ten questions about nine mappings")
def test_a_mapping_selects_the_upstream_partitions(lake: Lake) -> None:
    """One asset for each mapping: all are made and judged at the same moments."""
    mapped = [define(name, ours, upstream=[("orders", mapping)]) for name, (ours, mapping, _, _) in WINDOWS.items()]
    lake.register(define("orders", DAYS), *mapped)
    changed: dict[str, list[int]] = {name: [] for name in WINDOWS}
    for number in range(1, 11):
        for name, (_, _, key, _) in WINDOWS.items():
            succeed(lake, name, key, number)
        succeed(lake, "orders", day(number), number + 0.5)
        for row in lake.status(list(WINDOWS), now=hours_after_start(number + 0.7), state="stale").to_pylist():
            name = row["asset_key"]
            assert row["partition_key"] == str(WINDOWS[name][2])
            changed[name].append(number)
            if changed[name] == [number]:
                assert row["stale_since"] == hours_after_start(number + 0.5), (name, number)
    assert changed == {name: list(expected) for name, (*_, expected) in WINDOWS.items()}


@pytest.mark.slow(reason="several status queries")
def test_a_coarser_window_counts_for_every_finer_one_in_it(lake: Lake) -> None:
    lake.register(define("rates", pt.monthly("date", start="2025-01-01")), define("sales", DAYS, upstream=["rates"]))
    succeed(lake, "sales", [day(1), day(10)], 1)
    succeed(lake, "rates", pt.PartitionKey.of(date=date(2025, 2, 1)), 2)
    assert stale(lake, "sales") == {}
    succeed(lake, "rates", day(1), 3)
    assert set(stale(lake, "sales")) == {str(day(1)), str(day(10))}


@pytest.mark.slow(reason="several status queries")
def test_hours_of_a_day_that_has_25_of_them(lake: Lake) -> None:
    hours = pt.hourly("ts", start="2025-10-25", time_zone="Europe/Berlin")
    days = pt.daily("ts", start="2025-10-25", time_zone="Europe/Berlin")
    lake.register(define("events", hours), define("sales", days, upstream=["events"]))
    key = pt.PartitionKey.of(ts=date(2025, 10, 26))
    first = datetime(2025, 10, 25, 22, tzinfo=UTC)
    for number, inside in ((-1, False), (0, True), (24, True), (25, False)):
        lake.record("sales", key, outcome="succeeded", at=first + timedelta(days=30, hours=number))
        hour = pt.PartitionKey.of(ts=first + timedelta(hours=number))
        lake.record("events", hour, outcome="succeeded", at=first + timedelta(days=30, hours=number, minutes=5))
        now = first + timedelta(days=30, hours=number, minutes=10)
        assert (lake.status("sales", now=now, state="stale").num_rows == 1) is inside


@pytest.mark.slow(reason="several status queries")
def test_three_dimensions_and_more(lake: Lake) -> None:
    shards = pt.static("shard", [1, 2])
    both = DAYS * pt.static("region", ["us", "eu"]) * shards
    lake.register(define("orders", both), define("sales", both * pt.static("kind", ["a"]), upstream=["orders"]))
    for region in ("us", "eu"):
        for shard in (1, 2):
            succeed(lake, "sales", day(1, region=region, shard=shard, kind="a"), 1)
    succeed(lake, "orders", day(1, region="eu", shard=2), 2)
    assert set(stale(lake, "sales")) == {str(day(1, region="eu", shard=2, kind="a"))}


# --- transitive


@pytest.mark.slow(reason="several status queries")
def test_staleness_is_transitive_on_request_with_the_root_shown(lake: Lake) -> None:
    lake.register(
        define("raw", DAYS, freshness=timedelta(hours=10)),
        define("orders", DAYS, upstream=["raw"]),
        define("sales", DAYS * pt.static("region", ["us"]), upstream=["orders"]),
        define("report", upstream=[("sales", pt.all_partitions())]),
    )
    succeed(lake, "raw", [day(1), day(2)], 1)
    succeed(lake, "orders", [day(1), day(2)], 2)
    succeed(lake, "sales", [day(1, region="us"), day(2, region="us")], 3)
    succeed(lake, "report", None, 4)
    succeed(lake, "raw", day(2), 5)
    assert [stale(lake, name, 6) for name in ("sales", "report")] == [{}, {}]
    names = ("stale_since", "stale_root_asset_key", "stale_root_partition_key")
    found = {
        (row["asset_key"], row["partition_key"]): tuple(row[name] for name in names)
        for row in lake.status(now=hours_after_start(6), transitive=True, state="stale").to_pylist()
    }
    assert found == {
        ("orders", str(day(2))): (hours_after_start(5), "raw", str(day(2))),
        ("sales", str(day(2, region="us"))): (hours_after_start(5), "raw", str(day(2))),
        ("report", ""): (hours_after_start(5), "raw", str(day(2))),
    }
    later = lake.status("report", now=hours_after_start(20), transitive=True).to_pylist()[0]
    assert (later["stale_since"], later["stale_root_asset_key"]) == (hours_after_start(5), "raw")


@pytest.mark.slow(reason="several status queries")
def test_the_root_is_the_upstream_that_was_stale_first(lake: Lake) -> None:
    lake.register(
        define("raw", DAYS),
        define("orders", DAYS, upstream=["raw"]),
        define("report", upstream=[("orders", pt.all_partitions())]),
    )
    succeed(lake, "orders", [day(3), day(4)], 1)
    succeed(lake, "raw", day(4), 2)
    succeed(lake, "raw", day(3), 3)
    succeed(lake, "report", None, 4)
    row = lake.status("report", now=hours_after_start(6), transitive=True).to_pylist()[0]
    assert (row["stale_since"], row["stale_root_partition_key"]) == (hours_after_start(4), str(day(4)))


# --- as of a moment


@pytest.mark.slow(reason="several status queries")
def test_the_past_can_be_asked(lake: Lake) -> None:
    lake.register(define("orders", DAYS), define("sales", DAYS, upstream=["orders"]))
    succeed(lake, "sales", day(1), 1)
    succeed(lake, "orders", day(1), 3)
    lake.record("sales", day(1), outcome="failed", at=hours_after_start(5))
    lake.fold()
    displayed = [lake.status("sales", now=hours_after_start(h), state=()).to_pylist() for h in (2, 4, 6)]
    assert [row["display_status"] for rows in displayed for row in rows if row["partition_key"] == str(day(1))] == [
        "MATERIALIZED",
        "STALE",
        "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED",
    ]
    assert lake.status("sales", now=hours_after_start(0.5)).num_rows == 0, (
        "nothing was recorded yet, and no day was over"
    )
    assert (
        lake.status("sales", now=hours_after_start(24)).to_pylist()[0]["display_status"]
        == "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED"
    )


@pytest.mark.slow(reason="several status queries")
def test_events_later_than_the_query_are_ignored_without_now_too(lake: Lake) -> None:
    lake.register(define("orders", DAYS), define("sales", DAYS, upstream=["orders"]))
    succeed(lake, "sales", day(1), 1)
    lake.record("orders", [day(1), day(2)], outcome="succeeded", at=hours_after_start(2), run_id="r1")
    for _ in ("in the tail", "in the status table"):
        lake.record("orders", day(2), outcome="failed", at=datetime.now(UTC) + timedelta(days=2), run_id="r2")
        lake.record("sales", day(2), outcome="succeeded", at=datetime.now(UTC) + timedelta(days=2), run_id="r3")
        found, said = lake.status(), lake.status(now=datetime.now(UTC))
        assert found.drop_columns("swept_at") == said.drop_columns("swept_at")
        shown = {(r["asset_key"], r["partition_key"]): r["display_status"] for r in found.to_pylist()}
        assert [shown["sales", str(day(1))], shown["sales", str(day(2))]] == ["STALE", "NEVER_MATERIALIZED"]
        assert shown["orders", str(day(2))] == "MATERIALIZED"
        lake.sweep()
    table = lake._workspace.status_table
    assert table.open_stored_status(lake._workspace.ledger.files()).ledger_version is not None
    later = {
        (r["asset_key"], r["partition_key"]): r for r in lake.status(now=datetime.now(UTC) + timedelta(3)).to_pylist()
    }
    assert later["sales", str(day(2))]["display_status"] == "MATERIALIZED", "a sweep keeps every event"


@pytest.mark.slow(reason="several status queries")
def test_the_past_of_an_asset_that_had_no_definition_yet_is_judged_by_its_first(lake: Lake) -> None:
    succeed(lake, "sales", None, 1, "1")
    lake.register(define("sales", code_version="1"))
    assert stale(lake, "sales", 5) == {}
    lake.register(define("sales", code_version="2"))
    assert stale(lake, "sales", 5) == {}
    assert lake.status("sales", state="stale").num_rows == 1


@pytest.mark.slow(reason="several status queries")
def test_an_asset_that_was_recorded_later_has_no_rows_in_the_past(lake: Lake) -> None:
    succeed(lake, "sales", None, 5)
    assert lake.status("sales", now=hours_after_start(1)).num_rows == 0
    lake.fold()
    assert lake.status("sales", now=hours_after_start(1)).num_rows == 0


@pytest.mark.slow(reason="several status queries")
def test_an_asset_that_is_named_twice_is_shown_once(lake: Lake) -> None:
    sales = define("sales")
    succeed(lake, "sales", [{"n": 1}, {"n": 2}], 1)
    lake.register(sales)
    assert lake.status(["sales", "sales"], state="unexpected").num_rows == 2
    assert lake.status_counts(["sales", sales])["unexpected"].to_pylist() == [2]
    assert lake.status(sales).num_rows == lake.status("sales").num_rows
    with pytest.raises(pt.StatusError, match="not 5"):
        lake.status(5)  # type: ignore[arg-type] # what is refused


def test_a_question_without_a_zone_is_refused(lake: Lake) -> None:
    lake.record("sales", outcome="succeeded")
    with pytest.raises(pt.StatusError, match="time zone"):
        lake.status(now=datetime(2025, 1, 1))  # noqa: DTZ001


# --- what an attempt read


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize("mapped", [pt.same_key(), pt.all_partitions()])
def test_upstream_changes_during_an_attempt_make_it_stale(lake: Lake, mapped: Any) -> None:
    lake.register(define("orders", DAYS), define("sales", DAYS, upstream=[("orders", mapped)]))
    lake.record("orders", day(1), outcome="succeeded", at=hours_after_start(1))
    lake.record("sales", day(1), outcome="succeeded", at=hours_after_start(4), started_at=hours_after_start(2))
    assert stale(lake, "sales") == {}
    lake.record("orders", day(1), outcome="succeeded", at=hours_after_start(3), run_id="meanwhile")
    assert stale(lake, "sales") == {str(day(1)): (hours_after_start(3), ["UPSTREAM_CHANGED"])}
    lake.record("sales", day(1), outcome="failed", at=hours_after_start(6), started_at=hours_after_start(5))
    assert stale(lake, "sales")[str(day(1))][0] == hours_after_start(3), "a failure takes nothing back"
    lake.fold()
    assert stale(lake, "sales")[str(day(1))][0] == hours_after_start(3)
