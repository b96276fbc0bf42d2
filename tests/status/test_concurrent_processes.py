"""Processes append while two fold and one of each is killed: every event is counted once."""

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


def start(lake: Lake, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(SCRIPT), lake.uri, *words], stdout=subprocess.PIPE, text=True)


# Eight processes prove what three do, at other moments and for longer.
@pytest.mark.slow(reason="processes that are killed")
@pytest.mark.parametrize(("appenders", "commits"), [(3, 8), pytest.param(8, 15, marks=pytest.mark.long)])
def test_every_event_counts_once_though_a_process_is_killed(appenders: int, commits: int, lake: Lake) -> None:
    chance = random.Random(1)  # noqa: S311 - no secret
    lake.record("sales", {"n": 0, "p": "first"}, outcome="succeeded", run_id="first")
    running = {f"p{number}": start(lake, "append", f"p{number}", str(commits)) for number in range(appenders)}
    folding = [start(lake, "fold", "600") for _ in range(2)]
    victims = [running["p0"], folding[0]]
    said = running["p0"].stdout
    assert said is not None
    acknowledged = [said.readline() for _ in range(chance.randint(1, commits - 5))]
    time.sleep(chance.random() / 10)
    for victim in victims:
        victim.kill()
    survived = {name: process.communicate()[0].split() for name, process in running.items()}
    folding[1].kill()
    for process in folding:
        process.communicate()
    assert all(running[name].returncode == 0 for name in running if name != "p0")
    assert all(len(lines) == commits for name, lines in survived.items() if name != "p0")
    lake.fold()
    check(lake, appenders, commits, {int(line) for line in (*acknowledged, *survived["p0"])})


def check(lake: Lake, appenders: int, commits: int, acknowledged: set[int]) -> None:
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
    for number in range(1, appenders):
        assert by_process[f"p{number}"] == set(range(2 * commits))
    killed = by_process.get("p0", set())
    assert acknowledged <= killed
    assert killed == {n for batch in killed if batch < commits for n in (batch, batch + commits)}, "half a batch"
    status = lake.status("sales")
    assert set(status["partition_key"].to_pylist()) == set(counted)
    assert status.num_rows == len(counted)
    assert set(status["display_status"].to_pylist()) == {"MATERIALIZED"}
