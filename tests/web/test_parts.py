"""Parts of pages where there is much to show: a long chain of causes, a bin of several states."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from partita.picture.bins import make_bins
from partita.picture.svg import svg_of
from partita.web.pages import _environment
from partita.web.site import Site

SVG = "{http://www.w3.org/2000/svg}"


def why_of(depth: int) -> dict[str, Any]:
    """A chain of so many partitions."""
    found: dict[str, Any] | None = None
    for number in range(depth, 0, -1):
        cause = {"code": "UPSTREAM_CHANGED", "since": "2026-08-01T00:00:00+00:00", "text": "newer", "upstream": found}
        found = {
            "asset": f"a{number}", "key": "", "display_status": "STALE", "facts": [],
            "causes": [] if found is None else [cause],
        }  # fmt: skip
    assert found is not None
    return found


def shown(depth: int) -> str:
    return _environment().get_template("_why.html").render(why=why_of(depth))


def test_a_chain_of_causes_has_an_end() -> None:
    assert (shown(20).count("<a "), "more" in shown(20)) == (20, False)
    page = shown(900)
    assert page.count("<a ") == 20
    assert "and 880 more" in page


def test_a_bin_of_several_states_has_the_shape_of_the_worst(site: Site) -> None:
    bins = make_bins(site.watch.newest, "shards", None, 5, 2)
    kinds = [sum(n > 0 for n in bins.mixes[cell]) for cell in bins.cells]
    assert set(kinds) <= {0, 2}, "current and missing, or nothing"
    root = ET.fromstring(svg_of(bins))  # noqa: S314 - our own
    shapes = "".join(path.get("d") or "" for path in root.findall(f"{SVG}path"))
    assert shapes.count("M") == kinds.count(2) > 0
