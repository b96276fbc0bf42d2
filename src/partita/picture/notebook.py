"""What lakes, tables, plans and answers about status show of themselves in a notebook: HTML with the map of the pages.

It needs no script and no style sheet, and every text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from partita.picture.bins import key_label, make_bins
from partita.picture.marks import MARKS
from partita.picture.snapshot import AssetFacts, Snapshot, snapshot_of, snapshot_of_marks
from partita.picture.svg import legend, svg_of
from partita.picture.words import clock, size
from partita.status.shown import one_line

if TYPE_CHECKING:
    import pyarrow as pa

_MAPS, _COLUMNS, _ROWS, _PARTITIONS = 6, 120, 24, 20
_CURRENT, _STALE, _MISSING, _FAILED = 0, 1, 3, 4


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Something to look at: HTML in a notebook, and text elsewhere."""

    text: str
    html: str = field(repr=False)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def lake_html(uri: str, place: str, snapshot: Snapshot) -> str:
    """Every asset of a lake with its counts, and maps of the first few; `place` is its tenant and workspace."""
    return f"<p><b>{escape(uri)}</b>, {escape(place)}</p>{_board(snapshot)}"


def status_shown(rows: pa.Table, now: datetime | None = None) -> Shown:
    """What `lake.status` answered: counts of each asset, and maps of the first few."""
    snapshot = snapshot_of(rows, now)
    lines = [f"{one_line(facts.name)}: {_counts(facts)}" for facts in snapshot.assets.values()]
    return Shown("\n".join(lines) or "no partitions", _board(snapshot))


def table_html(name: str, spec: str, spec_id: int, partitions: pa.Table) -> str:
    """A table: how it is partitioned, which partitions the current spec has, and the largest of all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    own = partitions.filter(pc.and_(pc.equal(partitions["spec_id"], spec_id), partitions["key"].is_valid()))
    marked = pa.table(
        {
            "asset_key": pa.array([name] * own.num_rows, pa.string()),
            "partition_key": own["key"],
            "mark": pa.array([_CURRENT] * own.num_rows, pa.int64()),
        }
    )
    ordered = partitions.sort_by([("bytes", "descending")]).slice(0, _PARTITIONS).to_pylist()
    lines = [
        ("without a key" if row["key"] is None else key_label(row["key"]) or "the whole table", f"{row['spec_id']}",
         f"{row['files']:,}", size(row["bytes"]))
        for row in ordered
    ]  # fmt: skip
    maps = "".join(_maps(snapshot_of_marks(marked, datetime.now(UTC))))
    return (
        f"<p><b>{escape(name)}</b> by {escape(spec) or 'nothing'}, {partitions.num_rows:,} partitions</p>{maps}"
        f"{_grid(('partition', 'spec', 'files', 'size'), lines)}{_more(partitions.num_rows)}"
    )


def plan_html(partitions: pa.Table, blocked: pa.Table, made_at: datetime) -> str:
    """A plan: what would run of each asset and why, in order, with maps; and what is held back."""
    import pyarrow as pa

    marked = pa.table(
        {
            "asset_key": partitions["asset_key"],
            "partition_key": partitions["partition_key"],
            "mark": _marks(partitions["reasons"].combine_chunks()),
        }
    )
    snapshot = snapshot_of_marks(marked, made_at)
    batches = partitions.group_by(["asset_key", "batch"]).aggregate([])["asset_key"].to_pylist()
    lines = [
        (one_line(facts.name), f"{facts.partitions:,}", f"{batches.count(facts.name):,}", _counts(facts))
        for facts in snapshot.assets.values()
    ]
    held = [
        (f"{one_line(row['asset_key'])} {key_label(row['partition_key'])}",
         f"{one_line(row['by_asset'])} {key_label(row['by_partition'])}")
        for row in blocked.slice(0, _PARTITIONS).to_pylist()
    ]  # fmt: skip
    count = f"<p><b>{partitions.num_rows:,} partitions</b> would run, {blocked.num_rows:,} are held back</p>"
    order = _grid(("asset", "partitions", "batches", "because they are"), lines) if lines else ""
    waiting = _grid(("held back", "waits for"), held) + _more(blocked.num_rows) if held else ""
    maps = f"{''.join(_maps(snapshot))}{legend((_MISSING, _STALE, _FAILED))}" if lines else ""
    return f"{count}{order}{maps}{waiting}<p>as of {clock(made_at)}</p>"


def _marks(reasons: pa.ListArray) -> pa.Array:
    """The worst of what each partition is."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    found = np.full(len(reasons), _STALE)
    words, places = pc.list_flatten(reasons), pc.list_parent_indices(reasons)
    for word, mark in (("MISSING", _MISSING), ("FAILED", _FAILED)):
        found[places.filter(pc.equal(words, word)).to_numpy()] = mark
    return pa.array(found)


def _board(snapshot: Snapshot) -> str:
    lines = [
        (one_line(facts.name), f"{facts.partitions:,}", _counts(facts), clock(facts.last_materialized))
        for facts in snapshot.assets.values()
    ]
    board = _grid(("asset", "partitions", "by state", "last made"), lines)
    return f"{board}{''.join(_maps(snapshot))}{legend()}<p>as of {clock(snapshot.as_of)}</p>"


def _grid(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    rows = ("".join(f"<td>{escape(str(value))}</td>" for value in line) for line in lines)
    return f"<table><tr>{names}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _more(total: int) -> str:
    return f"<p>and {total - _PARTITIONS:,} more</p>" if total > _PARTITIONS else ""


def _counts(facts: AssetFacts) -> str:
    return ", ".join(f"{n:,} {mark.word}" for mark, n in zip(MARKS, facts.marks, strict=True) if n)


def _maps(snapshot: Snapshot) -> Iterator[str]:
    shown = [facts for facts in snapshot.assets.values() if facts.partitions > 1]
    for facts in shown[:_MAPS]:
        bins = make_bins(snapshot, facts.name, None, _COLUMNS, _ROWS)
        yield f"<p><b>{escape(one_line(facts.name))}</b></p>{svg_of(bins)}"
    if len(shown) > _MAPS:
        yield f"<p>and {len(shown) - _MAPS:,} assets more</p>"
