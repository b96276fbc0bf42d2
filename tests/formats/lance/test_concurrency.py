"""Concurrent processes lose no rows and write none twice."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import partita as pt
from tests.formats.lance.concurrent_appender import LEAF_COUNT, ROUND_COUNT
from tests.formats.lance.tables import (
    EVENT_SCHEMA,
    column_values,
    commit_rows,
    create_lance_table,
    event_rows,
    table_store,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PROCESSES = 4


def start_appenders(uri: str, begin: float) -> Iterator[subprocess.Popen[bytes]]:
    script = Path(__file__).with_name("concurrent_appender.py")
    for number in range(PROCESSES):
        yield subprocess.Popen(
            [sys.executable, str(script), uri, str(number), str(begin)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
        )  # fmt: skip


@pytest.mark.slow(reason="processes that commit at the same time")
def test_four_processes_create_and_append_to_the_same_new_leaves(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, EVENT_SCHEMA, ["event_date", "country"])
    running = list(start_appenders(table.uri, time.time() + 3))
    for process in running:
        _, problem = process.communicate(timeout=300)
        assert process.returncode == 0, problem.decode()
    everything = list(range(PROCESSES * ROUND_COUNT * LEAF_COUNT))
    assert column_values(table) == everything
    assert table.partitions()["rows"].to_pylist() == [PROCESSES * ROUND_COUNT] * LEAF_COUNT
    # So a stranger counts them too.
    leaves = [f"{table.uri}/{path}" for path in table.plan().files["path"].to_pylist()]
    assert sorted(i for leaf in leaves for i in lance.dataset(leaf).to_table()["id"].to_pylist()) == everything
    assert table.version == PROCESSES * ROUND_COUNT


def test_a_concurrent_append_of_another_writer_is_not_lost(tmp_path: Path) -> None:
    """Another writer opened its dataset before Partita's writes, and commits on top of them."""
    table = create_lance_table(tmp_path, EVENT_SCHEMA, ["event_date", "country"])
    commit_rows(table, event_rows((0, "2025-12-10", "US")))
    stale = lance.dataset(f"{table.uri}/event_date=2025-12-10/country=US.lance")
    commit_rows(table, event_rows((1, "2025-12-10", "US")))
    lance.write_dataset(pa.table({"id": [100]}), stale, mode="append")
    commit_rows(table, event_rows((2, "2025-12-10", "US")))
    assert column_values(table) == [0, 1, 2, 100]
    assert pt.open_table(table.uri, format="lance").partitions()["rows"].to_pylist() == [4]
    assert table_store(table).log.read_latest()[1] is None
