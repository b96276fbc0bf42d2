"""Bins: how many partitions of each state lie in each part of a map, few enough to be drawn and sent.

A map of a million partitions has more places than a screen has points. The server counts them by bins of so many
places, aligned to multiples of that number, so that a bin means the same however the map is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.algebra.key import PartitionKey
from partita.errors import KeyFormatError
from partita.picture.box import Box, box_sql, whole
from partita.picture.layout import PLACE, Axis, label
from partita.picture.marks import MARKS
from partita.picture.placing import ACROSS, DOWN
from partita.picture.snapshot import AssetFacts, Snapshot
from partita.status.shown import escaped, one_line, value_text

COLUMNS, ROWS = 240, 60
"""How many bins are made at most, across and down, unless asked otherwise."""
MOST = 400
_LABEL = 60


@dataclass(frozen=True, slots=True)
class Line:
    """The bins along one axis: each has `step` places, the first starts at `first`, and each has words."""

    name: str
    unit: str
    first: int
    step: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The bins of a view. `mixes` are distinct counts by mark, the first of nothing; `cells` says the mix of each bin.

    Cells go line by line, and each line from left to right. `names` are those of the partitions, one for each bin, if
    the axes don't have them: where one dimension wraps, and a bin is one place.
    """

    asset: str
    box: Box
    whole: Box
    across: Line
    down: Line
    mixes: tuple[tuple[int, ...], ...]
    cells: tuple[int, ...]
    names: tuple[str, ...]
    partitions: int
    unplaced: int

    def document(self) -> dict[str, Any]:
        """The bins as values that JSON can hold."""
        return {
            "asset": self.asset,
            "view": str(self.box),
            "whole": str(self.whole),
            "across": _document(self.across),
            "down": _document(self.down),
            "states": [mark.name for mark in MARKS],
            "mixes": self.mixes,
            "cells": self.cells,
            "names": self.names,
            "partitions": self.partitions,
            "unplaced": self.unplaced,
        }


def _document(line: Line) -> dict[str, Any]:
    return {"name": line.name, "unit": line.unit, "first": line.first, "step": line.step, "labels": line.labels}


def make_bins(  # noqa: PLR0913, PLR0917 - what is looked at, and how closely
    snapshot: Snapshot,
    asset: str,
    part: Box | None = None,
    columns: int = COLUMNS,
    rows: int = ROWS,
    condition: str | None = None,
) -> Bins:
    """The bins of a part of an asset's map, or of all of it, with at most so many across and down.

    `condition` is SQL over `partitions`: only rows of the asset that meet it are counted.
    """
    facts = snapshot.asset(asset)
    all_of_it = whole(facts)
    box = all_of_it if part is None else part.within(all_of_it)
    own = f"asset = {facts.number:d}" if condition is None else condition
    step_x, step_y = _step(box.x0, box.x1, columns), _step(box.y0, box.y1, rows)
    x0, y0 = box.x0 // step_x, box.y0 // step_y
    width, height = box.x1 // step_x - x0 + 1, box.y1 // step_y - y0 + 1
    found = snapshot.arrays(
        f"SELECT {_floor('y', step_y)} AS y, {_floor('x', step_x)} AS x, mark, count(*) AS n "  # noqa: S608 - numbers
        f"FROM partitions WHERE {own} AND {box_sql(box)} GROUP BY ALL"
    )
    counts = np.zeros((height * width, len(MARKS)), np.int64)
    places = (found["y"].astype(np.int64) - y0) * width + found["x"].astype(np.int64) - x0
    counts[places, found["mark"].astype(np.int64)] = found["n"].astype(np.int64)
    mixes, cells = _mixed(counts)
    is_named = facts.layout.across.unit != PLACE or step_x * step_y > 1
    return Bins(
        asset,
        box,
        all_of_it,
        _line(snapshot, facts, ACROSS, facts.layout.across, x0, step_x, width),
        _line(snapshot, facts, DOWN, facts.layout.down, y0, step_y, height),
        mixes,
        cells,
        () if is_named else _names(snapshot, f"{own} AND {box_sql(box)}", box),
        int(counts.sum()),
        facts.layout.unplaced,
    )


def _names(snapshot: Snapshot, condition: str, box: Box) -> tuple[str, ...]:
    found = snapshot.rows(f"SELECT x, y, partition_key FROM partitions WHERE {condition}")  # noqa: S608 - numbers
    named = {(x, y): key_label(key) for x, y, key in found}
    return tuple(named.get((x, y), "") for y in range(box.y0, box.y1 + 1) for x in range(box.x0, box.x1 + 1))


def _step(first: int, last: int, most: int) -> int:
    """How many places make a bin, so that there are at most `most`; a box may begin and end within one."""
    size = last - first + 1
    step = -(-size // most)
    while last // step - first // step + 1 > most > 1:
        step += 1
    return step


def _floor(column: str, step: int) -> str:
    return column if step == 1 else f"floor({column} / {step:d}.0)::INTEGER"


def _mixed(counts: np.ndarray) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The distinct counts, nothing first, and which of them each bin has."""
    none = np.zeros((1, counts.shape[1]), counts.dtype)
    rows = np.ascontiguousarray(np.vstack([none, counts]))
    # Rows as single values of bytes are compared at once, not column by column.
    as_one = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, which = np.unique(as_one, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    mixes = tuple(tuple(row) for row in rows[first[order]].tolist())
    return mixes, tuple(rank[which][1:].tolist())


def _line(  # noqa: PLR0913, PLR0917 - an axis, and where on it
    snapshot: Snapshot, facts: AssetFacts, direction: str, axis: Axis, first: int, step: int, size: int
) -> Line:
    starts = [(first + at) * step for at in range(size)]
    ends = [min(start + step - 1, axis.last) for start in starts]
    starts = [max(start, axis.first) for start in starts]
    named = {place: text for place in (*starts, *ends) if (text := label(axis, place)) is not None}
    if not named:
        named = _tick_labels(snapshot, facts.number, direction, starts, ends)
    labels = (
        named.get(a, "") if a == b else f"{named.get(a, '')} to {named.get(b, '')}"
        for a, b in zip(starts, ends, strict=True)
    )
    return Line(axis.name, axis.unit, first * step, step, tuple(labels))


def _tick_labels(
    snapshot: Snapshot, number: int, direction: str, starts: Sequence[int], ends: Sequence[int]
) -> dict[int, str]:
    places = ", ".join(str(place) for place in sorted({*starts, *ends}))
    found = snapshot.rows(
        f"SELECT place, value FROM ticks WHERE asset = {number:d} AND axis = '{direction}' AND place IN ({places})"  # noqa: S608
    )
    return {place: key_label(value) for place, value in found}


def key_label(text: str) -> str:
    """A canonical key, or a part of one, in words on one line: `region=us-east, shard=3`."""
    try:
        values = PartitionKey.parse(text).items()
    except KeyFormatError:
        return one_line(text, _LABEL)
    return one_line(", ".join(f"{name}={escaped(value_text(value), _LABEL)}" for name, value in values), 2 * _LABEL)
