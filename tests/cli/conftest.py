"""The command line in this process, for every test of this folder."""

from __future__ import annotations

import pytest

from tests.cli.terminal import Partita, run_here


@pytest.fixture
def partita(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Partita:
    """`partita("key", "encode", "a=b").out` is what it printed."""
    return run_here(monkeypatch, capsys)
