"""Expected partitions: what a definition wants, what is missing, and what is there without being wanted."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import partita as pt
from partita.lake import Lake
from tests.status.histories import hours_after_start


def define(partitions: pt.PartitionSet | None, name: str = "sales") -> pt.Asset:
    return pt.asset(name=name, partitions=partitions)(lambda _: None)


def expected(lake: Lake, now: datetime, name: str = "sales") -> list[dict[str, Any]]:
    return [dict(pt.PartitionKey.parse(row["partition_key"])) for row in lake.status(name, now=now).to_pylist()]


def moment(month: int, day: int, hour: int = 0) -> datetime:
    return datetime(2025, month, day, hour, tzinfo=UTC)


@pytest.mark.slow(reason="several status queries")
def test_a_day_is_expected_once_it_is_over(lake: Lake) -> None:
    lake.register(define(pt.daily("date", start="2025-01-01")))
    assert expected(lake, moment(1, 1, 23)) == []
    assert expected(lake, moment(1, 2)) == [{"date": date(2025, 1, 1)}]
    assert len(expected(lake, moment(12, 31))) == 364


@pytest.mark.slow(reason="several status queries")
def test_an_end_is_not_part_of_the_set(lake: Lake) -> None:
    lake.register(define(pt.daily("date", start="2025-01-01", end="2025-01-04")))
    assert [one["date"].day for one in expected(lake, moment(6, 1))] == [1, 2, 3]


@pytest.mark.slow(reason="several status queries")
def test_days_with_a_time_zone_and_an_offset(lake: Lake) -> None:
    lake.register(define(pt.daily("date", start="2025-03-29", time_zone="Europe/Berlin", offset=timedelta(hours=4))))
    assert expected(lake, datetime(2025, 3, 30, 1, 59, tzinfo=UTC)) == []
    assert expected(lake, datetime(2025, 3, 30, 2, tzinfo=UTC)) == [{"date": date(2025, 3, 29)}]


@pytest.mark.parametrize(("start", "hours"), [("2025-03-30", 23), ("2025-10-26", 25), ("2025-06-01", 24)])
def test_a_day_of_summer_time_has_23_hours_or_25(start: str, hours: int, lake: Lake) -> None:
    end = (datetime.fromisoformat(start) + timedelta(days=1)).isoformat()
    lake.register(define(pt.hourly("ts", start=start, end=end, time_zone="Europe/Berlin")))
    found = [one["ts"] for one in expected(lake, moment(12, 31))]
    assert len(found) == len(set(found)) == hours


@pytest.mark.slow(reason="several status queries")
def test_a_day_that_a_zone_left_out_is_not_expected(lake: Lake) -> None:
    lake.register(define(pt.daily("date", start="2011-12-28", end="2012-01-02", time_zone="Pacific/Apia")))
    assert [one["date"].day for one in expected(lake, moment(1, 1))] == [28, 29, 31, 1]


@pytest.mark.slow(reason="several status queries")
def test_weeks_start_on_monday_and_months_on_the_first(lake: Lake) -> None:
    lake.register(define(pt.weekly("week", start="2025-01-01")))
    assert expected(lake, moment(1, 21)) == [{"week": date(2025, 1, 6)}, {"week": date(2025, 1, 13)}]
    lake.register(define(pt.monthly("month", start="2024-12-01"), "months"))
    assert expected(lake, moment(2, 28), "months") == [{"month": date(2024, 12, 1)}, {"month": date(2025, 1, 1)}]


@pytest.mark.slow(reason="several status queries")
def test_a_product_of_three_dimensions(lake: Lake) -> None:
    days = pt.daily("date", start="2025-01-01", end="2025-01-03")
    lake.register(define(pt.static("region", ["us", "eu", None]) * days * pt.static("shard", [1, 2])))
    found = expected(lake, moment(2, 1))
    assert len(found) == 12
    assert list(found[0]) == ["date", "region", "shard"]


def test_an_asset_without_partitions_has_one(lake: Lake) -> None:
    lake.register(define(None))
    (row,) = lake.status("sales").to_pylist()
    assert (row["partition_key"], row["expected"], row["display_status"]) == ("", True, "NEVER_MATERIALIZED")
    assert (row["tenant_id"], row["partition_values"], row["row_version"]) == ("default", [], None)


@pytest.mark.slow(reason="several status queries")
def test_partitions_without_attempt_are_missing_and_others_not_expected(lake: Lake) -> None:
    lake.record("sales", {"country": "fr"}, outcome="failed")
    lake.register(define(pt.static("region", ["us", "eu"])))
    lake.record("sales", {"region": "us"}, outcome="succeeded")
    lake.record("sales", {"region": "fr"}, outcome="succeeded")
    rows = {row["partition_key"]: row for row in lake.status("sales").to_pylist()}
    assert {key: row["expected"] for key, row in rows.items()} == {
        "country=s:ZnI": False,
        "region=s:ZXU": True,
        "region=s:ZnI": False,
        "region=s:dXM": True,
    }
    assert [r["partition_key"] for r in lake.status("sales", state="missing").to_pylist()] == ["region=s:ZXU"]
    assert lake.status("sales", state="unexpected").num_rows == 2


@pytest.mark.slow(reason="several status queries")
def test_a_definition_that_changes_changes_what_is_expected(lake: Lake) -> None:
    assert lake.register(define(pt.static("region", ["us", "eu"]))) == ["sales"]
    assert lake.register(define(pt.static("region", ["us", "eu"]))) == []
    lake.record("sales", {"region": "eu"}, outcome="succeeded")
    assert lake.register(define(pt.static("region", ["us"]))) == ["sales"]
    assert [row["expected"] for row in lake.status("sales").to_pylist()] == [False, True]


@pytest.mark.slow(reason="several status queries")
def test_dynamic_values_come_from_events(lake: Lake) -> None:
    lake.register(define(pt.dynamic("customer") * pt.static("region", ["us", "eu"])))
    assert lake.status("sales").num_rows == 0
    lake.add_partitions("sales", [{"customer": "a"}, {"customer": "b"}])
    assert lake.status("sales", state="missing").num_rows == 4
    lake.record("sales", {"customer": "c", "region": "us"}, outcome="succeeded")
    assert lake.status("sales", state="missing").num_rows == 5, "what was materialized is a value too"
    lake.remove_partitions("sales", [{"customer": "a"}, {"customer": "c"}])
    assert lake.status("sales", state="missing").num_rows == 2
    assert lake.status("sales", state="unexpected").num_rows == 1
    lake.record("sales", {"customer": "c", "region": "us"}, outcome="succeeded", run_id="again")
    assert lake.status("sales", state="unexpected").num_rows == 0


@pytest.mark.slow(reason="several status queries")
def test_a_dynamic_value_is_expected_once_it_was_tried_and_though_it_was_wiped(lake: Lake) -> None:
    lake.register(define(pt.dynamic("customer")))
    lake.record("sales", {"customer": "a"}, outcome="failed", at=hours_after_start(1))
    lake.record("sales", {"customer": "b"}, outcome="succeeded", at=hours_after_start(1))
    lake.wipe("sales", {"customer": "b"}, at=hours_after_start(2))
    assert lake.status("sales", state="missing").num_rows == 2
    assert lake.status("sales", state="unexpected").num_rows == 0


@pytest.mark.slow(reason="several status queries")
def test_dynamic_values_are_expected_from_when_they_were_added(lake: Lake) -> None:
    lake.register(define(pt.dynamic("customer")))
    lake.add_partitions("sales", {"customer": "a"}, at=moment(2, 1))
    lake.add_partitions("sales", {"customer": "b"}, at=moment(3, 1))
    assert [len(expected(lake, moment(month, 15))) for month in (1, 2, 3)] == [0, 1, 2]


@pytest.mark.parametrize("key", [{"region": "us"}, {"nothing": 1}, {}, {"customer": "a", "region": "us"}])
def test_values_are_added_to_dynamic_dimensions_alone(key: dict[str, Any], lake: Lake) -> None:
    lake.register(define(pt.dynamic("customer") * pt.static("region", ["us"])))
    with pytest.raises(pt.StatusError, match="its dynamic dimensions: customer"):
        lake.add_partitions("sales", key)
    with pytest.raises(pt.UnknownAsset):
        lake.add_partitions("nothing", {"customer": "a"})


@pytest.mark.slow(reason="several status queries")
def test_nothing_is_expected_of_a_retired_asset_until_it_is_registered_again(lake: Lake) -> None:
    sales = pt.asset(name="sales", partitions=pt.static("region", ["us", "eu"]), freshness=timedelta(hours=1))(print)
    report = pt.asset(name="report", upstream=[(sales, pt.all_partitions())])(print)
    lake.register(sales, report)
    lake.record(sales, {"region": "us"}, outcome="succeeded", at=hours_after_start(1))
    before = datetime.now(UTC)
    lake.retire(sales)
    rows = lake.status(sales).to_pylist()
    assert [(row["expected"], row["display_status"]) for row in rows] == [(False, "MATERIALIZED")]
    assert lake.status(sales, now=before, state="missing").num_rows == 1
    assert [row["expected"] for row in lake.status("report", transitive=True).to_pylist()] == [True]
    assert lake.register(sales) == ["sales"]
    assert lake.status(sales, state="missing").num_rows == 1
    with pytest.raises(pt.UnknownAsset):
        lake.retire("nothing")


@pytest.mark.slow(reason="several status queries")
def test_counts_are_those_of_the_rows(lake: Lake) -> None:
    lake.register(define(pt.static("region", ["us", "eu", "fr"])), define(None, "report"))
    lake.record("sales", {"region": "us"}, outcome="succeeded", at=hours_after_start(1))
    lake.record("sales", {"region": "eu"}, outcome="failed", at=hours_after_start(1))
    counts = {row["asset_key"]: row for row in lake.status_counts().to_pylist()}
    names = ("partitions", "current", "missing", "failed", "stale", "unexpected")
    assert [counts["sales"][name] for name in names] == [3, 1, 2, 1, 0, 0]
    assert [counts["report"][name] for name in names] == [1, 0, 1, 0, 0, 0]


# --- which partitions are asked for


@pytest.mark.slow(reason="several status queries")
def test_a_predicate_on_keys(lake: Lake) -> None:
    days = pt.daily("date", start="2025-01-01", end="2025-01-11")
    lake.register(define(days * pt.static("region", ["us", "eu"])), define(None, "report"))
    lake.record("sales", {"date": date(2025, 1, 20), "region": "us"}, outcome="succeeded")
    assert lake.status("sales", "date >= '2025-01-09' AND region = 'us'").num_rows == 3
    assert lake.status("sales", pt.col("date") < date(2025, 1, 3)).num_rows == 4
    assert lake.status("sales", "date > '2026-01-01'").num_rows == 0
    assert lake.status_counts("sales", "region <> 'us'").to_pylist()[0]["partitions"] == 10
    with pytest.raises(pt.PredicateError, match="nothing"):
        lake.status("sales", "nothing = 1")
    with pytest.raises(pt.PredicateError, match="can't be evaluated"):
        lake.status("sales", "length(region) = 2")


@pytest.mark.slow(reason="several status queries")
def test_a_predicate_on_keys_of_which_some_have_a_null(lake: Lake) -> None:
    for key in ({"date": None}, {"date": date(2025, 1, 3)}, {"region": None}, {"region": "us", "shard": 5}):
        lake.record("sales", key, outcome="succeeded")
    asked = {"date >= '2025-01-02'": 1, "date IS NULL": 1, "region = 'us'": 1, "region IS NULL": 1, "shard > 4": 1}
    assert {where: lake.status("sales", where).num_rows for where in asked} == asked


@pytest.mark.slow(reason="several status queries")
def test_current_partitions_can_be_selected(lake: Lake) -> None:
    lake.record("sales", outcome="succeeded")
    assert lake.status(state="current").num_rows == lake.status_counts()["current"][0].as_py() == 1


@pytest.mark.slow(reason="several status queries")
def test_states_and_reasons_are_known_words(lake: Lake) -> None:
    lake.record("sales", outcome="succeeded")
    assert lake.status(state=["materialized", "stale"]).num_rows == 1
    assert lake.status(reason="CODE_CHANGED").num_rows == 0
    with pytest.raises(pt.StatusError, match="missing, stale"):
        lake.status(state="lost")
    with pytest.raises(pt.UnknownAsset) as caught:
        lake.status("orders")
    assert caught.value.known == ("sales",)


def test_an_empty_lake_has_nothing_to_say(lake: Lake) -> None:
    assert lake.status().num_rows == 0
    assert lake.status_counts().num_rows == 0
    assert lake.fold().row_count == 0


@pytest.mark.slow(reason="several status queries")
def test_the_end_of_the_calendar_can_be_asked_about(lake: Lake) -> None:
    last = datetime(9999, 12, 31, tzinfo=UTC)
    policy = pt.cron("@yearly", lag=timedelta(days=365_000))
    lake.register(pt.asset(name="sales", partitions=pt.monthly("month", start="9999-10-01"), freshness=policy)(print))
    lake.record("sales", {"month": date(9999, 10, 1)}, outcome="succeeded", at=last)
    shown = {row["partition_key"]: row["display_status"] for row in lake.status(now=last).to_pylist()}
    assert shown == {"month=d:9999-10-01": "MATERIALIZED", "month=d:9999-11-01": "NEVER_MATERIALIZED"}
