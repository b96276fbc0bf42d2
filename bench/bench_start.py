"""How long a command takes from a cold start, next to a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.harness import Goal, Row, Side, compare

PARTITA = str(Path(sys.executable).with_name("partita"))
KEY = "date=d:2025-01-15,region=s:dXMtZWFzdA"
COMMANDS = (
    ("key", "encode", "date=2025-01-15", "region=us-east"),
    ("key", "id", "orders", KEY),
    ("--help",),
)


def rows() -> Iterator[Row]:
    """Each command, for at most 0.3 s more than Python itself takes."""
    assert _run(PARTITA, *COMMANDS[0]) == f"{KEY}\n"
    for words in COMMANDS:
        yield compare(
            f"partita {' '.join(words)}",
            ours=Side("cold start", partial(_run, PARTITA, *words)),
            theirs=Side("python -c pass", partial(_run, sys.executable, "-c", "pass")),
            goal=_at_most_more(0.3),
            repeat=15,
        )


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own command


def _at_most_more(seconds: float) -> Goal:
    """Ours takes at most so many seconds on top of theirs, which are ours times the ratio."""
    return Goal(f"<= +{seconds:g} s", lambda ours, ratio: ratio is not None and ours - ours * ratio <= seconds)
