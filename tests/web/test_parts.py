"""Parts of pages: a long chain of causes, a bin of several states, the warnings of a table, the line of an error."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pyarrow as pa
import pytest

from partita.display.bins import bin_partitions
from partita.display.status_snapshot import take_snapshot
from partita.display.svg import heatmap_svg
from partita.lake import Lake
from partita.status.text import error_line
from partita.web.pages import _template_environment
from partita.web.site import Site
from partita.web.table_facts import _layout_warnings
from tests.web.lakes import fill_dense_lake

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
    return _template_environment().get_template("_why.html").render(why=why_of(depth))


def test_a_chain_of_causes_has_an_end() -> None:
    assert (shown(20).count("<a "), "more" in shown(20)) == (20, False)
    page = shown(900)
    assert page.count("<a ") == 20
    assert "and 880 more" in page


def test_a_bin_of_several_states_has_the_shape_of_the_worst(site: Site) -> None:
    bins = bin_partitions(site.snapshots.latest, "shards", None, 5, 2)
    kinds = [sum(n > 0 for n in bins.distinct_counts[cell]) for cell in bins.cells]
    assert set(kinds) <= {0, 2}, "current and missing, or nothing"
    root = ET.fromstring(heatmap_svg(bins))  # noqa: S314 - our own
    shapes = "".join(path.get("d") or "" for path in root.findall(f"{SVG}path"))
    assert shapes.count("M") == kinds.count(2) > 0


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


def warnings(*rows: tuple[int, str | None, str, int], current: int = 0) -> dict[str, str]:
    """The warnings of a table with files of these specs, keys, values and bytes."""
    spec_ids, keys, values, sizes = (list(column) for column in zip(*rows, strict=True))
    files = pa.table({"spec_id": spec_ids, "key": pa.array(keys, pa.string()), "bytes": sizes})
    tuples = pa.table({"spec_id": spec_ids, "region": values})
    own = pa.table({**dict(zip(files.column_names, files.columns, strict=True)), "region": values})
    partitions = own.group_by(["spec_id", "key", "region"]).aggregate([("bytes", "sum")])
    found = _layout_warnings(partitions.rename_columns({"bytes_sum": "bytes"}), files, tuples, current)
    return {one["kind"]: one["text"] for one in found}


def test_partitions_without_a_key_are_not_one() -> None:
    assert warnings(*((0, None, f"r{n}", 1_000) for n in range(8))) == {}
    crowded = warnings(*((0, None, "r1", 1_000) for _ in range(5)))
    assert crowded["small files"].startswith("5 files under 32.0 MiB are in 1 partition with 5 or more of them")


def test_what_is_uneven_is_judged_within_the_spec_and_from_a_size_on() -> None:
    even = [(1, f"region=s:r{n}", f"r{n}", 40 * 2**20) for n in range(5)]
    assert "skew" not in warnings((0, "", "", 2**40), *even, current=1), "that of an earlier spec was coarser"
    assert "skew" in warnings((1, "region=s:x", "x", 2**40), *even, current=1)
    little = [(0, f"region=s:r{n}", f"r{n}", 1_000) for n in range(5)]
    assert warnings((0, "region=s:x", "x", 144 * 2**10), *little) == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("disk full\nat load.py:3", "disk full"),
        ("Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\n", "KeyError: 'x'"),
        ("\nTraceback (most recent call last):", "Traceback (most recent call last):"),
        ("", ""),
    ],
)
def test_the_line_of_an_error_says_what_went_wrong(text: str, line: str) -> None:
    assert error_line(text) == line
