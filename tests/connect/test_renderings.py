"""What Partita does on Spark works on Spark Connect too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import RunInConnect


def test_renderings(run_in_connect: RunInConnect) -> None:
    out = run_in_connect(Path(__file__).with_name("renderings.py"))
    assert int(out.split()[0]) > 30


def test_a_delta_table(run_in_connect: RunInConnect) -> None:
    assert run_in_connect(Path(__file__).with_name("tables.py")).split() == ["5", "versions"]


def test_an_iceberg_table(run_in_connect: RunInConnect) -> None:
    assert run_in_connect(Path(__file__).with_name("evolving.py")).split() == ["2", "specs"]
