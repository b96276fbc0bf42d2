"""A compact grid of partitions: a mark for each, time from left to right, a line for each value of the others."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from partita.cli.key_argument import readable_key
from partita.status.states import MARKS, mark_counts_text

_MAX_LINES = 20


class GridCell(NamedTuple):
    """A partition by its canonical key, and the number of its mark."""

    key: str
    mark: int


def grid_lines(title: str, cells: Sequence[GridCell]) -> Iterator[str]:
    """The lines of an asset: its counts, then its partitions."""
    counts = Counter(cell.mark for cell in cells)
    yield f"{title}: {mark_counts_text(counts)}"
    time = _time_dimension([cell.key for cell in cells])
    if time is None:
        yield from _wrap_marks("".join(MARKS[cell.mark].glyph for cell in cells))
    else:
        yield from _time_lines(cells, time)
    yield ""


def _time_dimension(keys: Sequence[str]) -> str | None:
    """The dimension that holds a date or a timestamp in every key; keys stay text, for there may be a million."""
    for name, kind in re.findall(r"(?:^|,)([^=,]*)=([a-z]):", keys[0]):
        has = re.compile(f"(?:^|,){re.escape(name)}=[dt]:").search
        if kind in "dt" and all(map(has, keys)):
            return str(name)
    return None


def _time_lines(cells: Sequence[GridCell], time_dimension: str) -> Iterator[str]:
    """The cells by their moment and by what else is in their keys; texts of moments sort as they do."""
    lines: dict[str, dict[str, str]] = {}
    for key, mark in cells:
        parts = key.split(",")
        at = next(number for number, part in enumerate(parts) if part.startswith(f"{time_dimension}="))
        moment = parts.pop(at).partition(":")[2]
        lines.setdefault(",".join(parts), {})[moment] = MARKS[mark].glyph
    moments = sorted({moment for marks in lines.values() for moment in marks})
    room = max(10, shutil.get_terminal_size().columns - 30)
    shown = moments[-room:]
    dropped = f", and {len(moments) - len(shown):,} before" if len(moments) > len(shown) else ""
    yield f"  {time_dimension}: {_timestamp_text(shown[0])} to {_timestamp_text(shown[-1])}{dropped}"
    for rest, marks in list(lines.items())[:_MAX_LINES]:
        name = readable_key(rest)
        label = "" if name == "-" else name if len(name) <= 24 else name[:23] + "…"
        yield f"  {label:<25}{''.join(marks.get(moment, ' ') for moment in shown)}".rstrip()
    if len(lines) > _MAX_LINES:
        yield f"  and {len(lines) - _MAX_LINES:,} lines more"


def _timestamp_text(text: str) -> str:
    return text.replace(".000000Z", "Z")


def _wrap_marks(marks: str) -> Iterator[str]:
    room = max(10, shutil.get_terminal_size().columns - 4)
    for start in range(0, min(len(marks), room * _MAX_LINES), room):
        yield f"  {marks[start : start + room]}"
    if len(marks) > room * _MAX_LINES:
        yield f"  and {len(marks) - room * _MAX_LINES:,} more"
