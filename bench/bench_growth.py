"""What a change or a question costs as a table grows: 20,000 and 200,000 files, 200 and 2,000 commits.

Deleting a partition is held against planning it. Both open the table anew each time, and find nothing that was decoded
before: the plan reads the metadata that it needs, the delete reads the same, writes it without the files and commits.
Each delete is of another partition, in a manifest that wasn't rewritten before. `commits()` is from the start, in
seconds for each commit. None needs a JVM.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from bench.harness import Row, Side, at_least, compare, measure, within
from bench.large_tables import (
    FILES_IN_MANIFEST,
    FILES_IN_PARTITION,
    delta_of_commits,
    delta_of_files,
    iceberg_of_files,
    iceberg_of_snapshots,
    load_iceberg,
    reopen,
)
from partita.formats.iceberg.manifests import cache

SIZES = (20_000, 200_000)
COMMITS = (200, 2_000)
REPEAT = 3


def rows() -> Iterator[Row]:
    """Iceberg, then Delta."""
    os.environ["PARTITA_CACHE"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        yield from _deletes("Iceberg", iceberg_of_files, folder)
        yield from _commits("Iceberg", iceberg_of_snapshots, folder)
        yield from _deletes("Delta", delta_of_files, folder)
        yield from _commits("Delta", delta_of_commits, folder)


def _deletes(form: str, make: Callable[[str, int], None], folder: str) -> Iterator[Row]:
    deletes = []
    for size in SIZES:
        home = str(Path(folder, f"{form}-{size}"))
        make(home, size)
        partitions = count(1, FILES_IN_MANIFEST // FILES_IN_PARTITION)
        delete = Side(f"partita, {size:,} files", _delete(home, partitions, size))
        plan = Side("partita's plan of it", _plan(home))
        yield compare(
            f"{form}: delete one partition of {size:,} files", ours=delete, theirs=plan, goal=at_least(1 / 3),
            repeat=REPEAT,
        )  # fmt: skip
        deletes.append(delete)
        if form == "Iceberg" and size == SIZES[0]:
            theirs = Side("pyiceberg's delete", _their_delete(home, partitions, size))
            yield compare(
                f"{form}: delete one partition of {size:,} files, both", ours=delete, theirs=theirs, goal=at_least(3),
                repeat=REPEAT,
            )  # fmt: skip
    small, large = deletes
    # A Delta log is replayed whole by whoever opens the table, so that there is no goal of its own.
    goal = at_least(1 / 3) if form == "Iceberg" else None
    yield compare(f"{form}: delete one partition, as files grow", ours=large, theirs=small, goal=goal, repeat=REPEAT)


def _commits(form: str, make: Callable[[str, int], None], folder: str) -> Iterator[Row]:
    sides = []
    for size in COMMITS:
        home = str(Path(folder, f"{form}-commits-{size}"))
        make(home, size)
        side = Side(f"partita, for each of {size:,}", _told(home, size), size)
        yield measure(f"{form}: commits() of {size:,} commits", side, goal=within(0.002), repeat=REPEAT)
        sides.append(side)
    few, many = sides
    yield compare(f"{form}: commits(), as commits grow", ours=many, theirs=few, goal=at_least(0.5), repeat=REPEAT)


def _plan(home: str) -> Callable[[], object]:
    def run() -> object:
        cache.forget()
        return reopen(home).plan("part = 0").files

    return run


def _delete(home: str, partitions: Iterator[int], size: int) -> Callable[[], None]:
    def run() -> None:
        cache.forget()
        outcome = reopen(home).delete(f"part = {_next(partitions, size)}")
        assert outcome.counts["files_removed"] == FILES_IN_PARTITION

    return run


def _their_delete(home: str, partitions: Iterator[int], size: int) -> Callable[[], None]:
    return lambda: load_iceberg(home).delete(f"part = {_next(partitions, size)}")


def _next(partitions: Iterator[int], size: int) -> int:
    """Round the table, and then on to the next partition of each manifest."""
    number, every = next(partitions), size // FILES_IN_PARTITION
    return (number + number // every) % every


def _told(home: str, size: int) -> Callable[[], None]:
    def run() -> None:
        assert len(reopen(home).commits().commits) == size

    return run
