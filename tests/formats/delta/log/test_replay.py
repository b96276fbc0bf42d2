"""Replay of unusual logs: checkpoints in parts, deletion vectors, damaged lines, missing commits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.errors import TableError, UnsupportedFeature
from partita.formats.delta.log import DeltaLog, DeltaProtocol
from partita.formats.delta.log.commit_files import file_action_rows, serialize_actions, split_commit
from partita.formats.delta.log.replay import reconcile_files
from partita.formats.delta.log.snapshot import files_schema
from partita.storage import Storage
from tests.formats.delta.log.handwritten_logs import (
    PROTOCOL_ACTION,
    add_action,
    deletion_vector,
    file_paths,
    metadata_action,
    remove_action,
    schema_field,
    write_checkpoint,
    write_checkpoint_part,
    write_log,
)


def test_the_newest_action_of_a_file_wins(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        [PROTOCOL_ACTION, metadata_action(), add_action("a", size=1), add_action("b"), add_action("c")],
        [remove_action("a"), remove_action("never there"), add_action("d")],
        [add_action("a", size=2), remove_action("b"), add_action("c", size=3)],
    )
    assert file_paths(log.snapshot()) == ["d", "a", "c"]
    assert log.snapshot().files["size"].to_pylist() == [1, 2, 3]
    assert file_paths(log.snapshot(1)) == ["b", "c", "d"]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_file_is_its_path_and_its_deletion_vector(tmp_path: Path, *, checkpointed: bool) -> None:
    commits: list[list[dict[str, Any]]] = [
        [PROTOCOL_ACTION, metadata_action(), add_action("a"), add_action("b")],
        [
            remove_action("a"),
            add_action("a", deletionVector=deletion_vector("one", 4)),
            add_action("c", deletionVector=deletion_vector("x")),
        ],
        [
            remove_action("a", deletionVector=deletion_vector("one", 4)),
            add_action("a", deletionVector=deletion_vector("one", 5)),
        ],
    ]
    log = write_log(tmp_path, *commits)
    if checkpointed:
        assert log.write_checkpoint(1)
    rows = {row["path"]: row for row in log.snapshot().files.to_pylist()}
    assert len(rows) == log.snapshot().files.num_rows == 3
    assert {path: row["deletion_vector"] for path, row in rows.items()} == {"a": "uone@5", "b": None, "c": "ux"}
    assert {path: row["has_deletion_vector"] for path, row in rows.items()} == {"a": True, "b": False, "c": True}
    assert sorted(file_paths(log.snapshot(previous=log.snapshot(0)))) == ["a", "b", "c"]


@given(st.lists(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef")), max_size=6, unique_by=lambda a: a[1])))
def test_replay_is_a_fold_wherever_it_is_cut(commits: list[list[tuple[bool, str]]]) -> None:
    expected: set[str] = set()
    files = files_schema(()).empty_table()
    whole = [
        split_commit(version, serialize_actions(add_action(p) if is_add else remove_action(p) for is_add, p in c))
        for version, c in enumerate(commits)
    ]
    for commit, lines in zip(commits, whole, strict=True):
        rows, is_add = file_action_rows([lines], ())
        files, _ = reconcile_files(files, None, rows, None, is_add)
        expected = (expected | {path for is_add, path in commit if is_add}) - {p for is_add, p in commit if not is_add}
    rows, is_add = file_action_rows(whole, ())
    at_once, _ = reconcile_files(files_schema(()).empty_table(), None, rows, None, is_add)
    assert files["path"].to_pylist() == at_once["path"].to_pylist()
    assert sorted(files["path"].to_pylist()) == sorted(expected)


def test_a_checkpoint_in_parts(tmp_path: Path) -> None:
    write_checkpoint(
        tmp_path,
        3,
        [add_action("a", partitionValues={"p": "1"}), PROTOCOL_ACTION],
        [remove_action("gone"), {"txn": {"appId": "app", "version": 7}}],
        [
            metadata_action(schema_field("p"), partitions=["p"], configuration={"delta.appendOnly": "true"}),
            add_action("b"),
        ],
    )
    log = write_log(
        tmp_path, [add_action("c", partitionValues={"p": ""}), {"txn": {"appId": "two", "version": 1}}], first=4
    )
    snapshot = log.snapshot()
    assert file_paths(snapshot) == ["a", "b", "c"]
    assert snapshot.files["partition_values"].to_pylist() == [{"p": "1"}, {"p": None}, {"p": ""}]
    assert snapshot.files["stats"].null_count == 3
    assert snapshot.protocol == DeltaProtocol(1, 2)
    assert snapshot.metadata.configuration == {"delta.appendOnly": "true"}
    assert snapshot.metadata.action["format"] == {"provider": "parquet", "options": {}}
    assert snapshot.transactions == {"app": 7, "two": 1}


def test_a_checkpoint_without_a_part_is_ignored(tmp_path: Path) -> None:
    log = write_log(
        tmp_path, [PROTOCOL_ACTION, metadata_action(), add_action("a")], [add_action("b")], [add_action("c")]
    )
    write_checkpoint(tmp_path, 1, [PROTOCOL_ACTION, metadata_action()], [add_action("other")])
    (tmp_path / "_delta_log" / f"{1:020}.checkpoint.{2:010}.{2:010}.parquet").unlink()
    assert file_paths(log.snapshot()) == ["a", "b", "c"]
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(TableError, match="versions: 0;"):
        log.snapshot()


def test_other_files_in_the_log_are_ignored(tmp_path: Path) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(), add_action("a")])
    for name in (".00000000000000000000.json.crc", f"{0:020}.crc", f"{0:020}.{4:020}.compacted.json", "_commit_x.tmp"):
        (tmp_path / "_delta_log" / name).write_bytes(b"not a log")
    (tmp_path / "_delta_log" / "_commits").mkdir()
    (tmp_path / "_delta_log" / "_commits" / f"{1:020}.json").write_bytes(b"not a log")
    assert log.snapshot().version == 0


def test_missing_versions_are_named(tmp_path: Path) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action()], *[[add_action(str(i))] for i in range(12)])
    for version in (3, 5):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(TableError, match="versions: 3, 5;"):
        log.snapshot()
    assert log.snapshot(2).version == 2
    for version in range(3, 12):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)
    with pytest.raises(TableError, match="versions: 3, 4, 5, 6, 7 and 4 more;"):
        log.snapshot()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"add":{"path":"a"', "delimiter"),
        ('{"add":{"path":"a"}}}', "Extra data"),
        ('{"add":{"path":"a"}}{"add":{"path":"b"}}', "Extra data"),
        ('{"add":{"path":1}}', "not an add"),
        ('{"add":{"path":"a","size":"big"}}', "not an add"),
        ('{"add":{}}', "not an add"),
        ('{"add":null}', "not an add"),
        ('{"remove":{"path":null}}', "not an add"),
        ('{"add":[1]}', "must be a JSON object"),
        ('{"protocol":[1]}', "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ("damaged", "Expecting value"),
        ('{"commitInfo":', "Expecting value"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(), add_action("a")], [add_action("b")])
    path = tmp_path / "_delta_log" / f"{1:020}.json"
    path.write_text(f"\n{path.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
    with pytest.raises(TableError, match=rf"_delta_log/{1:020}.json, line 3: .*{reason}"):
        log.snapshot()


def test_actions_in_another_layout(tmp_path: Path) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(schema_field("p"), partitions=["p"])])
    lines = [
        '{ "add" : {"size":2, "path":"a", "partitionValues":{"other":"x","p":"\\u00e9\\ud83c\\udfb5"}} }',
        "  ",
        "",
    ]
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text("\r\n".join(lines), encoding="utf-8")
    [row] = log.snapshot().files.to_pylist()
    assert (row["path"], row["size"], row["partition_values"]) == ("a", 2, {"p": "é🎵"})


@pytest.mark.slow(reason="a line of many megabytes")
def test_a_line_of_many_megabytes(tmp_path: Path) -> None:
    stats = json.dumps({"numRecords": 1, "minValues": {"s": "x" * 20_000_000}})
    log = write_log(
        tmp_path, [PROTOCOL_ACTION, metadata_action(), add_action("a"), add_action("b", stats=stats), add_action("c")]
    )
    assert log.snapshot().files["stats"].to_pylist() == [None, stats, None]


def test_paths_are_kept_as_they_are(tmp_path: Path) -> None:
    given_paths = ["s3://other/bucket/a%20b", "/absolute/x", "region=a%252Fb/ü 🎵.parquet", 'q"\\']
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(), *map(add_action, given_paths)])
    assert file_paths(log.snapshot()) == given_paths


def test_partition_values_are_under_physical_names(tmp_path: Path) -> None:
    mapped = schema_field("p", "string", **{"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1})
    mapping = {"delta.columnMapping.mode": "name"}
    log = write_log(
        tmp_path,
        [
            {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
            metadata_action(mapped, partitions=["p"], configuration=mapping),
            add_action("a", partitionValues={"col-1": "v"}),
        ],
    )
    assert log.snapshot().files["partition_values"].to_pylist() == [{"col-1": "v"}]
    assert log.write_checkpoint(0)
    assert log.snapshot().files["partition_values"].to_pylist() == [{"col-1": "v"}]


def test_partition_columns_may_change(tmp_path: Path) -> None:
    first, second = (
        metadata_action(schema_field("p"), schema_field("q"), partitions=names) for names in (["p"], ["p", "q"])
    )
    log = write_log(
        tmp_path,
        [PROTOCOL_ACTION, first, add_action("a", partitionValues={"p": "1"})],
        [second, add_action("b", partitionValues={"p": "2", "q": "3"})],
    )
    expected = [{"p": "1", "q": None}, {"p": "2", "q": "3"}]
    assert log.snapshot().files["partition_values"].to_pylist() == expected
    assert log.snapshot(previous=log.snapshot(0)).files["partition_values"].to_pylist() == expected


@pytest.mark.slow(reason="many commits to a table")
def test_many_small_steps(tmp_path: Path) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action()])
    snapshot = log.snapshot()
    for version in range(1, 81):
        log.write_commit(version, [add_action(str(version)), {"txn": {"appId": "app", "version": version}}])
        snapshot = log.snapshot(previous=snapshot)
    assert file_paths(snapshot) == [str(version) for version in range(1, 81)]
    assert snapshot.files["path"].num_chunks < 80
    assert snapshot.transactions == {"app": 80}


@pytest.mark.parametrize("actions", [[PROTOCOL_ACTION], [metadata_action()], [add_action("a")], []])
def test_a_log_without_protocol_or_metadata(tmp_path: Path, actions: list[dict[str, Any]]) -> None:
    with pytest.raises(TableError, match=r"no (protocol|metaData) action"):
        write_log(tmp_path, actions).snapshot()


@pytest.mark.parametrize(
    "changed", [{"schemaString": "{"}, {"schemaString": "[]"}, {"schemaString": None}, {"partitionColumns": None}]
)
def test_damaged_metadata(tmp_path: Path, changed: dict[str, Any]) -> None:
    damaged = {"metaData": {**metadata_action()["metaData"], **changed}}
    with pytest.raises(TableError, match="metadata can't be read"):
        write_log(tmp_path, [PROTOCOL_ACTION, damaged]).snapshot()


def test_a_damaged_protocol(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="minReaderVersion"):
        write_log(tmp_path, [{"protocol": {"minReaderVersion": 1}}, metadata_action()]).snapshot()


def test_a_damaged_transaction(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="lacks 'version'"):
        write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(), {"txn": {"appId": "app"}}]).snapshot()


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "_delta_log" / f"{0:020}.checkpoint.parquet"
    path.parent.mkdir()
    path.write_bytes(b"not Parquet")
    with pytest.raises(TableError, match=rf"checkpoint _delta_log/{0:020}.checkpoint.parquet can't be read"):
        DeltaLog(Storage.from_uri(tmp_path)).snapshot()


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_v2_checkpoint_is_refused(tmp_path: Path, kind: str) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action()], [add_action("a")])
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{kind}"
    (tmp_path / "_delta_log" / name).write_bytes(b"")
    with pytest.raises(UnsupportedFeature, match="v2Checkpoint"):
        log.snapshot()
    assert log.snapshot(0).version == 0


def test_a_v2_checkpoint_under_a_classic_name_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("sidecar", pa.struct([("path", pa.string())]))])
    path = tmp_path / "_delta_log" / f"{0:020}.checkpoint.parquet"
    write_checkpoint_part(path, [{"sidecar": {"path": "x.parquet"}}], schema)
    with pytest.raises(UnsupportedFeature, match="v2Checkpoint"):
        DeltaLog(Storage.from_uri(tmp_path)).snapshot()


def test_the_time_is_that_of_the_commit(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        [{"commitInfo": {"timestamp": 10}}, PROTOCOL_ACTION, metadata_action()],
        [{"commitInfo": {"timestamp": 10, "inCommitTimestamp": 20}}],
        [add_action("a", modificationTime=30)],
    )
    assert [log.snapshot(version).timestamp for version in (0, 1, 2)] == [10, 20, 30]
