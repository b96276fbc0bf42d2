"""Heat maps as SVG without scripts and style sheets: for notebooks, mails and wherever HTML goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from partita.display.bins import HeatmapBins
from partita.status.states import MARKS, MARKS_WORST_FIRST, MISSING_MARK

_TOP_MARGIN, _LEFT_MARGIN, _MAX_LABEL_LENGTH = 18, 150, 22
_MIN_SHAPE_HEIGHT = 4.0
"""The height that a shape needs; lower parts are a plain colour."""
_MAX_WIDTH = 900
_MIN_STACK_HEIGHT, _MIN_VISIBLE_HEIGHT = 12.0, 2.0
"""The height from which a bin of many partitions has room for a shape, and the least height of the worst mark in a
lower one."""


def heatmap_svg(bins: HeatmapBins) -> str:
    """Return the bins as SVG of at most about `_MAX_WIDTH`; every text in it is escaped."""
    columns, rows = len(bins.across.labels), len(bins.down.labels)
    cell_width = max(2.0, min(22.0, (_MAX_WIDTH - _LEFT_MARGIN) / columns))
    row_height = max(6.0, min(20.0, 340 / rows))
    height = _TOP_MARGIN + rows * row_height + 4
    parts = [*_axis_labels(bins, cell_width, row_height)]
    for row in range(rows):
        row_cells = bins.cells[row * columns : (row + 1) * columns]
        parts.extend(_row_svg(bins, row_cells, _TOP_MARGIN + row * row_height, cell_width, row_height))
    label = escape(f"heat map of {bins.asset}: {bins.partition_count:,} partitions, {bins.across.name} across")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT_MARGIN + columns * cell_width:g}" '
        f'height="{height:g}" role="img" aria-label="{label}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(parts)}</svg>'
    )


def legend_html(mark_numbers: Iterable[int] | None = None) -> str:
    """Return the marks with their labels: all of them, or those of these numbers."""
    keys = (
        f'<span><svg width="12" height="12" aria-hidden="true">{"".join(_mark_svg(number, 0, 0, 12, 12))}</svg> '
        f"{escape(MARKS[number].label)}</span>"
        for number in (range(len(MARKS)) if mark_numbers is None else mark_numbers)
    )
    return f"<p>{' &#160; '.join(keys)}</p>"


def _axis_labels(bins: HeatmapBins, cell_width: float, row_height: float) -> Iterator[str]:
    for row in range(0, len(bins.down.labels), max(1, round(14 / row_height))):
        text = escape(_truncate_label(bins.down.labels[row]))
        y = _TOP_MARGIN + (row + 0.5) * row_height + 4
        yield f'<text x="{_LEFT_MARGIN - 5}" y="{y:g}" text-anchor="end">{text}</text>'
    next_free_x = 0.0
    for column, label in enumerate(bins.across.labels):
        text, x = label.split(" to ")[0], _LEFT_MARGIN + column * cell_width
        fits = column == 0 or x + 6.5 * len(text) <= _LEFT_MARGIN + len(bins.across.labels) * cell_width
        if x >= next_free_x and fits:
            yield f'<text x="{x:g}" y="12">{escape(text)}</text>'
            next_free_x = x + 7 * len(text) + 12


def _truncate_label(label: str) -> str:
    return label if len(label) <= _MAX_LABEL_LENGTH else f"{label[: _MAX_LABEL_LENGTH - 1]}…"


def _row_svg(
    bins: HeatmapBins, row_cells: tuple[int, ...], y: float, cell_width: float, row_height: float
) -> Iterator[str]:
    """Draw the bins of a row. Bins of many partitions are drawn together with equal neighbours: there are thousands."""
    is_one_each = bins.across.step == bins.down.step == 1
    gap = 1.0 if cell_width > 4 and is_one_each else 0.0
    for counts_index, group in groupby(enumerate(row_cells), key=lambda cell: cell[1]):
        columns = [column for column, _ in group]
        counts = bins.distinct_counts[counts_index]
        if not sum(counts):
            continue
        times = 1 if gap else len(columns)
        for column in columns[::times]:
            w, h = cell_width - gap, row_height - 1
            # In low bins of many, a part with room for a shape would cover most of the bin, though few have that mark.
            min_height = (
                min(h, max(_MIN_SHAPE_HEIGHT, min(w, h / 2)))
                if is_one_each or h >= _MIN_STACK_HEIGHT
                else _MIN_VISIBLE_HEIGHT
            )
            yield from _bin_svg(counts, _LEFT_MARGIN + column * cell_width, y, w, h, min_height, times)


def _bin_svg(  # noqa: PLR0913, PLR0917 - a rectangle, its states and their number
    counts: tuple[int, ...], x: float, y: float, w: float, h: float, min_height: float, times: int
) -> Iterator[str]:
    """Draw the marks of a bin from below, the worst first and at least `min_height` high, for `times` bins in a row."""
    total, bottom = sum(counts), y + h
    for number in MARKS_WORST_FIRST:
        if counts[number] and bottom > y:
            part_height = min(bottom - y, max(min_height, h * counts[number] / total))
            bottom -= part_height
            yield from _mark_svg(number, x, bottom, w, part_height, times)
            min_height = 1.0


def _mark_svg(number: int, x: float, y: float, w: float, h: float, times: int = 1) -> Iterator[str]:  # noqa: PLR0913, PLR0917
    mark, has_shape = MARKS[number], bool(MARKS[number].shape) and h >= _MIN_SHAPE_HEIGHT
    opacity = ' fill-opacity=".22"' if has_shape or number == MISSING_MARK else ""
    yield f'<rect x="{x:g}" y="{y:g}" width="{times * w:g}" height="{h:g}" fill="{mark.color}"{opacity}/>'
    if has_shape:
        shapes = "".join(f"M{i} 0{mark.shape}" for i in range(times))
        yield (
            f'<path d="{shapes}" transform="translate({x:g} {y:g}) scale({w:g} {h:g})" fill="{mark.color}" '
            'fill-rule="evenodd"/>'
        )
