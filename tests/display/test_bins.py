"""Bins of partitions, and how a map draws them."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import partita as pt
from partita.display.bins import bin_partitions
from partita.display.status_snapshot import take_snapshot
from partita.display.svg import heatmap_svg
from partita.lake import Lake
from tests.web.lakes import fill_dense_lake

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.slow(reason="several status queries")
def test_a_bin_of_several_states_has_the_shape_of_the_worst(lake: Lake) -> None:
    lake.register(pt.asset(name="shards", partitions=pt.static("shard", range(120)))(print))
    lake.record("shards", [{"shard": n} for n in range(0, 120, 3)], outcome="succeeded")
    bins = bin_partitions(take_snapshot(lake), "shards", None, 5, 2)
    kinds = [sum(n > 0 for n in bins.distinct_counts[cell]) for cell in bins.cells]
    assert set(kinds) <= {0, 2}, "current and missing, or nothing"
    root = ET.fromstring(heatmap_svg(bins))  # noqa: S314 - our own
    shapes = "".join(path.get("d") or "" for path in root.findall(f"{SVG}path"))
    assert shapes.count("M") == kinds.count(2) > 0


@pytest.mark.slow(reason="several status queries")
def test_a_few_stale_ones_of_many_do_not_look_like_most(lake: Lake) -> None:
    """One of each ten is missing, in bins that are too low for a shape: a part of the bin that is near a tenth."""
    bins = bin_partitions(take_snapshot(fill_dense_lake(lake)), "dense", None, 3, 60)
    assert {bins.distinct_counts[cell] for cell in bins.cells} == {(9, 0, 0, 1, 0, 0, 0, 0)}
    heights: dict[str, float] = {}
    for rect in ET.fromstring(heatmap_svg(bins)).findall(f"{SVG}rect"):  # noqa: S314 - our own
        colour = rect.get("fill") or ""
        heights[colour] = heights.get(colour, 0) + float(rect.get("height") or 0)
    missing, current = sorted(heights.values())
    assert 0.1 < missing / (missing + current) < 0.45
