"""The causes of a partition on a page, of which a long chain is cut."""

from __future__ import annotations

from typing import Any

from partita.web.pages import _template_environment


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


def rendered_html(depth: int) -> str:
    return _template_environment().get_template("_why.html").render(why=why_of(depth))


def test_a_chain_of_causes_has_an_end() -> None:
    assert (rendered_html(20).count("<a "), "more" in rendered_html(20)) == (20, False)
    page = rendered_html(900)
    assert page.count("<a ") == 20
    assert "and 880 more" in page
