"""The change feed of a Delta table: commits of other writers, and logs that were rewritten or cleaned up."""

from __future__ import annotations

import json
import os
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import partita as pt
from tests.conformance.change_feed_rows import SCHEMA, rows, touched_by_commit

pytestmark = pytest.mark.usefixtures("spark")


def create_table(folder: Path) -> pt.Table:
    return pt.Lake(str(folder)).create_table("t.t", SCHEMA, format="delta", partition_by=["p"])


def test_commits_of_other_writers_are_read(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    write_deltalake(table.uri, rows((2, "b"), (3, "c")), mode="append")
    DeltaTable(table.uri).delete("p = 'b'")
    write_deltalake(table.uri, rows((4, "a")), mode="append")
    DeltaTable(table.uri).optimize.compact()
    feed = table.change_feed(cursor)
    assert touched_by_commit(feed) == [["b", "c"], ["b"], ["a"]]
    assert [commit.operation for commit in feed.commits] == ["WRITE", "DELETE", "WRITE"]
    assert feed.commits[0].id.endswith(":2")
    assert not table.change_feed(feed.cursor).commits


def commit_file(table: pt.Table, version: int) -> Path:
    return Path(table.uri, "_delta_log", f"{version:020}.json")


def rewritten(table: pt.Table, version: int, change: Any) -> None:
    """A commit whose actions another writer would have written in another way."""
    file = commit_file(table, version)
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        change(action)
    file.write_text("".join(json.dumps(action) + "\n" for action in actions if action))


def test_a_remove_without_its_partition_is_looked_up(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a"), (2, "b")))
    table.delete("p = 'b'")

    def silent(action: dict[str, Any]) -> None:
        if "remove" in action:
            action["remove"].pop("partitionValues", None)

    rewritten(table, 2, silent)
    assert touched_by_commit(pt.open_table(table.uri, format="delta").change_feed()) == [["a", "b"], ["b"]]


def test_the_time_of_a_commit_is_its_own_or_its_files(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    for number in range(3):
        table.append(rows((number, "a")))
    rewritten(table, 1, lambda a: a.get("commitInfo", {}).update(inCommitTimestamp=1_700_000_000_123))
    rewritten(table, 2, lambda a: a.get("commitInfo", {}).update(timestamp=1_600_000_000_000))
    rewritten(table, 3, lambda a: a.pop("commitInfo", None))
    os.utime(commit_file(table, 3), (1_500_000_000, 1_500_000_000))
    feed = pt.open_table(table.uri, format="delta").change_feed().commits
    assert [commit.committed_at.timestamp() for commit in feed] == [1_700_000_000.123, 1_600_000_000, 1_500_000_000]
    assert feed[0].committed_at.tzinfo is UTC
    assert feed[2].operation == "UNKNOWN"


def test_after_a_log_cleanup_the_checkpoint_changes_all_partitions(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    for number, value in enumerate("abcd"):
        table.append(rows((number, value)))
    early = table.change_feed().cursor
    table.append(rows((5, "e")))
    table.delete("p = 'a'")
    DeltaTable(table.uri).create_checkpoint()
    table.append(rows((7, "f")))
    for version in range(6):
        commit_file(table, version).unlink()
    fresh = pt.open_table(table.uri, format="delta")
    feed = fresh.change_feed()
    assert touched_by_commit(feed) == [["a"], ["b", "c", "d", "e"], ["f"]]
    assert feed.commits[1].id.endswith(":6:checkpoint")
    assert touched_by_commit(fresh.change_feed(early)) == touched_by_commit(feed)
    assert not fresh.change_feed(feed.cursor).commits
    commit_file(table, 6).unlink()
    assert touched_by_commit(pt.open_table(table.uri, format="delta").change_feed(early)) == [
        ["b", "c", "d", "e"],
        ["f"],
    ]
    DeltaTable(table.uri).create_checkpoint()
    commit_file(table, 7).unlink()
    last = pt.open_table(table.uri, format="delta").change_feed(early)
    assert touched_by_commit(last) == [["b", "c", "d", "e", "f"]]
    assert not pt.open_table(table.uri, format="delta").change_feed(last.cursor).commits


def test_a_table_that_was_overwritten_with_other_partitions_is_touched_as_a_whole(tmp_path: Path) -> None:
    table = create_table(tmp_path)
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    table.append(rows((2, "b")))
    given = pa.table({"id": pa.array([1, 2], pa.int64()), "q": pa.array([5, 6], pa.int32())})
    write_deltalake(table.uri, given, mode="overwrite", schema_mode="overwrite", partition_by=["q"])
    fresh = pt.open_table(table.uri, format="delta")
    for after in (None, cursor):
        for commit in fresh.change_feed(after).commits:
            assert {5, 6} <= set(commit.partitions["q"].to_pylist())
