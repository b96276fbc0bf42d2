"""A compact grid of partitions: a glyph for each, time from left to right, a line for each value of the others."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from partita.cli.key_argument import key_argument
from partita.status.states import MARKS, mark_counts_text

_MAX_LINES = 20


class GridCell(NamedTuple):
    """A partition by its canonical key, and the number of its mark."""

    key: str
    mark: int


def grid_lines(title: str, cells: Sequence[GridCell]) -> Iterator[str]:
    """Yield the lines of an asset: its counts, its grid and an empty line."""
    counts = Counter(cell.mark for cell in cells)
    yield f"{title}: {mark_counts_text(counts)}"
    time = _time_dimension([cell.key for cell in cells])
    if time is None:
        yield from _wrap_marks("".join(MARKS[cell.mark].glyph for cell in cells))
    else:
        yield from _time_lines(cells, time)
    yield ""


def _time_dimension(keys: Sequence[str]) -> str | None:
    """Return the dimension that holds a date or a timestamp in every key; keys are not parsed, as there may be many."""
    for name, kind in re.findall(r"(?:^|,)([^=,]*)=([a-z]):", keys[0]):
        find_time = re.compile(f"(?:^|,){re.escape(name)}=[dt]:").search
        if kind in "dt" and all(map(find_time, keys)):
            return str(name)
    return None


def _time_lines(cells: Sequence[GridCell], time_dimension: str) -> Iterator[str]:
    """Yield a line for each value of the other dimensions, with a glyph for each moment; moments sort as text."""
    lines: dict[str, dict[str, str]] = {}
    for key, mark in cells:
        parts = key.split(",")
        time_index = next(number for number, part in enumerate(parts) if part.startswith(f"{time_dimension}="))
        moment = parts.pop(time_index).partition(":")[2]
        lines.setdefault(",".join(parts), {})[moment] = MARKS[mark].glyph
    moments = sorted({moment for marks in lines.values() for moment in marks})
    width = max(10, shutil.get_terminal_size().columns - 30)
    visible_moments = moments[-width:]
    hidden_count = len(moments) - len(visible_moments)
    hidden_text = f", and {hidden_count:,} before" if hidden_count else ""
    first, last = (_timestamp_text(visible_moments[i]) for i in (0, -1))
    yield f"  {time_dimension}: {first} to {last}{hidden_text}"
    for rest, marks in list(lines.items())[:_MAX_LINES]:
        name = key_argument(rest)
        label = "" if name == "-" else name if len(name) <= 24 else name[:23] + "…"
        yield f"  {label:<25}{''.join(marks.get(moment, ' ') for moment in visible_moments)}".rstrip()
    if len(lines) > _MAX_LINES:
        yield f"  and {len(lines) - _MAX_LINES:,} lines more"


def _timestamp_text(text: str) -> str:
    return text.replace(".000000Z", "Z")


def _wrap_marks(marks: str) -> Iterator[str]:
    width = max(10, shutil.get_terminal_size().columns - 4)
    for start in range(0, min(len(marks), width * _MAX_LINES), width):
        yield f"  {marks[start : start + width]}"
    if len(marks) > width * _MAX_LINES:
        yield f"  and {len(marks) - width * _MAX_LINES:,} more"
