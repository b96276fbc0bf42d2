"""A write over many leaves is atomic, whatever happens on the way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import partita as pt
from partita.formats.capabilities import Operation
from partita.formats.lance import commit as lance_commit
from partita.formats.lance.files import write_deletion_files
from partita.formats.lance.leaf_dataset import LeafDataset, fragments_from_json
from partita.formats.lance.leaf_operations import LeafOperation, leaf_operations
from partita.formats.partition_selection import selection_from_partitions
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange
from tests.formats.lance.killed_writer import NEW_ROWS, ProcessKilled, StepCounter
from tests.formats.lance.tables import (
    EVENT_SCHEMA,
    column_values,
    commit_rows,
    create_lance_table,
    create_seed_table,
    event_rows,
    table_store,
    uncommitted_fragments,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.formats.lance.state import LanceTableVersion
    from partita.formats.lance.store import LanceTableStore

BEFORE, AFTER = [1, 2, 3, 4], [1, 2, 3, 4, 10, 11, 12, 13]
ROOT = Path(__file__).parents[3]


def die() -> None:
    raise ProcessKilled


def kill_at_step(table: pt.Table, last: int, *, after: bool, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Kill a write at a step; return the number of steps, or None if the write finished."""
    steps = StepCounter(last, after=after, die=die)
    with monkeypatch.context() as patch:
        steps.patch_steps(patch.setattr)
        try:
            commit_rows(table, NEW_ROWS)
        except ProcessKilled:
            return steps.taken
    return None


@pytest.mark.slow(reason="processes that are killed")
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_each_step_readers_count_all_or_nothing_and_the_next_open_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    seed = create_seed_table(tmp_path / "seed")
    last, outcomes = 0, []
    while True:
        table = pt.open_table(str(shutil.copytree(seed.uri, tmp_path / str(last))), format="lance")
        if kill_at_step(table, last, after=after, monkeypatch=monkeypatch) is None:
            break
        values = column_values(table)
        assert values in (BEFORE, AFTER), f"half of it is seen after step {last}"
        opened = pt.open_table(table.uri, format="lance")
        ended = column_values(opened)
        assert ended in (BEFORE, AFTER)
        assert ended == AFTER or values == BEFORE
        assert table_store(opened).log.read_latest()[1] is None
        assert opened.partitions().num_rows == (6 if ended == AFTER else 4)
        commit_rows(opened, event_rows((20, "2025-12-12", "US")))
        assert column_values(opened) == sorted([*ended, 20])
        outcomes.append(ended == AFTER)
        last += 1
    assert last >= 9  # the log, two leaves, the manifest, four commits, the log
    assert outcomes == sorted(outcomes)
    assert any(outcomes)


@pytest.mark.slow(reason="processes that are killed")
@pytest.mark.parametrize("last", [0, 2, 4, 6])
def test_killed_by_the_system(tmp_path: Path, last: int) -> None:
    table = create_seed_table(tmp_path)
    script = Path(__file__).with_name("killed_writer.py")
    done = subprocess.run(
        [sys.executable, str(script), table.uri, str(last)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    assert column_values(table) == BEFORE
    assert column_values(pt.open_table(table.uri, format="lance")) == AFTER


def test_a_reader_that_looked_before_a_write_sees_none_of_it(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    store = table_store(table)
    state = store.current_version()
    pins = state.committed_versions.to_pylist()
    commit_rows(table, event_rows((10, "2025-12-10", "US"), (11, "2025-12-11", "US")))
    assert state.read_versions(np.arange(4)) == pins
    assert column_values(table) == [1, 2, 3, 4, 10, 11]


def test_appends_of_other_writers_are_read_at_once_and_counted_after_repair(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    assert table.externally_changed_leaves().num_rows == 0
    leaf = f"{table.uri}/event_date=2025-12-10/country=US.lance"
    lance.write_dataset(pa.table({"id": [50]}), leaf, mode="append")
    assert column_values(table) == [1, 2, 3, 4, 50]
    assert table.externally_changed_leaves().to_pylist() == [
        {"path": "event_date=2025-12-10/country=US.lance", "version": 2, "newest": 3}
    ]
    assert table.repair() == {"registered": 0, "taken over": 1}
    assert sum(table.partitions()["rows"].to_pylist()) == 5
    assert table.externally_changed_leaves().num_rows == 0


def test_appends_of_other_writers_after_a_killed_write_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_seed_table(tmp_path)
    assert kill_at_step(table, 7, after=True, monkeypatch=monkeypatch)
    leaf = f"{table.uri}/event_date=2025-12-10/country=US.lance"
    assert lance.dataset(leaf).version == 3  # the killed write's
    lance.write_dataset(pa.table({"id": [50]}), leaf, mode="append")
    assert column_values(table) == BEFORE
    assert column_values(pt.open_table(table.uri, format="lance")) == [*AFTER, 50]


def test_a_change_that_others_are_in_the_way_of_is_undone_everywhere(tmp_path: Path) -> None:
    """A write deletes rows of two leaves, and another writer changed the same rows of the second meanwhile."""
    table = create_seed_table(tmp_path)
    commit_rows(table, event_rows((5, "2025-12-10", "US"), (6, "2025-12-11", "US")))
    store = table_store(table)
    state = store.current_version()
    gone = [leaf_deletions(store, state, place, 0) for place in (0, 2)]
    lance.dataset(state.leaf(2).uri).delete("id = 3")
    before = [state.leaf(place).open().count_rows() for place in range(4)]
    with pytest.raises(pt.CommitConflict, match="changed rows"):
        state.commit(
            TableChange(Operation.DELETE, WRITTEN_FILE_SCHEMA.empty_table(), delete_files=delete_file_rows(gone))
        )
    assert [state.leaf(place).open().count_rows() for place in range(4)] == before
    assert column_values(table) == [1, 2, 4, 5, 6]
    assert table.history()["operation"].to_pylist()[0] == "delete (undone)"
    commit_rows(table, event_rows((7, "2025-12-10", "US")))
    assert column_values(table) == [1, 2, 4, 5, 6, 7]


@pytest.mark.slow(reason="many commits to a table")
def test_a_replaced_leaf_gets_its_rows_back_when_the_write_is_undone(tmp_path: Path) -> None:
    """Other writers append between the commit and its undo, and lose nothing."""
    table = create_seed_table(tmp_path)
    commit_rows(table, event_rows((5, "2025-12-10", "US"), (6, "2025-12-11", "US")))
    store = table_store(table)
    state = store.current_version()
    added = uncommitted_fragments(table, event_rows((30, "2025-12-10", "US")))
    gone = [leaf_deletions(store, state, 2, 0)]
    lance.dataset(state.leaf(2).uri).delete("id = 3")
    change = TableChange(Operation.OVERWRITE, added, np.array([0, 1]), delete_files=delete_file_rows(gone))
    commit: Callable[..., Any] = LeafDataset.commit

    def commit_beside(leaf: LeafDataset, dataset: Any, operation: Any, properties: Any) -> Any:
        done = commit(leaf, dataset, operation, properties)
        if (
            "partita.write" in properties
            and leaf.location == state.leaf(0).location
            and "Update" in repr(type(operation))
        ):
            lance.write_dataset(pa.table({"id": [77]}), leaf.uri, mode="append")
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeafDataset, "commit", commit_beside)
        patch.setattr(lance_commit, "THREADS", 1)
        with pytest.raises(pt.CommitConflict):
            state.commit(change)
    assert column_values(table) == [1, 2, 4, 5, 6, 77]
    assert sorted(state.leaf(0).open().to_table()["id"].to_pylist()) == [1, 5, 77]
    commit_rows(table, event_rows((8, "2025-12-10", "US")))
    assert column_values(table) == [1, 2, 4, 5, 6, 8, 77]


@pytest.mark.slow(reason="many commits to a table")
def test_a_running_write_is_not_undone_by_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_seed_table(tmp_path)
    assert kill_at_step(table, 7, after=True, monkeypatch=monkeypatch)
    intent = table_store(table).log.read_latest()[1]
    assert intent is not None
    # As if it were still at it, and slow.
    monkeypatch.setattr(lance_commit, "_RUNNING_WRITES", {intent.write})
    monkeypatch.setattr(lance_commit, "WRITE_TIMEOUT_SECONDS", 2.0)
    table.compact()
    assert column_values(table) == AFTER
    assert table.cleanup() == []
    assert column_values(table) == AFTER


def test_rows_go_and_come_in_one_write(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    store = table_store(table)
    state = store.current_version()
    added = uncommitted_fragments(table, event_rows((30, "2025-12-10", "US"), (31, "2025-12-13", "US")))
    gone = [leaf_deletions(store, state, place, 0) for place in (0, 2)]
    state.commit(TableChange(Operation.UPDATE, added, delete_files=delete_file_rows(gone)))
    assert column_values(table) == [2, 4, 30, 31]


def test_replaced_leaves_hold_the_new_rows_alone(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    added = uncommitted_fragments(table, event_rows((30, "2025-12-10", "US"), (31, "2025-12-13", "US")))
    store = table_store(table)
    store.current_version().commit(TableChange(Operation.OVERWRITE, added, np.array([0, 1])))
    assert column_values(table) == [3, 4, 30, 31]


def test_a_transaction_is_written_once(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    commit_rows(table, event_rows((5, "2025-12-10", "US")), transaction=("job", 7))
    assert table.has_transaction(("job", 7))
    commit_rows(table, event_rows((5, "2025-12-10", "US")), transaction=("job", 7))
    assert column_values(table) == [1, 2, 3, 4, 5]
    commit_rows(table, event_rows((6, "2025-12-10", "US")), transaction=("job", 8))
    assert column_values(table) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow(reason="many commits to a table")
def test_two_appends_both_land_and_an_overwrite_of_the_same_partition_is_a_conflict(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    store = table_store(table)
    state = store.current_version()
    told = uncommitted_fragments(table, event_rows((5, "2025-12-10", "US")))
    other = uncommitted_fragments(table, event_rows((6, "2025-12-11", "US")))
    commit_rows(table, event_rows((7, "2025-12-10", "US")))
    state.commit(TableChange(Operation.APPEND, told))
    assert column_values(table) == [1, 2, 3, 4, 5, 7]
    partitions, others = (selection_from_partitions(state, state.written_partitions(one)) for one in (told, other))
    with pytest.raises(pt.CommitConflict):
        state.commit(TableChange(Operation.OVERWRITE_PARTITIONS, told, np.array([0]), partitions))
    state.commit(TableChange(Operation.OVERWRITE_PARTITIONS, other, np.array([2]), others))
    assert column_values(table) == [1, 2, 4, 5, 6, 7]


def test_a_leaf_that_another_made_with_other_columns_is_not_written_to(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    told = uncommitted_fragments(table, event_rows((5, "2025-12-20", "US"), (6, "2025-12-10", "US")))
    lance.write_dataset(pa.table({"other": [1], "id": [1]}), f"{table.uri}/event_date=2025-12-20/country=US.lance")
    store = table_store(table)
    with pytest.raises(pt.TableError, match="repair"):
        store.current_version().commit(TableChange(Operation.APPEND, told))
    assert column_values(table) == BEFORE
    assert table.partitions().num_rows == 4


def test_a_commit_of_an_undone_write_that_comes_late_never_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process resumes after its write was undone, and appends to a leaf."""
    table = create_seed_table(tmp_path)
    store = table_store(table)
    state = store.current_version()
    told = uncommitted_fragments(table, event_rows((66, "2025-12-10", "US")))
    commit_rows(table, event_rows((5, "2025-12-10", "US")))
    late: LeafOperation = leaf_operations(state, TableChange(Operation.APPEND, told))[0]
    leaf = state.leaf(0)
    leaf.commit(
        leaf.open(), lance.LanceOperation.Append(fragments_from_json(late.new)), {"partita.write": "undone long ago"}
    )
    assert leaf.open().count_rows() == 3
    assert column_values(table) == [1, 2, 3, 4, 5]
    commit_rows(table, event_rows((6, "2025-12-10", "US")))
    assert column_values(table) == [1, 2, 3, 4, 5, 6]
    assert leaf.open().count_rows() == 3


def test_a_write_that_another_process_carries_out_too_lands_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each commit of the owner, a second process finishes the whole write."""
    table = create_seed_table(tmp_path)
    commit: Callable[..., Any] = LeafDataset.commit
    helped: list[bool] = []

    def commit_slowly(leaf: LeafDataset, *args: Any) -> Any:
        if not helped:
            helped.append(True)
            other = table_store(pt.open_table(table.uri, format="lance"))
            with monkeypatch.context() as patch:
                patch.setattr(lance_commit, "WRITE_TIMEOUT_SECONDS", -1.0)
                other.recover_unfinished_write()
        return commit(leaf, *args)

    monkeypatch.setattr(lance_commit, "THREADS", 1)
    monkeypatch.setattr(LeafDataset, "commit", commit_slowly)
    commit_rows(table, NEW_ROWS)
    assert helped
    assert column_values(table) == AFTER


def test_a_write_that_fails_for_any_reason_does_not_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_seed_table(tmp_path)

    def fail(*_: Any) -> None:
        raise LookupError("nobody expects this")

    with monkeypatch.context() as patch:
        patch.setattr(LeafDataset, "commit", fail)
        with pytest.raises(pt.TableError, match="failed: nobody expects this; nothing was changed"):
            commit_rows(table, NEW_ROWS)
    assert column_values(table) == BEFORE
    commit_rows(table, NEW_ROWS)
    assert column_values(table) == AFTER


@pytest.mark.slow(reason="many commits to a table")
def test_history_and_checkpoints(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, EVENT_SCHEMA, ["country"])
    for number in range(41):
        commit_rows(table, event_rows((number, "2025-12-10", "US" if number % 2 else "FR")))
    assert table.version == 41
    assert column_values(pt.open_table(table.uri, format="lance")) == list(range(41))
    assert sorted(path.name for path in (tmp_path / "my_partitioned_table/_partita/log").glob("*.arrow")) == [
        f"{20:020}.arrow", f"{40:020}.arrow",
    ]  # fmt: skip
    assert table.history()["version"].to_pylist() == list(range(41, -1, -1))
    table_store(table).log.remove_old_entries(time.time() + 1)
    left = {path.name for path in (tmp_path / "my_partitioned_table/_partita/log").iterdir()}
    assert {name for name in left if not name.endswith(".done.json")} == {
        f"{40:020}.arrow",
        f"{40:020}.json",
        f"{41:020}.json",
    }
    assert column_values(pt.open_table(table.uri, format="lance")) == list(range(41))
    assert table.history()["version"].to_pylist() == list(range(41, -1, -1))
    assert table.partitions()["rows"].to_pylist() == [21, 20]


def leaf_deletions(store: LanceTableStore, state: LanceTableVersion, place: int, row: int) -> dict[str, Any]:
    """Delete a row of a leaf's first fragment, and return the details of the deletion."""
    changed = write_deletion_files(state.leaf(place).open(state.read_versions(np.array([place]))[0]), np.array([row]))
    return {
        "file_index": place,
        "before": {n: before for n, (before, _) in changed.items()},
        "after": {n: after for n, (_, after) in changed.items()},
    }


def delete_file_rows(gone: list[dict[str, Any]]) -> pa.Table:
    rows = [{"path": "", "rows": 1, "details": json.dumps(one)} for one in gone]
    return pa.Table.from_pylist(rows, WRITTEN_FILE_SCHEMA)
