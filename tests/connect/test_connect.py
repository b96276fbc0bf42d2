"""Keys, partition functions and tables work over Spark Connect; `tests/sessions` runs all operations over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import RunInConnect


def test_renderings(run_in_connect: RunInConnect) -> None:
    renderings = run_in_connect(Path(__file__).with_name("renderings.py")).strip()
    assert int(renderings.removesuffix(" functions")) > 30


@pytest.mark.long
def test_tables(run_in_connect: RunInConnect) -> None:
    versions, specs = run_in_connect(Path(__file__).with_name("tables.py")).splitlines()
    assert versions == "5 versions"
    assert specs == "2 specs"
