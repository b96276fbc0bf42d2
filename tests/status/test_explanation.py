"""Why: the chain of causes as data and as text."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

import partita as pt
from partita.lake import Lake
from tests.status.histories import hours_after_start

DAYS = pt.daily("date", start="2025-01-01", end="2025-01-11")
KEY = pt.PartitionKey.of(date=date(2025, 1, 2))


@pytest.mark.slow(reason="several status queries")
def test_the_chain_leads_to_the_upstream_that_changed_first(lake: Lake) -> None:
    lake.register(
        pt.asset(name="raw", partitions=DAYS)(print),
        pt.asset(name="orders", partitions=DAYS, upstream=["raw"])(print),
        pt.asset(name="sales", partitions=DAYS, upstream=["orders"], freshness=timedelta(hours=9), code_version="2")(
            print
        ),
    )
    lake.record("sales", KEY, outcome="succeeded", run_id="r1", at=hours_after_start(1), code_version="2")
    lake.record("orders", KEY, outcome="succeeded", run_id="r2", at=hours_after_start(2))
    lake.record("raw", KEY, outcome="succeeded", run_id="r3", at=hours_after_start(3))
    why = lake.why("sales", KEY, now=hours_after_start(100))
    assert why.display_status == "STALE"
    assert [(cause.code, cause.since) for cause in why.causes] == [
        ("UPSTREAM_CHANGED", hours_after_start(2)),
        ("FRESHNESS_POLICY", hours_after_start(10)),
    ]
    orders = why.causes[0].upstream
    assert orders is not None
    assert [(cause.code, cause.since) for cause in orders.causes] == [("UPSTREAM_CHANGED", hours_after_start(3))]
    raw = orders.causes[0].upstream
    assert raw is not None
    assert (raw.asset, raw.key, raw.causes) == ("raw", KEY, ())
    assert (
        str(why)
        == """\
sales[date=2025-01-02]: STALE
  materialized at 2025-01-01 01:00:00Z by run 'r1' with code version '2'
  UPSTREAM_CHANGED since 2025-01-01 02:00:00Z: orders[date=2025-01-02] was materialized after this one
    orders[date=2025-01-02]: STALE
      materialized at 2025-01-01 02:00:00Z by run 'r2'
      UPSTREAM_CHANGED since 2025-01-01 03:00:00Z: raw[date=2025-01-02] was materialized after this one
        raw[date=2025-01-02]: MATERIALIZED
          materialized at 2025-01-01 03:00:00Z by run 'r3'
  FRESHNESS_POLICY since 2025-01-01 10:00:00Z: it is to be materialized every 9:00:00"""
    )
    document = why.document()
    assert document["causes"][0]["upstream"]["causes"][0]["upstream"]["asset"] == "raw"


@pytest.mark.slow(reason="several status queries")
def test_each_partition_of_a_chain_is_explained_once(lake: Lake) -> None:
    layers = 5
    for layer in range(layers):
        above = [f"a{layer - 1}", f"b{layer - 1}"] if layer else []
        lake.register(*(pt.asset(name=f"{name}{layer}", upstream=above)(print) for name in "ab"))
        for name in "ab":
            lake.record(f"{name}{layer}", outcome="succeeded", at=hours_after_start(layers - layer), run_id=name)
    why = lake.why(f"a{layers - 1}")
    lines = str(why).splitlines()
    assert sum("materialized at" in line for line in lines) == 1 + 2 * (layers - 1)
    assert sum("as said above" in line for line in lines) == 2 * (layers - 2)
    left, right = (cause.upstream for cause in why.causes)
    assert left is not None
    assert right is not None
    assert left.causes[0].upstream is right.causes[0].upstream
    assert json.dumps(why.document()).count("as said above") == 2 * (layers - 2)


@pytest.mark.slow(reason="several status queries")
def test_a_failure_is_explained_with_its_error(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="failed", run_id="r1", at=hours_after_start(1), error="disk full", attempt=3)
    assert str(lake.why("sales", KEY)) == (
        "sales[date=2025-01-02]: NEVER_MATERIALIZED\n  attempt 3 of run 'r1' failed at 2025-01-01 01:00:00Z: disk full"
    )


@pytest.mark.slow(reason="several status queries")
def test_changed_code_is_explained_with_both_versions(lake: Lake) -> None:
    lake.register(pt.asset(name="sales", code_version="2")(print))
    lake.record("sales", outcome="succeeded", code_version="1", at=hours_after_start(1))
    assert "made with code version '1', the asset has '2'" in str(lake.why("sales"))


@pytest.mark.slow(reason="several status queries")
def test_partitions_without_attempt_or_not_expected_are_explained(lake: Lake) -> None:
    lake.register(pt.asset(name="sales", partitions=DAYS)(print))
    assert lake.why("sales", KEY).facts == ("it was never tried",)
    other = pt.PartitionKey.of(date=date(2030, 1, 1))
    assert lake.why("sales", other).facts == (
        "nothing was recorded of it, and the asset's definition doesn't expect it",
    )
    lake.record("sales", other, outcome="started", at=hours_after_start(1), run_id="r1")
    assert "run 'r1' is at it since 2025-01-01 01:00:00Z" in str(lake.why("sales", other))
    lake.record("sales", KEY, outcome="succeeded", at=hours_after_start(1))
    lake.wipe("sales", KEY, at=hours_after_start(2))
    assert "wiped at 2025-01-01 02:00:00Z" in str(lake.why("sales", KEY))
