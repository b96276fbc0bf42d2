"""Keys, partition functions and tables work over Spark Connect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import RunInConnect


def test_renderings_and_tables(run_in_connect: RunInConnect) -> None:
    renderings, versions, specs = run_in_connect(Path(__file__).with_name("checks.py")).splitlines()
    assert int(renderings.removesuffix(" functions")) > 30
    assert versions == "5 versions"
    assert specs == "2 specs"
