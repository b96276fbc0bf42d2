"""Which data files a delete file points into."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.manifest import DATA_FILE_TYPE, DataFile, DataFileContent

from partita.formats.iceberg.transaction import Changes, read_entries
from partita.formats.iceberg.transaction.pointers import may_point_into, referenced_path, widened
from tests.formats.iceberg.transaction.tables import (
    DELETED,
    EXISTING,
    append,
    change,
    check_totals,
    data_file,
    delete_file,
    entries_of,
    manifests,
    new_table,
)


def test_a_delete_keeps_the_path_that_it_names(tmp_path: Path) -> None:
    """A manifest of version 2 that pyiceberg rewrites would lose `referenced_data_file`."""
    table = new_table(tmp_path)
    files = [data_file(table, [{"id": at, "region": "eu"}]) for at in range(3)]
    append(table, *files)
    deletes = [delete_file(table, {file.file_path: [0]}, file) for file in files[:2]]
    named = DataFile.from_args(
        _table_format_version=3,
        **{f.name: deletes[0][at] for at, f in enumerate(DATA_FILE_TYPE[2].fields)},
        referenced_data_file=files[0].file_path,
    )
    named.spec_id = 0
    named[10] = named[11] = None
    change(table, Changes("row_delta", [named, deletes[1]]))
    change(table, Changes("replace", removed_deletes=frozenset({deletes[1].file_path})))
    kept = [e for e in entries_of(table, content=1) if e["status"] == EXISTING]
    assert [e["data_file"]["referenced_data_file"] for e in kept] == [files[0].file_path]
    assert [
        referenced_path(e.data_file)
        for m in manifests(table)
        if m.content == 1
        for e in read_entries(table.io, m)
        if e.status == EXISTING
    ] == [files[0].file_path]
    change(table, Changes("delete", removed=frozenset({files[0].file_path})))
    assert [e for e in entries_of(table, content=1) if e["status"] != DELETED] == []
    check_totals(table)


def test_which_files_a_delete_may_point_into(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    like = data_file(table, [{"id": 1, "region": "eu"}])
    one = delete_file(table, {"m": [0]}, like)
    several = delete_file(table, {"c": [0], "m": [1]}, like)
    unknown = delete_file(table, {"c": [0], "m": [1]}, like)
    unknown[10] = unknown[11] = None
    equality = delete_file(table, {"c": [0]}, like)
    equality[0] = DataFileContent.EQUALITY_DELETES
    paths = ["a", "c", "k", "m", "z"]
    assert [path for path in paths if may_point_into(one, path)] == ["m"]
    assert [path for path in paths if may_point_into(several, path)] == ["c", "k", "m"]
    assert [path for path in paths if may_point_into(unknown, path)] == paths
    assert [path for path in paths if may_point_into(equality, path)] == paths
    assert [referenced_path(file) for file in (one, several, unknown, equality, like)] == ["m", None, None, None, None]
    assert len(widened(one)) == len(DATA_FILE_TYPE[3].fields)
