"""Files that nothing names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from partita.errors import TableError
from partita.formats.iceberg.transaction import Changes, commit, remove_orphans
from tests.formats.iceberg.transaction.tables import again, append, data_file, delete_file, ids_of, new_table

if TYPE_CHECKING:
    from pyiceberg.table import Table


def folder_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def tree(table: Table) -> set[Path]:
    return {path for path in folder_of(table).rglob("*") if path.is_file()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = new_table(tmp_path)
    file = data_file(made, [{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}])
    append(made, file)
    commit(
        made, made.metadata.current_snapshot_id, Changes("row_delta", [delete_file(made, {file.file_path: [0]}, file)])
    )
    return made


def test_what_the_table_names_stays(table: Table) -> None:
    before = tree(table)
    assert remove_orphans(table, -60) == []
    assert tree(table) == before


def test_orphans_go_when_they_are_old(table: Table) -> None:
    folder = folder_of(table)
    old, young, hidden, hint = (
        folder / name
        for name in ("data/old.parquet", "metadata/young.avro", "data/.old.parquet.crc", "metadata/version-hint.text")
    )
    for path in (old, young, hidden, hint):
        path.write_text("x")
    long_ago = time.time() - 4 * 24 * 3600
    for path in (old, hidden, hint):
        os.utime(path, (long_ago, long_ago))
    assert remove_orphans(table) == [str(old)]
    assert [path.exists() for path in (old, young, hidden, hint)] == [False, True, True, True]
    assert ids_of(table) == [2]


def test_what_was_committed_after_the_files_were_listed_stays(table: Table) -> None:
    """The table in hand is older than what others committed since."""
    behind = again(table)
    append(table, data_file(table, [{"id": 3, "region": "us"}]))
    assert remove_orphans(behind, -60) == []
    assert ids_of(table) == [2, 3]


def test_files_of_snapshots_that_are_not_current_stay(table: Table) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    later = append(table, data_file(table, [{"id": 3, "region": "us"}]))
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert remove_orphans(table, -60) == []
    assert sorted(again(table).scan(snapshot_id=later).to_arrow()["id"].to_pylist()) == [2, 3]


def test_names_with_and_without_a_scheme_are_the_same_file(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    file[1] = file.file_path.removeprefix("file://")
    append(table, file)
    assert remove_orphans(table, -60) == []
    assert ids_of(table) == [1]


def test_shared_files_are_not_deleted(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    with pytest.raises(TableError, match="gc.enabled is false"):
        remove_orphans(table, -60)
