"""How long a command takes from a cold start, next to a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.harness import Goal, Row, Side, compare

PARTITA_COMMAND = str(Path(sys.executable).with_name("partita"))
KEY_TEXT = "date=d:2025-01-15,region=s:dXMtZWFzdA"
COMMANDS = (
    ("key", "encode", "date=2025-01-15", "region=us-east"),
    ("key", "id", "orders", KEY_TEXT),
    ("--help",),
)


def rows() -> Iterator[Row]:
    """Each command, for at most 0.3 s more than Python itself takes."""
    assert _run_command(PARTITA_COMMAND, *COMMANDS[0]) == f"{KEY_TEXT}\n"
    for words in COMMANDS:
        yield compare(
            f"partita {' '.join(words)}",
            ours=Side("cold start", partial(_run_command, PARTITA_COMMAND, *words)),
            theirs=Side("python -c pass", partial(_run_command, sys.executable, "-c", "pass")),
            goal=_at_most_slower(0.3),
            repeat=15,
        )


def _run_command(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own command


def _at_most_slower(seconds: float) -> Goal:
    """Ours takes at most so many seconds on top of theirs, which are ours times the ratio."""
    return Goal(f"<= +{seconds:g} s", lambda ours, ratio: ratio is not None and ours - ours * ratio <= seconds)
