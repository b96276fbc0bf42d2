"""Processes that write at the same time lose nothing, and write nothing twice."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

import partita as pt
from tests.formats.lance.appending import LEAVES, ROUNDS
from tests.formats.lance.tables import EVENTS, events, make, rows_of, store_of, write

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PROCESSES = 4


def started(uri: str, begin: float) -> Iterator[subprocess.Popen[bytes]]:
    script = Path(__file__).with_name("appending.py")
    for number in range(PROCESSES):
        yield subprocess.Popen(
            [sys.executable, str(script), uri, str(number), str(begin)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
        )  # fmt: skip


def test_four_processes_create_and_append_to_the_same_new_leaves(tmp_path: Path) -> None:
    table = make(tmp_path, EVENTS, ["event_date", "country"])
    running = list(started(table.uri, time.time() + 3))
    for process in running:
        _, problem = process.communicate(timeout=300)
        assert process.returncode == 0, problem.decode()
    everything = list(range(PROCESSES * ROUNDS * LEAVES))
    assert rows_of(table) == everything
    assert table.partitions()["rows"].to_pylist() == [PROCESSES * ROUNDS] * LEAVES
    # So a stranger counts them too.
    leaves = [f"{table.uri}/{path}" for path in table.plan().files["path"].to_pylist()]
    assert sorted(i for leaf in leaves for i in lance.dataset(leaf).to_table()["id"].to_pylist()) == everything
    assert table.version == PROCESSES * ROUNDS


def test_a_stranger_that_appends_beside_us_loses_nothing(tmp_path: Path) -> None:
    """Its data set is open since before our writes, and what it commits goes on top of them."""
    table = make(tmp_path, EVENTS, ["event_date", "country"])
    write(table, events((0, "2025-12-10", "US")))
    stale = lance.dataset(f"{table.uri}/event_date=2025-12-10/country=US.lance")
    write(table, events((1, "2025-12-10", "US")))
    lance.write_dataset(pa.table({"id": [100]}), stale, mode="append")
    write(table, events((2, "2025-12-10", "US")))
    assert rows_of(table) == [0, 1, 2, 100]
    assert pt.open_table(table.uri, format="lance").partitions()["rows"].to_pylist() == [4]
    assert store_of(table).log.known()[1] is None
