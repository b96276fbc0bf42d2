"""What notebooks show: the same counts and the same map, as HTML in which every value is text."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from partita.display.bins import bin_partitions
from partita.display.layout import Box
from partita.display.svg import heatmap_svg
from partita.lake import Lake
from partita.web.site import Site
from tests.web.lakes import HOSTILE_ASSET, HOSTILE_TEXT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("asset", ["daily_sales", "raw_orders", "clicks", "shards", "report"])
@pytest.mark.parametrize("columns", [240, 10])
def test_a_map_is_one_svg(site: Site, asset: str, columns: int) -> None:
    bins = bin_partitions(site.snapshots.latest, asset, None, columns)
    root = ET.fromstring(heatmap_svg(bins))  # noqa: S314 - our own
    assert root.tag == f"{SVG}svg"
    assert root.findall(f"{SVG}rect")
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {"svg", "rect", "path", "text", "circle"}
    assert not [name for element in root.iter() for name in element.attrib if name == "style" or name.startswith("on")]


def test_each_state_has_a_shape(site: Site) -> None:
    snapshot = site.snapshots.latest
    first = snapshot.asset("daily_sales").layout.across.first
    shapes = {}
    for state, (x, y) in {"current": (12, 3), "stale": (2, 2), "failed": (53, 2), "running": (56, 1)}.items():
        box = Box(first + x, first + x, y, y)
        root = ET.fromstring(heatmap_svg(bin_partitions(snapshot, "daily_sales", box)))  # noqa: S314 - our own
        shapes[state] = tuple(path.get("d") for path in root.findall(f"{SVG}path"))
    assert shapes["current"] == ()
    assert len({shapes[state] for state in shapes}) == 4


def html(thing: Any) -> str:
    """What a notebook asks a thing for, and that nothing in it is more than text and shapes."""
    shown = str(thing._repr_html_())
    for hostile in (HOSTILE_TEXT, HOSTILE_ASSET, "<script", "<img", "style=", "javascript:"):
        assert hostile not in shown
    return shown


@pytest.mark.slow(reason="several status queries")
def test_a_lake_and_a_status_show_themselves(sample_lake: Lake) -> None:
    for shown in (html(sample_lake), html(sample_lake.show_status())):
        assert "167 current, 30 stale, 3 last attempt failed" in shown
        assert shown.count("<svg xmlns") == 4


@pytest.mark.slow(reason="several status queries")
def test_a_status_is_shown_as_it_is_asked_for(sample_lake: Lake) -> None:
    shown = sample_lake.show_status("daily_sales", "region = 'us'", state="failed")
    assert repr(shown) == "daily_sales: 3 last attempt failed"
    assert "3 last attempt failed" in html(shown)
    assert repr(sample_lake.show_status("daily_sales", "region = 'nowhere'")) == "no partitions"


@pytest.mark.slow(reason="several status queries")
def test_a_table_shows_itself(sample_lake: Lake) -> None:
    shown = html(sample_lake.table("web.sales"))
    assert "<b>web.sales</b> by date, region, 28 partitions" in shown
    assert shown.count("<svg xmlns") == 1
    assert "heat map of web.sales: 24 partitions, date across" in shown
    assert "and 8 more" in shown


@pytest.mark.slow(reason="several status queries")
def test_a_plan_shows_itself(sample_lake: Lake) -> None:
    plan = sample_lake.plan()
    shown = html(plan)
    assert f"<b>{len(plan):,} partitions</b> would run, {plan.blocked.num_rows:,} are held back" in shown
    assert "missing" in shown
    assert shown.count("<svg xmlns") >= 3
    held = html(sample_lake.plan(select="daily_sales"))
    assert "waits for" in held
    nothing = html(sample_lake.plan(select="raw_orders", failed=True))
    assert "<b>0 partitions</b> would run" in nothing
    assert "<svg" not in nothing


def test_an_empty_lake_shows_itself(lake: Lake) -> None:
    assert lake.uri in html(lake)


WHAT_IS_LOADED = """
import sys
from partita.cli import main
main(["status", "--lake", sys.argv[1]])
assert not [name for name in sys.modules if name.startswith(("partita.display", "partita.web", "starlette", "jinja2"))]
"""


@pytest.mark.slow(reason="a process of its own")
def test_no_command_line_pays_for_pictures(sample_lake: Lake) -> None:
    command = [sys.executable, "-c", WHAT_IS_LOADED, sample_lake.uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
