"""Adding and dropping partitions, compaction, indices, cleanup, repair and added columns."""

from __future__ import annotations

import os
import shutil
import time
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest

import partita as pt
from partita.formats.capabilities import Operation
from partita.formats.lance import alter, commit, maintenance, namespace
from partita.formats.lance.columns import check_column_type
from partita.formats.lance.lance_table import LanceTable
from partita.formats.lance.namespace import read_namespace_tree
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange
from partita.storage import Storage
from tests.formats.lance.killed_writer import ProcessKilled, StepCounter
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
from tests.formats.lance.test_commit import delete_file_rows, leaf_deletions

US = "event_date=2025-12-10/country=US.lance"


@pytest.mark.slow(reason="many commits to a table")
def test_partitions_are_added_in_one_change_of_the_manifest(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    root = read_namespace_tree(Storage.from_uri(table.uri)).root
    before = root.open_manifest().version
    days = [{"event_date": date(2025, 12, 11) + timedelta(days=n), "country": "US"} for n in range(300)]
    assert table.add_partition(*days) == 299
    assert root.open_manifest().version == before + 1
    assert table.partitions("country = 'US'").num_rows == 301
    assert table.add_partition(*days) == 0
    assert lance.dataset(f"{table.uri}/event_date=2025-12-30/country=US.lance").schema.names == ["id"]
    assert sum(table.partitions()["rows"].to_pylist()) == 4


def test_partitions_that_the_fields_do_not_have_are_refused(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    with pytest.raises(pt.PartitionValueError, match="country"):
        table.add_partition({"event_date": date(2025, 1, 1)})
    with pytest.raises(pt.PartitionValueError, match="region"):
        table.add_partition({"event_date": date(2025, 1, 1), "country": "US", "region": 1})
    with pytest.raises(pt.PartitionValueError, match="event_date"):
        table.add_partition({"event_date": "yesterday", "country": "US"})


@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        (pt.month("ts"), [1, 12, None], [0, 13, -1]), (pt.day("ts"), [1, 31], [0, 32]),
        (pt.hour("ts"), [0, 23], [24, -1]), (pt.bucket("i", 4), [0, 3, None], [4, -1]),
        (pt.truncate("i", 10), [0, -10, 120], [7, -5]), (pt.truncate("s", 3), ["", "abc", None], ["abcd"]),
        (pt.hash("s"), ["783ca153"], ["783CA153", "x", ""]), (pt.year("ts"), [2025], []),
        (pt.truncate("d", 10), [Decimal("0.10")], [Decimal("0.15")]),
    ],
    ids=str,
)  # fmt: skip
def test_partitions_that_no_row_can_be_in_are_refused(
    tmp_path: Path, function: pt.PartitionFunction, right: list[Any], wrong: list[Any]
) -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("i", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(9, 2))])
    table = create_lance_table(tmp_path, schema, [function])
    [name] = table.spec.names
    for value in wrong:
        with pytest.raises(pt.PartitionValueError, match=name):
            table.add_partition({name: value})
    assert table.partitions().num_rows == 0
    assert table.add_partition(*({name: value} for value in right)) == len(right)


@pytest.mark.slow(reason="many commits to a table")
def test_dropped_partitions_are_gone_for_all_and_can_come_again(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    assert table.drop_partition("event_date = '2025-12-10'") == 2
    assert column_values(table) == [3, 4]
    ids = read_namespace_tree(Storage.from_uri(table.uri)).root.open_manifest().to_table()["object_id"].to_pylist()
    assert not [i for i in ids if "2025-12-10" in i]
    assert table.unregistered_leaves().num_rows == 0
    commit_rows(table, event_rows((9, "2025-12-10", "US")))
    assert column_values(table) == [3, 4, 9]
    with pytest.raises(pt.TableError, match="part of"):
        table.drop_partition("id = 3")
    assert table.drop_partition("event_date = '1999-01-01'") == 0


def test_an_invalid_condition_drops_no_partition(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    before = table.history().num_rows
    wrong: list[Any] = [None, "", " ", 5, True, b"x", [], {}, object(), "country", "1", "nope = 1", "NULL AND"]
    for where in wrong:
        with pytest.raises(pt.PartitaError):
            table.drop_partition(where)
    assert column_values(table) == [1, 2, 3, 4]
    assert (table.partitions().num_rows, table.history().num_rows) == (4, before)


def test_a_dropped_partition_comes_again_with_the_columns_that_the_table_has_then(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    table.drop_partition("event_date = '2025-12-10' AND country = 'US'")
    table.add_column(pa.field("note", pa.string()))
    rows = event_rows((9, "2025-12-10", "US")).append_column("note", pa.array(["x"]))
    commit_rows(table, rows)
    assert lance.dataset(f"{table.uri}/{US}").to_table().to_pylist() == [{"id": 9, "note": "x"}]


@pytest.mark.slow(reason="many commits to a table")
def test_compaction_keeps_the_rows(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    for number in range(5, 9):
        commit_rows(table, event_rows((number, "2025-12-10", "US")))
    assert len(lance.dataset(f"{table.uri}/{US}").get_fragments()) == 5
    done = table.compact("country = 'US'")
    assert done == {"leaves": 2, "fragments_removed": 5}
    assert len(lance.dataset(f"{table.uri}/{US}").get_fragments()) == 1
    assert column_values(table) == list(range(1, 9))
    assert table.externally_changed_leaves().num_rows == 0
    assert table.history()["operation"][0].as_py() == "compact"


def test_a_change_made_before_a_compaction_is_a_conflict_after_it(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    commit_rows(table, event_rows((5, "2025-12-10", "US")))
    store = table_store(table)
    state = store.current_version()
    deletions = leaf_deletions(store, state, 0, 0)
    table.compact()
    with pytest.raises(pt.CommitConflict):
        state.commit(
            TableChange(Operation.DELETE, WRITTEN_FILE_SCHEMA.empty_table(), delete_files=delete_file_rows([deletions]))
        )
    assert column_values(table) == [1, 2, 3, 4, 5]


def test_an_index_of_values_in_each_leaf(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    assert table.create_index("id", "event_date = '2025-12-10'") == {"leaves": 2, "indexed": 2}
    assert [i.name for i in lance.dataset(f"{table.uri}/{US}").describe_indices()] == ["id_idx"]
    commit_rows(table, event_rows((5, "2025-12-10", "US")))
    assert column_values(table) == [1, 2, 3, 4, 5]
    ids = lance.dataset(f"{table.uri}/{US}").to_table(filter="id IN (1, 5)")["id"].to_pylist()
    assert sorted(ids) == [1, 5]
    with pytest.raises(pt.SchemaError, match="names of the leaves"):
        table.create_index("country")


@pytest.mark.slow(reason="many commits to a table")
def test_cleaning_up_removes_old_versions_and_dropped_partitions_and_no_row(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    for number in range(5, 8):
        commit_rows(table, event_rows((number, "2025-12-10", "US")))
    table.compact()
    table.drop_partition("event_date = '2025-12-11'")
    before = column_values(table)
    assert table.cleanup() == []
    deleted = table.cleanup(timedelta(0))
    assert [path for path in deleted if path.startswith(US) and "/_versions/" in path]
    dropped = "event_date=2025-12-11/country=US.lance"
    assert [path for path in deleted if path.startswith(dropped)]
    assert not [path for path, _ in Storage.from_uri(table.uri).list_paths(dropped)]
    assert column_values(pt.open_table(table.uri, format="lance")) == before
    commit_rows(table, event_rows((50, "2025-12-10", "US"), (51, "2025-12-11", "US")))
    assert column_values(table) == [*before, 50, 51]


@pytest.mark.slow(reason="many commits to a table")
def test_cleaning_up_leaves_a_dropped_partition_that_is_about_to_come_again(tmp_path: Path) -> None:
    """Cleanup runs between the writing of files by executors and their commit."""
    table = create_seed_table(tmp_path)
    early = uncommitted_fragments(table, event_rows((8, "2025-12-10", "US")))
    table.drop_partition("event_date = '2025-12-10'")
    late = uncommitted_fragments(table, event_rows((9, "2025-12-10", "CN")))
    table.cleanup(timedelta(0))
    store = table_store(table)
    for fragments in (early, late):
        store.current_version().commit(TableChange(Operation.APPEND, fragments))
    assert column_values(table) == [3, 4, 8, 9]


@pytest.mark.slow(reason="many commits to a table")
def test_cleaning_up_leaves_a_dropped_partition_that_came_again_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_seed_table(tmp_path)
    table.drop_partition("event_date = '2025-12-10'")
    dropped = maintenance._leaves_dropped_before

    def write_meanwhile(*given: Any) -> list[str]:
        leaf_ids = dropped(*given)
        table.add_partition({"event_date": date(2025, 12, 10), "country": "CN"})
        commit_rows(table, event_rows((9, "2025-12-10", "US")))
        return leaf_ids

    monkeypatch.setattr(maintenance, "_leaves_dropped_before", write_meanwhile)
    table.cleanup(timedelta(0))
    assert column_values(table) == [3, 4, 9]
    assert lance.dataset(f"{table.uri}/event_date=2025-12-10/country=CN.lance").count_rows() == 0


LONG_AGO = 1_600_000_000


def set_old(folder: Path) -> None:
    """Set the times of all files below a folder to years ago."""
    for file in folder.rglob("*"):
        os.utime(file, (LONG_AGO, LONG_AGO))


@pytest.mark.slow(reason="many commits to a table")
def test_cleaning_up_removes_what_a_killed_writer_left_for_a_partition_that_was_never_created(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    fragments = uncommitted_fragments(table, event_rows((8, "2025-12-30", "US"), (9, "2025-12-31", "US")))
    old, young = (Path(table.uri, path) for path in fragments["path"].to_pylist())
    set_old(old)
    [old_file] = [str(file.relative_to(table.uri)) for file in old.rglob("*.lance") if file.is_file()]
    [young_file] = [str(file.relative_to(table.uri)) for file in young.rglob("*.lance") if file.is_file()]
    deleted = table.remove_orphans()
    assert deleted == [old_file]
    assert young_file in deleted.remaining
    assert not Path(table.uri, old_file).exists()
    assert young_file in table.remove_orphans(timedelta(0)).remaining, "it may be of a running write"
    table_store(table).current_version().commit(TableChange(Operation.APPEND, fragments.slice(1)))
    assert column_values(table) == [1, 2, 3, 4, 9]
    commit_rows(table, event_rows((10, "2025-12-30", "US")))
    set_old(Path(table.uri))
    table.remove_orphans(timedelta(0))
    assert column_values(table) == [1, 2, 3, 4, 9, 10]


def test_cleaning_up_leaves_old_files_that_may_be_of_others_where_no_leaf_is(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    name = f"{'0' * 32}-00000-7.lance"
    foreign_files = [
        f"event_date=2025-12-30/country=US.lance/data/{'01' * 12}{'a' * 22}.lance",
        "event_date=2025-12-30/country=US.lance/data/notes.txt",
        f"event_date=2025-12-30/country=US.lance/{name}",
        f"event_date=2025-12-30/country=US/data/{name}",
        f"event_date=2025-12-30/data/{name}",
        f"event_date=yesterday/country=US.lance/data/{name}",
        f"region=eu/country=US.lance/data/{name}",
        f"event_date=2025-12-30/country=US.lance/more.lance/data/{name}",
        f"other/event_date=2025-12-30/country=US.lance/data/{name}",
        f"data.lance/data/{name}",
    ]
    for path in foreign_files:
        Path(table.uri, path).parent.mkdir(parents=True, exist_ok=True)
        Path(table.uri, path).write_bytes(b"")
    # A dataset of another writer, and the leaf of a partition whose versions are lost.
    dataset = Path(table.uri, "event_date=2025-12-29/country=US.lance")
    lance.write_dataset(pa.table({"id": [7]}), str(dataset))
    (dataset / "data" / name).write_bytes(b"")
    set_old(Path(table.uri))
    assert not [path for path in table.remove_orphans() if "/data/" in path]
    assert all(Path(table.uri, path).exists() for path in foreign_files)
    assert (dataset / "data" / name).exists()
    lost = Path(table.uri, US)
    files = uncommitted_fragments(table, event_rows((9, "2025-12-10", "US")))
    assert files.num_rows == 1
    shutil.rmtree(lost / "_versions")
    set_old(lost)
    lost_files = set(lost.rglob("data/*"))
    assert len(lost_files) == 2
    assert not maintenance._files_of_missing_leaves(table_store(table).current_version(), time.time())
    assert set(lost.rglob("data/*")) == lost_files


def test_cleaning_up_leaves_files_of_a_partition_that_was_created_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_seed_table(tmp_path)
    fragments = uncommitted_fragments(table, event_rows((9, "2025-12-30", "US")))
    set_old(Path(table.uri, fragments["path"][0].as_py()))
    files_of_missing_leaves = maintenance._files_of_missing_leaves

    def commit_meanwhile(*given: Any) -> Any:
        files = files_of_missing_leaves(*given)
        monkeypatch.setattr(maintenance, "_files_of_missing_leaves", files_of_missing_leaves)
        table_store(table).current_version().commit(TableChange(Operation.APPEND, fragments))
        return files

    monkeypatch.setattr(maintenance, "_files_of_missing_leaves", commit_meanwhile)
    table.remove_orphans()
    assert column_values(table) == [1, 2, 3, 4, 9]


def test_a_tree_that_others_laid_out_is_found_and_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "my_partitioned_table"
    for day, country, number in (("2025-12-10", "US", 1), ("2025-12-10", "CN", 2), ("2025-12-11", "a%2Fb", 3)):
        partition_folder = folder / f"event_date={day}"
        partition_folder.mkdir(parents=True, exist_ok=True)
        lance.write_dataset(pa.table({"id": [number]}), str(partition_folder / f"country={country}.lance"))
    with pytest.raises(pt.TableMissing):
        pt.open_table(str(folder), format="lance")
    table = create_lance_table(tmp_path, EVENT_SCHEMA, ["event_date", "country"])
    assert table.partitions().num_rows == 0
    unregistered = table.unregistered_leaves()
    assert sorted(unregistered["country"].to_pylist()) == ["CN", "US", "a/b"]
    assert table.repair() == {"registered": 3, "taken over": 3}
    assert column_values(pt.open_table(str(folder), format="lance")) == [1, 2, 3]
    assert table.partitions("country = 'a/b'")["rows"].to_pylist() == [1]
    assert table.repair() == {"registered": 0, "taken over": 0}


def test_a_leaf_with_other_columns_is_not_repaired(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    lance.write_dataset(pa.table({"id": ["x"], "y": [1]}), f"{table.uri}/event_date=2025-12-12/country=US.lance")
    with pytest.raises(pt.SchemaError, match=r"\+ y: int64\n~ id: int64, not string"):
        table.repair()
    assert table.partitions().num_rows == 4


@pytest.mark.slow(reason="many commits to a table")
def test_a_new_column_reaches_every_leaf_and_those_to_come(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    table.add_column(pa.field("price", pa.float64()))
    again = cast("LanceTable", pt.open_table(table.uri, format="lance"))
    assert again.schema.names == ("id", "event_date", "country", "price")
    for path in again.plan().files["path"].to_pylist():
        assert lance.dataset(f"{table.uri}/{path}").schema.names == ["id", "price"]
    rows = event_rows((5, "2025-12-10", "US"), (6, "2025-12-15", "US")).append_column("price", pa.array([1.5, 2.5]))
    commit_rows(again, rows)
    assert lance.dataset(f"{table.uri}/{US}").to_table().to_pylist() == [
        {"id": 1, "price": None},
        {"id": 5, "price": 1.5},
    ]
    assert column_values(again) == [1, 2, 3, 4, 5, 6]
    for field, problem in (
        (pa.field("price", pa.int64()), "already"),
        (pa.field("ID", pa.int64()), "already"),
        (pa.field("x", pa.int64(), nullable=False), "nullable"),
    ):
        with pytest.raises(pt.SchemaError, match=problem):
            again.add_column(field)


def test_rows_that_do_not_fit_are_refused_with_the_difference_before_anything_is_written(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    before = sorted(path for path, _ in Storage.from_uri(table.uri).list_paths())
    with pytest.raises(pt.SchemaError, match="~ id: int64, not string"):
        commit_rows(table, pa.table({"id": ["one"], "event_date": [date(2025, 1, 1)], "country": ["US"]}))
    with pytest.raises(pt.SchemaError, match="- id: int64"):
        commit_rows(table, pa.table({"event_date": [date(2025, 1, 1)], "country": ["US"]}))
    assert sorted(path for path, _ in Storage.from_uri(table.uri).list_paths()) == before


def test_another_partitioning_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pt.TableError, match="keeps the partitioning"):
        create_seed_table(tmp_path).evolve(add=["id"])


@pytest.mark.slow(reason="a writer that dies at each step")
def test_a_column_reaches_all_leaves_or_none_wherever_the_process_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, outcomes = 0, set()
    while True:
        table = create_seed_table(tmp_path / str(steps))
        counted = StepCounter(steps, after=True, die=die)
        with monkeypatch.context() as patch:
            counted.patch_steps(patch.setattr)
            patch.setattr(commit, "set_namespace_properties", counted.wrap_step(namespace.set_namespace_properties))
            patch.setattr(lance.LanceDataset, "add_columns", counted.wrap_step(lance.LanceDataset.add_columns))
            try:
                table.add_column(pa.field("price", pa.float64()))
            except ProcessKilled:
                killed = True
            else:
                killed = False
        again = cast("LanceTable", pt.open_table(table.uri, format="lance"))
        leaf_columns = {
            tuple(lance.dataset(f"{table.uri}/{p}").schema.names) for p in again.plan().files["path"].to_pylist()
        }
        assert len(leaf_columns) == 1
        assert ("price" in again.schema.names) == (("id", "price") in leaf_columns)
        outcomes.add("price" in again.schema.names)
        rows = event_rows((5, "2025-12-10", "US"), (6, "2025-12-15", "US"))
        commit_rows(again, rows.append_column("price", pa.array([1.0, 2.0])) if "price" in again.schema.names else rows)
        assert column_values(again) == [1, 2, 3, 4, 5, 6]
        if not killed:
            break
        steps += 1
    assert steps > 6
    assert True in outcomes


def test_a_leaf_that_got_a_column_which_the_table_did_not_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_seed_table(tmp_path)

    def fail(*_: Any) -> None:
        raise pt.StorageError("the manifest can't be written")

    with monkeypatch.context() as patch:
        patch.setattr(commit, "set_namespace_properties", fail)
        with pytest.raises(pt.PartitaError, match="can't be written"):
            table.add_column(pa.field("price", pa.float64()))
    assert table.schema.names == ("id", "event_date", "country")
    commit_rows(table, event_rows((5, "2025-12-10", "US"), (6, "2025-12-15", "US")))
    assert column_values(table) == [1, 2, 3, 4, 5, 6]
    table.add_column(pa.field("price", pa.float64()))
    commit_rows(table, event_rows((7, "2025-12-10", "US")).append_column("price", pa.array([1.5])))
    assert lance.dataset(f"{table.uri}/{US}").to_table().to_pylist() == [
        {"id": 1, "price": None}, {"id": 5, "price": None}, {"id": 7, "price": 1.5},
    ]  # fmt: skip


def test_a_write_that_makes_leaves_without_the_new_column_is_a_conflict(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    store = table_store(table)
    state = store.current_version()
    old = uncommitted_fragments(table, event_rows((5, "2025-12-10", "US")))
    new = uncommitted_fragments(table, event_rows((6, "2025-12-15", "US")))
    table.add_column(pa.field("price", pa.float64()))
    state.commit(TableChange(Operation.APPEND, old))
    with pytest.raises(pt.CommitConflict, match="added a column to the table"):
        state.commit(TableChange(Operation.APPEND, new))
    assert column_values(table) == [1, 2, 3, 4, 5]


@pytest.mark.slow(reason="many commits to a table")
def test_a_column_goes_with_writes_to_leaves_that_are_there_and_not_with_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_seed_table(tmp_path)
    rows = [event_rows((5, "2025-12-10", "US")), event_rows((6, "2025-12-20", "US"))]

    def write_meanwhile(*given: Any) -> None:
        commit_rows(table, rows.pop(0))
        check_column_type(*given)

    with monkeypatch.context() as patch:
        patch.setattr(alter, "check_column_type", write_meanwhile)
        table.add_column(pa.field("price", pa.float64()))
        rows[0] = rows[0].append_column("price", pa.array([1.0]))
        with pytest.raises(pt.CommitConflict, match="added or dropped partitions"):
            table.add_column(pa.field("more", pa.float64()))
    assert table.schema.names == ("id", "event_date", "country", "price")
    assert column_values(table) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow(reason="many commits to a table")
def test_a_column_beside_those_that_are_all_in_the_names(tmp_path: Path) -> None:
    """Leaves store the partition column as their only one, which Lance can't drop."""
    table = create_lance_table(tmp_path, pa.schema([("c", pa.string())]), ["c"])
    table.add_column(pa.field("m", pa.int64()))
    commit_rows(table, pa.table({"c": ["a"], "m": [1]}))
    assert lance.dataset(f"{table.uri}/c=a.lance").to_table().to_pylist() == [{"m": 1}]
    full = create_lance_table(tmp_path, pa.schema([("c", pa.string())]), ["c"], "full")
    commit_rows(full, pa.table({"c": ["a", "a", None]}))
    with pytest.raises(pt.TableError, match="new table with 'n'"):
        full.add_column(pa.field("n", pa.int64()))
    commit_rows(full, pa.table({"c": ["a"]}))
    assert sum(full.partitions()["rows"].to_pylist()) == 4


def die() -> None:
    raise ProcessKilled
