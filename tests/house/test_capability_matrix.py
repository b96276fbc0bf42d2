"""The table of formats and operations in the README and the documentation is what the formats declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from partita.formats.capabilities import Operation
from partita.formats.registry import table_formats
from scripts.capability_matrix import PAGES, capability_matrix, with_matrix


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_current_table(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_matrix(text) == text, "run `make matrix`"
    assert capability_matrix() in text


def test_the_table_has_every_operation_and_format() -> None:
    lines = [line for line in capability_matrix().splitlines() if line.startswith("|")]
    assert len(lines) == len(Operation) + 2
    assert all(line.count("|") == len(table_formats()) + 2 for line in lines)


def test_a_gap_names_the_way_out() -> None:
    gaps = [gap for table_format in table_formats() for gap in table_format.gaps.values()]
    assert gaps
    assert all(gap.reason and gap.way_out for gap in gaps)
    assert all(f"{gap.reason}; {gap.way_out}." in capability_matrix() for gap in gaps)
