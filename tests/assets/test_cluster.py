"""A run on executor processes: Spark replaces one that is killed, and no row is written twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.jvm
@pytest.mark.long
def test_an_executor_that_is_killed_while_it_makes_a_batch(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_executor.py")
    process = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "lake")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip().splitlines()[-1] == "8 True 800 8 39600 1 {1}"
