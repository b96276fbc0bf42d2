"""A compact grid of partitions: a mark for each, time from left to right, a line for each value of the others."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue
from partita.cli.partition import key_words

MARKS = {
    "MATERIALIZED": "■",
    "STALE": "◪",
    "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED": "▲",
    "NEVER_MATERIALIZED": "·",
    "failed": "✗",
    "running": "▶",
    "unexpected": "?",
}
WORDS = {
    "MATERIALIZED": "current",
    "STALE": "stale",
    "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED": "last attempt failed",
    "NEVER_MATERIALIZED": "missing",
    "failed": "failed",
    "running": "running",
    "unexpected": "not expected",
}
LEGEND = "  ".join(f"{mark} {WORDS[state]}" for state, mark in MARKS.items())
_LINES = 20


@dataclass(frozen=True, slots=True)
class Cell:
    """A partition, and the state that it is marked with."""

    key: str
    state: str
    is_stale: bool = False


def grid(asset: str, cells: Sequence[Cell]) -> Iterator[str]:
    """The lines of an asset: its counts, then its partitions."""
    counts = Counter(cell.state for cell in cells)
    said = ", ".join(f"{counts[state]:,} {WORDS[state]}" for state in MARKS if counts[state])
    yield f"{asset}: {said}"
    keys = [PartitionKey.parse(cell.key) for cell in cells]
    time = _time_dimension(keys)
    if time is None:
        yield from _wrapped("".join(MARKS[cell.state] for cell in cells))
    else:
        yield from _lines(cells, keys, time)
    yield ""


def _time_dimension(keys: Sequence[PartitionKey]) -> str | None:
    """The dimension that holds a date or a timestamp in every key."""
    first = keys[0]
    return next((n for n in first if all(n in key and isinstance(key[n], date) for key in keys)), None)


def _lines(cells: Sequence[Cell], keys: Sequence[PartitionKey], time: str) -> Iterator[str]:
    moments = sorted({str(key[time]) for key in keys})
    room = max(10, shutil.get_terminal_size().columns - 30)
    shown = moments[-room:]
    lines: dict[str, dict[str, str]] = {}
    for cell, key in zip(cells, keys, strict=True):
        rest: dict[str, KeyValue] = {name: value for name, value in key.items() if name != time}
        lines.setdefault(key_words(str(PartitionKey.of(rest))), {})[str(key[time])] = MARKS[cell.state]
    dropped = f", and {len(moments) - len(shown):,} before" if len(moments) > len(shown) else ""
    yield f"  {time}: {_moment(shown[0])} to {_moment(shown[-1])}{dropped}"
    for name, marks in list(lines.items())[:_LINES]:
        label = "" if name == "-" else name if len(name) <= 24 else name[:23] + "…"
        yield f"  {label:<25}{''.join(marks.get(moment, ' ') for moment in shown)}".rstrip()
    if len(lines) > _LINES:
        yield f"  and {len(lines) - _LINES:,} lines more"


def _moment(text: str) -> str:
    return text.removesuffix("+00:00")


def _wrapped(marks: str) -> Iterator[str]:
    room = max(10, shutil.get_terminal_size().columns - 4)
    for start in range(0, min(len(marks), room * _LINES), room):
        yield f"  {marks[start : start + room]}"
    if len(marks) > room * _LINES:
        yield f"  and {len(marks) - room * _LINES:,} more"
