"""A commit that is killed at any step is either whole or not there, and what it leaves behind can be removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from partita.algebra.partition_functions import bucket
from partita.formats.iceberg.maintenance import remove_orphan_files
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.killed_commit import KILLED_EXIT_CODE
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    check_totals,
    commit_change,
    data_file,
    live_files,
    metadata_files,
    new_table,
    referenced_metadata_files,
    sqlite_catalog,
    table_ids,
)

FILES = 7
"""Two manifests of added, two of existing and two of deleted files, and their list."""
STEPS = [*map(str, range(FILES)), "before", "after", "none"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table for each step, in each of which a commit was killed there."""
    folders_by_step = {step: tmp_path_factory.mktemp(f"step-{step}") for step in STEPS}
    for folder in folders_by_step.values():
        table = new_table(folder)
        evolve_spec(table, add=[bucket("id", 4)])
        append_files(table, *(data_file(table, [{"id": index, "region": "eu"}], index % 2) for index in range(4)))
    done = subprocess.run(
        [sys.executable, "-m", killed_name(), *(f"{step}={folder}" for step, folder in folders_by_step.items())],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    exits = dict(line.split() for line in done.stdout.splitlines())
    assert exits == {step: str(FILES if step == "none" else KILLED_EXIT_CODE) for step in STEPS}
    return folders_by_step


def killed_name() -> str:
    return "tests.formats.iceberg.killed_commit"


@pytest.mark.slow(reason="processes that are killed")
@pytest.mark.parametrize("step", STEPS)
def test_killed_at(folders: dict[str, Path], step: str) -> None:
    table = sqlite_catalog(folders[step]).load_table("db.t")
    landed = step in ("after", "none")
    ids = table_ids(table)
    assert len(ids) == 4
    assert {100, 101} <= set(ids) if landed else ids == [0, 1, 2, 3]
    assert len(table.metadata.snapshots) == (2 if landed else 1)
    check_totals(table)

    # Whoever comes next is not disturbed.
    remaining = frozenset(path for path, _, _ in live_files(table))
    commit_change(table, SnapshotChange("delete", removed_data_files=remaining))
    append_files(table, data_file(table, [{"id": 7, "region": "eu"}]))
    assert table_ids(table) == [7]

    # What was left behind goes, once it is older than any commit takes.
    assert remove_orphan_files(table, older_than=3600) == []
    removed = {Path(path).name for path in remove_orphan_files(table, older_than=-60)}
    assert len([name for name in removed if name.endswith(".parquet")]) == (0 if landed else 2)
    assert metadata_files(table) == referenced_metadata_files(table)
    assert table_ids(table) == [7]
