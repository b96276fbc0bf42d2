"""A lake for the tests of status, and short ways to speak of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from partita.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake."""
    return Lake(str(tmp_path / "lake"))
