"""Orphan files: files that the table doesn't reference."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from partita.errors import TableError
from partita.formats.containment import REASON_UNKNOWN_NAME, FolderLocation
from partita.formats.iceberg.locations import is_writer_file_name, list_files
from partita.formats.iceberg.maintenance import remove_orphan_files
from partita.formats.iceberg.snapshot_change import SnapshotChange
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    commit_change,
    data_file,
    delete_file,
    new_table,
    reload_table,
    table_ids,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


NAME = f"00000-0-{uuid4()}"
OLD, YOUNG = f"data/{NAME}.parquet", f"metadata/{uuid4()}-m0.avro"


def folder_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def tree(table: Table) -> set[Path]:
    return {path for path in folder_of(table).rglob("*") if path.is_file()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    created = new_table(tmp_path)
    file = data_file(created, [{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}])
    append_files(created, file)
    commit_change(created, SnapshotChange("row_delta", [delete_file(created, {file.file_path: [0]}, file)]))
    return created


def test_files_that_the_table_names_are_kept(table: Table) -> None:
    before = tree(table)
    assert remove_orphan_files(table, -60) == []
    assert tree(table) == before


def test_orphans_go_when_they_are_old(table: Table) -> None:
    folder = folder_of(table)
    old, young, hidden, hint = (
        folder / name for name in (OLD, YOUNG, f"data/.{NAME}.parquet.crc", "metadata/version-hint.text")
    )
    for path in (old, young, hidden, hint):
        path.write_text("x")
    long_ago = time.time() - 4 * 24 * 3600
    for path in (old, hidden, hint):
        os.utime(path, (long_ago, long_ago))
    removed = remove_orphan_files(table)
    assert removed == [str(hidden), str(old)]
    assert removed.remaining == {
        str(young): "it is younger than older_than, and a running write may need it",
        str(hint): REASON_UNKNOWN_NAME,
    }
    assert [path.exists() for path in (old, young, hidden, hint)] == [False, True, False, True]
    assert table_ids(table) == [2]


def test_files_committed_after_the_listing_are_kept(table: Table) -> None:
    """The table in hand is older than what others committed since."""
    behind = reload_table(table)
    append_files(table, data_file(table, [{"id": 3, "region": "us"}]))
    assert remove_orphan_files(behind, -60) == []
    assert table_ids(table) == [2, 3]


def test_files_of_snapshots_that_are_not_current_stay(table: Table) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    later = append_files(table, data_file(table, [{"id": 3, "region": "us"}]))
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert remove_orphan_files(table, -60) == []
    assert sorted(reload_table(table).scan(snapshot_id=later).to_arrow()["id"].to_pylist()) == [2, 3]


@pytest.mark.parametrize("start", ["", "file:", "file://", "file:///"])
def test_a_location_is_the_same_file_however_it_starts(tmp_path: Path, start: str) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    file[1] = start + file.file_path.removeprefix("file://")
    append_files(table, file)
    assert remove_orphan_files(table, -60) == []
    assert Path(file.file_path.removeprefix("file:")).exists()


@pytest.mark.parametrize("name", ["a%2Fb", "a b", "a?b#c", "é", "a+b", "_a"])
def test_a_location_is_plain_text(tmp_path: Path, name: str) -> None:
    """What looks like a URI's escapes stands for itself, and what is named so must not go."""
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    old = Path(file.file_path.removeprefix("file://"))
    new = old.parent / f"region={name}" / old.name
    new.parent.mkdir()
    old.rename(new)
    file[1] = f"file://{new}"
    append_files(table, file)
    (new.parent / f"{NAME}.parquet").write_text("x")
    assert remove_orphan_files(table, -60) == [str(new.parent / f"{NAME}.parquet")]
    assert new.exists()


NAMES = {
    "00000-0-1b4e28ba-2fa1-11d2-883f-0016d3cca427-00001.parquet": True,
    "00000-0-1b4e28ba-2fa1-11d2-883f-0016d3cca427-00001-deletes.parquet": True,
    "00000-0-1b4e28ba-2fa1-11d2-883f-0016d3cca427.orc": True,
    "20260101_101010_00001_abcde-1b4e28ba-2fa1-11d2-883f-0016d3cca427.parquet": True,
    "1b4e28ba-2fa1-11d2-883f-0016d3cca427-m0.avro": True,
    "snap-4242-1-1b4e28ba-2fa1-11d2-883f-0016d3cca427.avro": True,
    "00003-1b4e28ba-2fa1-11d2-883f-0016d3cca427.metadata.json": True,
    "00003-1b4e28ba-2fa1-11d2-883f-0016d3cca427.gz.metadata.json": True,
    "v12.metadata.json": True,
    "4242-1b4e28ba-2fa1-11d2-883f-0016d3cca427.stats": True,
    "00000-0-1b4e28ba-2fa1-11d2-883f-0016d3cca427-00001-deletes.puffin": True,
    "1b4e28ba2fa111d2883f0016d3cca427.parquet": True,
    "00000-1-flink_job-00001.parquet": True,
    "1234-precious.parquet": False,
    "precious.parquet": False,
    "notes.txt": False,
    "1b4e28ba-2fa1-11d2-883f-0016d3cca427.txt": False,
    ".1b4e28ba-2fa1-11d2-883f-0016d3cca427.parquet": False,
    "1b4e28ba-2fa1-11d2-883f-0016d3cca427.parquet/notes": False,
    "version-hint.text": False,
    "catalog.db": False,
}


@pytest.mark.parametrize(("name", "is_one"), NAMES.items())
def test_file_names_of_writers(name: str, *, is_one: bool) -> None:
    assert is_writer_file_name(f"data/region=eu/{name}") == is_one


def test_files_of_an_object_store_are_listed_under_its_location(table: Table, tmp_path: Path) -> None:
    """Pyarrow's own file system stands for the store here: what it lists has another root than the location."""
    (tmp_path / "bucket" / "t" / "data").mkdir(parents=True)
    (tmp_path / "bucket" / "t" / "data" / "x.parquet").write_text("x")
    io = PyArrowFileIO()
    io.fs_by_scheme = lambda *_: SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    assert [file.path for file in list_files(io, FolderLocation.from_uri("s3a://bucket/t/"))] == ["data/x.parquet"]


def test_a_folder_that_cannot_be_listed_is_refused() -> None:
    with pytest.raises(TableError, match="can't be listed through FsspecFileIO"):
        list(list_files(FsspecFileIO({}), FolderLocation.from_uri("s3://bucket/t")))


def test_shared_files_are_not_deleted(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    with pytest.raises(TableError, match="enabled is false"):
        remove_orphan_files(table, -60)
