"""Partita reads tables of delta-rs, and delta-rs reads what Partita commits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from partita.errors import StorageError, TableError, TableMissing
from partita.formats.delta.log import DeltaCommit, DeltaLog, DeltaSnapshot
from partita.storage import Storage
from tests.formats.delta.log.handwritten_logs import (
    PROTOCOL_ACTION,
    add_action,
    file_paths,
    metadata_action,
    remove_action,
    schema_field,
    write_log,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of three versions: two writes, and a delete of whole files."""
    folder = tmp_path / "a table"
    rows = pa.table(
        {
            "region": ["US/East", "c é", None, "50%"],
            "day": [date(2025, 1, 15)] * 4,
            "x": [1, 2, 3, 4],
            "s": ["a", None, "c", "d"],
        }
    )
    write_deltalake(folder, rows, partition_by=["region", "day"])
    write_deltalake(folder, rows, mode="append")
    DeltaTable(folder).delete("x = 2")
    return folder


def log_of(folder: Path) -> DeltaLog:
    return DeltaLog(Storage.from_uri(folder))


def snapshot_by_delta_rs(folder: Path, version: int | None = None) -> dict[str, Any]:
    rows = pa.table(DeltaTable(folder, version=version).get_add_actions(flatten=True)).to_pylist()
    return {
        row["path"]: (row["size_bytes"], row["modification_time"], row["partition.region"], str(row["partition.day"]))
        for row in rows
    }


def snapshot_contents(snapshot: DeltaSnapshot) -> dict[str, Any]:
    return {
        row["path"]: (
            row["size"],
            row["modification_time"],
            row["partition_values"]["region"],
            row["partition_values"]["day"],
        )
        for row in snapshot.files.to_pylist()
    }


@pytest.mark.parametrize("version", [0, 1, 2, None])
def test_files_are_those_of_delta_rs(folder: Path, version: int | None) -> None:
    snapshot = log_of(folder).snapshot(version)
    assert snapshot.version == (2 if version is None else version)
    assert snapshot_contents(snapshot) == snapshot_by_delta_rs(folder, version)


@pytest.mark.parametrize("checkpoint", [0, 1, 2])
@pytest.mark.parametrize("version", [0, 1, 2, None])
def test_a_checkpoint_changes_nothing(folder: Path, checkpoint: int, version: int | None) -> None:
    log = log_of(folder)
    before = log.snapshot(version)
    assert log.write_checkpoint(checkpoint)
    after = log.snapshot(version)
    assert snapshot_contents(after) == snapshot_contents(before)
    assert sorted(after.files["stats"].to_pylist()) == sorted(before.files["stats"].to_pylist())
    assert (after.version, after.timestamp, after.protocol) == (before.version, before.timestamp, before.protocol)
    assert (after.metadata.id, after.metadata.schema_json) == (before.metadata.id, before.metadata.schema_json)
    assert after.metadata.partition_columns == ("region", "day")
    assert after.files.schema == before.files.schema


def test_a_checkpoint_stands_for_what_is_cleaned_up(folder: Path) -> None:
    log = log_of(folder)
    before = snapshot_contents(log.snapshot())
    log.write_checkpoint(1)
    for version in (0, 1):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    assert snapshot_contents(log.snapshot()) == before
    assert log.snapshot(1).timestamp > 0
    with pytest.raises(TableError, match="versions: 0"):
        log.snapshot(0)


@pytest.mark.parametrize("hint", [b"", b"{", b"[]", b'{"version":"1"}', b'{"version":7}', b'{"version":0}', None])
def test_a_wrong_hint_is_passed_over(folder: Path, hint: bytes | None) -> None:
    log = log_of(folder)
    log.write_checkpoint(1)
    path = folder / "_delta_log" / "_last_checkpoint"
    path.unlink() if hint is None else path.write_bytes(hint)
    assert snapshot_contents(log.snapshot()) == snapshot_by_delta_rs(folder)
    assert log.latest_version() == 2


def test_a_snapshot_goes_on_from_an_earlier_one(folder: Path) -> None:
    log = log_of(folder)
    for version in (0, 1):
        assert snapshot_contents(log.snapshot(previous=log.snapshot(version))) == snapshot_by_delta_rs(folder)
    newest = log.snapshot()
    assert log.snapshot(previous=newest) is newest
    assert snapshot_contents(log.snapshot(0, previous=newest)) == snapshot_by_delta_rs(folder, 0)


def test_only_newer_commits_are_read(folder: Path) -> None:
    log = log_of(folder)
    earlier = log.snapshot(1)
    (folder / "_delta_log" / f"{0:020}.json").write_text("damaged", encoding="utf-8")
    assert snapshot_contents(log.snapshot(previous=earlier)).keys() < snapshot_contents(earlier).keys()


def test_a_snapshot_goes_on_where_commits_were_cleaned_up(folder: Path) -> None:
    log = log_of(folder)
    earlier = log.snapshot(0)
    log.write_checkpoint(2)
    for version in (0, 1):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    assert snapshot_contents(log.snapshot(previous=earlier)) == snapshot_by_delta_rs(folder)


def test_a_table_that_was_created_again_is_read_from_the_start(tmp_path: Path) -> None:
    earlier = write_log(
        tmp_path / "a", [PROTOCOL_ACTION, metadata_action(), add_action("1")], [add_action("2")], [add_action("3")]
    ).snapshot()
    anew = write_log(tmp_path / "b", [PROTOCOL_ACTION, metadata_action(), add_action("other")])
    assert file_paths(anew.snapshot(previous=earlier)) == ["other"]


def test_commits_are_read_by_delta_rs(folder: Path) -> None:
    log = log_of(folder)
    removed_path = file_paths(log.snapshot())[0]
    assert log.write_commit(
        3, [remove_action(removed_path), {"commitInfo": {"timestamp": 99, "operation": "TEST é\u2028\n"}}]
    )
    assert snapshot_contents(log.snapshot()) == snapshot_by_delta_rs(folder)
    assert log.snapshot().timestamp == 99
    assert not log.write_commit(3, [])
    lines = (folder / "_delta_log" / f"{3:020}.json").read_bytes().split(b"\n")
    assert lines[1] == '{"commitInfo":{"timestamp":99,"operation":"TEST é\u2028\\n"}}'.encode()
    assert len(lines) == 3


def test_one_commit_of_many_wins(tmp_path: Path) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action()])
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: log.write_commit(1, [add_action(str(i))]), range(32)))
    assert won.count(True) == 1
    assert file_paths(log.snapshot()) == [str(won.index(True))]


def test_commits_after_a_version(folder: Path) -> None:
    log = log_of(folder)
    commits = log.commits_after(0)
    assert [commit.version for commit in commits] == [1, 2]
    text = (folder / "_delta_log" / f"{1:020}.json").read_text(encoding="utf-8")
    assert commits[0] == DeltaCommit(1, tuple(json.loads(line) for line in text.splitlines()))
    assert log.commits_after(2) == []
    (folder / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(TableError, match="versions: 1;"):
        log.commits_after(0)


def test_commits_that_a_checkpoint_stands_for_are_missed(folder: Path) -> None:
    log = log_of(folder)
    log.write_checkpoint(2)
    for version in range(3):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(TableError, match="versions: 1, 2;"):
        log.commits_after(0)
    assert log.commits_after(2) == []


def test_history_is_that_of_delta_rs(folder: Path) -> None:
    history = log_of(folder).history()
    theirs = DeltaTable(folder).history()
    assert history["version"].to_pylist() == [2, 1, 0]
    for ours, their in zip(history.to_pylist(), theirs, strict=True):
        assert ours["operation"] == their["operation"]
        assert ours["timestamp"] == datetime.fromtimestamp(their["timestamp"] / 1000, UTC)
        assert json.loads(ours["operation_parameters"]) == their["operationParameters"]
        assert json.loads(ours["operation_metrics"]) == their["operationMetrics"]
    assert log_of(folder).history(limit=1)["version"].to_pylist() == [2]


def test_history_of_a_silent_commit(tmp_path: Path) -> None:
    [row] = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action()]).history().to_pylist()
    assert row["version"] == 0
    assert {value for name, value in row.items() if name != "version"} == {None}


def test_no_table(tmp_path: Path) -> None:
    log = DeltaLog(Storage.from_uri(tmp_path))
    for attempt in (log.snapshot, log.latest_version, log.history):
        with pytest.raises(TableMissing):
            attempt()
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(TableMissing):
        log.snapshot()
    assert not log.write_checkpoint(0)


@pytest.mark.parametrize("version", [-1, 3, 99])
def test_no_such_version(folder: Path, version: int) -> None:
    with pytest.raises(TableError, match=f"no version {version} .* the newest is 2"):
        log_of(folder).snapshot(version)
    with pytest.raises(TableError, match=f"no version {version}"):
        log_of(folder).snapshot(version, previous=log_of(folder).snapshot(1))


def test_a_checkpoint_of_a_missing_version(folder: Path) -> None:
    assert not log_of(folder).write_checkpoint(17)


def test_a_table_under_an_odd_name(tmp_path: Path) -> None:
    folder = tmp_path / "50% é=#?"
    log = write_log(folder, [PROTOCOL_ACTION, metadata_action(schema_field("x", "long")), add_action("a%2520b")])
    assert log.write_checkpoint(0)
    (folder / "_delta_log" / f"{0:020}.json").unlink()
    assert file_paths(log.snapshot()) == ["a%2520b"]


def test_a_log_in_an_object_store(tmp_path: Path) -> None:
    log = DeltaLog(Storage.from_uri("memory:///test-a-log-in-an-object-store"))
    assert log.write_commit(0, [PROTOCOL_ACTION, metadata_action(), add_action("a")])
    assert log.write_commit(1, [remove_action("a"), add_action("b")])
    assert not log.write_commit(1, [])
    assert file_paths(log.snapshot()) == ["b"]
    assert not log.write_checkpoint(1)


def test_a_log_that_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_read(_: Path) -> bytes:
        raise PermissionError("not yours")

    monkeypatch.setattr(Path, "read_bytes", fail_to_read)
    with pytest.raises(StorageError, match="not yours"):
        log_of(folder).snapshot()
