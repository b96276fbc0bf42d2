"""Writes on executors that are separate processes, as on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROWS, SUM = 10_000, sum(i % 7 for i in range(10_000))


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.parametrize("how", ["stay", "kill"])
def test_an_append_is_whole(tmp_path: Path, how: str) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed_executor.py")), str(tmp_path), how],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    rows, distinct, total, orphans, after = map(int, done.stdout.split()[-5:])
    assert (rows, distinct, total, after) == (ROWS, ROWS, SUM, ROWS)
    # The files that the killed task had begun were in no commit, and are gone now.
    assert (orphans > 0) == (how == "kill")
    assert (tmp_path / "killed").exists() == (how == "kill")
