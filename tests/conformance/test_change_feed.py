"""What was done to a table's data, by its own log: each commit once, and nothing missed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.formats.capabilities import Operation
from partita.formats.file_plan import partition_keys
from tests.conformance.change_feed_rows import SCHEMA, rows, touched_by_commit

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def create_table(folder: Path, format_name: str, *by: str) -> pt.Table:
    return pt.Lake(str(folder)).create_table("t.t", SCHEMA, format=format_name, partition_by=list(by))


@pytest.mark.needs(Operation.CHANGE_FEED)
def test_replaced_partitions_are_in_the_feed(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, format_name, "p")
    empty = table.change_feed()
    assert not empty.commits
    table.append(rows((1, "a"), (2, "b"), (3, None)))
    first = table.change_feed(empty.cursor)
    assert touched_by_commit(first) == [[None, "a", "b"]]
    table.overwrite_partitions(rows((7, "b")))
    assert touched_by_commit(table.change_feed(first.cursor)) == [["b"]]
    for text in ("", "7", json.dumps({"format": "other"})):
        with pytest.raises(pt.TableError, match="cursor"):
            table.change_feed(text)


@pytest.mark.needs(Operation.CHANGE_FEED, Operation.DELETE, Operation.REPLACE_PARTITIONS)
def test_each_change_is_in_the_feed_once_with_its_partitions(
    format_name: str, spark: SparkSession, tmp_path: Path
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    table = create_table(tmp_path, format_name, "p")
    empty = table.change_feed()
    assert not empty.commits
    assert not table.change_feed(empty.cursor).commits
    table.append(rows((1, "a"), (2, "b"), (3, None)))
    table.append(rows((4, "a"), (5, "a"), (6, "c")))
    table.delete("id = 4")
    table.overwrite_partitions(rows((7, "b")))
    table.replace_partitions(rows((8, "d")), pa.table({"p": pa.array(["d", "c"])}))
    table.delete("p = 'a'")
    feed = table.change_feed()
    assert touched_by_commit(feed) == [[None, "a", "b"], ["a", "c"], ["a"], ["b"], ["c", "d"], ["a"]]
    assert touched_by_commit(table.change_feed(empty.cursor)) == touched_by_commit(feed)
    assert len({commit.id for commit in feed.commits}) == 6
    assert all(before < commit.committed_at < datetime.now(UTC) + timedelta(seconds=5) for commit in feed.commits)
    times = [commit.committed_at for commit in feed.commits]
    assert times == sorted(times)
    assert feed.commits[-1].version == table.version
    assert not table.change_feed(feed.cursor).commits
    state = table._store.current_version()
    for commit in feed.commits:
        assert commit.partitions.column_names == state.partitions.column_names
        assert commit.partitions.schema.types == state.partitions.schema.types
        keys = partition_keys(state, commit.partitions).to_pylist()
        assert len(keys) == commit.partitions.num_rows
    assert partition_keys(state, feed.commits[2].partitions).to_pylist() == ["p=s:YQ"]
    table.append(rows((9, "e")))
    assert touched_by_commit(table.change_feed(feed.cursor)) == [["e"]]
    assert [commit.id for commit in table.change_feed().commits][:6] == [commit.id for commit in feed.commits]


@pytest.mark.needs(Operation.CHANGE_FEED, Operation.DELETE)
def test_a_table_without_partitions_is_touched_as_one(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, format_name)
    table.append(rows((1, "a")))
    table.delete("id = 1")
    commits = table.change_feed().commits
    assert [commit.partitions.to_pylist() for commit in commits] == [[{"spec_id": 0}]] * 2
    assert partition_keys(table._store.current_version(), commits[0].partitions).to_pylist() == [""]


@pytest.mark.needs(Operation.CHANGE_FEED, Operation.REWRITE)
def test_a_compaction_touches_nothing(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, format_name, "p")
    table.append(rows((1, "a")))
    table.append(rows((2, "a")))
    cursor = table.change_feed().cursor
    # A format whose appends to a partition are one file already has nothing to compact.
    is_fragmented = table.plan().files.num_rows > 1
    assert (table.rewrite().version is not None) == is_fragmented
    assert table.plan().files.num_rows == 1
    assert not table.change_feed(cursor).commits
    assert (table.change_feed(cursor).cursor != cursor) == is_fragmented
    assert touched_by_commit(table.change_feed()) == [["a"], ["a"]]


@pytest.mark.needs(Operation.CHANGE_FEED)
def test_a_table_that_was_created_again_is_read_from_the_start(
    format_name: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = create_table(tmp_path / "one", format_name, "p")
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    cursor = table.change_feed().cursor
    other = create_table(tmp_path / "other", format_name, "p")
    other.append(rows((3, "c")))
    other.append(rows((4, "d")))
    assert touched_by_commit(other.change_feed(cursor)) == [["c"], ["d"]]
