"""A heat map as one SVG that needs no script and no style sheet: for notebooks, mails and wherever HTML goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from partita.picture.bins import Bins
from partita.picture.marks import MARKS, WORST

_COLOURS = ("#3a8f5f", "#d1980a", "#dd6126", "#9aa5b4", "#c4322f", "#3574d4", "#8757bd", "#6d7988")
"""By the number of the mark; each stands out on white and on black."""
_MISSING = 3
_TOP, _LEFT, _LABEL = 18, 150, 22
_SHAPES = {
    1: "m0 0l1 1h-1z",
    2: "m.5 .1l.45 .85h-.9z",
    3: "m.39 .5a.11 .11 0 1 0 .22 0a.11 .11 0 1 0 -.22 0z",
    4: "m.1 0l.4 .4l.4 -.4l.1 .1l-.4 .4l.4 .4l-.1 .1l-.4 -.4l-.4 .4l-.1 -.1l.4 -.4l-.4 -.4z",
    5: "m.15 .05l.8 .45l-.8 .45z",
    6: "m0 0h1v1h-1zm.15 .15v.7h.7v-.7z",
    7: "m.5 .1a.4 .4 0 1 0 .001 0zm0 .2a.2 .2 0 1 1 -.001 0z",
}
"""The shape of each state in a square of one, so that none is told by colour alone; a current one is all of it.

Each is relative to where it begins, so that one path can have a row of them.
"""
_LEAST = 4.0
"""The height that a shape needs; what is lower is a plain colour."""
_HIGH, _SEEN = 12.0, 2.0
"""The height from which a bin of many has room for a shape, and that of the worst of a lower one, however few it is."""


def svg_of(bins: Bins, width: int = 900) -> str:
    """The bins as SVG, as wide as told; every text in it is escaped."""
    columns, rows = len(bins.across.labels), len(bins.down.labels)
    cell = max(2.0, min(22.0, (width - _LEFT) / columns))
    tall = max(6.0, min(20.0, 340 / rows))
    height = _TOP + rows * tall + 4
    parts = [*_labels(bins, cell, tall)]
    for row in range(rows):
        line = bins.cells[row * columns : (row + 1) * columns]
        parts.extend(_line(bins, line, _TOP + row * tall, cell, tall))
    said = escape(f"heat map of {bins.asset}: {bins.partitions:,} partitions, {bins.across.name} across")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + columns * cell:g}" height="{height:g}" role="img" '
        f'aria-label="{said}" font-family="sans-serif" font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )


def legend(shown: Iterable[int] | None = None) -> str:
    """The states in words, each with its shape: all of them, or those of these numbers."""
    keys = (
        f'<span><svg width="12" height="12" aria-hidden="true">{"".join(_mark(at, 0, 0, 12, 12))}</svg> '
        f"{escape(MARKS[at].word)}</span>"
        for at in (range(len(MARKS)) if shown is None else shown)
    )
    return f"<p>{' &#160; '.join(keys)}</p>"


def _labels(bins: Bins, cell: float, tall: float) -> Iterator[str]:
    for row in range(0, len(bins.down.labels), max(1, round(14 / tall))):
        text = escape(_cut(bins.down.labels[row]))
        yield f'<text x="{_LEFT - 5}" y="{_TOP + (row + 0.5) * tall + 4:g}" text-anchor="end">{text}</text>'
    free = 0.0
    for column, label in enumerate(bins.across.labels):
        text, at = label.split(" to ")[0], _LEFT + column * cell
        fits = column == 0 or at + 6.5 * len(text) <= _LEFT + len(bins.across.labels) * cell
        if at >= free and fits:
            yield f'<text x="{at:g}" y="12">{escape(text)}</text>'
            free = at + 7 * len(text) + 12


def _cut(label: str) -> str:
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"


def _line(bins: Bins, line: tuple[int, ...], y: float, cell: float, tall: float) -> Iterator[str]:
    """The bins of a line. Where each has many partitions, neighbours that are alike are one: there are thousands."""
    is_one_each = bins.across.step == bins.down.step == 1
    gap = 1.0 if cell > 4 and is_one_each else 0.0
    for mix, group in groupby(enumerate(line), key=lambda one: one[1]):
        places = [place for place, _ in group]
        if not sum(bins.mixes[mix]):
            continue
        wide = 1 if gap else len(places)
        for place in places[::wide]:
            w, h = cell - gap, tall - 1
            # In low bins of many, a part with room for a shape would be most of a bin that is mostly something else.
            least = min(h, max(_LEAST, min(w, h / 2))) if is_one_each or h >= _HIGH else _SEEN
            yield from _stack(bins.mixes[mix], _LEFT + place * cell, y, w, h, least, wide)


def _stack(  # noqa: PLR0913, PLR0917 - a rectangle, what is in it, and how often
    counts: tuple[int, ...], x: float, y: float, w: float, h: float, least: float, times: int
) -> Iterator[str]:
    """The states of a bin from below, the worst first; `least` is how high its part is at least."""
    total, bottom = sum(counts), y + h
    for state in WORST:
        if counts[state] and bottom > y:
            part = min(bottom - y, max(least, h * counts[state] / total))
            bottom -= part
            yield from _mark(state, x, bottom, w, part, times)
            least = 1.0


def _mark(  # noqa: PLR0913, PLR0917 - a rectangle, what is in it, and how often
    state: int, x: float, y: float, w: float, h: float, times: int = 1
) -> Iterator[str]:
    colour, has_shape = _COLOURS[state], state in _SHAPES and h >= _LEAST
    faint = ' fill-opacity=".22"' if has_shape or state == _MISSING else ""
    yield f'<rect x="{x:g}" y="{y:g}" width="{times * w:g}" height="{h:g}" fill="{colour}"{faint}/>'
    if has_shape:
        shapes = "".join(f"M{at} 0{_SHAPES[state]}" for at in range(times))
        yield (
            f'<path d="{shapes}" transform="translate({x:g} {y:g}) scale({w:g} {h:g})" fill="{colour}" '
            'fill-rule="evenodd"/>'
        )
