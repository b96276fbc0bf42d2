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

from bench.harness import Row, Side, at_least, compare, measure, within_seconds
from bench.large_tables import (
    FILES_PER_MANIFEST,
    FILES_PER_PARTITION,
    create_delta_with_commits,
    create_delta_with_files,
    create_iceberg_with_files,
    create_iceberg_with_snapshots,
    load_iceberg_table,
    reopen_table,
)
from partita.formats.iceberg.manifests import cache

FILE_COUNTS = (20_000, 200_000)
COMMIT_COUNTS = (200, 2_000)
REPEAT = 3


def rows() -> Iterator[Row]:
    """Iceberg, then Delta."""
    os.environ["PARTITA_CACHE"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        yield from _compare_deletes("Iceberg", create_iceberg_with_files, folder)
        yield from _compare_change_feeds("Iceberg", create_iceberg_with_snapshots, folder)
        yield from _compare_deletes("Delta", create_delta_with_files, folder)
        yield from _compare_change_feeds("Delta", create_delta_with_commits, folder)


def _compare_deletes(format_name: str, create_table: Callable[[str, int], None], folder: str) -> Iterator[Row]:
    deletes = []
    for size in FILE_COUNTS:
        home = str(Path(folder, f"{format_name}-{size}"))
        create_table(home, size)
        partitions = count(1, FILES_PER_MANIFEST // FILES_PER_PARTITION)
        delete = Side(f"partita, {size:,} files", _delete_partition(home, partitions, size))
        plan = Side("partita's plan of it", _plan_partition(home))
        yield compare(
            f"{format_name}: delete one partition of {size:,} files", ours=delete, theirs=plan, goal=at_least(1 / 3),
            repeat=REPEAT,
        )  # fmt: skip
        deletes.append(delete)
        if format_name == "Iceberg" and size == FILE_COUNTS[0]:
            theirs = Side("pyiceberg's delete", _pyiceberg_delete(home, partitions, size))
            yield compare(
                f"{format_name}: delete one partition of {size:,} files, both",
                ours=delete,
                theirs=theirs,
                goal=at_least(3),
                repeat=REPEAT,
            )
    small, large = deletes
    # A Delta log is replayed whole by whoever opens the table, so that there is no goal of its own.
    goal = at_least(1 / 3) if format_name == "Iceberg" else None
    yield compare(
        f"{format_name}: delete one partition, as files grow", ours=large, theirs=small, goal=goal, repeat=REPEAT
    )


def _compare_change_feeds(format_name: str, create_table: Callable[[str, int], None], folder: str) -> Iterator[Row]:
    sides = []
    for size in COMMIT_COUNTS:
        home = str(Path(folder, f"{format_name}-commits-{size}"))
        create_table(home, size)
        side = Side(f"partita, for each of {size:,}", _read_change_feed(home, size), size)
        yield measure(f"{format_name}: commits() of {size:,} commits", side, goal=within_seconds(0.002), repeat=REPEAT)
        sides.append(side)
    few, many = sides
    yield compare(
        f"{format_name}: commits(), as commits grow", ours=many, theirs=few, goal=at_least(0.5), repeat=REPEAT
    )


def _plan_partition(folder: str) -> Callable[[], object]:
    def run() -> object:
        cache.clear_memory()
        return reopen_table(folder).plan("part = 0").files

    return run


def _delete_partition(folder: str, partitions: Iterator[int], file_count: int) -> Callable[[], None]:
    def run() -> None:
        cache.clear_memory()
        outcome = reopen_table(folder).delete(f"part = {_next_partition(partitions, file_count)}")
        assert outcome.counts["files_removed"] == FILES_PER_PARTITION

    return run


def _pyiceberg_delete(folder: str, partitions: Iterator[int], file_count: int) -> Callable[[], None]:
    return lambda: load_iceberg_table(folder).delete(f"part = {_next_partition(partitions, file_count)}")


def _next_partition(partitions: Iterator[int], file_count: int) -> int:
    """Round the table, and then on to the next partition of each manifest."""
    number, every = next(partitions), file_count // FILES_PER_PARTITION
    return (number + number // every) % every


def _read_change_feed(folder: str, commit_count: int) -> Callable[[], None]:
    def run() -> None:
        assert len(reopen_table(folder).change_feed().commits) == commit_count

    return run
