"""Executors that are processes of their own, as on a cluster, and die during a merge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def expected() -> tuple[int, int, int, int]:
    rows = {number: number for number in range(6_000)}
    for step in range(2):
        for number in range(1_000, 7_000):
            is_deleted = number % 10 == step
            if is_deleted and number in rows:
                del rows[number]
            else:
                # A row that isn't there is inserted with what the source has, -1 too.
                rows[number] = -1 if is_deleted else number + 10_000 * (step + 1)
    return len(rows), len(rows), sum(rows.values()), min(rows.values())


@pytest.mark.jvm
@pytest.mark.long
def test_a_merge_whose_executor_dies_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed_executor.py")), str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    *aggregates, orphans, after = map(int, done.stdout.split()[-6:])
    assert tuple(aggregates) == expected()
    assert after == aggregates[0]
    # What the killed tasks had written is in no snapshot, and gone now.
    assert orphans > 0
    assert {path.name for path in tmp_path.glob("killed*")} == {"killed_write_target", "killed_position_delete_writer"}
