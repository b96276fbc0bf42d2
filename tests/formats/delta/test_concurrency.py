"""Concurrent and killed writers leave the table in the state before or after the write."""

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
from partita.errors import CommitConflict
from partita.formats.capabilities import Operation
from partita.formats.delta.state import DeltaTableVersion
from partita.formats.delta.store import DeltaTableStore
from partita.formats.table_change import TableChange
from tests.formats.delta.driver_writer import (
    COMMIT_COUNT,
    KILL_STEPS,
    KILLED_EXIT_CODE,
    SCHEMA,
    append_change,
    delete_change,
    open_store,
    overwrite_change,
    write_data_file,
)
from tests.formats.delta.tables import actions_of_kind, commit_actions, files_on_disk

ROOT = Path(__file__).parents[3]
WRITES_ONLY = {"delta.isolationLevel": "WriteSerializable"}


def create_table(folder: Path, properties: dict[str, str] | None = None) -> pt.Table:
    lake = pt.Lake(str(folder))
    return lake.create_table("t", SCHEMA, format="delta", partition_by=["p"], properties=properties)


def ids(table: pt.Table) -> list[int]:
    """Return the sorted ids that delta-rs reads."""
    values: list[int] = DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist()
    return sorted(values)


def open_current_version(table: pt.Table) -> tuple[DeltaTableStore, DeltaTableVersion]:
    """Return a separate store and the current table version that it read."""
    store = open_store(table.uri)
    return store, store.current_version()


def fill_table(table: pt.Table) -> pt.Table:
    store, state = open_current_version(table)
    files = [
        write_data_file(store, state, "a", 1),
        write_data_file(store, state, "b", 2),
        write_data_file(store, state, None, 3),
    ]
    state.commit(append_change(*files))
    return table


def test_two_appends_of_one_version_both_land(tmp_path: Path) -> None:
    table = fill_table(create_table(tmp_path))
    writers = [open_current_version(table), open_current_version(table)]
    versions = [
        state.commit(append_change(write_data_file(s, state, "a", 10 + n))) for n, (s, state) in enumerate(writers)
    ]
    assert versions == [2, 3]
    assert ids(table) == [1, 2, 3, 10, 11]
    assert [actions_of_kind(table, "commitInfo", v)[0]["readVersion"] for v in versions] == [1, 1]


Made = Callable[[DeltaTableStore, DeltaTableVersion], TableChange]


def append_factory(partition: str) -> Made:
    return lambda store, state: append_change(write_data_file(store, state, partition, 99))


def delete_factory(where: str) -> Made:
    return lambda _, state: delete_change(state, where)


def overwrite_factory(partition: str) -> Made:
    return lambda store, state: overwrite_change(state, partition, write_data_file(store, state, partition, 50))


BESIDE = [
    pytest.param(
        delete_factory("p = 'a'"), append_factory("a"), WRITES_ONLY, True, id="a blind append in what is deleted"
    ),
    pytest.param(delete_factory("p = 'a'"), append_factory("a"), {}, False, id="the same where serializable"),
    pytest.param(delete_factory("p = 'a'"), append_factory("b"), {}, True, id="an append elsewhere"),
    pytest.param(delete_factory("p = 'a'"), delete_factory("p = 'a'"), {}, False, id="two deletes of one file"),
    pytest.param(delete_factory("p = 'a'"), delete_factory("p = 'b'"), {}, True, id="two deletes of two files"),
    pytest.param(delete_factory("p = 'a'"), overwrite_factory("a"), {}, False, id="an overwrite of what is deleted"),
    pytest.param(
        delete_factory("p = 'c'"), overwrite_factory("c"), {}, False, id="an overwrite that adds to what is deleted"
    ),
    pytest.param(delete_factory("p = 'a'"), overwrite_factory("b"), {}, True, id="an overwrite elsewhere"),
    pytest.param(
        overwrite_factory("a"), append_factory("a"), WRITES_ONLY, True, id="a blind append in what is overwritten"
    ),
    pytest.param(overwrite_factory("a"), append_factory("a"), {}, False, id="that where serializable"),
    pytest.param(overwrite_factory("a"), append_factory("b"), {}, True, id="an append beside what is overwritten"),
    pytest.param(overwrite_factory("c"), overwrite_factory("c"), {}, False, id="two overwrites of one empty partition"),
    pytest.param(append_factory("a"), overwrite_factory("a"), {}, True, id="an append after an overwrite"),
]


@pytest.mark.parametrize(("late", "early", "properties", "lands"), BESIDE)
def test_a_change_beside_another(
    tmp_path: Path, late: Made, early: Made, properties: dict[str, str], lands: bool
) -> None:
    table = fill_table(create_table(tmp_path, properties))
    (store, state), (other, seen) = open_current_version(table), open_current_version(table)
    change = late(store, state)
    seen.commit(early(other, seen))
    if lands:
        assert state.commit(change) == 3
        return
    before = commit_actions(table)
    with pytest.raises(CommitConflict) as caught:
        state.commit(change)
    assert caught.value.version == 2
    assert commit_actions(table) == before


@pytest.mark.parametrize("late", [append_factory("a"), delete_factory("p = 'a'"), overwrite_factory("a")])
def test_a_change_of_metadata_refuses_everything(tmp_path: Path, late: Made) -> None:
    table = fill_table(create_table(tmp_path))
    store, state = open_current_version(table)
    DeltaTable(table.uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    with pytest.raises(CommitConflict, match="metadata"):
        state.commit(late(store, state))
    assert table.version == 2


def test_a_transaction_that_lands_twice_at_once_is_one(tmp_path: Path) -> None:
    table = fill_table(create_table(tmp_path))
    writers = [open_current_version(table), open_current_version(table)]
    versions = []
    for store, state in writers:
        added_files = append_change(write_data_file(store, state, "a", 7)).added_files
        versions.append(state.commit(TableChange(Operation.APPEND, added_files, transaction=("job", 1))))
    assert versions == [2, 2]
    assert table.version == 2
    assert ids(table) == [1, 2, 3, 7]


def start_process(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.formats.delta.driver_writer", *args],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


@pytest.mark.slow(reason="processes that commit at the same time")
def test_two_processes_land_all_their_commits(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    writers = [start_process(table.uri, "many", "0"), start_process(table.uri, "many", "1000")]
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors
    assert table.version == 2 * COMMIT_COUNT
    assert table.history()["version"].to_pylist() == list(range(2 * COMMIT_COUNT, -1, -1))
    assert ids(table) == [*range(COMMIT_COUNT), *range(1000, 1000 + COMMIT_COUNT)]
    paths = table.plan().files["path"].to_pylist()
    assert len(set(paths)) == len(paths) == 2 * COMMIT_COUNT


LEFT = {"before files": 0, "in a file": 2, "between files": 1, "before the log entry": 2, "after the log entry": 0}


@pytest.mark.slow(reason="processes that are killed")
@pytest.mark.parametrize("step", KILL_STEPS)
def test_a_writer_that_dies(tmp_path: Path, step: str) -> None:
    table = fill_table(create_table(tmp_path))
    before = files_on_disk(table)
    dead = start_process(table.uri, "append", step)
    _, errors = dead.communicate()
    assert dead.returncode == KILLED_EXIT_CODE, errors
    landed = step == "after the log entry"
    assert table.version == (2 if landed else 1)
    assert ids(table) == ([1, 1, 2, 2, 3] if landed else [1, 2, 3])
    store, state = open_current_version(table)
    state.commit(append_change(write_data_file(store, state, "a", 4)))
    assert ids(table)[-1] == 4
    orphans = [name for name in files_on_disk(table) if name.endswith(".parquet") and name not in before]
    named = {add["path"] for version in range(2, table.version + 1) for add in actions_of_kind(table, "add", version)}
    assert len(set(orphans) - named) == LEFT[step]

    # What the dead writer left goes, and no more.
    Path(table.uri, "p=a", "notes.txt").write_text("of somebody else", encoding="utf-8")
    _, state = open_current_version(table)
    state.commit(delete_change(state, "p = 'b'"))
    files, ids_before = files_on_disk(table), ids(table)
    assert table.remove_orphans() == []
    removed = table.remove_orphans(older_than=timedelta(0))
    assert len(removed) == LEFT[step]
    assert sorted([*files_on_disk(table), *removed]) == files
    assert ids(table) == ids_before


def test_a_checkpoint_is_made_and_read(tmp_path: Path) -> None:
    table = create_table(tmp_path, {"delta.checkpointInterval": "3"})
    store = open_store(table.uri)
    for number in range(7):
        state = store.current_version()
        state.commit(append_change(write_data_file(store, state, "a", number)))
    checkpoints = [name for name in files_on_disk(table) if name.endswith(".checkpoint.parquet")]
    assert len(checkpoints) == 2
    for file in sorted(Path(table.uri, "_delta_log").glob("*.json"))[:4]:
        file.unlink()
    opened = pt.open_table(table.uri, format="delta")
    assert (opened.version, opened.plan().files.num_rows) == (7, 7)
    assert ids(table) == list(range(7))


def test_a_version_stays_the_same_after_a_commit(tmp_path: Path) -> None:
    table = fill_table(create_table(tmp_path))
    store, state = open_current_version(table)
    file: dict[str, Any] = write_data_file(store, state, "a", 5)
    state.commit(append_change(file))
    assert state.version == 1
    assert store.current_version().version == 2
