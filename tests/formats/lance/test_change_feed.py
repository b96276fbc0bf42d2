"""The change feed of a Lance table: commits of other writers to its leaves, and leaves that come and go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import partita as pt
from tests.conformance.change_feed_rows import SCHEMA, rows, touched_by_commit, touched_values

pytestmark = pytest.mark.usefixtures("spark")


def create_table(folder: Path) -> Any:
    return pt.Lake(str(folder)).create_table("t.t", SCHEMA, format="lance", partition_by=["p"])


def leaf(table: pt.Table, value: str) -> str:
    return f"{table.uri}/p={value}.lance"


def test_commits_of_other_writers_to_leaves_are_read(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a"), (2, "b")))
    seen = table.change_feed()
    lance.write_dataset(pa.table({"id": [3]}), leaf(table, "a"), mode="append")
    lance.write_dataset(pa.table({"id": [4]}), leaf(table, "a"), mode="append")
    feed = table.change_feed(seen.cursor)
    assert touched_by_commit(feed) == [["a"], ["a"]]
    version = lance.dataset(leaf(table, "a")).version
    assert [commit.id for commit in feed.commits] == [f"p=a@{version - 1}", f"p=a@{version}"]
    assert [commit.operation for commit in feed.commits] == ["append", "append"]
    assert abs(feed.commits[0].committed_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert not table.change_feed(feed.cursor).commits
    table.append(rows((5, "a")))
    table.repair()
    assert [commit.operation for commit in table.change_feed(feed.cursor).commits] == ["append"]
    assert touched_by_commit(table.change_feed(seen.cursor)) == [["a"], ["a"], ["a"]]
    lance.dataset(leaf(table, "b")).delete("id = 2")
    table.append(rows((6, "b")))
    later = table.change_feed(feed.cursor)
    assert touched_by_commit(later) == [["a"], ["b"], ["b"]]
    assert [commit.operation for commit in later.commits] == ["append", "delete", "append"]
    assert not table.change_feed(later.cursor).commits
    assert touched_by_commit(table.change_feed()) == [["a", "b"], *touched_by_commit(feed), *touched_by_commit(later)]


def test_commits_that_change_no_rows_are_left_out(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    table.append(rows((2, "a")))
    cursor = table.change_feed().cursor
    table.compact()
    table.create_index("id")
    table.add_column(pa.field("more", pa.int64()))
    table.add_partition({"p": "new"})
    table.repair()
    assert not table.change_feed(cursor).commits
    table.append(rows((3, "a")))
    dataset = lance.dataset(leaf(table, "a"))
    dataset.optimize.compact_files()
    lance.dataset(leaf(table, "a")).optimize.optimize_indices()
    lance.dataset(leaf(table, "a")).add_columns({"theirs": "id * 2"})
    assert touched_by_commit(table.change_feed(cursor)) == [["a"]]
    assert touched_by_commit(table.change_feed()) == [["a"], ["a"], ["a"]]


def test_dropped_partitions_are_read(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a"), (2, "b")))
    cursor = table.change_feed().cursor
    table.drop_partition("p = 'a'")
    feed = table.change_feed(cursor)
    assert touched_by_commit(feed) == [["a"]]
    assert touched_by_commit(table.change_feed()) == [["a", "b"], ["a"]]


def test_a_leaf_of_another_writer_is_read(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    lance.write_dataset(pa.table({"id": [3]}), leaf(table, "z"))
    assert not table.change_feed(cursor).commits
    table.repair()
    assert touched_by_commit(table.change_feed(cursor)) == [["z"]]


def test_versions_of_another_writer_that_were_cleaned_up_still_count(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a"), (2, "b")))
    cursor = table.change_feed().cursor
    lance.write_dataset(pa.table({"id": [3]}), leaf(table, "a"), mode="append")
    lance.write_dataset(pa.table({"id": [4]}), leaf(table, "a"), mode="append")
    table.append(rows((5, "a")))
    for value in "ab":
        lance.dataset(leaf(table, value)).cleanup_old_versions(timedelta(0))
    feed = table.change_feed(cursor)
    assert {value for commit in feed.commits for value in touched_values(commit)} == {"a"}
    assert len(feed.commits) == 2
    assert not table.change_feed(feed.cursor).commits
