"""Plans: which partitions they have and why, which are held back, their batches, and their files."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import partita as pt
from partita.assets.materializer import commit_transaction
from partita.assets.plan_file import plan_from_lines
from partita.assets.run_plan import BatchLimits, batch_numbers
from partita.assets.selection import select_assets
from partita.lake import Lake

LOCAL = SimpleNamespace(conf={"spark.master": "local"}, createDataFrame=None)
"""Stands in for a Spark session of which nothing else is used."""
DAYS = pt.daily("date", start="2025-01-01", end="2025-01-05")
BOTH = DAYS * pt.static("region", ["eu", "us"])


def define(name: str, partitions: pt.PartitionSet | None = None, **arguments: Any) -> pt.Asset:
    return pt.asset(name=name, partitions=partitions, **{"code_version": "1", **arguments})(lambda _: None)


def day(number: int, **others: object) -> pt.PartitionKey:
    return pt.PartitionKey.of(date=date(2025, 1, number), **others)


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Orders by day and region, sales by day, their change by day, and one report."""
    orders = define("orders", BOTH, tags=["raw"])
    sales = define("sales", DAYS, upstream=[orders])
    change = define("change", DAYS, upstream=[(sales, pt.window_offset("date", -1, 0))], tags=["daily"])
    lake.register(orders, sales, change, define("report", upstream=[(change, pt.all_partitions())]))
    return lake


def record(lake: Lake, asset: str, *keys: object, outcome: str = "succeeded", **fields: Any) -> None:
    lake.record(asset, list(keys) or None, outcome=outcome, **{"code_version": "1", **fields})  # type: ignore[arg-type] # keys


def record_all(lake: Lake) -> None:
    record(lake, "orders", *[day(n, region=region) for n in range(1, 5) for region in ("eu", "us")])
    record(lake, "sales", *map(day, range(1, 5)))
    record(lake, "change", *map(day, range(1, 5)))
    record(lake, "report")


def planned_keys(plan: pt.RunPlan) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for row in plan.partitions.to_pylist():
        keys.setdefault(row["asset_key"], []).append(row["partition_key"])
    return keys


def test_upstreams_run_first(shop: Lake) -> None:
    plan = shop.plan()
    assert plan.assets == ("orders", "sales", "change", "report")
    assert [len(batch.keys) for batch in plan.batches] == [8, 4, 4, 1]
    assert plan.blocked.num_rows == 0
    assert str(plan).splitlines()[0] == "17 partitions in 4 batches, 0 held back"


def test_downstream_partitions_are_planned_through_every_mapping(shop: Lake) -> None:
    record_all(shop)
    assert len(shop.plan()) == 0
    record(shop, "orders", day(2, region="us"), run_id="again")
    plan = shop.plan()
    assert planned_keys(plan) == {"sales": [str(day(2))], "change": [str(day(2)), str(day(3))], "report": [""]}
    reasons = {row["asset_key"]: (row["reasons"], row["by_asset"]) for row in plan.partitions.to_pylist()}
    assert reasons["sales"] == (["UPSTREAM_CHANGED"], "orders")
    assert reasons["change"] == (["UPSTREAM_PLANNED"], "sales")
    assert "UPSTREAM_CHANGED (orders date=2025-01-02,region=us)" in plan.explain("sales", str(day(2)))
    assert "does not run" in plan.explain("sales", str(day(1)))


def test_a_plan_is_for_the_requested_states(shop: Lake) -> None:
    record_all(shop)
    shop.wipe("sales", day(1))
    record(shop, "sales", day(2), outcome="failed", run_id="bad")
    record(shop, "orders", day(3, region="eu"), run_id="again")
    assert planned_keys(shop.plan(missing=True)) == {"sales": [str(day(1))]}
    assert planned_keys(shop.plan(failed=True)) == {"sales": [str(day(2))]}
    assert planned_keys(shop.plan(stale=True))["sales"] == [str(day(3))]
    assert planned_keys(shop.plan(stale=True, missing=True, failed=True)) == planned_keys(shop.plan())
    assert planned_keys(shop.plan())["sales"] == [str(day(n)) for n in (1, 2, 3)]


def test_a_partition_without_readable_upstreams_is_held_back(shop: Lake) -> None:
    record(shop, "orders", *[day(n, region=region) for n in (1, 2) for region in ("eu", "us")])
    record(shop, "orders", day(3, region="eu"), day(3, region="us"), day(4, region="eu"))
    record(shop, "orders", day(3, region="us"), outcome="failed", run_id="bad")
    plan = shop.plan(select="sales+")
    assert planned_keys(plan) == {"sales": [str(day(1)), str(day(2))], "change": [str(day(1)), str(day(2))]}
    blocked = {
        row["asset_key"] + row["partition_key"]: (row["by_asset"], row["by_partition"])
        for row in plan.blocked.to_pylist()
    }
    assert blocked[f"sales{day(3)}"] == ("orders", str(day(3, region="us"))), "its last attempt failed"
    assert blocked[f"sales{day(4)}"] == ("orders", str(day(4, region="us")))
    assert blocked[f"change{day(3)}"] == ("sales", str(day(3)))
    assert blocked["report"][0] == "change"
    assert "is held back: orders date=2025-01-04,region=us is missing" in plan.explain("sales", str(day(4)))


NOON = datetime(2025, 1, 20, 12, tzinfo=UTC)
OPEN = pt.daily("date", start="2025-01-01")
MONTHS = pt.monthly("date", start="2024-12-01")


def tomorrow(key: pt.PartitionKey) -> list[pt.PartitionKey]:
    return [pt.PartitionKey.of(date=key["date"] + timedelta(days=1))]  # type: ignore[operator] # a date


@pytest.mark.parametrize(
    ("upstream_partitions", "mapping", "now", "held", "by"),
    [
        (OPEN, pt.same_key(), NOON, None, None),
        (pt.daily("date", start="2025-01-01", time_zone="America/New_York"), pt.same_key(),
         datetime(2025, 1, 20, 1, tzinfo=UTC), 19, day(19)),
        (pt.daily("date", start="2025-01-01", time_zone="America/New_York"), pt.same_key(), NOON, None, None),
        (MONTHS, pt.same_key(), NOON, 1, day(1)),
        (OPEN, pt.window_offset("date", 0, 1), NOON, 19, day(20)),
        (OPEN, pt.window_offset("date", -1, 0), NOON, None, None),
        (OPEN * pt.static("region", ["eu"]), pt.window_offset("date", 2), NOON, 18, day(21, region="eu")),
        (OPEN, pt.mapped_by(tomorrow), NOON, 19, day(20)),
        (OPEN, pt.all_partitions(), NOON, None, None),
        (DAYS, pt.window_offset("date", 0, 1), NOON, None, None),
        (DAYS, pt.mapped_by(tomorrow), NOON, None, None),
        (pt.monthly("date", start="2025-02-01"), pt.same_key(), NOON, None, None),
        (pt.monthly("date", start="2024-01-01", end="2025-01-01"), pt.same_key(), NOON, None, None),
    ],
)  # fmt: skip
def test_a_window_of_an_upstream_that_is_not_over_holds_back(  # noqa: PLR0917 - a row of the table above
    lake: Lake,
    upstream_partitions: pt.PartitionSet,
    mapping: Any,
    now: datetime,
    held: int | None,
    by: pt.PartitionKey | None,
) -> None:
    upstream = define("upstream", upstream_partitions)
    lake.register(upstream, define("ours", OPEN, upstream=[(upstream, mapping)]))
    plan = lake.plan(now=now)
    blocked = {row["partition_key"]: row["by_partition"] for row in plan.blocked.to_pylist()}
    assert sorted(blocked) == ([] if held is None else [str(day(n)) for n in range(held, 20)])
    if by is not None:
        assert blocked[str(day(19))] == str(by)


def test_a_partition_made_before_its_window_is_over_holds_nothing_back(lake: Lake) -> None:
    prices = define("prices", MONTHS)
    lake.register(prices, define("ours", OPEN, upstream=[prices]))
    record(lake, "prices", pt.PartitionKey.of(date=date(2024, 12, 1)), at=NOON)
    assert len(lake.plan(now=NOON, select="ours")) == 0
    record(lake, "prices", day(1), at=NOON)
    assert len(lake.plan(now=NOON, select="ours")) == 19


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("orders", {"orders"}),
        ("+sales", {"orders", "sales"}),
        ("sales+", {"sales", "change", "report"}),
        ("+sales+", {"orders", "sales", "change", "report"}),
        ("tag:raw", {"orders"}),
        (["tag:daily", "orders"], {"change", "orders"}),
        ("tag:raw+", {"orders", "sales", "change", "report"}),
    ],
)
def test_selectors_select_assets(shop: Lake, select: Any, expected: set[str]) -> None:
    plan = shop.plan(select=select)
    assert set(plan.assets) | set(plan.blocked["asset_key"].to_pylist()) == expected


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("a", {"a"}), ("a+", {"a+"}), ("+a+", {"a", "a+"}), ("a++", {"a+", "b"}), ("tag:x", {"tag:x"}),
        ("tag:x+", {"tag:x", "b"}), ("tag:y", {"a"}),
    ],
)  # fmt: skip
def test_a_selector_that_equals_a_name_selects_that_asset_alone(select: str, expected: set[str]) -> None:
    a = define("a", tags=["x", "y"])
    like_a, like_tag = define("a+", upstream=[a]), define("tag:x")
    assets = (a, like_a, like_tag, define("b", upstream=[like_a, like_tag]))
    assert select_assets([select], {asset.name: asset.definition for asset in assets}) == expected


@pytest.mark.parametrize("select", ["sale", "tag:nothing", "+", ""])
def test_selectors_without_a_match_are_refused(shop: Lake, select: str) -> None:
    with pytest.raises(pt.PlanError, match="nothing is selected"):
        shop.plan(select=select)


def test_a_predicate_narrows_to_partitions(shop: Lake) -> None:
    plan = shop.plan(where="date < '2025-01-03' AND region = 'us'", select="orders")
    assert planned_keys(plan) == {"orders": [str(day(n, region="us")) for n in (1, 2)]}
    with pytest.raises(pt.PredicateError, match="nobody"):
        shop.plan(where="nobody = 1")
    record_all(shop)
    for where in ("nobody = 1", pt.col("nobody") == 1, "date = 'x' AND nobody"):
        with pytest.raises(pt.PredicateError, match="nobody"):
            shop.plan(where=where)
    assert len(shop.plan(where="region = 'us' AND date > '2025-01-01'")) == 0


def test_since_leaves_out_older_states(shop: Lake) -> None:
    record_all(shop)
    now = datetime.now(UTC)
    record(shop, "orders", day(1, region="us"), run_id="late")
    assert planned_keys(shop.plan(stale=True, select="sales", since=now - timedelta(hours=1))) == {
        "sales": [str(day(1))]
    }
    assert len(shop.plan(stale=True, select="sales", since=now + timedelta(hours=1))) == 0
    fresh = Lake(shop.uri, workspace="fresh")
    fresh.register(define("sales", DAYS))
    assert planned_keys(fresh.plan(since=datetime(2025, 1, 3, tzinfo=UTC))) == {"sales": [str(day(3)), str(day(4))]}


def test_what_was_wiped_is_missing_since_then(shop: Lake) -> None:
    record_all(shop)
    after = datetime.now(UTC)
    shop.wipe("sales", day(1))
    assert planned_keys(shop.plan(missing=True, select="sales", since=after)) == {"sales": [str(day(1))]}
    assert len(shop.plan(missing=True, select="sales", since=after + timedelta(hours=1))) == 0
    shop.wipe("orders", day(7, region="us"))
    assert len(shop.plan(missing=True, select="orders", since=after)) == 0, "which nobody expects"


def test_assets_that_are_not_available_are_not_planned(shop: Lake) -> None:
    plan = shop.plan(available_assets=["orders", "sales"])
    assert plan.assets == ("orders", "sales")
    assert plan.request["not_among"] == ["change", "report"]
    assert shop.plan(available_assets=["orders", "sales"], select="sales+").assets == ()
    assert shop.plan(available_assets=["orders", "sales"], select="orders+").assets == ("orders", "sales")
    with pytest.raises(pt.PlanError, match="nothing is selected by 'report'"):
        shop.plan(available_assets=["orders", "sales"], select="report")


def test_batches_are_cut_by_partitions_and_by_bytes() -> None:
    rows = pa.table({"asset_key": ["a"] * 5 + ["b"] * 3, "bytes": pa.array([4, 4, 4, None, 20, 1, 1, 1], pa.int64())})
    assert batch_numbers(rows, BatchLimits(2, 1000)).tolist() == [0, 0, 1, 1, 2, 0, 0, 1]
    assert batch_numbers(rows, BatchLimits(100, 8)).tolist() == [0, 0, 1, 1, 2, 0, 0, 0]
    assert batch_numbers(rows.slice(0, 0), BatchLimits()).tolist() == []
    for wrong in ({"partitions": 0}, {"bytes": -1}, {"partitions": True}):
        with pytest.raises(pt.PlanError, match="1 or more"):
            BatchLimits(**wrong)


def test_sizes_are_estimated_from_history(shop: Lake) -> None:
    record(shop, "orders", *[day(n, region=r) for n in range(1, 5) for r in ("eu", "us")])
    record(shop, "sales", day(1), bytes=100)
    record(shop, "sales", day(2), bytes=300)
    shop.wipe("sales", day(3))
    record(shop, "orders", day(1, region="us"), run_id="again")
    sizes = {row["partition_key"]: row["bytes"] for row in shop.plan(select="sales").partitions.to_pylist()}
    assert sizes == {str(day(1)): 100, str(day(3)): 200, str(day(4)): 200}


def test_a_commit_has_the_name_of_its_run_and_its_partitions() -> None:
    transaction = commit_transaction("R", "sales", ["a", "b"])
    assert transaction == commit_transaction("R", "sales", ["b", "a"])
    assert transaction[0].startswith("partita/R/sales/")
    others = {commit_transaction("R", "sales", ["a"]), commit_transaction("Q", "sales", ["a", "b"])}
    assert len({transaction, *others}) == 3


# --- files


def test_a_plan_survives_its_file_and_can_be_cut_short_by_hand(shop: Lake, tmp_path: Path) -> None:
    plan = shop.plan(where="date = '2025-01-02'", select="+sales")
    file = tmp_path / "plan.jsonl"
    plan.save(str(file))
    again = pt.load_plan(str(file))
    assert again.partitions.equals(plan.partitions)
    assert (again.made_at, again.input_digests, again.request) == (plan.made_at, plan.input_digests, plan.request)
    head, *lines = file.read_text().splitlines()
    file.write_text("\n".join([head, *(line for line in lines if json.loads(line)["asset_key"] == "orders")]))
    assert pt.load_plan(str(file)).assets == ("orders",)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "nonsense", '{"form": "partita.plan/9"}', '{"form": "partita.plan/1"}', "\x00", "null",
     '{"form": "partita.plan/1", "lake": 1}\n{"state": "run"}'],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.jsonl"
    file.write_text(text)
    with pytest.raises(pt.PlanError, match=r"plan"):
        pt.load_plan(str(file))
    with pytest.raises(pt.PlanError, match="can't be read"):
        pt.load_plan(str(tmp_path / "nowhere"))
    with pytest.raises(pt.PlanError, match="can't be read"):
        pt.load_plan(str(tmp_path))


def test_an_invalid_key_in_a_file_is_refused(shop: Lake, tmp_path: Path) -> None:
    file = tmp_path / "plan.jsonl"
    shop.plan(select="sales").save(str(file))
    wrong = file.read_text().replace("date=d:2025-01-01", "date=2025-01-01")
    assert "date=2025-01-01" in wrong
    file.write_text(wrong)
    with pytest.raises(pt.PlanError, match="not a plan"):
        pt.load_plan(str(file))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (lambda head, rows: (head, [*rows, rows[0]]), "there twice"),
        (lambda head, rows: (head, [{**rows[0], "partition_key": "date=d:2031-01-01"}]), "does not expect"),
        (lambda head, rows: (head, [{**rows[0], "partition_key": "region=s:dXM"}]), "does not expect"),
        (lambda head, rows: ({**head, "world": {}}, rows), "the plan has no digest of its input"),
        (lambda head, rows: ({**head, "world": []}, rows), "not a plan"),
        (lambda head, rows: (head, [{**rows[0], "batch": None}]), "not a plan"),
        (lambda head, rows: (head, [{**rows[0], "asset_key": None}]), "not a plan"),
        (lambda head, rows: (head, [{**rows[0], "asset_key": "elsewhere"}]), "no function for"),
    ],
)
def test_a_plan_that_was_changed_by_hand_is_checked(lake: Lake, tmp_path: Path, changed: Any, error: str) -> None:
    lake.register(define("sales", DAYS))
    file = tmp_path / "plan.jsonl"
    lake.plan().save(str(file))
    head, *rows = map(json.loads, file.read_text().splitlines())
    head, rows = changed(head, rows)
    file.write_text("\n".join(map(json.dumps, [head, *rows])))
    with pytest.raises(pt.PlanError, match=error):
        lake.run(pt.load_plan(str(file)), spark=LOCAL)


ODD_JSON: tuple[Any, ...] = (
    None, 5, 10**30, -1, 1e308, True, "x\0", "\ud800", "\u2028", [], {}, [[[]]], {"a": 5}, ["\ud800"]
)  # fmt: skip


def documents_with_one_odd_value(document: Any) -> Iterator[Any]:
    """Yield the document with one value replaced, each value by each odd one."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from ({**document, name: odd} for odd in ODD_JSON)
            yield from ({**document, name: other} for other in documents_with_one_odd_value(value))
            yield {**document, "\ud800": value}


@pytest.mark.slow(reason="hundreds of documents that are nearly plans")
def test_a_plan_that_is_loaded_can_be_shown_and_saved(lake: Lake, tmp_path: Path) -> None:
    lake.register(define("sales", DAYS))
    file = tmp_path / "plan.jsonl"
    lake.plan(where="date < '2025-01-03'").save(str(file))
    lines = file.read_text().splitlines()
    refused = loaded = 0
    for index in (0, 1):
        for document in documents_with_one_odd_value(json.loads(lines[index])):
            try:
                plan = plan_from_lines([*lines[:index], json.dumps(document), *lines[index + 1 :]], "a plan")
            except pt.PlanError:
                refused += 1
                continue
            loaded += 1
            assert str(plan)
            assert repr(plan)
            assert plan._repr_html_()
            again = "".join(f"{line}\n" for line in plan.json_lines()).encode()
            assert plan_from_lines(again.splitlines(), "it").header() == plan.header()
    assert (refused > 100, loaded > 10) == (True, True)


@pytest.mark.parametrize("zone", [5, True, [[[]]], {}])
def test_a_time_zone_of_a_plan_is_a_name(lake: Lake, tmp_path: Path, zone: object) -> None:
    file = tmp_path / "plan.jsonl"
    lake.register(define("sales", DAYS))
    lake.plan(where="date < '2025-01-03'").save(str(file))
    head, *rows = map(json.loads, file.read_text().splitlines())
    head["asked"]["time_zone"] = zone
    file.write_text("\n".join(map(json.dumps, [head, *rows])))
    with pytest.raises(pt.PlanError, match=r"asked\.time_zone must be the name of a time zone"):
        pt.load_plan(str(file))


def test_assets_without_the_columns_of_a_predicate_are_named(shop: Lake) -> None:
    plan = shop.plan(where="region = 'us'")
    assert plan.assets == ("orders",)
    assert "sales is left out" in str(plan)


def test_a_text_that_delta_cannot_tell_from_null_is_refused(lake: Lake) -> None:
    for format_name in ("iceberg", "delta"):
        odd = define("odd", pt.static("region", ["", "us"]), table="odd", format=format_name)
        if format_name == "delta":
            with pytest.raises(pt.DefinitionError, match="can't tell from null"):
                lake.register(odd)
        else:
            lake.register(odd)


def test_values_with_line_breaks_are_escaped(lake: Lake) -> None:
    names = ["two", "two\nlines", "\x1b[31m"]
    lake.register(pt.asset(name="raw", partitions=pt.static("name", names))(print))
    shown = str(lake.plan()).splitlines()[2:]
    assert shown == [r"  name=\x1b[31m  MISSING", "  name=two  MISSING", r"  name=two\nlines  MISSING"]
    assert str(lake.why("raw", {"name": names[1]})).startswith(r"raw[name=two\nlines]: ")


def test_times_of_a_predicate_are_in_the_lake_s_zone_where_no_session_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("partita.spark.session"), "running_session", lambda: None)
    hours = pt.hourly("hour", start="2025-01-01", end="2025-01-01T04:00:00")

    @pt.asset(partitions=hours)
    def visits(ctx: object) -> None: ...

    lake = pt.Lake(str(tmp_path), time_zone="Europe/Berlin")
    lake.register(visits)
    where = "hour >= '2025-01-01 03:00:00'"
    plan = lake.plan(where=where)
    # From 02:00 in UTC on.
    assert (len(plan), plan.time_zone) == (2, "Europe/Berlin")
    assert "in time zone Europe/Berlin" in repr(plan)
    assert "that name no time zone are in Europe/Berlin" in str(plan)
    plan.save(str(tmp_path / "plan.jsonl"))
    assert pt.load_plan(str(tmp_path / "plan.jsonl")).time_zone == "Europe/Berlin"
    assert lake.status(where=where).num_rows == 2
    assert lake.plan().time_zone is None
    assert len(pt.Lake(str(tmp_path)).plan(where=where)) == 1
