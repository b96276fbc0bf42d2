"""A commit that is killed at any step is either whole or not there, and what it leaves behind can be removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from partita.algebra.functions import bucket
from partita.formats.iceberg.transaction import Changes, evolve, remove_orphans
from tests.formats.iceberg.transaction.killed import KILLED
from tests.formats.iceberg.transaction.tables import (
    append,
    catalog_at,
    change,
    check_totals,
    data_file,
    ids_of,
    live_files,
    metadata_files,
    named_files,
    new_table,
)

FILES = 7
"""Two manifests of added, two of existing and two of deleted files, and their list."""
STEPS = [*map(str, range(FILES)), "before", "after", "none"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table for each step, in each of which a commit was killed there."""
    made = {step: tmp_path_factory.mktemp(f"step-{step}") for step in STEPS}
    for folder in made.values():
        table = new_table(folder)
        evolve(table, add=[bucket("id", 4)])
        append(table, *(data_file(table, [{"id": at, "region": "eu"}], at % 2) for at in range(4)))
    done = subprocess.run(
        [sys.executable, "-m", killed_name(), *(f"{step}={folder}" for step, folder in made.items())],
        cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    exits = dict(line.split() for line in done.stdout.splitlines())
    assert exits == {step: str(FILES if step == "none" else KILLED) for step in STEPS}
    return made


def killed_name() -> str:
    return "tests.formats.iceberg.transaction.killed"


@pytest.mark.parametrize("step", STEPS)
def test_killed_at(folders: dict[str, Path], step: str) -> None:
    table = catalog_at(folders[step]).load_table("db.t")
    landed = step in ("after", "none")
    ids = ids_of(table)
    assert len(ids) == 4
    assert {100, 101} <= set(ids) if landed else ids == [0, 1, 2, 3]
    assert len(table.metadata.snapshots) == (2 if landed else 1)
    check_totals(table)

    # Whoever comes next is not disturbed.
    rest = frozenset(path for path, _, _ in live_files(table))
    change(table, Changes("delete", removed=rest))
    append(table, data_file(table, [{"id": 7, "region": "eu"}]))
    assert ids_of(table) == [7]

    # What was left behind goes, once it is older than any commit takes.
    assert remove_orphans(table, older_than=3600) == []
    removed = {Path(path).name for path in remove_orphans(table, older_than=-60)}
    assert len([name for name in removed if name.endswith(".parquet")]) == (0 if landed else 2)
    assert metadata_files(table) == named_files(table)
    assert ids_of(table) == [7]
