"""Run plans: batches, sizes, and how they are shown."""

from __future__ import annotations

import pyarrow as pa
import pytest

import partita as pt
from partita.assets.materializer import commit_transaction
from partita.assets.run_plan import BatchLimits, batch_numbers
from partita.lake import Lake
from tests.assets.planned_shop import day, record, register_shop


@pytest.fixture
def shop(lake: Lake) -> Lake:
    return register_shop(lake)


def test_batches_are_cut_by_partitions_and_by_bytes() -> None:
    rows = pa.table({"asset_key": ["a"] * 5 + ["b"] * 3, "bytes": pa.array([4, 4, 4, None, 20, 1, 1, 1], pa.int64())})
    assert batch_numbers(rows, BatchLimits(2, 1000)).tolist() == [0, 0, 1, 1, 2, 0, 0, 1]
    assert batch_numbers(rows, BatchLimits(100, 8)).tolist() == [0, 0, 1, 1, 2, 0, 0, 0]
    assert batch_numbers(rows.slice(0, 0), BatchLimits()).tolist() == []
    for wrong in ({"partitions": 0}, {"bytes": -1}, {"partitions": True}):
        with pytest.raises(pt.PlanError, match="1 or more"):
            BatchLimits(**wrong)


@pytest.mark.slow(reason="several plans of a lake")
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


@pytest.mark.slow(reason="several plans of a lake")
def test_assets_without_the_columns_of_a_predicate_are_named(shop: Lake) -> None:
    plan = shop.plan(where="region = 'us'")
    assert plan.assets == ("orders",)
    assert "sales is left out" in str(plan)


@pytest.mark.slow(reason="several plans of a lake")
def test_values_with_line_breaks_are_escaped(lake: Lake) -> None:
    names = ["two", "two\nlines", "\x1b[31m"]
    lake.register(pt.asset(name="raw", partitions=pt.static("name", names))(print))
    shown = str(lake.plan()).splitlines()[2:]
    assert shown == [r"  name=\x1b[31m  MISSING", "  name=two  MISSING", r"  name=two\nlines  MISSING"]
    assert str(lake.why("raw", {"name": names[1]})).startswith(r"raw[name=two\nlines]: ")
