"""Files and entries by spec; the tests that seed 004 names, and what they leave open."""

from __future__ import annotations

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.typedef import Record

from partita.formats.iceberg.transaction import group_entries_by_spec, group_files_by_spec


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
    files = [data_file_with_spec(at % 3, f"{at}") for at in (2, 1, 0, 5, 4, 3)]
    groups = group_files_by_spec(files)
    assert list(groups) == [0, 1, 2]
    assert [file.file_path for file in groups[2]] == ["2", "5"]


def test_group_entries_by_spec_empty() -> None:
    assert group_entries_by_spec([]) == {}


def test_group_entries_by_spec_single_spec() -> None:
    groups = group_entries_by_spec([entry_with_spec(3), entry_with_spec(3)])
    assert {spec_id: len(entries) for spec_id, entries in groups.items()} == {3: 2}


def test_group_entries_by_spec_multiple_specs() -> None:
    groups = group_entries_by_spec([entry_with_spec(1), entry_with_spec(0), entry_with_spec(1)])
    assert [(spec_id, len(entries)) for spec_id, entries in groups.items()] == [(0, 1), (1, 2)]
