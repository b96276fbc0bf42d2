"""A writer that is killed before, in or after its commit leaves all of its rows or none; orphans are removed."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import partita as pt
from partita.formats.capabilities import Operation
from tests.conformance.row_model import ROWS, arrow_rows, data_files, files_on_disk, read_rows, written_change

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
NEW = [{"id": 5, "p": "b", "n": 50}, {"id": 6, "p": "c", "n": 60}, {"id": 7, "p": "d", "n": 70}]
LATER = [{"id": 8, "p": "c", "n": 80}, {"id": 9, "p": "d", "n": 90}]
"""Rows in the partitions that the killed writer would have created."""
KILLED_CALLS = 2
LONG_KILLED_CALLS = 12
LONG_AGO = 1_600_000_000


@contextmanager
def killed_writers(lake: pt.Lake, changes: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the process that forks a writer for each step; see `commit_process`."""
    command = [sys.executable, "-m", "tests.conformance.commit_process", lake.uri, str(changes), "kill"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


def run_step(process: subprocess.Popen[str], step: str) -> str:
    """Let a writer commit and be killed at a step; return what became of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{step}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@pytest.mark.needs(Operation.APPEND, Operation.REMOVE_ORPHANS)
@pytest.mark.parametrize("killed_calls", [KILLED_CALLS, pytest.param(LONG_KILLED_CALLS, marks=pytest.mark.long)])
def test_a_killed_writer_leaves_all_or_nothing(model_lake: pt.Lake, tmp_path: Path, killed_calls: int) -> None:
    files = data_files(model_lake)
    change = written_change(model_lake.table("t.t"), arrow_rows(NEW))
    written_files = data_files(model_lake) - files
    assert len(written_files) >= 3
    (tmp_path / "changes.pickle").write_bytes(pickle.dumps([change]))
    shutil.copytree(model_lake.uri, tmp_path / "before the commit")
    with killed_writers(model_lake, tmp_path / "changes.pickle") as process:
        call_count = int(run_step(process, "never"))
        assert read_rows(model_lake.table("t.t")) == ROWS + NEW
        calls = [str(call_count * (2 * number + 1) // (2 * killed_calls)) for number in range(killed_calls)]
        outcomes = []
        for step in ["before", *calls, "after"]:
            shutil.rmtree(model_lake.uri)
            shutil.copytree(tmp_path / "before the commit", model_lake.uri)
            assert run_step(process, step) == "killed", step
            outcomes.append(check_after_kill(model_lake, written_files, step))
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert outcomes == sorted(outcomes), "a change is committed from one call on"


def check_after_kill(lake: pt.Lake, written_files: set[str], step: str) -> bool:
    """Check what a killed writer left, and what others do then; return whether its rows are there."""
    table = lake.table("t.t")
    rows = read_rows(table)
    assert rows in (ROWS, ROWS + NEW)
    is_committed = rows != ROWS
    assert sum(table.partitions()["rows"].to_pylist()) == len(rows)
    table.append(arrow_rows(LATER))
    assert table.remove_orphans() == []
    assert written_files <= data_files(lake)
    for path, digest in files_on_disk(lake).items():
        if digest in written_files:
            os.utime(Path(lake.uri, path), (LONG_AGO, LONG_AGO))
    removed = table.remove_orphans(timedelta(0))
    remaining = written_files & data_files(lake)
    if is_committed:
        assert remaining == written_files
    elif remaining:
        # Only metadata that the killed writer wrote, and that its catalog never got, may keep files (ADR 25).
        assert step not in ("before", "after")
        assert remaining == written_files
        assert any(path.endswith(".metadata.json") for path in removed.remaining), step
    else:
        assert len(removed) >= len(written_files), step
    assert table.remove_orphans(timedelta(0)) == []
    assert read_rows(table) == rows + LATER
    return is_committed
