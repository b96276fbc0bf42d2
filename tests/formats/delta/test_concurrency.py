"""Writers beside each other, and writers that die: the table is as it was or as it should be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import partita as pt
from partita.errors import Conflict
from partita.formats.delta.store import DeltaState, DeltaStore
from partita.formats.store import Change
from tests.formats.delta.tables import actions, commits, listing
from tests.formats.delta.writing import (
    COMMITS,
    KILLED,
    SCHEMA,
    STEPS,
    append_of,
    delete_of,
    overwrite_of,
    store_at,
    write_file,
)

ROOT = Path(__file__).parents[3]
WRITES_ONLY = {"delta.isolationLevel": "WriteSerializable"}


def create(folder: Path, properties: dict[str, str] | None = None) -> pt.Table:
    lake = pt.Lake(str(folder))
    return lake.create_table("t", SCHEMA, format="delta", partition_by=["p"], properties=properties)


def ids(table: pt.Table) -> list[int]:
    """The ids as delta-rs reads them."""
    found: list[int] = DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def begun(table: pt.Table) -> tuple[DeltaStore, DeltaState]:
    """A writer of its own that has looked at the table."""
    store = store_at(table.uri)
    return store, store.state()


def filled(table: pt.Table) -> pt.Table:
    store, state = begun(table)
    files = [write_file(store, state, "a", 1), write_file(store, state, "b", 2), write_file(store, state, None, 3)]
    store.commit(state, append_of(*files))
    return table


def test_two_appends_of_one_version_both_land(tmp_path: Path) -> None:
    table = filled(create(tmp_path))
    writers = [begun(table), begun(table)]
    versions = [s.commit(state, append_of(write_file(s, state, "a", 10 + n))) for n, (s, state) in enumerate(writers)]
    assert versions == [2, 3]
    assert ids(table) == [1, 2, 3, 10, 11]
    assert [actions(table, "commitInfo", v)[0]["readVersion"] for v in versions] == [1, 1]


Made = Callable[[DeltaStore, DeltaState], Change]


def appending(partition: str) -> Made:
    return lambda store, state: append_of(write_file(store, state, partition, 99))


def deleting(where: str) -> Made:
    return lambda _, state: delete_of(state, where)


def overwriting(partition: str) -> Made:
    return lambda store, state: overwrite_of(state, partition, write_file(store, state, partition, 50))


BESIDE = [
    pytest.param(deleting("p = 'a'"), appending("a"), WRITES_ONLY, True, id="a blind append in what is deleted"),
    pytest.param(deleting("p = 'a'"), appending("a"), {}, False, id="the same where serializable"),
    pytest.param(deleting("p = 'a'"), appending("b"), {}, True, id="an append elsewhere"),
    pytest.param(deleting("p = 'a'"), deleting("p = 'a'"), {}, False, id="two deletes of one file"),
    pytest.param(deleting("p = 'a'"), deleting("p = 'b'"), {}, True, id="two deletes of two files"),
    pytest.param(deleting("p = 'a'"), overwriting("a"), {}, False, id="an overwrite of what is deleted"),
    pytest.param(deleting("p = 'c'"), overwriting("c"), {}, False, id="an overwrite that adds to what is deleted"),
    pytest.param(deleting("p = 'a'"), overwriting("b"), {}, True, id="an overwrite elsewhere"),
    pytest.param(overwriting("a"), appending("a"), WRITES_ONLY, True, id="a blind append in what is overwritten"),
    pytest.param(overwriting("a"), appending("a"), {}, False, id="that where serializable"),
    pytest.param(overwriting("a"), appending("b"), {}, True, id="an append beside what is overwritten"),
    pytest.param(overwriting("c"), overwriting("c"), {}, False, id="two overwrites of one empty partition"),
    pytest.param(appending("a"), overwriting("a"), {}, True, id="an append after an overwrite"),
]


@pytest.mark.parametrize(("late", "early", "properties", "lands"), BESIDE)
def test_a_change_beside_another(
    tmp_path: Path, late: Made, early: Made, properties: dict[str, str], lands: bool
) -> None:
    table = filled(create(tmp_path, properties))
    (store, state), (other, seen) = begun(table), begun(table)
    change = late(store, state)
    other.commit(seen, early(other, seen))
    if lands:
        assert store.commit(state, change) == 3
        return
    before = commits(table)
    with pytest.raises(Conflict) as caught:
        store.commit(state, change)
    assert caught.value.version == 2
    assert commits(table) == before


@pytest.mark.parametrize("late", [appending("a"), deleting("p = 'a'"), overwriting("a")])
def test_a_change_of_metadata_refuses_everything(tmp_path: Path, late: Made) -> None:
    table = filled(create(tmp_path))
    store, state = begun(table)
    DeltaTable(table.uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    with pytest.raises(Conflict, match="metadata"):
        store.commit(state, late(store, state))
    assert table.version == 2


def test_a_transaction_that_lands_twice_at_once_is_one(tmp_path: Path) -> None:
    table = filled(create(tmp_path))
    writers = [begun(table), begun(table)]
    versions = []
    for store, state in writers:
        told = append_of(write_file(store, state, "a", 7)).added
        versions.append(store.commit(state, Change("append", told, transaction=("job", 1))))
    assert versions == [2, 2]
    assert table.version == 2
    assert ids(table) == [1, 2, 3, 7]


def run(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.formats.delta.writing", *args],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def test_two_processes_land_all_their_commits(tmp_path: Path) -> None:
    table = create(tmp_path)
    writers = [run(table.uri, "many", "0"), run(table.uri, "many", "1000")]
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors
    assert table.version == 2 * COMMITS
    assert table.history()["version"].to_pylist() == list(range(2 * COMMITS, -1, -1))
    assert ids(table) == [*range(COMMITS), *range(1000, 1000 + COMMITS)]
    paths = table.plan().files["path"].to_pylist()
    assert len(set(paths)) == len(paths) == 2 * COMMITS


LEFT = {"before files": 0, "in a file": 2, "between files": 1, "before the log entry": 2, "after the log entry": 0}


@pytest.mark.parametrize("step", STEPS)
def test_a_writer_that_dies(tmp_path: Path, step: str) -> None:
    table = filled(create(tmp_path))
    before = listing(table)
    dead = run(table.uri, "append", step)
    _, errors = dead.communicate()
    assert dead.returncode == KILLED, errors
    landed = step == "after the log entry"
    assert table.version == (2 if landed else 1)
    assert ids(table) == ([1, 1, 2, 2, 3] if landed else [1, 2, 3])
    store, state = begun(table)
    store.commit(state, append_of(write_file(store, state, "a", 4)))
    assert ids(table)[-1] == 4
    orphans = [name for name in listing(table) if name.endswith(".parquet") and name not in before]
    named = {add["path"] for version in range(2, table.version + 1) for add in actions(table, "add", version)}
    assert len(set(orphans) - named) == LEFT[step]


@pytest.mark.parametrize("step", STEPS)
def test_remove_orphans_takes_what_a_dead_writer_left_and_no_more(tmp_path: Path, step: str) -> None:
    table = filled(create(tmp_path))
    run(table.uri, "append", step).communicate()
    Path(table.uri, "p=a", "notes.txt").write_text("of somebody else", encoding="utf-8")
    store, state = begun(table)
    store.commit(state, delete_of(state, "p = 'b'"))
    files, found = listing(table), ids(table)
    assert table.remove_orphans() == []
    removed = table.remove_orphans(older_than=timedelta(0))
    assert len(removed) == LEFT[step]
    assert sorted([*listing(table), *removed]) == files
    assert ids(table) == found


def test_a_checkpoint_is_made_and_read(tmp_path: Path) -> None:
    table = create(tmp_path, {"delta.checkpointInterval": "3"})
    store = store_at(table.uri)
    for number in range(7):
        state = store.state()
        store.commit(state, append_of(write_file(store, state, "a", number)))
    checkpoints = [name for name in listing(table) if name.endswith(".checkpoint.parquet")]
    assert len(checkpoints) == 2
    for file in sorted(Path(table.uri, "_delta_log").glob("*.json"))[:4]:
        file.unlink()
    opened = pt.open_table(table.uri, format="delta")
    assert (opened.version, opened.plan().files.num_rows) == (7, 7)
    assert ids(table) == list(range(7))


def test_what_is_known_before_the_commit_stays(tmp_path: Path) -> None:
    table = filled(create(tmp_path))
    store, state = begun(table)
    told: dict[str, Any] = write_file(store, state, "a", 5)
    store.commit(state, append_of(told))
    assert state.version == 1
    assert store.state().version == 2
