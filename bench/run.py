"""`make bench`: run the benchmarks, show a table, and keep the numbers in bench/results.json."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.harness import Row

BENCH_FOLDER = Path(__file__).parent
GOAL_MARKS = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}


def benchmark_subjects(folder: Path, only: str = "") -> list[str]:
    """`bench_keys.py` has the subject `keys`."""
    found = sorted(path.stem.removeprefix("bench_") for path in folder.glob("bench_*.py"))
    return [subject for subject in found if only in subject]


def run_benchmark(subject: str) -> list[Row]:
    """What the benchmark of `subject` measures; each row is named as soon as it is there."""
    measured = []
    for row in importlib.import_module(f"bench.bench_{subject}").rows():
        Console().print(f"[dim]{subject}: {row.name}[/]")
        measured.append(row)
    return measured


def report_table(rows: Iterable[Row]) -> Table:
    """The report."""
    table = Table("what", "ours", "", "theirs", "", "ratio", "goal", "")
    for row in rows:
        table.add_row(
            row.name,
            row.ours_label,
            _format_duration(row.ours_seconds),
            row.theirs_label or "",
            _format_duration(row.theirs_seconds),
            "" if row.ratio is None else f"[bold]{row.ratio:.3g}x[/]",
            row.goal or "",
            GOAL_MARKS[row.ok],
        )
    for column in (2, 4, 5):
        table.columns[column].justify = "right"
    return table


def main(only: str = "") -> int:
    """Run what `only` picks. 0 also where a goal is missed; 1 where nothing was picked."""
    # A log has no width of its own, and the table is hard to read in 80 columns.
    console = Console(width=None if sys.stdout.isatty() else 160)
    picked = benchmark_subjects(BENCH_FOLDER, only)
    if not picked:
        console.print(
            f"no benchmark has {only!r} in its name; there is: {', '.join(benchmark_subjects(BENCH_FOLDER)) or 'none'}"
        )
        return 1
    # Each in a process of its own: they start Spark with other settings, and none inherits the heat of another.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as alone:
        measured = [row for rows in alone.map(run_benchmark, picked) for row in rows]
    console.print(report_table(measured))
    results = json.dumps([dataclasses.asdict(row) for row in measured], indent=1)
    (BENCH_FOLDER / "results.json").write_text(results + "\n", encoding="utf-8")
    return 0


def _format_duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
