"""Selectors: which assets a plan is for."""

from __future__ import annotations

from typing import Any

import pytest

import partita as pt
from partita.assets.selection import select_assets
from partita.lake import Lake
from tests.assets.planned_shop import define, register_shop


@pytest.fixture
def shop(lake: Lake) -> Lake:
    return register_shop(lake)


@pytest.mark.slow(reason="several plans of a lake")
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
    with pytest.raises(pt.PlanError, match="selects no asset"):
        shop.plan(select=select)
