"""Data files: grouping by spec (the tests that the evolution design names, and more), and referenced data files."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.typedef import Record

from partita.formats.iceberg.manifests.data_files import (
    group_files_by_spec,
    may_reference,
    referenced_path,
    to_v3_data_file,
)
from partita.formats.iceberg.manifests.entries import read_manifest_entries
from partita.formats.iceberg.snapshot_change import SnapshotChange
from tests.formats.iceberg.snapshot_tables import (
    DELETED,
    EXISTING,
    append_files,
    check_totals,
    commit_change,
    current_manifests,
    data_file,
    delete_file,
    manifest_entries,
    new_table,
)


def test_a_delete_keeps_the_path_that_it_names(tmp_path: Path) -> None:
    """A manifest of version 2 that pyiceberg rewrites would lose `referenced_data_file`."""
    table = new_table(tmp_path)
    files = [data_file(table, [{"id": index, "region": "eu"}]) for index in range(3)]
    append_files(table, *files)
    deletes = [delete_file(table, {file.file_path: [0]}, file) for file in files[:2]]
    naming_delete = DataFile.from_args(
        _table_format_version=3,
        **{f.name: deletes[0][index] for index, f in enumerate(DATA_FILE_TYPE[2].fields)},
        referenced_data_file=files[0].file_path,
    )
    naming_delete.spec_id = 0
    naming_delete[10] = naming_delete[11] = None
    commit_change(table, SnapshotChange("row_delta", [naming_delete, deletes[1]]))
    commit_change(table, SnapshotChange("replace", removed_delete_files=frozenset({deletes[1].file_path})))
    existing = [e for e in manifest_entries(table, content=1) if e["status"] == EXISTING]
    assert [e["data_file"]["referenced_data_file"] for e in existing] == [files[0].file_path]
    assert [
        referenced_path(e.data_file)
        for m in current_manifests(table)
        if m.content == 1
        for e in read_manifest_entries(table.io, m)
        if e.status == EXISTING
    ] == [files[0].file_path]
    commit_change(table, SnapshotChange("delete", removed_data_files=frozenset({files[0].file_path})))
    assert [e for e in manifest_entries(table, content=1) if e["status"] != DELETED] == []
    check_totals(table)


def test_data_files_that_a_delete_file_may_reference(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    like = data_file(table, [{"id": 1, "region": "eu"}])
    single = delete_file(table, {"m": [0]}, like)
    several = delete_file(table, {"c": [0], "m": [1]}, like)
    unknown = delete_file(table, {"c": [0], "m": [1]}, like)
    unknown[10] = unknown[11] = None
    equality = delete_file(table, {"c": [0]}, like)
    equality[0] = DataFileContent.EQUALITY_DELETES
    paths = ["a", "c", "k", "m", "z"]
    assert [path for path in paths if may_reference(single, path)] == ["m"]
    assert [path for path in paths if may_reference(several, path)] == ["c", "k", "m"]
    assert [path for path in paths if may_reference(unknown, path)] == paths
    assert [path for path in paths if may_reference(equality, path)] == paths
    assert [referenced_path(file) for file in (single, several, unknown, equality, like)] == [
        "m",
        None,
        None,
        None,
        None,
    ]
    assert len(to_v3_data_file(single)) == len(DATA_FILE_TYPE[3].fields)


def data_file_without_spec(path: str = "a") -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA, file_path=path, file_format=FileFormat.PARQUET, partition=Record(),
        record_count=1, file_size_in_bytes=1,
    )  # fmt: skip


def data_file_with_spec(spec_id: int, path: str = "a") -> DataFile:
    file = data_file_without_spec(path)
    file.spec_id = spec_id
    return file


def entry_with_spec(spec_id: int) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=data_file_with_spec(spec_id)
    )


def test_group_files_by_spec_empty() -> None:
    assert group_files_by_spec([]) == {}


def test_group_files_by_spec_single_spec() -> None:
    groups = group_files_by_spec([data_file_with_spec(0), data_file_with_spec(0)])
    assert {spec_id: len(files) for spec_id, files in groups.items()} == {0: 2}


def test_group_files_by_spec_multiple_specs() -> None:
    groups = group_files_by_spec([data_file_with_spec(0), data_file_with_spec(1), data_file_with_spec(0)])
    assert {spec_id: len(files) for spec_id, files in groups.items()} == {0: 2, 1: 1}


def test_group_files_by_spec_v1_defaults_to_zero() -> None:
    groups = group_files_by_spec([data_file_without_spec(), data_file_with_spec(0)])
    assert {spec_id: len(files) for spec_id, files in groups.items()} == {0: 2}


def test_group_files_by_spec_ascends_and_keeps_the_order_of_files() -> None:
    files = [data_file_with_spec(index % 3, f"{index}") for index in (2, 1, 0, 5, 4, 3)]
    groups = group_files_by_spec(files)
    assert list(groups) == [0, 1, 2]
    assert [file.file_path for file in groups[2]] == ["2", "5"]


def group_entries_by_spec(entries: list[ManifestEntry]) -> dict[int, list[DataFile]]:
    return group_files_by_spec(entry.data_file for entry in entries)


def test_group_entries_by_spec_empty() -> None:
    assert group_entries_by_spec([]) == {}


def test_group_entries_by_spec_single_spec() -> None:
    groups = group_entries_by_spec([entry_with_spec(3), entry_with_spec(3)])
    assert {spec_id: len(entries) for spec_id, entries in groups.items()} == {3: 2}


def test_group_entries_by_spec_multiple_specs() -> None:
    groups = group_entries_by_spec([entry_with_spec(1), entry_with_spec(0), entry_with_spec(1)])
    assert [(spec_id, len(entries)) for spec_id, entries in groups.items()] == [(0, 1), (1, 2)]
