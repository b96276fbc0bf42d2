"""Different spellings of a file's path are one file for replay, conflict checks and maintenance."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import partita as pt
from partita.errors import CommitConflict
from partita.formats.capabilities import Operation
from partita.formats.delta.commit import PendingCommit, commit_actions
from partita.formats.delta.log import DeltaLog, TableRoot
from partita.formats.table_change import TableChange
from partita.storage import Storage
from tests.formats.delta.log.handwritten_logs import (
    PROTOCOL_ACTION,
    add_action,
    deletion_vector,
    file_paths,
    metadata_action,
    remove_action,
    schema_field,
    write_log,
)

_LOCAL = TableRoot.of(Storage.from_uri("/data/t"))
_BUCKET = TableRoot.of(Storage.from_uri("s3://bucket/t"))


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("p=1/x.parquet", "p=1/x.parquet"),
        ("p=a%20b/x.parquet", "p=a b/x.parquet"),
        ("p=a%2520b/x.parquet", "p=a%20b/x.parquet"),
        ("%70=1/x%2Eparquet", "p=1/x.parquet"),
        ("./x.parquet", "x.parquet"),
        ("p=1/../x.parquet", "x.parquet"),
        ("p=1//x.parquet", "p=1/x.parquet"),
        ("%2e/x.parquet", "x.parquet"),
        ("p=..a/x...parquet", "p=..a/x...parquet"),
        ("/data/t/x.parquet", "x.parquet"),
        ("file:/data/t/p=a%20b/x.parquet", "p=a b/x.parquet"),
        ("file:///data/t/x.parquet", "x.parquet"),
        ("FILE://localhost/data/t/x.parquet", "x.parquet"),
        ("/data/t/../other/x.parquet", "/data/other/x.parquet"),
        ("/data/to/x.parquet", "/data/to/x.parquet"),
        ("file:/data/other/x.parquet", "/data/other/x.parquet"),
        ("file:///data/other/./x.parquet", "/data/other/x.parquet"),
        ("../other/x.parquet", "/data/other/x.parquet"),
        ("%2e%2e/other/x.parquet", "/data/other/x.parquet"),
        ("../../../x.parquet", "/x.parquet"),
        ("s3a://bucket/x.parquet", "s3://bucket/x.parquet"),
        ("p=%FF/x.parquet", "p=%FF/x.parquet"),
    ],
)
def test_canonical_paths_of_a_local_table(path: str, canonical: str) -> None:
    assert _LOCAL.canonical_path(path) == canonical
    paths = _LOCAL.canonical_paths(pa.array([path, "y"]))
    assert (["y"] if paths is None else paths.to_pylist()[1:]) == ["y"]
    assert (path if paths is None else paths[0].as_py()) == canonical


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("s3a://bucket/t/x%20y.parquet", "x y.parquet"),
        ("s3n://bucket/t/x.parquet", "x.parquet"),
        ("s3://bucket/other/x.parquet", "s3://bucket/other/x.parquet"),
        ("s3a://other/t/x.parquet", "s3://other/t/x.parquet"),
        ("/t/x.parquet", "x.parquet"),
        ("../u/x.parquet", "s3://bucket/u/x.parquet"),
        ("p=1//x.parquet", "p=1//x.parquet"),
    ],
)
def test_canonical_paths_in_an_object_store(path: str, canonical: str) -> None:
    assert _BUCKET.canonical_path(path) == canonical


@given(st.lists(st.text(alphabet="ab%2Ee./:=f", max_size=12), max_size=8))
def test_many_paths_are_as_each_alone(texts: list[str]) -> None:
    canonical = _LOCAL.canonical_paths(
        pa.chunked_array([pa.array(texts[:3], pa.string()), pa.array(texts[3:], pa.string())])
    )
    assert (texts if canonical is None else canonical.to_pylist()) == [_LOCAL.canonical_path(text) for text in texts]


def _spellings(folder: Path) -> list[str]:
    return [f"{folder}/a.parquet", f"file:{folder}/a.parquet", f"file://{folder}/a.parquet", "a.parquet", "./a.parquet",
            "%61.parquet", "p/../a.parquet"]  # fmt: skip


@pytest.mark.slow(reason="hundreds of spellings of paths")
@pytest.mark.parametrize(
    ("checkpointed", "incremental"),
    [(False, False), (True, False), (False, True), pytest.param(True, True, marks=pytest.mark.long)],
)
def test_a_removed_file_is_gone_however_it_is_spelled(tmp_path: Path, *, checkpointed: bool, incremental: bool) -> None:
    for at, added in enumerate(_spellings(tmp_path)):
        for number, removed in enumerate(_spellings(tmp_path)):
            folder = tmp_path / f"{at}-{number}"
            added_here, removed_here = (s.replace(str(tmp_path), str(folder)) for s in (added, removed))
            log = write_log(
                folder,
                [PROTOCOL_ACTION, metadata_action(), add_action(added_here), add_action("b")],
                [remove_action(removed_here)],
            )
            if checkpointed:
                assert log.write_checkpoint(0)
            snapshot = log.snapshot(previous=log.snapshot(0)) if incremental else log.snapshot()
            assert file_paths(snapshot) == ["b"], (added, removed)


@pytest.mark.parametrize("removed", ["./a", "%61"])
def test_a_checkpoint_does_not_bring_a_file_back(tmp_path: Path, removed: str) -> None:
    remove = remove_action(removed, deletionTimestamp=time.time_ns() // 1_000_000)
    log = write_log(
        tmp_path, [PROTOCOL_ACTION, metadata_action(), add_action("a"), add_action("b")], [remove], [add_action("c")]
    )
    assert not log.write_checkpoint(2)
    assert file_paths(log.snapshot()) == ["b", "c"]
    assert not log.write_checkpoint(2, log.snapshot(0))
    # One of another writer, who takes the two spellings for two files.
    DeltaTable(tmp_path).create_checkpoint()
    assert len(DeltaTable(tmp_path).file_uris()) == 3
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    assert sorted(file_paths(log.snapshot())) == ["b", "c"]


def test_a_checkpoint_that_has_a_file_twice(tmp_path: Path) -> None:
    log = write_log(
        tmp_path, [PROTOCOL_ACTION, metadata_action(), add_action("a%20b"), add_action("a b", size=7), add_action("c")]
    )
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    assert log.snapshot().files.num_rows == 2


def test_an_absolute_path_elsewhere_is_one_file_in_each_form(tmp_path: Path) -> None:
    log = write_log(
        tmp_path / "t",
        [
            PROTOCOL_ACTION,
            metadata_action(),
            add_action("/x/a.parquet"),
            add_action("file:/x/b%20c.parquet"),
            add_action("file:///x/d.parquet"),
        ],
        [
            remove_action("file:///x/a.parquet"),
            remove_action("/x/b%20c.parquet"),
            add_action("file:/x/d.parquet", size=7),
        ],
    )
    assert file_paths(log.snapshot()) == ["file:/x/d.parquet"]


def test_a_vector_stays_a_part_of_what_a_file_is(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        [PROTOCOL_ACTION, metadata_action(), add_action("a b", deletionVector=deletion_vector("one"))],
        [remove_action("a%20b"), remove_action(f"file:{tmp_path}/a%20b", deletionVector=deletion_vector("two"))],
        [add_action("a%20b", deletionVector=deletion_vector("two"))],
        [remove_action(f"{tmp_path}/a%20b", deletionVector=deletion_vector("one"))],
    )
    assert log.snapshot().files["deletion_vector"].to_pylist() == ["utwo"]


def test_incremental_snapshots_keep_canonical_paths(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        [PROTOCOL_ACTION, metadata_action(), add_action("p=%20/a"), add_action("b")],
        [add_action("c")],
        [remove_action(f"{tmp_path}/p=%20/a")],
    )
    snapshot = log.snapshot(0)
    for version in (1, 2):
        snapshot = log.snapshot(version, previous=snapshot)
    assert file_paths(snapshot) == ["b", "c"] == file_paths(log.snapshot())


def test_a_commit_that_removes_the_same_file_conflicts(tmp_path: Path) -> None:
    log = write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(), add_action("a b"), add_action("c")])
    snapshot = log.snapshot()
    assert log.write_commit(1, [remove_action(f"file://{tmp_path}/a%20b")])
    actions: list[dict[str, Any]] = [remove_action("a b")]
    with pytest.raises(CommitConflict, match="a b"):
        commit_actions(log, snapshot, PendingCommit(TableChange(Operation.DELETE), actions))
    with pytest.raises(CommitConflict, match="a b"):
        commit_actions(
            log,
            snapshot,
            PendingCommit(TableChange(Operation.UPDATE), [remove_action("c")], read_paths=frozenset({"./a%20b"})),
        )


def test_files_that_the_log_spells_differently_are_no_orphans(tmp_path: Path) -> None:
    names = [f"part-00000-{n}-00000000-0000-0000-0000-000000000000.c000.snappy.parquet" for n in range(4)]
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - 1e7,) * 2)
    spelled = [f"file:{tmp_path}/{names[0]}", f"./{names[1]}", names[2].replace("part", "%70art")]
    write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(), *map(add_action, spelled)])
    assert pt.open_table(str(tmp_path), format="delta").remove_orphans() == [names[3]]


def test_commits_know_the_partition_of_a_file_that_is_removed_in_another_form(tmp_path: Path) -> None:
    schema = metadata_action(schema_field("x", "long"), schema_field("p"), partitions=["p"])
    write_log(
        tmp_path,
        [
            PROTOCOL_ACTION,
            schema,
            add_action("a b", partitionValues={"p": "1"}),
            add_action("c", partitionValues={"p": "2"}),
        ],
        [remove_action(f"{tmp_path}/a%20b")],
    )
    feed = pt.open_table(str(tmp_path), format="delta").change_feed()
    assert feed.commits[-1].partitions["p"].to_pylist() == ["1"]


def test_the_log_of_a_table_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_log(
        tmp_path / "real",
        [PROTOCOL_ACTION, metadata_action(), add_action("a"), add_action("b")],
        [remove_action(f"{tmp_path}/real/a")],
    )
    for name in ("real", "link"):
        assert file_paths(DeltaLog(Storage.from_uri(tmp_path / name)).snapshot()) == ["b"]
