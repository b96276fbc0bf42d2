"""Bins: how many partitions of each mark lie in each part of a heat map, few enough to be drawn and sent.

A map of a million partitions has more cells than a screen has pixels. The server counts them by bins of several
coordinates, aligned to multiples of the bin's size, so that a bin covers the same partitions however the map is moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partita.algebra.key_label import key_label
from partita.display.coordinates import ACROSS, DOWN, PARTITIONS, TICKS
from partita.display.layout import WRAPPED_VALUE, Axis, Box, coordinate_label
from partita.display.status_snapshot import AssetSummary, StatusSnapshot
from partita.status.duckdb_sql import Sql, name, sql
from partita.status.states import MARKS

DEFAULT_COLUMNS, DEFAULT_ROWS = 240, 60
"""The default maximum of bins across and down."""
MAX_BINS_PER_AXIS = 400


@dataclass(frozen=True, slots=True)
class AxisBins:
    """The bins along one axis: each covers `step` coordinates, the first starts at `first`, and each has a label."""

    name: str
    unit: str
    first: int
    step: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class HeatmapBins:
    """The bins of a part of a map.

    `distinct_counts` are distinct counts by mark, the first of an empty bin; `cells` has the index of its counts for
    each bin, row by row from left to right. `partition_labels` name the partition of each bin where the axes don't:
    where one dimension wraps and a bin is one cell.
    """

    asset: str
    box: Box
    full_box: Box
    across: AxisBins
    down: AxisBins
    distinct_counts: tuple[tuple[int, ...], ...]
    cells: tuple[int, ...]
    partition_labels: tuple[str, ...]
    partition_count: int
    unplaced_count: int

    def document(self) -> dict[str, Any]:
        """Return the bins as JSON values."""
        return {
            "asset": self.asset,
            "view": str(self.box),
            "whole": str(self.full_box),
            "across": _axis_document(self.across),
            "down": _axis_document(self.down),
            "states": [mark.name for mark in MARKS],
            "mixes": self.distinct_counts,
            "cells": self.cells,
            "names": self.partition_labels,
            "partitions": self.partition_count,
            "unplaced": self.unplaced_count,
        }


def _axis_document(axis_bins: AxisBins) -> dict[str, Any]:
    return {
        "name": axis_bins.name,
        "unit": axis_bins.unit,
        "first": axis_bins.first,
        "step": axis_bins.step,
        "labels": axis_bins.labels,
    }


def bin_partitions(  # noqa: PLR0913, PLR0917 - the partitions, the axes and the size of bins
    snapshot: StatusSnapshot,
    asset: str,
    region: Box | None = None,
    columns: int = DEFAULT_COLUMNS,
    rows: int = DEFAULT_ROWS,
    condition: Sql | None = None,
) -> HeatmapBins:
    """Return the bins of a part of an asset's map, or of all of it, with at most `columns` across and `rows` down.

    `condition` is SQL over `PARTITIONS` that selects the asset's rows to count; without it all of them are.
    """
    summary = snapshot.asset(asset)
    full_box = summary.layout.box
    box = full_box if region is None else region.intersection(full_box)
    asset_rows = sql("asset = {number}", number=summary.asset_number) if condition is None else condition
    is_visible = sql("{asset_rows} AND {in_box}", asset_rows=asset_rows, in_box=box.condition())
    step_x, step_y = _bin_size(box.x0, box.x1, columns), _bin_size(box.y0, box.y1, rows)
    x0, y0 = box.x0 // step_x, box.y0 // step_y
    width, height = box.x1 // step_x - x0 + 1, box.y1 // step_y - y0 + 1
    arrays = snapshot.fetch_arrays(
        sql(
            "SELECT {y} AS y, {x} AS x, mark, count(*) AS n FROM {partitions} WHERE {visible} GROUP BY ALL",
            y=_bin_index_sql("y", step_y),
            x=_bin_index_sql("x", step_x),
            partitions=PARTITIONS,
            visible=is_visible,
        )
    )
    counts = np.zeros((height * width, len(MARKS)), np.int64)
    bin_indices = (arrays["y"].astype(np.int64) - y0) * width + arrays["x"].astype(np.int64) - x0
    counts[bin_indices, arrays["mark"].astype(np.int64)] = arrays["n"].astype(np.int64)
    distinct_counts, cells = _distinct_counts(counts)
    has_axis_labels = summary.layout.across.unit != WRAPPED_VALUE or step_x * step_y > 1
    return HeatmapBins(
        asset,
        box,
        full_box,
        _axis_bins(snapshot, summary, ACROSS, summary.layout.across, x0, step_x, width),
        _axis_bins(snapshot, summary, DOWN, summary.layout.down, y0, step_y, height),
        distinct_counts,
        cells,
        () if has_axis_labels else _partition_labels(snapshot, is_visible, box),
        int(counts.sum()),
        summary.layout.unplaced_count,
    )


def _partition_labels(snapshot: StatusSnapshot, condition: Sql, box: Box) -> tuple[str, ...]:
    select = sql("SELECT x, y, partition_key FROM {rows} WHERE {condition}", rows=PARTITIONS, condition=condition)
    labels = {(x, y): key_label(key, empty="") for x, y, key in snapshot.fetch_rows(select)}
    return tuple(labels.get((x, y), "") for y in range(box.y0, box.y1 + 1) for x in range(box.x0, box.x1 + 1))


def _bin_size(first: int, last: int, max_bins: int) -> int:
    """Return how many coordinates make a bin, for at most `max_bins`; a box may begin and end within a bin."""
    size = last - first + 1
    step = -(-size // max_bins)
    while last // step - first // step + 1 > max_bins > 1:
        step += 1
    return step


def _bin_index_sql(column: str, step: int) -> Sql:
    coordinate = name(column)
    return coordinate if step == 1 else sql("floor({c} / {step}.0)::INTEGER", c=coordinate, step=step)


def _distinct_counts(counts: np.ndarray) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the distinct counts, that of an empty bin first, and the index among them for each bin."""
    empty_row = np.zeros((1, counts.shape[1]), counts.dtype)
    rows = np.ascontiguousarray(np.vstack([empty_row, counts]))
    # Rows as single values of bytes are compared at once, not column by column.
    row_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first_index, inverse = np.unique(row_bytes, return_index=True, return_inverse=True)
    order = np.argsort(first_index, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    distinct_counts = tuple(tuple(row) for row in rows[first_index[order]].tolist())
    return distinct_counts, tuple(rank[inverse][1:].tolist())


def _axis_bins(  # noqa: PLR0913, PLR0917 - an axis and a range of it
    snapshot: StatusSnapshot, summary: AssetSummary, direction: str, axis: Axis, first: int, step: int, size: int
) -> AxisBins:
    starts = [(first + i) * step for i in range(size)]
    ends = [min(start + step - 1, axis.last) for start in starts]
    starts = [max(start, axis.first) for start in starts]
    labels = {c: label for c in (*starts, *ends) if (label := coordinate_label(axis, c)) is not None}
    if not labels:
        labels = _tick_labels(snapshot, summary.asset_number, direction, {*starts, *ends})
    bin_labels = (
        labels.get(start, "") if start == end else f"{labels.get(start, '')} to {labels.get(end, '')}"
        for start, end in zip(starts, ends, strict=True)
    )
    return AxisBins(axis.name, axis.unit, first * step, step, tuple(bin_labels))


def _tick_labels(snapshot: StatusSnapshot, asset_number: int, direction: str, coordinates: set[int]) -> dict[int, str]:
    rows = snapshot.fetch_rows(
        sql(
            "SELECT coordinate, value FROM {ticks} "
            "WHERE asset = {asset} AND axis = {axis} AND coordinate IN ({coordinates})",
            ticks=TICKS,
            asset=asset_number,
            axis=direction,
            coordinates=sorted(coordinates),
        )
    )
    return {coordinate: key_label(value, empty="") for coordinate, value in rows}
