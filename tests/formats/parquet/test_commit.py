"""Publishing files: what readers see at each step, kills, and writers at the same time; without Spark."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partita as pt
from partita.errors import CommitConflict, StorageError, TableError
from partita.formats.capabilities import Operation
from partita.formats.parquet import commit as commit_module
from partita.formats.parquet.commit import CommitLog
from partita.formats.parquet.create import read_definition
from partita.formats.parquet.state import ParquetTableVersion, load_table_version
from partita.formats.partition_selection import selection_from_partitions
from partita.formats.table_change import NO_FILE_INDICES, TableChange
from partita.storage import LocalStorage, Storage
from tests.formats.parquet.folders import load_version, stage_files, visible_rows, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from partita.storage import StoredFile

SCHEMA = pt.Schema.of({"id": "long", "p": "string"})


def new_table(folder: Path | str) -> ParquetTableVersion:
    pt.Lake(str(folder)).create_table("t", SCHEMA, format="parquet", partition_by=["p"])
    version = load_table_version(Storage.from_uri(f"{folder}/t"))
    version.commit(append_change(version, {"a": [1, 2], "b": [3], "c": [4]}))
    return load_table_version(version.storage)


def ids_table(ids: Sequence[int]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def append_change(version: ParquetTableVersion, ids: dict[str, list[int]], **more: Any) -> TableChange:
    return TableChange(Operation.APPEND, stage_files(version, {(p,): ids_table(own) for p, own in ids.items()}), **more)


def overwrite_change(version: ParquetTableVersion, ids: dict[str, list[int]]) -> TableChange:
    added = stage_files(version, {(p,): ids_table(own) for p, own in ids.items()})
    selection = selection_from_partitions(version, version.written_partitions(added))
    removed, _ = selection.matching_indices(version.spec_history, version.partitions)
    return TableChange(Operation.OVERWRITE_PARTITIONS, added, removed, selection)


def read_ids(version: ParquetTableVersion) -> list[int]:
    """Return the ids that Partita reads."""
    found: list[int] = []
    for file in version.data_files:
        with version.storage.open_input(file.location) as stream:
            found += pq.read_table(stream)["id"].to_pylist()
    return sorted(found)


def ids_of_others(version: ParquetTableVersion) -> list[Any]:
    return sorted(row["id"] for row in visible_rows(Path(version.uri)))


def reload(version: ParquetTableVersion) -> ParquetTableVersion:
    return load_table_version(version.storage)


def test_staged_files_are_invisible_and_published_ones_lie_in_their_partitions(tmp_path: Path) -> None:
    version = new_table(tmp_path)
    change = append_change(version, {"a": [5]})
    assert read_ids(reload(version)) == ids_of_others(version) == [1, 2, 3, 4]
    assert not list(Path(version.uri, "_partita_table").rglob("*.parquet"))
    version.commit(change)
    assert read_ids(reload(version)) == ids_of_others(version) == [1, 2, 3, 4, 5]
    assert {path.split("/")[0] for path in reload(version).files["path"].to_pylist()} == {"p=a", "p=b", "p=c"}


def test_a_folder_without_definition_stays_a_table_when_its_last_file_is_removed(tmp_path: Path) -> None:
    write_file(tmp_path / "p=x" / "a.parquet", id=[1])
    version = load_version(tmp_path)
    cursor = pt.open_table(str(tmp_path), format="parquet").change_feed().cursor
    version.commit(TableChange(Operation.REPLACE_PARTITIONS, removed_file_indices=np.array([0])))
    empty = reload(version)
    assert (empty.schema, empty.spec, empty.data_files) == (version.schema, version.spec, ())
    (commit,) = pt.open_table(str(tmp_path), format="parquet").change_feed(cursor).commits
    assert commit.partitions["p"].to_pylist() == ["x"]
    empty.commit(append_change(empty, {"1": [2]}))
    assert read_ids(reload(version)) == ids_of_others(version) == [2]
    assert reload(version).schema == version.schema


@pytest.mark.parametrize(
    ("folders", "removed", "added"),
    [
        (["__HIVE_DEFAULT_PARTITION__"], [], ["5"]),
        (["0042", "17"], [0], []),
        (["0042", "17"], [0], ["1"]),
        (["abc", "17"], [1], ["2025-01-15"]),
        (["3000000000", "5"], [0], []),
        (["2025-01-15", "__HIVE_DEFAULT_PARTITION__"], [0], []),
    ],
)
def test_a_commit_does_not_change_an_inferred_partition_type(
    tmp_path: Path, folders: list[str], removed: list[int], added: list[str]
) -> None:
    for folder in folders:
        write_file(tmp_path / f"p={folder}" / "a.parquet", id=[1])
    version = load_version(tmp_path)
    cursor = pt.open_table(str(tmp_path), format="parquet").change_feed().cursor
    added_files = append_change(version, {text: [2] for text in added}).added_files
    indices = [version.files["path"].to_pylist().index(f"p={folders[index]}/a.parquet") for index in removed]
    version.commit(TableChange(Operation.OVERWRITE, added_files, np.array(indices, np.int64)))
    assert reload(version).schema == version.schema
    feed = pt.open_table(str(tmp_path), format="parquet").change_feed(cursor)
    assert sum(commit.partitions.num_rows for commit in feed.commits) == len(removed) + len(added)
    again = reload(version)
    again.commit(append_change(again, {text: [3] for text in [*added, folders[-1]] if not text.startswith("_")}))
    assert reload(version).schema == version.schema


def test_a_commit_that_keeps_the_inferred_types_writes_no_definition(tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    version = load_version(tmp_path)
    write_file(tmp_path / "p=abc" / "a.parquet", id=[2])
    version.commit(append_change(version, {"5": [3]}))
    assert str(reload(version).schema.find_field("p").type) == "string"
    assert read_definition(version.storage) is None


def test_folders_of_others_that_are_no_values_of_the_kept_type_are_a_conflict(tmp_path: Path) -> None:
    write_file(tmp_path / "p=1" / "a.parquet", id=[1])
    version = load_version(tmp_path)
    (tmp_path / "p=1").rename(tmp_path / "p=2025-01-15")
    change = append_change(version, {"5": [3]})
    with pytest.raises(CommitConflict, match="added folders that change the type of 'p'"):
        version.commit(change)
    assert read_definition(version.storage) is None
    assert not list((tmp_path / "_partita_table").rglob("*.staged"))
    assert read_ids(reload(version)) == [1]


def test_staged_files_that_are_gone_are_not_committed(tmp_path: Path) -> None:
    version = new_table(tmp_path)
    change = overwrite_change(version, {"a": [10], "b": [11]})
    assert len(pt.Lake(str(tmp_path)).table("t").remove_orphans(timedelta(0))) == 2
    with pytest.raises(TableError, match="was deleted before its commit"):
        version.commit(change)
    assert read_ids(reload(version)) == ids_of_others(version) == [1, 2, 3, 4]


def test_a_commit_that_could_not_be_carried_out_says_that_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = new_table(tmp_path)

    def fail(self: LocalStorage, path: str, new_path: str) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "move", fail)
        with pytest.raises(TableError, match="don't write the rows again: the disk is full"):
            version.commit(append_change(version, {"a": [5]}))
    monkeypatch.setattr(commit_module, "may_be_alive", lambda _: False)
    assert read_ids(reload(version)) == [1, 2, 3, 4, 5]
    now = reload(version)
    now.commit(append_change(now, {"a": [6]}))
    assert read_ids(reload(version)) == ids_of_others(version) == [1, 2, 3, 4, 5, 6]


def list_partitions_before(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], None], times: int) -> None:
    """Let something happen within each of the next listings of a folder, after its partitions were listed."""
    calls: list[str] = []
    real = LocalStorage.list_files

    def list_files(self: LocalStorage, prefix: str = "") -> Sequence[StoredFile]:
        if prefix or len(calls) >= 2 * times or len(calls) % 2:
            return real(self, prefix)
        calls.append("listing")
        partitions = [file for file in real(self) if file.path.startswith("p=")]
        happen()
        calls.append("listed")
        others = [file for file in real(self) if not file.path.startswith("p=")]
        return [*others, *partitions]

    monkeypatch.setattr(LocalStorage, "list_files", list_files)


@pytest.mark.slow(reason="many commits to a table")
def test_files_that_are_moved_while_they_are_listed_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = new_table(tmp_path)
    change, log = append_change(version, {"a": [5], "b": [6]}), CommitLog(version.storage)
    begun = log.begin(log.latest(), change.added_files["path"].to_pylist(), (), None)
    assert begun is not None
    monkeypatch.setattr(commit_module, "_READER_PATIENCE", 0.05)

    def move_first_file() -> None:
        version.storage.move(begun.added_paths[0], commit_module.published_path(begun.added_paths[0]))

    list_partitions_before(monkeypatch, move_first_file, 1)
    assert read_ids(reload(version)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow(reason="many commits to a table")
def test_a_listing_within_which_others_commit_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = new_table(tmp_path)

    def overwrite() -> None:
        now = reload(version)
        now.commit(overwrite_change(now, {p: [max(read_ids(now)) + 1] for p in "abc"}))

    list_partitions_before(monkeypatch, overwrite, 8)
    assert read_ids(reload(version)) == [12, 12, 12]
    list_partitions_before(monkeypatch, overwrite, 8)
    monkeypatch.setattr(commit_module, "_WRITER_PATIENCE", 0.0)
    with pytest.raises(TableError, match="faster than it can be listed"):
        reload(version)


class Killed(Exception):
    """Stands for a kill between two steps."""


def kill_at(monkeypatch: pytest.MonkeyPatch, method: str, call: int) -> None:
    """Make a call of a storage method, and all that follow, fail as if the process were dead."""
    real, calls = getattr(LocalStorage, method), []

    def fail(self: LocalStorage, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) >= call:
            raise Killed
        return real(self, *arguments)

    monkeypatch.setattr(LocalStorage, method, fail)


STEPS = [("put_if_absent", 1), ("move", 1), ("move", 2), ("move", 3), ("delete", 1), ("put", 1), ("delete", 2)]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_kill_at_each_step_leaves_all_or_nothing_to_partita(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[str, int]
) -> None:
    version = new_table(tmp_path)
    change = overwrite_change(version, {"a": [10], "b": [11], "z": [12]})
    monkeypatch.setattr(commit_module, "may_be_alive", lambda _: False)
    with monkeypatch.context() as patch:
        kill_at(patch, *step)
        with pytest.raises(Killed):
            version.commit(change)
    is_decided = step[0] != "put_if_absent"
    expected = [4, 10, 11, 12] if is_decided else [1, 2, 3, 4]
    assert read_ids(reload(version)) == expected
    if step == ("move", 1) or not is_decided:
        assert ids_of_others(version) == [1, 2, 3, 4]
    if step == ("move", 2):  # the gap that is declared: others see one new file beside those that it replaces
        assert ids_of_others(version) == [1, 2, 3, 4, 10]
    now = reload(version)
    now.commit(append_change(now, {"a": [20]}))
    assert read_ids(reload(version)) == ids_of_others(version) == sorted([*expected, 20])
    table = pt.Lake(str(tmp_path)).table("t")
    assert bool(table.remove_orphans(timedelta(0))) is not is_decided
    assert table.remove_orphans(timedelta(0)) == []
    assert ids_of_others(version) == sorted([*expected, 20])


def _commit_and_die(folder: str, calls_before_death: int) -> None:
    version = load_version(folder)
    change = overwrite_change(version, {"a": [10], "b": [11]})
    real, calls = LocalStorage.move, []

    def move(self: LocalStorage, path: str, new_path: str) -> None:
        calls.append(path)
        if len(calls) > calls_before_death:
            os.kill(os.getpid(), signal.SIGKILL)
        real(self, path, new_path)

    LocalStorage.move = move  # type: ignore[method-assign] # in a process of its own
    version.commit(change)


@pytest.mark.slow(reason="a process that is killed")
def test_a_process_that_is_killed_in_its_commit_is_known_to_be_dead(tmp_path: Path) -> None:
    version = new_table(tmp_path)
    process = multiprocessing.get_context("spawn").Process(target=_commit_and_die, args=(version.uri, 1))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert read_ids(reload(version)) == [4, 10, 11]
    assert CommitLog(version.storage).latest_finished().is_finished
    assert ids_of_others(version) == [4, 10, 11]


@pytest.mark.slow(reason="many commits to a table")
def test_readers_wait_a_little_for_a_commit_of_a_live_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = new_table(tmp_path)
    log, change = CommitLog(version.storage), append_change(version, {"a": [5]})
    begun = log.begin(log.latest(), change.added_files["path"].to_pylist(), (), None)
    assert begun is not None
    monkeypatch.setattr(commit_module, "_READER_PATIENCE", 0.1)
    assert read_ids(reload(version)) == [1, 2, 3, 4, 5]
    assert any(path.endswith(".staged") for path in reload(version).files["path"].to_pylist())
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(log.latest_finished)
        log.finish(begun)
        assert waiting.result(30).is_finished
    assert not any(path.endswith(".staged") for path in reload(version).files["path"].to_pylist())


@pytest.mark.parametrize("first", ["append", "overwrite", "other engine"])
def test_an_overwrite_of_what_another_changed_is_a_conflict(tmp_path: Path, first: str) -> None:
    version = new_table(tmp_path)
    change = overwrite_change(version, {"a": [10]})
    if first == "other engine":
        pq.write_table(ids_table([20]), Path(version.uri, "p=a", "x.parquet"))
        expected = [1, 2, 3, 4, 20]
    else:
        other = append_change(version, {"a": [20]}) if first == "append" else overwrite_change(version, {"a": [20]})
        version.commit(other)
        expected = [1, 2, 3, 4, 20] if first == "append" else [3, 4, 20]
    with pytest.raises(CommitConflict, match=r"^overwrite_partitions: another writer (added|removed or replaced) p=a/"):
        version.commit(change)
    assert read_ids(reload(version)) == ids_of_others(version) == expected
    assert not list(Path(version.uri, "_partita_table", "staging").rglob("*.staged"))


def test_overwrites_of_other_partitions_and_appends_do_not_conflict(tmp_path: Path) -> None:
    version = new_table(tmp_path)
    changes = [overwrite_change(version, {"a": [10]}), append_change(version, {"b": [20]})]
    changes.append(overwrite_change(version, {"c": [30]}))
    for change in changes:
        version.commit(change)
    assert read_ids(reload(version)) == [3, 10, 20, 30]


def test_a_file_that_another_engine_wrote_anew_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = new_table(tmp_path)
    change = overwrite_change(version, {"c": [10]})
    monkeypatch.setattr(commit_module, "may_be_alive", lambda _: False)
    with monkeypatch.context() as patch:
        kill_at(patch, "delete", 1)
        with pytest.raises(Killed):
            version.commit(change)
    old = version.data_files[int(change.removed_file_indices[0])].path
    pq.write_table(ids_table([40, 41]), Path(version.uri, old))
    assert CommitLog(version.storage).latest_finished().is_finished
    assert ids_of_others(version) == [1, 2, 3, 10, 40, 41]


def test_threads_that_commit_at_once_lose_nothing(tmp_path: Path) -> None:
    version = new_table(tmp_path)
    changes = [append_change(version, {"a": [100 + number]}) for number in range(12)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda change: reload(version).commit(change), changes))
    assert read_ids(reload(version)) == ids_of_others(version) == [1, 2, 3, 4, *range(100, 112)]
    commits = Path(version.uri, "_partita_table", "commits")
    assert [path.name for path in commits.iterdir()] == [f"{12:020}.json"]


def test_a_number_that_is_free_again_is_not_used_twice(tmp_path: Path) -> None:
    version = new_table(tmp_path)
    log = CommitLog(version.storage)
    old = log.latest()
    for number in range(2):
        now = reload(version)
        now.commit(append_change(now, {"a": [10 + number]}))
    assert log.begin(old, (), (), None) is None
    assert log.latest().number == old.number + 2
    assert log.latest().is_finished


def test_a_transaction_counts_once(tmp_path: Path) -> None:
    version = new_table(tmp_path)
    for ids in ([10], [11]):
        version.commit(append_change(version, {"a": ids}, transaction=("job", 7)))
    assert read_ids(reload(version)) == [1, 2, 3, 4, 10]
    assert reload(version).has_transaction(("job", 7))
    assert not reload(version).has_transaction(("job", 8))
    now = reload(version)
    now.commit(append_change(now, {"a": [12]}))
    assert reload(version).has_transaction(("job", 6))


def test_commits_in_an_object_store() -> None:
    storage = Storage.from_uri(f"memory:///{uuid4()}")
    from partita.formats.parquet.create import create_table

    create_table(storage, SCHEMA, [pt.identity("p")], {})
    version = load_table_version(storage)
    version.commit(append_change(version, {"a": [1, 2], "b": [3]}))
    version = load_table_version(storage)
    version.commit(overwrite_change(version, {"a": [4]}))
    version = load_table_version(storage)
    assert read_ids(version) == [3, 4]
    assert version.row_counts(NO_FILE_INDICES).to_pylist() == []
    assert [path for path, _ in storage.list_paths("_partita_table/staging")] == []
