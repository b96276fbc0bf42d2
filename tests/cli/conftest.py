"""The command line in this process, for every test of this folder."""

from __future__ import annotations

import pytest

from tests.cli.terminal import CommandRunner, in_process_runner


@pytest.fixture
def partita(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    """`partita("key", "encode", "a=b").out` is what it printed."""
    return in_process_runner(monkeypatch, capsys)
