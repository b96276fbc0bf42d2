"""A write over many leaves is a part of the table as a whole or not at all, whatever happens on the way."""

from __future__ import annotations

import json
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
from partita.formats.chosen import chosen_by_all
from partita.formats.lance import writes
from partita.formats.lance.fragments import rows_gone
from partita.formats.lance.leaf import Leaf, fragments_from
from partita.formats.lance.operations import Operation
from partita.formats.store import TOLD, Change
from tests.formats.lance.killing import ROWS, Killed, Steps
from tests.formats.lance.tables import EVENTS, events, make, rows_of, seeds_tree, store_of, write, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.formats.lance.state import LanceState
    from partita.formats.lance.store import LanceStore

BEFORE, AFTER = [1, 2, 3, 4], [1, 2, 3, 4, 10, 11, 12, 13]
ROOT = Path(__file__).parents[3]


def die() -> None:
    raise Killed


def killed_at(table: pt.Table, last: int, *, after: bool, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """How many steps there were; None where the write came through."""
    steps = Steps(last, after=after, die=die)
    with monkeypatch.context() as patch:
        steps.patched(patch.setattr)
        try:
            write(table, ROWS)
        except Killed:
            return steps.taken
    return None


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_each_step_readers_count_all_or_nothing_and_the_next_open_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    last, outcomes = 0, []
    while True:
        table = seeds_tree(tmp_path / str(last))
        if killed_at(table, last, after=after, monkeypatch=monkeypatch) is None:
            break
        seen = rows_of(table)
        assert seen in (BEFORE, AFTER), f"half of it is seen after step {last}"
        opened = pt.open_table(table.uri, format="lance")
        ended = rows_of(opened)
        assert ended in (BEFORE, AFTER)
        assert ended == AFTER or seen == BEFORE
        assert store_of(opened).log.known()[1] is None
        assert opened.partitions().num_rows == (6 if ended == AFTER else 4)
        write(opened, events((20, "2025-12-12", "US")))
        assert rows_of(opened) == sorted([*ended, 20])
        outcomes.append(ended == AFTER)
        last += 1
    assert last >= 9  # the log, two leaves, the manifest, four commits, the log
    assert outcomes == sorted(outcomes)
    assert any(outcomes)


@pytest.mark.parametrize("last", [0, 2, 4, 6])
def test_killed_by_the_system(tmp_path: Path, last: int) -> None:
    table = seeds_tree(tmp_path)
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(script), table.uri, str(last)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    assert rows_of(table) == BEFORE
    assert rows_of(pt.open_table(table.uri, format="lance")) == AFTER


def test_a_reader_that_looked_before_a_write_sees_none_of_it(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    store = store_of(table)
    state = store.state()
    pins = state.pins.to_pylist()
    write(table, events((10, "2025-12-10", "US"), (11, "2025-12-11", "US")))
    assert store.versions(state, np.arange(4)) == pins
    assert rows_of(table) == [1, 2, 3, 4, 10, 11]


def test_what_others_append_is_read_at_once_and_counted_after_repair(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    assert table.behind().num_rows == 0
    leaf = f"{table.uri}/event_date=2025-12-10/country=US.lance"
    lance.write_dataset(pa.table({"id": [50]}), leaf, mode="append")
    assert rows_of(table) == [1, 2, 3, 4, 50]
    assert table.behind().to_pylist() == [{"path": "event_date=2025-12-10/country=US.lance", "version": 2, "newest": 3}]
    assert table.repair() == {"registered": 0, "taken over": 1}
    assert sum(table.partitions()["rows"].to_pylist()) == 5
    assert table.behind().num_rows == 0


def test_what_others_append_on_top_of_a_killed_write_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = seeds_tree(tmp_path)
    assert killed_at(table, 7, after=True, monkeypatch=monkeypatch)
    leaf = f"{table.uri}/event_date=2025-12-10/country=US.lance"
    assert lance.dataset(leaf).version == 3  # the killed write's
    lance.write_dataset(pa.table({"id": [50]}), leaf, mode="append")
    assert rows_of(table) == BEFORE
    assert rows_of(pt.open_table(table.uri, format="lance")) == [*AFTER, 50]


def test_a_change_that_others_are_in_the_way_of_is_undone_everywhere(tmp_path: Path) -> None:
    """Two leaves lose rows in one write; another has changed the same rows of the second meanwhile."""
    table = seeds_tree(tmp_path)
    write(table, events((5, "2025-12-10", "US"), (6, "2025-12-11", "US")))
    store = store_of(table)
    state = store.state()
    gone = [gone_from(store, state, place, 0) for place in (0, 2)]
    lance.dataset(store.leaf(state, 2).uri).delete("id = 3")
    before = [store.leaf(state, place).open().count_rows() for place in range(4)]
    with pytest.raises(pt.Conflict, match="changed rows"):
        store.commit(state, Change("delete", TOLD.empty_table(), marked=told_of(gone)))
    assert [store.leaf(state, place).open().count_rows() for place in range(4)] == before
    assert rows_of(table) == [1, 2, 4, 5, 6]
    assert table.history()["operation"].to_pylist()[0] == "delete (undone)"
    write(table, events((7, "2025-12-10", "US")))
    assert rows_of(table) == [1, 2, 4, 5, 6, 7]


def test_a_replaced_leaf_gets_its_rows_back_when_the_write_is_undone(tmp_path: Path) -> None:
    """Others append to it between the commit and its undoing, and lose nothing either."""
    table = seeds_tree(tmp_path)
    write(table, events((5, "2025-12-10", "US"), (6, "2025-12-11", "US")))
    store = store_of(table)
    state = store.state()
    added = written(table, events((30, "2025-12-10", "US")))
    gone = [gone_from(store, state, 2, 0)]
    lance.dataset(store.leaf(state, 2).uri).delete("id = 3")
    change = Change("overwrite", added, np.array([0, 1]), marked=told_of(gone))
    commit: Callable[..., Any] = Leaf.commit

    def beside(leaf: Leaf, dataset: Any, operation: Any, properties: Any) -> Any:
        done = commit(leaf, dataset, operation, properties)
        if (
            "partita.write" in properties
            and leaf.location == store.leaf(state, 0).location
            and "Update" in repr(type(operation))
        ):
            lance.write_dataset(pa.table({"id": [77]}), leaf.uri, mode="append")
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Leaf, "commit", beside)
        patch.setattr(writes, "THREADS", 1)
        with pytest.raises(pt.Conflict):
            store.commit(state, change)
    assert rows_of(table) == [1, 2, 4, 5, 6, 77]
    assert sorted(store.leaf(state, 0).open().to_table()["id"].to_pylist()) == [1, 5, 77]
    write(table, events((8, "2025-12-10", "US")))
    assert rows_of(table) == [1, 2, 4, 5, 6, 8, 77]


def test_a_write_that_runs_is_not_undone_by_those_who_tend_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = seeds_tree(tmp_path)
    assert killed_at(table, 7, after=True, monkeypatch=monkeypatch)
    intent = store_of(table).log.known()[1]
    assert intent is not None
    # As if it were still at it, and slow.
    monkeypatch.setattr(writes, "_RUNNING", {intent.write})
    monkeypatch.setattr(writes, "PATIENCE", 2.0)
    table.compact()
    assert rows_of(table) == AFTER
    assert table.cleanup() == []
    assert rows_of(table) == AFTER


def test_rows_go_and_come_in_one_write(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    store = store_of(table)
    state = store.state()
    added = written(table, events((30, "2025-12-10", "US"), (31, "2025-12-13", "US")))
    gone = [gone_from(store, state, place, 0) for place in (0, 2)]
    store.commit(state, Change("update", added, marked=told_of(gone)))
    assert rows_of(table) == [2, 4, 30, 31]


def test_replaced_leaves_hold_the_new_rows_alone(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    added = written(table, events((30, "2025-12-10", "US"), (31, "2025-12-13", "US")))
    store = store_of(table)
    store.commit(store.state(), Change("overwrite", added, np.array([0, 1])))
    assert rows_of(table) == [3, 4, 30, 31]


def test_a_transaction_is_written_once(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    write(table, events((5, "2025-12-10", "US")), transaction=("job", 7))
    assert store_of(table).seen(store_of(table).state(), ("job", 7))
    write(table, events((5, "2025-12-10", "US")), transaction=("job", 7))
    assert rows_of(table) == [1, 2, 3, 4, 5]
    write(table, events((6, "2025-12-10", "US")), transaction=("job", 8))
    assert rows_of(table) == [1, 2, 3, 4, 5, 6]


def test_two_appends_both_land_and_an_overwrite_of_the_same_partition_is_a_conflict(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    store = store_of(table)
    state = store.state()
    told = written(table, events((5, "2025-12-10", "US")))
    other = written(table, events((6, "2025-12-11", "US")))
    write(table, events((7, "2025-12-10", "US")))
    store.commit(state, Change("append", told))
    assert rows_of(table) == [1, 2, 3, 4, 5, 7]
    partitions, others = (chosen_by_all(state, store.told_partitions(state, one)) for one in (told, other))
    with pytest.raises(pt.Conflict):
        store.commit(state, Change("overwrite_partitions", told, np.array([0]), partitions))
    store.commit(state, Change("overwrite_partitions", other, np.array([2]), others))
    assert rows_of(table) == [1, 2, 4, 5, 6, 7]


def test_a_leaf_that_another_made_with_other_columns_is_not_written_to(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    told = written(table, events((5, "2025-12-20", "US"), (6, "2025-12-10", "US")))
    lance.write_dataset(pa.table({"other": [1], "id": [1]}), f"{table.uri}/event_date=2025-12-20/country=US.lance")
    store = store_of(table)
    with pytest.raises(pt.TableError, match="repair"):
        store.commit(store.state(), Change("append", told))
    assert rows_of(table) == BEFORE
    assert table.partitions().num_rows == 4


def test_a_commit_of_an_undone_write_that_comes_late_never_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that slept through its own undoing wakes up, and appends to a leaf."""
    table = seeds_tree(tmp_path)
    store = store_of(table)
    state = store.state()
    told = written(table, events((66, "2025-12-10", "US")))
    write(table, events((5, "2025-12-10", "US")))
    late: Operation = store.operations(state, Change("append", told))[0]
    leaf = store.leaf(state, 0)
    leaf.commit(
        leaf.open(), lance.LanceOperation.Append(fragments_from(late.new)), {"partita.write": "undone long ago"}
    )
    assert leaf.open().count_rows() == 3
    assert rows_of(table) == [1, 2, 3, 4, 5]
    write(table, events((6, "2025-12-10", "US")))
    assert rows_of(table) == [1, 2, 3, 4, 5, 6]
    assert leaf.open().count_rows() == 3


def test_a_write_that_another_process_carries_out_too_lands_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each commit of the owner, a second process does the whole write in its place."""
    table = seeds_tree(tmp_path)
    commit: Callable[..., Any] = Leaf.commit
    helped: list[bool] = []

    def slow(leaf: Leaf, *args: Any) -> Any:
        if not helped:
            helped.append(True)
            other = store_of(pt.open_table(table.uri, format="lance"))
            with monkeypatch.context() as patch:
                patch.setattr(writes, "PATIENCE", -1.0)
                other.settle()
        return commit(leaf, *args)

    monkeypatch.setattr(writes, "THREADS", 1)
    monkeypatch.setattr(Leaf, "commit", slow)
    write(table, ROWS)
    assert helped
    assert rows_of(table) == AFTER


def test_a_write_that_fails_for_any_reason_does_not_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = seeds_tree(tmp_path)

    def broken(*_: Any) -> None:
        raise LookupError("nobody expects this")

    with monkeypatch.context() as patch:
        patch.setattr(Leaf, "commit", broken)
        with pytest.raises(pt.TableError, match="failed: nobody expects this; nothing was changed"):
            write(table, ROWS)
    assert rows_of(table) == BEFORE
    write(table, ROWS)
    assert rows_of(table) == AFTER


def test_history_and_checkpoints(tmp_path: Path) -> None:
    table = make(tmp_path, EVENTS, ["country"])
    for number in range(41):
        write(table, events((number, "2025-12-10", "US" if number % 2 else "FR")))
    assert table.version == 41
    assert rows_of(pt.open_table(table.uri, format="lance")) == list(range(41))
    assert sorted(path.name for path in (tmp_path / "my_partitioned_table/_partita/log").glob("*.arrow")) == [
        f"{20:020}.arrow", f"{40:020}.arrow",
    ]  # fmt: skip
    assert table.history()["version"].to_pylist() == list(range(41, -1, -1))
    store_of(table).log.forget(time.time() + 1)
    left = {path.name for path in (tmp_path / "my_partitioned_table/_partita/log").iterdir()}
    assert {name for name in left if not name.endswith(".done.json")} == {
        f"{40:020}.arrow",
        f"{40:020}.json",
        f"{41:020}.json",
    }
    assert rows_of(pt.open_table(table.uri, format="lance")) == list(range(41))
    assert table.history()["version"].to_pylist() == list(range(41, -1, -1))
    assert table.partitions()["rows"].to_pylist() == [21, 20]


def gone_from(store: LanceStore, state: LanceState, place: int, row: int) -> dict[str, Any]:
    """A row of a leaf's first fragment, gone."""
    changed = rows_gone(store.leaf(state, place).open(store.versions(state, np.array([place]))[0]), np.array([row]))
    return {
        "place": place,
        "before": {n: before for n, (before, _) in changed.items()},
        "after": {n: after for n, (_, after) in changed.items()},
    }


def told_of(gone: list[dict[str, Any]]) -> pa.Table:
    rows = [{"path": "", "rows": 1, "details": json.dumps(one)} for one in gone]
    return pa.Table.from_pylist(rows, TOLD)
