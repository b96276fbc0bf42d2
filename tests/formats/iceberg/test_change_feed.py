"""The change feed of an Iceberg table: snapshots of other writers, of several specs, expired or rolled back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import partita as pt
from partita.formats.file_plan import partition_keys
from partita.formats.iceberg.store import IcebergTableStore
from tests.conformance.change_feed_rows import SCHEMA, rows, touched_by_commit, touched_values
from tests.formats.iceberg.handwritten_snapshots import added_entry, commit_snapshot, data_file, new_table, reopen_table
from tests.formats.iceberg.tables import pyiceberg_table, roll_back

pytestmark = pytest.mark.usefixtures("spark")


def create_table(folder: Path) -> pt.Table:
    return pt.Lake(str(folder)).create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])


def test_snapshots_of_other_writers_are_read(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    loaded = pyiceberg_table(table)
    loaded.append(rows((2, "b"), (3, "c")))
    loaded.delete("p = 'b'")
    feed = table.change_feed(cursor)
    assert touched_by_commit(feed) == [["b", "c"], ["b"]]
    assert [commit.operation for commit in feed.commits] == ["append", "delete"]
    assert feed.commits[-1].id == str(table.version)


def test_snapshots_of_several_specs_have_the_columns_of_all(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    table.evolve(add=[pt.bucket("id", 4)], drop=["p"])
    assert not table.change_feed(cursor).commits
    table.append(rows((2, "b")))
    table.delete("id = 1")
    feed = table.change_feed(cursor)
    state = table._store.current_version()
    assert [commit.partitions["spec_id"].to_pylist() for commit in feed.commits] == [[1], [0]]
    assert [commit.partitions["p"].to_pylist() for commit in feed.commits] == [[None], ["a"]]
    keys = [partition_keys(state, commit.partitions).to_pylist() for commit in table.change_feed().commits]
    assert keys[0] == ["p=s:YQ"]
    assert keys[1][0].startswith("id_bucket=i:")
    assert keys[2] == ["p=s:YQ"]


def expire_all_snapshots(table: pt.Table) -> None:
    table.expire_snapshots(timedelta(0), 1)


def test_after_an_expiry_the_oldest_snapshot_changes_all_partitions(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    table.append(rows((2, "b")))
    table.append(rows((3, "c")))
    expire_all_snapshots(table)
    feed = table.change_feed(cursor)
    assert touched_by_commit(feed) == [["a", "b", "c"]]
    assert touched_by_commit(table.change_feed()) == [["a", "b", "c"]]
    assert not table.change_feed(feed.cursor).commits
    table.append(rows((4, "a")))
    assert touched_by_commit(table.change_feed(feed.cursor)) == [["a"]]
    assert touched_by_commit(table.change_feed()) == [["a", "b", "c"], ["a"]]


def test_a_table_that_was_rolled_back_is_touched_where_it_may_differ(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    first = table.version
    seen = table.change_feed()
    table.append(rows((2, "b")))
    cursor = table.change_feed(seen.cursor).cursor
    roll_back(table, first)
    feed = table.change_feed(cursor)
    assert touched_by_commit(feed) == [["a", "b"]]
    assert feed.commits[0].id not in {commit.id for commit in seen.commits}
    assert not table.change_feed(feed.cursor).commits
    assert not table.change_feed(seen.cursor).commits


def test_an_equality_delete_of_no_partition_touches_all(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [pt.identity("p")])
    store = IcebergTableStore(
        commit_snapshot(table, (0, [added_entry(data_file("one", "a")), added_entry(data_file("two", "b"))]))
    )
    store.evolve(add=[], drop=["p"], rename={})
    cursor = store.change_feed(None).cursor
    one = data_file("one-deletes", "a", content=2, equality_ids=[1])
    commit_snapshot(reopen_table(tmp_path), (0, [added_entry(one)]))
    assert touched_by_commit(store.change_feed(cursor)) == [["a"]]
    every = data_file("deletes", content=2, spec_id=1, equality_ids=[1])
    commit_snapshot(reopen_table(tmp_path), (1, [added_entry(every)]))
    feed = store.change_feed(cursor)
    assert [touched_values(commit) for commit in feed.commits] == [["a"], [None, "a", "b"]]
    assert sorted(feed.commits[1].partitions["spec_id"].to_pylist()) == [0, 0, 1]
