"""Eight processes append while two fold and one is killed: every event is counted once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from partita.algebra.key import PartitionKey
from partita.lake import Lake
from partita.status.duckdb_engine import fetch_rows, open_connection
from partita.status.duckdb_sql import Sql

SCRIPT = Path(__file__).with_name("appender.py")
APPENDERS = 8
COMMITS = 15


def start(lake: Lake, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(SCRIPT), lake.uri, *words], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow(reason="processes that are killed")
@pytest.mark.parametrize("seed", [1])
def test_every_event_counts_once_though_a_process_is_killed(seed: int, lake: Lake) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    lake.record("sales", {"n": 0, "p": "first"}, outcome="succeeded", run_id="first")
    running = {f"p{number}": start(lake, "append", f"p{number}", str(COMMITS)) for number in range(APPENDERS)}
    folding = [start(lake, "fold", "600") for _ in range(2)]
    victims = [running["p0"], folding[0]]
    said = running["p0"].stdout
    assert said is not None
    acknowledged = [said.readline() for _ in range(chance.randint(1, COMMITS - 5))]
    time.sleep(chance.random() / 10)
    for victim in victims:
        victim.kill()
    survived = {name: process.communicate()[0].split() for name, process in running.items()}
    folding[1].kill()
    for process in folding:
        process.communicate()
    assert all(running[name].returncode == 0 for name in running if name != "p0")
    assert all(len(lines) == COMMITS for name, lines in survived.items() if name != "p0")
    lake.fold()
    check(lake, {int(line) for line in (*acknowledged, *survived["p0"])})


def check(lake: Lake, acknowledged: set[int]) -> None:
    """Each partition has one event and one row, batches are whole, and what was acknowledged before a kill is there."""
    ledger = lake._workspace.ledger
    with open_connection() as connection:
        ledger.create_view(connection, Sql("events"), ledger.files().data_files)
        rows = fetch_rows(connection, "SELECT partition_key, count(*), count(DISTINCT event_id) FROM events GROUP BY 1")
    counted = {key: (events, ids) for key, events, ids in rows}
    assert set(counted.values()) == {(1, 1)}
    by_process: dict[str, set[int]] = {}
    for text in counted:
        key = PartitionKey.parse(text)
        by_process.setdefault(str(key["p"]), set()).add(int(str(key["n"])))
    for number in range(1, APPENDERS):
        assert by_process[f"p{number}"] == set(range(2 * COMMITS))
    killed = by_process.get("p0", set())
    assert acknowledged <= killed
    assert killed == {n for batch in killed if batch < COMMITS for n in (batch, batch + COMMITS)}, "half a batch"
    status = lake.status("sales")
    assert set(status["partition_key"].to_pylist()) == set(counted)
    assert status.num_rows == len(counted)
    assert set(status["display_status"].to_pylist()) == {"MATERIALIZED"}
