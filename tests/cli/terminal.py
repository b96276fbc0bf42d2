"""Command lines as tests run them: in this process, or through the installed entry point."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from partita.cli import main

if TYPE_CHECKING:
    import pytest

PARTITA_COMMAND = Path(sys.executable).with_name("partita")
TESTS_FOLDER = Path(__file__).parents[1]
SPARK_ENVIRONMENT = {"SPARK_CONF_DIR": str(TESTS_FOLDER / "spark_conf"), "PYTHONPATH": str(TESTS_FOLDER.parent)}
"""With this, the Spark of a command forks its workers from `tests.preloaded_workers`, as that of the tests does."""


class CommandOutcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class CommandRunner(Protocol):
    """Runs `partita` with these words and that input; None is a terminal where nobody types."""

    def __call__(self, *words: str, stdin: str | bytes | None = None) -> CommandOutcome: ...


class TerminalInput(io.StringIO):
    """A standard input that is a person's."""

    def isatty(self) -> bool:
        return True


def in_process_runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    """Runs commands in this process."""

    def run(*words: str, stdin: str | bytes | None = None) -> CommandOutcome:
        octets = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", TerminalInput() if octets is None else io.TextIOWrapper(io.BytesIO(octets)))
        try:
            code = main(words)
        except SystemExit as left:
            code = int(left.code or 0)
        return CommandOutcome(code, *capsys.readouterr())

    return run


def run_installed_command(*words: str, stdin: str = "", **env: str) -> CommandOutcome:
    """Runs the entry point in a process of its own."""
    done = subprocess.run(
        [PARTITA_COMMAND, *words],
        input=stdin,
        env={**os.environ, **env},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return CommandOutcome(done.returncode, done.stdout, done.stderr)
