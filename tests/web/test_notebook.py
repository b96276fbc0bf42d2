"""What notebooks show: the same counts and the same map, as HTML in which every value is text."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from partita.lake import Lake
from partita.web.bins import make_bins
from partita.web.notebook import lake_html, status_html, table_html
from partita.web.picture import svg_of
from partita.web.site import Site
from partita.web.view import Box, View
from tests.web.lakes import HOSTILE, HOSTILE_ASSET

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("asset", ["daily_sales", "raw_orders", "clicks", "shards", "report"])
@pytest.mark.parametrize("columns", [240, 10])
def test_a_map_is_one_svg(site: Site, asset: str, columns: int) -> None:
    bins = make_bins(site.watch.newest, View(asset), columns)
    root = ET.fromstring(svg_of(bins))  # noqa: S314 - our own
    assert root.tag == f"{SVG}svg"
    assert root.findall(f"{SVG}rect")
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {"svg", "rect", "path", "text", "circle"}
    assert not [name for element in root.iter() for name in element.attrib if name == "style" or name.startswith("on")]


def test_each_state_has_a_shape(site: Site) -> None:
    snapshot = site.watch.newest
    first = snapshot.asset("daily_sales").layout.across.first
    shapes = {}
    for state, (x, y) in {"current": (12, 3), "stale": (2, 2), "failed": (53, 2), "running": (56, 1)}.items():
        box = Box(first + x, first + x, y, y)
        root = ET.fromstring(svg_of(make_bins(snapshot, View("daily_sales", box))))  # noqa: S314 - our own
        shapes[state] = tuple(path.get("d") for path in root.findall(f"{SVG}path"))
    assert shapes["current"] == ()
    assert len({shapes[state] for state in shapes}) == 4


def test_a_lake_and_a_status_show_themselves(sample_lake: Lake) -> None:
    for shown in (lake_html(sample_lake), status_html(sample_lake.status())):
        assert "167 current, 30 stale, 3 last attempt failed" in shown
        assert shown.count("<svg xmlns") == 4
        assert HOSTILE not in shown
        assert HOSTILE_ASSET not in shown
        assert "<script" not in shown
        assert "<img" not in shown


def test_a_table_shows_itself(sample_lake: Lake) -> None:
    shown = table_html(sample_lake.table("web.sales"))
    assert "<b>web.sales</b> by date, region, 28 partitions" in shown
    assert "<img" not in shown
