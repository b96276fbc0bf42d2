"""What a notebook shows of a lake, of an answer about status, and of a table: HTML with the heat map of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from partita.status.shown import one_line
from partita.web.bins import key_label, make_bins
from partita.web.marks import MARKS
from partita.web.picture import legend, svg_of
from partita.web.snapshot import AssetFacts, Snapshot, snapshot_of, take_snapshot
from partita.web.view import View
from partita.web.words import clock, size

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.formats.table import Table
    from partita.lake import Lake

_MAPS, _COLUMNS, _ROWS, _PARTITIONS = 6, 120, 24, 20


def lake_html(lake: Lake) -> str:
    """Every asset of a lake with its counts, and maps of the first few."""
    title = f"<p><b>{escape(lake.uri)}</b>, {escape(lake.tenant)}/{escape(lake.workspace)}</p>"
    return title + _board(take_snapshot(lake))


def status_html(rows: pa.Table) -> str:
    """What `lake.status` answered: counts of each asset, and maps of the first few."""
    return _board(snapshot_of(rows))


def table_html(table: Table) -> str:
    """A table: how it is partitioned, and its largest partitions."""
    partitions = table.partitions()
    ordered = partitions.sort_by([("bytes", "descending")]).slice(0, _PARTITIONS).to_pylist()
    rows = "".join(
        f"<tr><td>{escape('without a key' if row['key'] is None else key_label(row['key']))}</td>"
        f"<td>{row['spec_id']}</td><td>{row['files']:,}</td><td>{size(row['bytes'])}</td></tr>"
        for row in ordered
    )
    return (
        f"<p><b>{escape(table.name)}</b> by {escape(str(table.spec)) or 'nothing'}, {partitions.num_rows:,} partitions"
        f"</p><table><tr><th>partition</th><th>spec</th><th>files</th><th>size</th></tr>{rows}</table>"
    )


def _board(snapshot: Snapshot) -> str:
    lines = "".join(
        f"<tr><td>{escape(one_line(facts.name))}</td><td>{facts.partitions:,}</td><td>{escape(_counts(facts))}</td>"
        f"<td>{clock(facts.last_materialized)}</td></tr>"
        for facts in snapshot.assets.values()
    )
    head = "<tr><th>asset</th><th>partitions</th><th>by state</th><th>last made</th></tr>"
    return f"<table>{head}{lines}</table>{''.join(_maps(snapshot))}{legend()}<p>as of {clock(snapshot.as_of)}</p>"


def _counts(facts: AssetFacts) -> str:
    return ", ".join(f"{n:,} {mark.word}" for mark, n in zip(MARKS, facts.marks, strict=True) if n)


def _maps(snapshot: Snapshot) -> Iterator[str]:
    shown = [facts for facts in snapshot.assets.values() if facts.partitions > 1]
    for facts in shown[:_MAPS]:
        bins = make_bins(snapshot, View(facts.name), _COLUMNS, _ROWS)
        yield f"<p><b>{escape(one_line(facts.name))}</b></p>{svg_of(bins)}"
    if len(shown) > _MAPS:
        yield f"<p>and {len(shown) - _MAPS:,} assets more</p>"
