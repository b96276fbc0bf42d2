"""A heat map as one SVG that needs no script and no style sheet: for notebooks, mails and wherever HTML goes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

from partita.web.bins import Bins
from partita.web.marks import MARKS

_COLOURS = ("#3a8f5f", "#d1980a", "#dd6126", "#9aa5b4", "#c4322f", "#3574d4", "#8757bd", "#6d7988")
"""By the number of the mark; each stands out on white and on black."""
_WORST = (4, 2, 1, 7, 5, 6, 3, 0)
_MISSING = 3
_TOP, _LEFT, _LABEL = 18, 150, 22
_SHAPES = {
    1: "M0 0L1 1L0 1Z",
    2: "M.5 .1L.95 .95L.05 .95Z",
    4: "M.1 0L.5 .4L.9 0L1 .1L.6 .5L1 .9L.9 1L.5 .6L.1 1L0 .9L.4 .5L0 .1Z",
    5: "M.15 .05L.95 .5L.15 .95Z",
    6: "M0 0H1V1H0ZM.15 .15V.85H.85V.15Z",
    7: "M.5 .1A.4 .4 0 1 0 .501 .1ZM.5 .3A.2 .2 0 1 1 .499 .3Z",
}
"""The shape of each state in a square of one, so that none is told by colour alone; a current one is all of it."""


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


def legend() -> str:
    """The states in words, each with its shape."""
    keys = (
        f'<span><svg width="12" height="12" aria-hidden="true">{"".join(_mark(at, 0, 0, 12, 12))}</svg> '
        f"{escape(mark.word)}</span>"
        for at, mark in enumerate(MARKS)
    )
    return f"<p>{' &#160; '.join(keys)}</p>"


def _labels(bins: Bins, cell: float, tall: float) -> Iterator[str]:
    for row in range(0, len(bins.down.labels), max(1, round(14 / tall))):
        text = escape(_cut(bins.down.labels[row]))
        yield f'<text x="{_LEFT - 5}" y="{_TOP + (row + 0.5) * tall + 4:g}" text-anchor="end">{text}</text>'
    free = 0.0
    for column, label in enumerate(bins.across.labels):
        text, at = label.split(" to ")[0], _LEFT + column * cell
        if at >= free:
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
        counts = bins.mixes[mix]
        total, kinds = sum(counts), [at for at, n in enumerate(counts) if n]
        if not total:
            continue
        is_plain = len(kinds) > 1 or kinds[0] in (0, _MISSING)
        wide = len(places) if is_plain and not gap else 1
        for place in places[::wide]:
            x = _LEFT + place * cell
            if len(kinds) == 1:
                yield from _mark(kinds[0], x, y, wide * cell - gap, tall - 1)
            else:
                yield from _stack(counts, total, x, y, wide * cell - gap, tall - 1)


def _mark(state: int, x: float, y: float, w: float, h: float) -> Iterator[str]:
    colour = _COLOURS[state]
    faint = "" if state == 0 else ' fill-opacity=".22"'
    yield f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{colour}"{faint}/>'
    if state == _MISSING:
        yield f'<circle cx="{x + w / 2:g}" cy="{y + h / 2:g}" r="{min(w, h) / 9:g}" fill="{colour}"/>'
    elif state in _SHAPES:
        yield (
            f'<path d="{_SHAPES[state]}" transform="translate({x:g} {y:g}) scale({w:g} {h:g})" fill="{colour}" '
            'fill-rule="evenodd"/>'
        )


def _stack(  # noqa: PLR0913, PLR0917 - a rectangle, and what is in it
    counts: tuple[int, ...], total: int, x: float, y: float, w: float, h: float
) -> Iterator[str]:
    """Several states in one bin, from below, the worst first."""
    bottom = y + h
    for state in _WORST:
        if counts[state] and bottom > y:
            part = min(bottom - y, max(1.0, h * counts[state] / total))
            faint = ' fill-opacity=".22"' if state == _MISSING else ""
            place = f'x="{x:g}" y="{bottom - part:g}" width="{w:g}" height="{part:g}"'
            yield f'<rect {place} fill="{_COLOURS[state]}"{faint}/>'
            bottom -= part
