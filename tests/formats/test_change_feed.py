"""What was done to a table's data, by its own log: whoever did it, each commit once, and nothing missed."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import partita as pt
from partita.formats.file_plan import partition_keys
from partita.formats.iceberg.store import IcebergTableStore
from tests.formats.iceberg.handwritten_snapshots import added_entry, commit_snapshot, data_file, new_table, reopen_table
from tests.formats.iceberg.tables import pyiceberg_table, roll_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from partita.formats.change_feed import ChangeFeed, TableCommit

FORMATS = ("delta", "iceberg", "lance")
SCHEMA = pt.Schema.of({"id": "long", "p": "string"})

pytestmark = pytest.mark.usefixtures("spark")


def rows(*given: tuple[int, str | None]) -> pa.Table:
    ids, values = zip(*given, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array(values, pa.string())})


def create(folder: Path, form: str, by: Iterable[Any] = ("p",), **properties: str) -> Any:
    return pt.Lake(str(folder)).create_table(
        "t.t", SCHEMA, format=form, partition_by=list(by), properties=properties
    )  # fmt: skip


def touched(commit: TableCommit, field: str = "p") -> list[Any]:
    return sorted(commit.partitions[field].to_pylist(), key=str)


def told(found: ChangeFeed) -> list[list[Any]]:
    return [touched(commit) for commit in found.commits]


@pytest.mark.parametrize("form", FORMATS)
def test_each_change_is_told_once_with_its_partitions(tmp_path: Path, form: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    table = create(tmp_path, form)
    empty = table.change_feed()
    assert not empty.commits
    assert not table.change_feed(empty.cursor).commits
    table.append(rows((1, "a"), (2, "b"), (3, None)))
    table.append(rows((4, "a"), (5, "a"), (6, "c")))
    table.delete("id = 4")
    table.overwrite_partitions(rows((7, "b")))
    table.replace_partitions(rows((8, "d")), pa.table({"p": pa.array(["d", "c"])}))
    table.delete("p = 'a'")
    found = table.change_feed()
    assert told(found) == [[None, "a", "b"],
                           ["a", "c"], ["a"], ["b"], ["c", "d"], ["a"]]  # fmt: skip
    assert told(table.change_feed(empty.cursor)) == told(found)
    assert len({commit.id for commit in found.commits}) == 6
    assert all(before < commit.committed_at < datetime.now(UTC) + timedelta(seconds=5) for commit in found.commits)
    times = [commit.committed_at for commit in found.commits]
    assert times == sorted(times)
    assert found.commits[-1].version == table.version
    assert not table.change_feed(found.cursor).commits
    state = table._store.current_version()
    for commit in found.commits:
        assert commit.partitions.column_names == state.partitions.column_names
        assert commit.partitions.schema.types == state.partitions.schema.types
        keys = partition_keys(state, commit.partitions).to_pylist()
        assert len(keys) == commit.partitions.num_rows
    assert partition_keys(state, found.commits[2].partitions).to_pylist() == ["p=s:YQ"]
    table.append(rows((9, "e")))
    assert told(table.change_feed(found.cursor)) == [["e"]]
    assert [commit.id for commit in table.change_feed().commits][:6] == [commit.id for commit in found.commits]


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_without_partitions_is_touched_as_one(tmp_path: Path, form: str) -> None:
    table = create(tmp_path, form, ())
    table.append(rows((1, "a")))
    table.delete("id = 1")
    found = table.change_feed().commits
    assert [commit.partitions.to_pylist() for commit in found] == [[{"spec_id": 0}]] * 2
    assert partition_keys(table._store.current_version(), found[0].partitions).to_pylist() == [""]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_compaction_touches_nothing(tmp_path: Path, form: str) -> None:
    table = create(tmp_path, form)
    table.append(rows((1, "a")))
    table.append(rows((2, "a")))
    cursor = table.change_feed().cursor
    assert table.rewrite().version is not None
    assert not table.change_feed(cursor).commits
    assert table.change_feed(cursor).cursor != cursor
    assert told(table.change_feed()) == [["a"], ["a"]]


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_cursor_is_refused(tmp_path: Path, form: str) -> None:
    table = create(tmp_path, form)
    for text in ("", "7", json.dumps({"format": "other"})):
        with pytest.raises(pt.TableError, match="cursor"):
            table.change_feed(text)


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_that_is_made_anew_is_told_from_the_start(tmp_path: Path, form: str) -> None:
    table = create(tmp_path / "one", form)
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    cursor = table.change_feed().cursor
    other = create(tmp_path / "other", form)
    other.append(rows((3, "c")))
    other.append(rows((4, "d")))
    assert told(other.change_feed(cursor)) == [["c"], ["d"]]


# --- Delta


def test_a_strangers_commits_to_a_delta_table_are_told(tmp_path: Path) -> None:
    table = create(tmp_path, "delta")
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    write_deltalake(table.uri, rows((2, "b"), (3, "c")), mode="append")
    DeltaTable(table.uri).delete("p = 'b'")
    write_deltalake(table.uri, rows((4, "a")), mode="append")
    DeltaTable(table.uri).optimize.compact()
    found = table.change_feed(cursor)
    assert told(found) == [["b", "c"], ["b"], ["a"]]
    assert [commit.operation for commit in found.commits] == ["WRITE", "DELETE", "WRITE"]
    assert found.commits[0].id.endswith(":2")
    assert not table.change_feed(found.cursor).commits


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
    table = create(tmp_path, "delta")
    table.append(rows((1, "a"), (2, "b")))
    table.delete("p = 'b'")

    def silent(action: dict[str, Any]) -> None:
        if "remove" in action:
            action["remove"].pop("partitionValues", None)

    rewritten(table, 2, silent)
    assert told(pt.open_table(table.uri, format="delta").change_feed()) == [["a", "b"], ["b"]]


def test_the_time_of_a_commit_is_its_own_or_its_files(tmp_path: Path) -> None:
    table = create(tmp_path, "delta")
    for number in range(3):
        table.append(rows((number, "a")))
    rewritten(table, 1, lambda a: a.get("commitInfo", {}).update(inCommitTimestamp=1_700_000_000_123))
    rewritten(table, 2, lambda a: a.get("commitInfo", {}).update(timestamp=1_600_000_000_000))
    rewritten(table, 3, lambda a: a.pop("commitInfo", None))
    os.utime(commit_file(table, 3), (1_500_000_000, 1_500_000_000))
    found = pt.open_table(table.uri, format="delta").change_feed().commits
    assert [commit.committed_at.timestamp() for commit in found] == [1_700_000_000.123, 1_600_000_000, 1_500_000_000]
    assert found[0].committed_at.tzinfo is UTC
    assert found[2].operation == "UNKNOWN"


def test_where_the_log_was_cleaned_up_its_checkpoint_touches_all(tmp_path: Path) -> None:
    table = create(tmp_path, "delta")
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
    found = fresh.change_feed()
    assert told(found) == [["a"], ["b", "c", "d", "e"], ["f"]]
    assert found.commits[1].id.endswith(":6:checkpoint")
    assert told(fresh.change_feed(early)) == told(found)
    assert not fresh.change_feed(found.cursor).commits
    commit_file(table, 6).unlink()
    assert told(pt.open_table(table.uri, format="delta").change_feed(early)) == [["b", "c", "d", "e"], ["f"]]
    DeltaTable(table.uri).create_checkpoint()
    commit_file(table, 7).unlink()
    last = pt.open_table(table.uri, format="delta").change_feed(early)
    assert told(last) == [["b", "c", "d", "e", "f"]]
    assert not pt.open_table(table.uri, format="delta").change_feed(last.cursor).commits


def test_a_table_that_was_overwritten_with_other_partitions_is_touched_as_a_whole(tmp_path: Path) -> None:
    table = create(tmp_path, "delta")
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    table.append(rows((2, "b")))
    given = pa.table({"id": pa.array([1, 2], pa.int64()), "q": pa.array([5, 6], pa.int32())})
    write_deltalake(table.uri, given, mode="overwrite", schema_mode="overwrite", partition_by=["q"])
    fresh = pt.open_table(table.uri, format="delta")
    for after in (None, cursor):
        for commit in fresh.change_feed(after).commits:
            assert {5, 6} <= set(commit.partitions["q"].to_pylist())


# --- Iceberg


def test_a_strangers_snapshots_of_an_iceberg_table_are_told(tmp_path: Path) -> None:
    table = create(tmp_path, "iceberg")
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    loaded = pyiceberg_table(table)
    loaded.append(rows((2, "b"), (3, "c")))
    loaded.delete("p = 'b'")
    found = table.change_feed(cursor)
    assert told(found) == [["b", "c"], ["b"]]
    assert [commit.operation for commit in found.commits] == ["append", "delete"]
    assert found.commits[-1].id == str(table.version)


def test_snapshots_of_several_specs_are_told_by_the_columns_of_all(tmp_path: Path) -> None:
    table = create(tmp_path, "iceberg")
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    table.evolve(add=[pt.bucket("id", 4)], drop=["p"])
    assert not table.change_feed(cursor).commits
    table.append(rows((2, "b")))
    table.delete("id = 1")
    found = table.change_feed(cursor)
    state = table._store.current_version()
    assert [commit.partitions["spec_id"].to_pylist() for commit in found.commits] == [[1], [0]]
    assert [commit.partitions["p"].to_pylist() for commit in found.commits] == [[None], ["a"]]
    keys = [partition_keys(state, commit.partitions).to_pylist() for commit in table.change_feed().commits]
    assert keys[0] == ["p=s:YQ"]
    assert keys[1][0].startswith("id_bucket=i:")
    assert keys[2] == ["p=s:YQ"]


def expired(table: pt.Table) -> None:
    table.expire_snapshots(timedelta(0), 1)


def test_where_snapshots_were_expired_the_oldest_touches_all(tmp_path: Path) -> None:
    table = create(tmp_path, "iceberg")
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    table.append(rows((2, "b")))
    table.append(rows((3, "c")))
    expired(table)
    found = table.change_feed(cursor)
    assert told(found) == [["a", "b", "c"]]
    assert told(table.change_feed()) == [["a", "b", "c"]]
    assert not table.change_feed(found.cursor).commits
    table.append(rows((4, "a")))
    assert told(table.change_feed(found.cursor)) == [["a"]]
    assert told(table.change_feed()) == [["a", "b", "c"], ["a"]]


def test_a_table_that_was_rolled_back_is_touched_where_it_may_differ(tmp_path: Path) -> None:
    table = create(tmp_path, "iceberg")
    table.append(rows((1, "a")))
    first = table.version
    seen = table.change_feed()
    table.append(rows((2, "b")))
    cursor = table.change_feed(seen.cursor).cursor
    roll_back(table, first)
    found = table.change_feed(cursor)
    assert told(found) == [["a", "b"]]
    assert found.commits[0].id not in {commit.id for commit in seen.commits}
    assert not table.change_feed(found.cursor).commits
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
    assert told(store.change_feed(cursor)) == [["a"]]
    every = data_file("deletes", content=2, spec_id=1, equality_ids=[1])
    commit_snapshot(reopen_table(tmp_path), (1, [added_entry(every)]))
    found = store.change_feed(cursor)
    assert [touched(commit) for commit in found.commits] == [["a"], [None, "a", "b"]]
    assert sorted(found.commits[1].partitions["spec_id"].to_pylist()) == [0, 0, 1]


# --- Lance


def leaf(table: pt.Table, value: str) -> str:
    return f"{table.uri}/p={value}.lance"


def test_a_strangers_commits_to_leaves_are_told(tmp_path: Path) -> None:
    table = create(tmp_path, "lance")
    table.append(rows((1, "a"), (2, "b")))
    seen = table.change_feed()
    lance.write_dataset(pa.table({"id": [3]}), leaf(table, "a"), mode="append")
    lance.write_dataset(pa.table({"id": [4]}), leaf(table, "a"), mode="append")
    found = table.change_feed(seen.cursor)
    assert told(found) == [["a"], ["a"]]
    version = lance.dataset(leaf(table, "a")).version
    assert [commit.id for commit in found.commits] == [f"p=a@{version - 1}", f"p=a@{version}"]
    assert [commit.operation for commit in found.commits] == ["append", "append"]
    assert abs(found.commits[0].committed_at - datetime.now(UTC)) < timedelta(minutes=5)
    assert not table.change_feed(found.cursor).commits
    table.append(rows((5, "a")))
    table.repair()
    assert [commit.operation for commit in table.change_feed(found.cursor).commits] == ["append"]
    assert told(table.change_feed(seen.cursor)) == [["a"], ["a"], ["a"]]
    lance.dataset(leaf(table, "b")).delete("id = 2")
    table.append(rows((6, "b")))
    later = table.change_feed(found.cursor)
    assert told(later) == [["a"], ["b"], ["b"]]
    assert [commit.operation for commit in later.commits] == ["append", "delete", "append"]
    assert not table.change_feed(later.cursor).commits
    assert told(table.change_feed()) == [["a", "b"], *told(found), *told(later)]


def test_what_changes_no_rows_of_leaves_is_left_out(tmp_path: Path) -> None:
    table = create(tmp_path, "lance")
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
    assert told(table.change_feed(cursor)) == [["a"]]
    assert told(table.change_feed()) == [["a"], ["a"], ["a"]]


def test_partitions_that_were_dropped_are_told(tmp_path: Path) -> None:
    table = create(tmp_path, "lance")
    table.append(rows((1, "a"), (2, "b")))
    cursor = table.change_feed().cursor
    table.drop_partition("p = 'a'")
    found = table.change_feed(cursor)
    assert told(found) == [["a"]]
    assert told(table.change_feed()) == [["a", "b"], ["a"]]


def test_a_leaf_that_a_stranger_laid_out_is_told(tmp_path: Path) -> None:
    table = create(tmp_path, "lance")
    table.append(rows((1, "a")))
    cursor = table.change_feed().cursor
    lance.write_dataset(pa.table({"id": [3]}), leaf(table, "z"))
    assert not table.change_feed(cursor).commits
    table.repair()
    assert told(table.change_feed(cursor)) == [["z"]]


def test_versions_of_a_stranger_that_were_cleaned_up_still_count(tmp_path: Path) -> None:
    table = create(tmp_path, "lance")
    table.append(rows((1, "a"), (2, "b")))
    cursor = table.change_feed().cursor
    lance.write_dataset(pa.table({"id": [3]}), leaf(table, "a"), mode="append")
    lance.write_dataset(pa.table({"id": [4]}), leaf(table, "a"), mode="append")
    table.append(rows((5, "a")))
    for value in "ab":
        lance.dataset(leaf(table, value)).cleanup_old_versions(timedelta(0))
    found = table.change_feed(cursor)
    assert {value for commit in found.commits for value in touched(commit)} == {"a"}
    assert len(found.commits) == 2
    assert not table.change_feed(found.cursor).commits
