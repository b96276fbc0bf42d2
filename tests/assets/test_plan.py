"""Plans: what is in them and why, what is held back, in which batches; and as files."""

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
from partita.assets.batching import Sizes, batch_numbers, transaction_of
from partita.assets.plan import plan_of
from partita.assets.selection import selected
from partita.lake import Lake

LOCAL = SimpleNamespace(conf={"spark.master": "local"}, createDataFrame=None)
"""In place of a Spark that nothing asks for more than this."""
DAYS = pt.daily("date", start="2025-01-01", end="2025-01-05")
BOTH = DAYS * pt.static("region", ["eu", "us"])


def define(name: str, partitions: pt.PartitionSet | None = None, **given: Any) -> pt.Asset:
    return pt.asset(name=name, partitions=partitions, **{"code_version": "1", **given})(lambda _: None)


def day(number: int, **others: object) -> pt.PartitionKey:
    return pt.PartitionKey.of(date=date(2025, 1, number), **others)


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Orders by day and region, sales by day, what they changed by, a report of all."""
    orders = define("orders", BOTH, tags=["raw"])
    sales = define("sales", DAYS, upstream=[orders])
    change = define("change", DAYS, upstream=[(sales, pt.window_offset("date", -1, 0))], tags=["daily"])
    lake.register(orders, sales, change, define("report", upstream=[(change, pt.all_partitions())]))
    return lake


def make(lake: Lake, asset: str, *keys: object, outcome: str = "succeeded", **said: Any) -> None:
    lake.record(asset, list(keys) or None, outcome=outcome, **{"code_version": "1", **said})  # type: ignore[arg-type] # keys


def make_all(lake: Lake) -> None:
    make(lake, "orders", *[day(n, region=region) for n in range(1, 5) for region in ("eu", "us")])
    make(lake, "sales", *map(day, range(1, 5)))
    make(lake, "change", *map(day, range(1, 5)))
    make(lake, "report")


def planned(plan: pt.Plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in plan.partitions.to_pylist():
        found.setdefault(row["asset_key"], []).append(row["partition_key"])
    return found


def test_upstreams_come_before_what_is_made_from_them(shop: Lake) -> None:
    plan = shop.plan()
    assert plan.assets == ("orders", "sales", "change", "report")
    assert [len(batch.keys) for batch in plan.batches] == [8, 4, 4, 1]
    assert plan.blocked.num_rows == 0
    assert str(plan).splitlines()[0] == "17 partitions in 4 batches, 0 held back"


def test_what_is_made_from_what_runs_comes_along_through_every_mapping(shop: Lake) -> None:
    make_all(shop)
    assert len(shop.plan()) == 0
    make(shop, "orders", day(2, region="us"), run_id="again")
    plan = shop.plan()
    assert planned(plan) == {"sales": [str(day(2))], "change": [str(day(2)), str(day(3))], "report": [""]}
    reasons = {row["asset_key"]: (row["reasons"], row["by_asset"]) for row in plan.partitions.to_pylist()}
    assert reasons["sales"] == (["UPSTREAM_CHANGED"], "orders")
    assert reasons["change"] == (["UPSTREAM_PLANNED"], "sales")
    assert "UPSTREAM_CHANGED (orders date=2025-01-02,region=us)" in plan.explain("sales", str(day(2)))
    assert "does not run" in plan.explain("sales", str(day(1)))


def test_of_the_needs_those_that_are_asked_for(shop: Lake) -> None:
    make_all(shop)
    shop.wipe("sales", day(1))
    make(shop, "sales", day(2), outcome="failed", run_id="bad")
    make(shop, "orders", day(3, region="eu"), run_id="again")
    assert planned(shop.plan(missing=True)) == {"sales": [str(day(1))]}
    assert planned(shop.plan(failed=True)) == {"sales": [str(day(2))]}
    assert planned(shop.plan(stale=True))["sales"] == [str(day(3))]
    assert planned(shop.plan(stale=True, missing=True, failed=True)) == planned(shop.plan())
    assert planned(shop.plan())["sales"] == [str(day(n)) for n in (1, 2, 3)]


def test_what_has_no_upstream_to_read_is_held_back(shop: Lake) -> None:
    make(shop, "orders", *[day(n, region=region) for n in (1, 2) for region in ("eu", "us")])
    make(shop, "orders", day(3, region="eu"), day(3, region="us"), day(4, region="eu"))
    make(shop, "orders", day(3, region="us"), outcome="failed", run_id="bad")
    plan = shop.plan(select="sales+")
    assert planned(plan) == {"sales": [str(day(1)), str(day(2))], "change": [str(day(1)), str(day(2))]}
    held = {
        row["asset_key"] + row["partition_key"]: (row["by_asset"], row["by_partition"])
        for row in plan.blocked.to_pylist()
    }
    assert held[f"sales{day(3)}"] == ("orders", str(day(3, region="us"))), "its last attempt failed"
    assert held[f"sales{day(4)}"] == ("orders", str(day(4, region="us")))
    assert held[f"change{day(3)}"] == ("sales", str(day(3)))
    assert held["report"][0] == "change"
    assert "is held back: orders date=2025-01-04,region=us is not there" in plan.explain("sales", str(day(4)))


NOON = datetime(2025, 1, 20, 12, tzinfo=UTC)
OPEN = pt.daily("date", start="2025-01-01")
MONTHS = pt.monthly("date", start="2024-12-01")


def tomorrow(key: pt.PartitionKey) -> list[pt.PartitionKey]:
    return [pt.PartitionKey.of(date=key["date"] + timedelta(days=1))]  # type: ignore[operator] # a date


@pytest.mark.parametrize(
    ("theirs", "mapping", "now", "held", "by"),
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
    lake: Lake, theirs: pt.PartitionSet, mapping: Any, now: datetime, held: int | None, by: pt.PartitionKey | None
) -> None:
    above = define("above", theirs)
    lake.register(above, define("ours", OPEN, upstream=[(above, mapping)]))
    plan = lake.plan(now=now)
    found = {row["partition_key"]: row["by_partition"] for row in plan.blocked.to_pylist()}
    assert sorted(found) == ([] if held is None else [str(day(n)) for n in range(held, 20)])
    if by is not None:
        assert found[str(day(19))] == str(by)


def test_what_is_there_before_its_window_is_over_holds_nothing_back(lake: Lake) -> None:
    prices = define("prices", MONTHS)
    lake.register(prices, define("ours", OPEN, upstream=[prices]))
    make(lake, "prices", pt.PartitionKey.of(date=date(2024, 12, 1)), at=NOON)
    assert len(lake.plan(now=NOON, select="ours")) == 0
    make(lake, "prices", day(1), at=NOON)
    assert len(lake.plan(now=NOON, select="ours")) == 19


@pytest.mark.parametrize(
    ("select", "wanted"),
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
def test_words_select_assets(shop: Lake, select: Any, wanted: set[str]) -> None:
    plan = shop.plan(select=select)
    assert set(plan.assets) | set(plan.blocked["asset_key"].to_pylist()) == wanted


@pytest.mark.parametrize(
    ("select", "wanted"),
    [
        ("a", {"a"}), ("a+", {"a+"}), ("+a+", {"a", "a+"}), ("a++", {"a+", "b"}), ("tag:x", {"tag:x"}),
        ("tag:x+", {"tag:x", "b"}), ("tag:y", {"a"}),
    ],
)  # fmt: skip
def test_a_word_that_is_a_name_means_that_asset_alone(select: str, wanted: set[str]) -> None:
    a = define("a", tags=["x", "y"])
    like_a, like_tag = define("a+", upstream=[a]), define("tag:x")
    assets = (a, like_a, like_tag, define("b", upstream=[like_a, like_tag]))
    assert selected([select], {asset.name: asset.definition for asset in assets}) == wanted


@pytest.mark.parametrize("select", ["sale", "tag:nothing", "+", ""])
def test_words_that_select_nothing_are_refused(shop: Lake, select: str) -> None:
    with pytest.raises(pt.PlanError, match="nothing is selected"):
        shop.plan(select=select)


def test_a_predicate_narrows_to_partitions(shop: Lake) -> None:
    plan = shop.plan(where="date < '2025-01-03' AND region = 'us'", select="orders")
    assert planned(plan) == {"orders": [str(day(n, region="us")) for n in (1, 2)]}
    with pytest.raises(pt.PredicateError, match="nobody"):
        shop.plan(where="nobody = 1")
    make_all(shop)
    for where in ("nobody = 1", pt.col("nobody") == 1, "date = 'x' AND nobody"):
        with pytest.raises(pt.PredicateError, match="nobody"):
            shop.plan(where=where)
    assert len(shop.plan(where="region = 'us' AND date > '2025-01-01'")) == 0


def test_what_is_so_for_longer_is_left_out(shop: Lake) -> None:
    make_all(shop)
    now = datetime.now(UTC)
    make(shop, "orders", day(1, region="us"), run_id="late")
    assert planned(shop.plan(stale=True, select="sales", since=now - timedelta(hours=1))) == {"sales": [str(day(1))]}
    assert len(shop.plan(stale=True, select="sales", since=now + timedelta(hours=1))) == 0
    fresh = Lake(shop.uri, workspace="fresh")
    fresh.register(define("sales", DAYS))
    assert planned(fresh.plan(since=datetime(2025, 1, 3, tzinfo=UTC))) == {"sales": [str(day(3)), str(day(4))]}


def test_what_was_wiped_is_missing_since_then(shop: Lake) -> None:
    make_all(shop)
    after = datetime.now(UTC)
    shop.wipe("sales", day(1))
    assert planned(shop.plan(missing=True, select="sales", since=after)) == {"sales": [str(day(1))]}
    assert len(shop.plan(missing=True, select="sales", since=after + timedelta(hours=1))) == 0
    shop.wipe("orders", day(7, region="us"))
    assert len(shop.plan(missing=True, select="orders", since=after)) == 0, "which nobody expects"


def test_of_assets_that_are_no_more_nothing_is_planned(shop: Lake) -> None:
    plan = shop.plan(among=["orders", "sales"])
    assert plan.assets == ("orders", "sales")
    assert plan.asked["not_among"] == ["change", "report"]
    assert shop.plan(among=["orders", "sales"], select="sales+").assets == ()
    assert shop.plan(among=["orders", "sales"], select="orders+").assets == ("orders", "sales")
    with pytest.raises(pt.PlanError, match="nothing is selected by 'report'"):
        shop.plan(among=["orders", "sales"], select="report")


def test_batches_are_cut_by_partitions_and_by_bytes() -> None:
    rows = pa.table({"asset_key": ["a"] * 5 + ["b"] * 3, "bytes": pa.array([4, 4, 4, None, 20, 1, 1, 1], pa.int64())})
    assert batch_numbers(rows, Sizes(2, 1000)).tolist() == [0, 0, 1, 1, 2, 0, 0, 1]
    assert batch_numbers(rows, Sizes(100, 8)).tolist() == [0, 0, 1, 1, 2, 0, 0, 0]
    assert batch_numbers(rows.slice(0, 0), Sizes()).tolist() == []
    for wrong in ({"partitions": 0}, {"bytes": -1}, {"partitions": True}):
        with pytest.raises(pt.PlanError, match="1 or more"):
            Sizes(**wrong)


def test_sizes_are_told_from_history(shop: Lake) -> None:
    make(shop, "orders", *[day(n, region=r) for n in range(1, 5) for r in ("eu", "us")])
    make(shop, "sales", day(1), bytes=100)
    make(shop, "sales", day(2), bytes=300)
    shop.wipe("sales", day(3))
    make(shop, "orders", day(1, region="us"), run_id="again")
    sizes = {row["partition_key"]: row["bytes"] for row in shop.plan(select="sales").partitions.to_pylist()}
    assert sizes == {str(day(1)): 100, str(day(3)): 200, str(day(4)): 200}


def test_a_commit_has_the_name_of_its_run_and_its_partitions() -> None:
    one = transaction_of("R", "sales", ["a", "b"])
    assert one == transaction_of("R", "sales", ["b", "a"])
    assert one[0].startswith("partita/R/sales/")
    assert len({one, transaction_of("R", "sales", ["a"]), transaction_of("Q", "sales", ["a", "b"])}) == 3


# --- files


def test_a_plan_survives_its_file_and_can_be_cut_short_by_hand(shop: Lake, tmp_path: Path) -> None:
    plan = shop.plan(where="date = '2025-01-02'", select="+sales")
    file = tmp_path / "plan.jsonl"
    plan.save(str(file))
    again = pt.load_plan(str(file))
    assert again.partitions.equals(plan.partitions)
    assert (again.made_at, again.world, again.asked) == (plan.made_at, plan.world, plan.asked)
    head, *lines = file.read_text().splitlines()
    file.write_text("\n".join([head, *(line for line in lines if json.loads(line)["asset_key"] == "orders")]))
    assert pt.load_plan(str(file)).assets == ("orders",)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "nonsense", '{"form": "partita.plan/9"}', '{"form": "partita.plan/1"}', "\x00", "null",
     '{"form": "partita.plan/1", "lake": 1}\n{"state": "run"}'],
)  # fmt: skip
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.jsonl"
    file.write_text(text)
    with pytest.raises(pt.PlanError, match=r"plan"):
        pt.load_plan(str(file))
    with pytest.raises(pt.PlanError, match="can't be read"):
        pt.load_plan(str(tmp_path / "nowhere"))
    with pytest.raises(pt.PlanError, match="can't be read"):
        pt.load_plan(str(tmp_path))


def test_a_key_that_is_none_in_a_file_is_refused(shop: Lake, tmp_path: Path) -> None:
    file = tmp_path / "plan.jsonl"
    shop.plan(select="sales").save(str(file))
    wrong = file.read_text().replace("date=d:2025-01-01", "date=2025-01-01")
    assert "date=2025-01-01" in wrong
    file.write_text(wrong)
    with pytest.raises(pt.PlanError, match="no plan"):
        pt.load_plan(str(file))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (lambda head, rows: (head, [*rows, rows[0]]), "there twice"),
        (lambda head, rows: (head, [{**rows[0], "partition_key": "date=d:2031-01-01"}]), "does not expect"),
        (lambda head, rows: (head, [{**rows[0], "partition_key": "region=s:dXM"}]), "does not expect"),
        (lambda head, rows: ({**head, "world": {}}, rows), "doesn't say what it was made from"),
        (lambda head, rows: ({**head, "world": []}, rows), "no plan"),
        (lambda head, rows: (head, [{**rows[0], "batch": None}]), "no plan"),
        (lambda head, rows: (head, [{**rows[0], "asset_key": None}]), "no plan"),
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


def altered(document: Any) -> Iterator[Any]:
    """The document with one value changed, at every place and to every odd one."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from ({**document, name: odd} for odd in ODD_JSON)
            yield from ({**document, name: other} for other in altered(value))
            yield {**document, "\ud800": value}


def test_a_plan_that_is_loaded_can_be_shown_and_saved(lake: Lake, tmp_path: Path) -> None:
    lake.register(define("sales", DAYS))
    file = tmp_path / "plan.jsonl"
    lake.plan(where="date < '2025-01-03'").save(str(file))
    lines = file.read_text().splitlines()
    refused = loaded = 0
    for at in (0, 1):
        for document in altered(json.loads(lines[at])):
            try:
                plan = plan_of([*lines[:at], json.dumps(document), *lines[at + 1 :]], "a plan")
            except pt.PlanError:
                refused += 1
                continue
            loaded += 1
            assert str(plan)
            assert repr(plan)
            assert plan._repr_html_()
            again = "".join(f"{line}\n" for line in plan.lines()).encode()
            assert plan_of(again.splitlines(), "it").document() == plan.document()
    assert (refused > 100, loaded > 10) == (True, True)


@pytest.mark.parametrize("zone", [5, True, [[[]]], {}])
def test_a_time_zone_of_a_plan_is_a_name(lake: Lake, tmp_path: Path, zone: object) -> None:
    file = tmp_path / "plan.jsonl"
    lake.register(define("sales", DAYS))
    lake.plan(where="date < '2025-01-03'").save(str(file))
    head, *rows = map(json.loads, file.read_text().splitlines())
    head["asked"]["time_zone"] = zone
    file.write_text("\n".join(map(json.dumps, [head, *rows])))
    with pytest.raises(pt.PlanError, match=r"asked\.time_zone is the name of a time zone"):
        pt.load_plan(str(file))


def test_assets_that_a_predicate_does_not_speak_of_are_named(shop: Lake) -> None:
    plan = shop.plan(where="region = 'us'")
    assert plan.assets == ("orders",)
    assert "sales is left out" in str(plan)


def test_a_text_that_delta_cannot_tell_from_null_is_refused(lake: Lake) -> None:
    for form in ("iceberg", "delta"):
        odd = define("odd", pt.static("region", ["", "us"]), table="odd", format=form)
        if form == "delta":
            with pytest.raises(pt.DefinitionError, match="can't tell from null"):
                lake.register(odd)
        else:
            lake.register(odd)


def test_values_that_no_line_holds_are_shown_whole(lake: Lake) -> None:
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
