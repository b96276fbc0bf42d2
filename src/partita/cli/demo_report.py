"""How the demo shows itself: what it is doing on stderr, what came out as tables on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Self

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from partita.cli.demo_orders import ASSET, SPEC, WHERE, Found, total_rows

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 4


class Progress:
    """Says each step as it ends, with its seconds, and the seconds of all at the end. On a terminal a spinner turns."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._start = perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self._say(self._start, "all of it")

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        start = perf_counter()
        with self._console.status(what):
            yield
        self._say(start, what)

    def _say(self, start: float, what: str) -> None:
        self._console.print(Text(f"{perf_counter() - start:6.2f} s  {what}", style="dim"), soft_wrap=True)


def show(found: Found) -> None:
    """The tables: some partitions, what was kept, what was skipped and why, and the count that checks it."""
    console = Console(highlight=False)
    every, rows = found.partitions, total_rows(found.partitions)
    kept = total_rows(found.kept)
    console.print(f"\n[bold]{rows:,} {ASSET} in {every.num_rows:,} partitions[/] by {SPEC}")
    console.print(_partitions(every))
    console.print("[bold]Which can hold rows where[/]")
    console.print(Text(f"  {WHERE}".replace(" AND ", "\n  AND ")))
    console.print(f"\n{_part('Kept', found.kept.num_rows, kept, rows)}")
    console.print(_partitions(found.kept))
    console.print(_part("Skipped", every.num_rows - found.kept.num_rows, rows - kept, rows))
    console.print(_skipped(found))
    console.print(_verdict(found))
    console.print(f"\n[bold]The same {ASSET} in a Delta table[/] by day(ts), country")
    console.print(_versions(found))
    console.print(_count(found))


def _part(what: str, partitions: int, rows: int, of: int) -> str:
    return f"[bold]{what}: {partitions:,} partitions[/] with {rows:,} rows ({rows / of:.1%})"


def _partitions(partitions: pa.Table) -> Table:
    table = Table("key, and id", box=box.SIMPLE_HEAD)
    table.add_column("rows", justify="right")
    for partition in partitions.slice(0, SHOWN).to_pylist():
        table.add_row(Text.assemble(partition["key"], "\n", (partition["id"], "dim")), f"{partition['rows']:,}")
    if partitions.num_rows > SHOWN:
        rest = partitions.slice(SHOWN)
        table.add_row(f"and {rest.num_rows:,} more", f"{total_rows(rest):,}", style="italic")
    return table


def _skipped(found: Found) -> Table:
    table = Table("excluded by", box=box.SIMPLE_HEAD)
    for name in ("partitions", "rows"):
        table.add_column(name, justify="right")
    for skipped in found.skipped:
        table.add_row(Text(skipped.reason), f"{skipped.partitions:,}", f"{skipped.rows:,}")
    return table


def _versions(found: Found) -> Table:
    table = Table("version", box=box.SIMPLE_HEAD)
    table.add_column("what was done")
    table.add_column("rows", justify="right")
    table.add_column("files", justify="right")
    for version in found.changed.versions:
        counts = version.counts
        rows = sum(counts.get(f"rows_{kind}", 0) for kind in ("inserted", "updated", "deleted"))
        files = f"+{counts['files_added']:,} -{counts['files_removed']:,}"
        table.add_row(str(version.number), Text(version.done), f"{rows:,}", files)
    return table


def _count(found: Found) -> Text:
    counted = f"Spark counts {found.changed.rows:,} rows in the table, and there should be {found.changed.expected:,}."
    same = found.changed.rows == found.changed.expected
    return Text.assemble(counted, "\n", ("Nothing was lost.", "bold green") if same else ("Rows differ!", "bold red"))


def _verdict(found: Found) -> Text:
    counted = (
        f"Spark counts {found.matching:,} matching rows in all partitions, {found.matching_in_kept:,} in the kept."
    )
    said = (
        ("Pruning lost nothing.", "bold green")
        if found.matching == found.matching_in_kept
        else ("Pruning lost rows!", "bold red")
    )
    return Text.assemble(counted, "\n", said)
