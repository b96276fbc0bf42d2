"""What can't be judged: functions that a process doesn't have, definitions that it can't use. The rest is answered."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import partita as pt
from partita.lake import Lake
from partita.status.events import Event, EventKind
from partita.status.schema import SWEEP_COLUMNS
from tests.status.histories import hours_after_start
from tests.status.test_staleness import DAYS, day, define, stale, succeed


def only_first(_: pt.PartitionKey) -> Iterable[pt.PartitionKey]:
    return [day(1)]


def by_function(lake: Lake, **given: Any) -> Lake:
    """Another process's view of a lake, where sales are mapped to orders by a function that it doesn't have."""
    lake.register(
        define("orders", DAYS), define("sales", DAYS, upstream=[("orders", pt.mapped_by(only_first))], **given)
    )
    return Lake(lake.uri)


def staleness_rows(lake: Lake, *asked: Any, **given: Any) -> list[tuple[str, str, datetime | None]]:
    rows = lake.status(*asked, **given).to_pylist()
    made = [row for row in rows if row["last_materialization_at"] is not None]
    return [(row["staleness"], row["display_status"], row["stale_since"]) for row in made]


@pytest.mark.slow(reason="several status queries")
def test_an_asset_that_cannot_be_judged_is_refused_by_name_and_marked_among_all(lake: Lake) -> None:
    elsewhere = by_function(lake)
    succeed(lake, "sales", [day(2), day(3)], 1)
    succeed(lake, "orders", day(1), 2)
    with pytest.raises(pt.StatusError, match="function"):
        elsewhere.status("sales")
    assert staleness_rows(elsewhere) == [("computed", "MATERIALIZED", None), *[("unknown", "MATERIALIZED", None)] * 2]
    counts = {row["asset_key"]: row for row in elsewhere.status_counts().to_pylist()}
    assert [counts["sales"][name] for name in ("unknown", "current")] == [2, 0]
    assert elsewhere.status(state="unknown").num_rows == 2
    assert "not known" in str(elsewhere.why("sales", day(2)))
    elsewhere.sweep()
    assert {row[0] for row in staleness_rows(elsewhere)} == {"computed", "unknown"}, (
        "a sweep here can't judge it either"
    )
    lake.sweep()
    assert staleness_rows(elsewhere, "sales") == [("swept", "STALE", hours_after_start(2))] * 2
    assert {row[0] for row in staleness_rows(lake, "sales")} == {"computed"}
    assert "as a sweep found" in str(elsewhere.why("sales", day(2)))
    succeed(lake, "sales", day(2), 3)
    with pytest.raises(pt.StatusError, match="function"):
        elsewhere.status("sales")


@pytest.mark.slow(reason="several status queries")
def test_a_stored_sweep_hides_no_deadline_and_no_code_change(lake: Lake) -> None:
    elsewhere = by_function(lake, freshness=timedelta(hours=9), code_version="1")
    start = datetime.now(UTC)
    lake.record("sales", day(2), outcome="succeeded", at=start, code_version="1")
    lake.sweep()
    later = start + timedelta(days=9)
    assert staleness_rows(elsewhere, "sales") == [("swept", "MATERIALIZED", None)]
    assert staleness_rows(elsewhere, "sales", now=later) == [("swept", "STALE", start + timedelta(hours=9))]
    assert staleness_rows(lake, "sales", now=later) == [("computed", "STALE", start + timedelta(hours=9))]
    assert "every 9:00:00" in str(elsewhere.why("sales", day(2), now=later))
    by_function(lake, freshness=timedelta(hours=9), code_version="2")
    assert staleness_rows(elsewhere, "sales")[0][1] == "STALE"


@pytest.mark.slow(reason="several status queries")
def test_a_moment_before_the_upstream_changed_is_not_stale_by_a_later_sweep(lake: Lake) -> None:
    elsewhere = by_function(lake)
    succeed(lake, "sales", day(2), 1)
    succeed(lake, "orders", day(1), 5)
    lake.sweep()
    assert [staleness_rows(elsewhere, "sales", now=hours_after_start(hours)) for hours in (3, 6)] == [
        [("swept", "MATERIALIZED", None)],
        [("swept", "STALE", hours_after_start(5))],
    ]


@pytest.mark.slow(reason="several status queries")
def test_transitive_staleness_goes_through_what_a_sweep_found(lake: Lake) -> None:
    elsewhere = by_function(lake)
    lake.register(define("report", upstream=[("sales", pt.all_partitions())]))
    succeed(lake, "sales", day(2), 1)
    succeed(lake, "report", None, 2)
    succeed(lake, "orders", day(1), 3)
    lake.sweep()
    assert stale(elsewhere, "report", transitive=True) == {"": (hours_after_start(3), ["UPSTREAM_CHANGED"])}


# --- definitions


@pytest.mark.slow(reason="several status queries")
def test_assets_upstream_of_each_other_are_refused_when_they_are_registered(lake: Lake) -> None:
    with pytest.raises(pt.DefinitionError, match="a <- b <- a"):
        lake.register(define("a", upstream=["b"]), define("b", upstream=["a"]))
    lake.register(define("a", upstream=["b"]), define("b", upstream=["c"]))
    with pytest.raises(pt.DefinitionError, match="a <- b <- c <- a"):
        lake.register(define("c", upstream=["a"]))
    assert lake.status_counts()["asset_key"].to_pylist() == ["a", "b"]


def newer(lake: Lake, asset: str, definition: str) -> None:
    """A definition that another version of Partita recorded."""
    event = Event(
        kind=EventKind.DEFINED, tenant_id="default", workspace_id="default", asset_key=asset, definition=definition
    )
    lake._workspace.ledger.append_events([event])


@pytest.mark.slow(reason="several status queries")
def test_a_definition_of_a_newer_version_is_trouble_of_its_asset_alone(lake: Lake) -> None:
    lake.register(define("orders"))
    succeed(lake, "orders", None, 1)
    succeed(lake, "sales", None, 1)
    newer(lake, "sales", '{"partitions": [{"dimension": "q", "spiral": 1}], "upstreams": [], "freshness": null}')
    assert [row[0] for row in staleness_rows(lake)] == ["computed", "unknown"]
    with pytest.raises(pt.DefinitionError, match="'sales'"):
        lake.status("sales")
    assert "not known" in str(lake.why("sales"))
    assert lake.status("orders").num_rows == 1


def raising(_: pt.PartitionKey) -> Iterable[pt.PartitionKey]:
    raise RuntimeError("no such luck")


def giving(answer: Any) -> Any:
    return lambda _: answer


@pytest.mark.slow(reason="two questions for each of many functions")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raising, "RuntimeError: no such luck"),
        pytest.param(giving(None), "TypeError", marks=pytest.mark.long),
        pytest.param(giving(5), "TypeError", marks=pytest.mark.long),
        (giving(["date=d:2025-01-01"]), "must return partition keys"),
        (lambda key: (day(1 // 0) for _ in key), "ZeroDivisionError"),
    ],
)
def test_a_function_that_fails_is_trouble_of_its_asset_alone(function: Any, said: str, lake: Lake) -> None:
    lake.register(
        define("orders", DAYS),
        define("sales", DAYS, upstream=[("orders", pt.mapped_by(function))]),
        define("report", upstream=[("sales", pt.all_partitions())]),
    )
    for asset, key in (("orders", day(1)), ("report", None)):
        succeed(lake, asset, key, 1)
    succeed(lake, "sales", day(1), 2)
    for transitive in (False, True):
        found = {row["asset_key"]: row for row in lake.status(transitive=transitive).to_pylist() if row["row_version"]}
        states = {name: (row["staleness"], row["stale_since"]) for name, row in found.items()}
        assert states == {
            "orders": ("computed", None), "sales": ("unknown", None), "report": ("computed", hours_after_start(2))
        }  # fmt: skip
        with pytest.raises(pt.DefinitionError, match=said):
            lake.status("sales", transitive=transitive)
    assert lake.status_counts().num_rows == 3
    assert said in str(lake.why("sales", day(1)))
    for select in ((), "sales"):
        with pytest.raises(pt.DefinitionError, match=said):
            lake.plan(select=select)


SPIRAL = '{"partitions": [], "upstreams": [], "freshness": {"spiral": 1}}'


def swept_row(lake: Lake, asset: str) -> dict[str, Any]:
    """The row of an asset without partitions as the status table has it."""
    rows = DeltaTable(lake._workspace.status_table.uri).to_pyarrow_table().to_pylist()
    return next({name: row[name] for name in SWEEP_COLUMNS} for row in rows if row["asset_key"] == asset)


@pytest.mark.slow(reason="several status queries")
def test_a_sweep_leaves_what_the_last_one_found_of_an_asset_that_it_cannot_judge(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.register(define("orders"), define("sales", upstream=["orders"]))
    succeed(lake, "sales", None, 1)
    succeed(lake, "orders", None, 2)
    lake.sweep()
    found = swept_row(lake, "sales")
    assert (found["stale_since"], found["stale_reasons"]) == (hours_after_start(2), ["UPSTREAM_CHANGED"])
    assert not caplog.messages
    newer(lake, "sales", SPIRAL)
    orders = swept_row(lake, "orders")
    lake.sweep()
    assert swept_row(lake, "sales") == found
    assert swept_row(lake, "orders")["swept_at"] > orders["swept_at"]
    (warning,) = caplog.messages
    problem = "the staleness of sales can't be computed, so it keeps what the last sweep found: "
    assert warning.startswith(f"{problem}the definition of 'sales'")


@pytest.mark.slow(reason="several status queries")
def test_a_sweep_where_a_function_is_missing_leaves_what_one_found_where_it_is_not(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    def register_version(code_version: str) -> Lake:
        mapped = [("orders", pt.mapped_by(only_first))]
        lake.register(define("orders", DAYS), define("sales", upstream=mapped, code_version=code_version))
        return Lake(lake.uri)

    register_version("1")
    lake.record("sales", outcome="succeeded", at=hours_after_start(1), code_version="1")
    succeed(lake, "orders", day(1), 2)
    lake.sweep()
    found = swept_row(lake, "sales")
    assert found["stale_reasons"] == ["UPSTREAM_CHANGED"]
    register_version("2").sweep()
    assert swept_row(lake, "sales") == found
    assert "a function that this process doesn't have" in caplog.messages[0]


@pytest.mark.slow(reason="several status queries")
def test_an_export_warns_of_unknown_staleness(lake: Lake, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    newer(lake, "sales", SPIRAL)
    newer(lake, "never_made", SPIRAL)
    succeed(lake, "sales", None, 1)
    succeed(lake, "orders", None, 1)
    assert lake.export_status(str(tmp_path / "partition_status.parquet")) == 2
    (warning,) = caplog.messages
    assert warning.startswith(
        "the staleness of sales can't be computed, so the file can't say whether it is stale: the definition"
    )


@pytest.mark.slow(reason="several status queries")
def test_assets_that_were_upstream_of_each_other_already_are_trouble_of_their_own(lake: Lake) -> None:
    for ours, theirs in (("a", "b"), ("b", "a")):
        mapping = f'{{"asset": "{theirs}", "mapping": "same_key"}}'
        newer(lake, ours, f'{{"partitions": [], "upstreams": [{mapping}], "freshness": null}}')
        succeed(lake, ours, None, 1)
    succeed(lake, "orders", None, 1)
    assert [row[0] for row in staleness_rows(lake, transitive=True)] == ["unknown", "computed", "computed"]
    with pytest.raises(pt.DefinitionError, match="a <- b <- a"):
        lake.status("a", transitive=True)


@pytest.mark.slow(reason="several status queries")
def test_an_upstream_whose_windows_are_not_registered_is_trouble_of_the_asset_alone(lake: Lake) -> None:
    lake.register(define("sales", DAYS, upstream=[("orders", pt.window_offset("date", -1))]), define("other"))
    succeed(lake, "sales", day(1), 1)
    succeed(lake, "other", None, 1)
    assert [row[0] for row in staleness_rows(lake)] == ["computed", "unknown"]
    with pytest.raises(pt.DefinitionError, match="register it first"):
        lake.status("sales")


@pytest.mark.slow(reason="several status queries")
@pytest.mark.parametrize(
    "upstream", [(DAYS, pt.window_offset("date", 1)), (pt.hourly("date", start="2025-01-01"), pt.same_key())]
)
def test_the_last_day_of_all_has_no_upstream_beyond_it(upstream: tuple[pt.PartitionSet, Any], lake: Lake) -> None:
    theirs, mapping = upstream
    lake.register(define("orders", theirs), define("sales", DAYS, upstream=[("orders", mapping)]))
    succeed(lake, "sales", pt.PartitionKey.of(date=date(9999, 12, 31)), 1)
    assert [row[1] for row in staleness_rows(lake)] == ["MATERIALIZED"]
