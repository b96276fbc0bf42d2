"""A compact grid of partitions: a mark for each, time from left to right, a line for each value of the others."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from partita.cli.partition import key_words

MARKS = {
    "MATERIALIZED": "■",
    "STALE": "◪",
    "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED": "▲",
    "NEVER_MATERIALIZED": "·",
    "failed": "✗",
    "running": "▶",
    "unexpected": "?",
    "unknown": "◌",
}
WORDS = {
    "MATERIALIZED": "current",
    "STALE": "stale",
    "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED": "last attempt failed",
    "NEVER_MATERIALIZED": "missing",
    "failed": "failed",
    "running": "running",
    "unexpected": "not expected",
    "unknown": "not known",
}
LEGEND = "  ".join(f"{mark} {WORDS[state]}" for state, mark in MARKS.items())
_LINES = 20


class Cell(NamedTuple):
    """A partition by its canonical key, and the state that it is marked with."""

    key: str
    state: str


def grid(asset: str, cells: Sequence[Cell]) -> Iterator[str]:
    """The lines of an asset: its counts, then its partitions."""
    counts = Counter(cell.state for cell in cells)
    said = ", ".join(f"{counts[state]:,} {WORDS[state]}" for state in MARKS if counts[state])
    yield f"{asset}: {said}"
    time = _time_dimension([cell.key for cell in cells])
    if time is None:
        yield from _wrapped("".join(MARKS[cell.state] for cell in cells))
    else:
        yield from _lines(cells, time)
    yield ""


def _time_dimension(keys: Sequence[str]) -> str | None:
    """The dimension that holds a date or a timestamp in every key; keys stay text, for there may be a million."""
    for name, kind in re.findall(r"(?:^|,)([^=,]*)=([a-z]):", keys[0]):
        has = re.compile(f"(?:^|,){re.escape(name)}=[dt]:").search
        if kind in "dt" and all(map(has, keys)):
            return str(name)
    return None


def _lines(cells: Sequence[Cell], time: str) -> Iterator[str]:
    """The cells by their moment and by what else is in their keys; texts of moments sort as they do."""
    lines: dict[str, dict[str, str]] = {}
    for key, state in cells:
        parts = key.split(",")
        at = next(number for number, part in enumerate(parts) if part.startswith(f"{time}="))
        moment = parts.pop(at).partition(":")[2]
        lines.setdefault(",".join(parts), {})[moment] = MARKS[state]
    moments = sorted({moment for marks in lines.values() for moment in marks})
    room = max(10, shutil.get_terminal_size().columns - 30)
    shown = moments[-room:]
    dropped = f", and {len(moments) - len(shown):,} before" if len(moments) > len(shown) else ""
    yield f"  {time}: {_moment(shown[0])} to {_moment(shown[-1])}{dropped}"
    for rest, marks in list(lines.items())[:_LINES]:
        name = key_words(rest)
        label = "" if name == "-" else name if len(name) <= 24 else name[:23] + "…"
        yield f"  {label:<25}{''.join(marks.get(moment, ' ') for moment in shown)}".rstrip()
    if len(lines) > _LINES:
        yield f"  and {len(lines) - _LINES:,} lines more"


def _moment(text: str) -> str:
    return text.replace(".000000Z", "Z")


def _wrapped(marks: str) -> Iterator[str]:
    room = max(10, shutil.get_terminal_size().columns - 4)
    for start in range(0, min(len(marks), room * _LINES), room):
        yield f"  {marks[start : start + room]}"
    if len(marks) > room * _LINES:
        yield f"  and {len(marks) - room * _LINES:,} more"
