"""How lakes, tables, plans and status are shown in a notebook: HTML with the heat map of the pages.

The HTML needs no script and no style sheet, and every text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from partita.algebra.key_label import partition_label, table_partition_label
from partita.display.bins import bin_partitions
from partita.display.status_snapshot import AssetSummary, StatusSnapshot, snapshot_from_marks, snapshot_from_status
from partita.display.svg import heatmap_svg, legend_html
from partita.status.states import CURRENT_MARK, FAILED_MARK, MISSING_MARK, STALE_MARK, mark_counts_text
from partita.status.text import bytes_text, clock_text, one_line

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_MAPS, _MAX_COLUMNS, _MAX_ROWS, _MAX_PARTITIONS = 6, 120, 24, 20


@dataclass(frozen=True, slots=True, eq=False)
class NotebookOutput:
    """Output that is HTML in a notebook, and text elsewhere."""

    text: str
    html: str = field(repr=False)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def lake_html(uri: str, workspace_name: str, snapshot: StatusSnapshot) -> str:
    """Return the assets of a lake with their counts, and maps of the first few."""
    return f"<p><b>{escape(uri)}</b>, {escape(workspace_name)}</p>{_status_html(snapshot)}"


def status_output(rows: pa.Table, now: datetime | None = None) -> NotebookOutput:
    """Return rows of `lake.status` as counts of each asset, and maps of the first few."""
    snapshot = snapshot_from_status(rows, now)
    lines = [f"{one_line(summary.name)}: {_counts_text(summary)}" for summary in snapshot.assets.values()]
    return NotebookOutput("\n".join(lines) or "no partitions", _status_html(snapshot))


def table_html(name: str, spec: str, spec_id: int, partitions: pa.Table) -> str:
    """Return how a table is partitioned, a map of the partitions of its current spec, and its largest partitions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    current = partitions.filter(pc.and_(pc.equal(partitions["spec_id"], spec_id), partitions["key"].is_valid()))
    marked_rows = pa.table(
        {
            "asset_key": pa.array([name] * current.num_rows, pa.string()),
            "partition_key": current["key"],
            "mark": pa.array([CURRENT_MARK] * current.num_rows, pa.int64()),
        }
    )
    largest = partitions.sort_by([("bytes", "descending")]).slice(0, _MAX_PARTITIONS).to_pylist()
    lines = [
        (table_partition_label(row["key"]), f"{row['spec_id']}", f"{row['files']:,}", bytes_text(row["bytes"]))
        for row in largest
    ]  # fmt: skip
    maps = "".join(_map_html(snapshot_from_marks(marked_rows, datetime.now(UTC))))
    return (
        f"<p><b>{escape(name)}</b> by {escape(spec) or 'nothing'}, {partitions.num_rows:,} partitions</p>{maps}"
        f"{_html_table(('partition', 'spec', 'files', 'size'), lines)}{_more_html(partitions.num_rows)}"
    )


def plan_html(partitions: pa.Table, blocked_rows: pa.Table, planned_at: datetime) -> str:
    """Return a plan: what would run of each asset and why, in order, with maps; and what is held back."""
    import pyarrow as pa

    marked_rows = pa.table(
        {
            "asset_key": partitions["asset_key"],
            "partition_key": partitions["partition_key"],
            "mark": _reason_marks(partitions["reasons"].combine_chunks()),
        }
    )
    snapshot = snapshot_from_marks(marked_rows, planned_at)
    batches = partitions.group_by(["asset_key", "batch"]).aggregate([])["asset_key"].to_pylist()
    lines = [
        (one_line(asset.name), f"{asset.partition_count:,}", f"{batches.count(asset.name):,}", _counts_text(asset))
        for asset in snapshot.assets.values()
    ]
    blocked_lines = [
        (partition_label(row["asset_key"], row["partition_key"]), partition_label(row["by_asset"], row["by_partition"]))
        for row in blocked_rows.slice(0, _MAX_PARTITIONS).to_pylist()
    ]  # fmt: skip
    count = f"<p><b>{partitions.num_rows:,} partitions</b> would run, {blocked_rows.num_rows:,} are held back</p>"
    order = _html_table(("asset", "partitions", "batches", "because they are"), lines) if lines else ""
    waiting = (
        _html_table(("held back", "waits for"), blocked_lines) + _more_html(blocked_rows.num_rows)
        if blocked_lines
        else ""
    )
    maps = f"{''.join(_map_html(snapshot))}{legend_html((MISSING_MARK, STALE_MARK, FAILED_MARK))}" if lines else ""
    return f"{count}{order}{maps}{waiting}<p>as of {clock_text(planned_at)}</p>"


def _reason_marks(reasons: pa.ListArray) -> pa.Array:
    """Return the mark of the worst reason of each partition."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    marks = np.full(len(reasons), STALE_MARK)
    values, row_indices = pc.list_flatten(reasons), pc.list_parent_indices(reasons)
    for reason, mark in (("MISSING", MISSING_MARK), ("FAILED", FAILED_MARK)):
        marks[row_indices.filter(pc.equal(values, reason)).to_numpy()] = mark
    return pa.array(marks)


def _status_html(snapshot: StatusSnapshot) -> str:
    lines = [
        (one_line(asset.name), f"{asset.partition_count:,}", _counts_text(asset), clock_text(asset.last_materialized))
        for asset in snapshot.assets.values()
    ]
    assets_table = _html_table(("asset", "partitions", "by state", "last made"), lines)
    return f"{assets_table}{''.join(_map_html(snapshot))}{legend_html()}<p>as of {clock_text(snapshot.as_of)}</p>"


def _html_table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    rows = ("".join(f"<td>{escape(str(value))}</td>" for value in line) for line in lines)
    return f"<table><tr>{names}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _more_html(total: int) -> str:
    return f"<p>and {total - _MAX_PARTITIONS:,} more</p>" if total > _MAX_PARTITIONS else ""


def _counts_text(summary: AssetSummary) -> str:
    return mark_counts_text(dict(enumerate(summary.mark_counts)))


def _map_html(snapshot: StatusSnapshot) -> Iterator[str]:
    assets = [asset for asset in snapshot.assets.values() if asset.partition_count > 1]
    for asset in assets[:_MAX_MAPS]:
        bins = bin_partitions(snapshot, asset.name, None, _MAX_COLUMNS, _MAX_ROWS)
        yield f"<p><b>{escape(one_line(asset.name))}</b></p>{heatmap_svg(bins)}"
    if len(assets) > _MAX_MAPS:
        yield f"<p>and {len(assets) - _MAX_MAPS:,} assets more</p>"
