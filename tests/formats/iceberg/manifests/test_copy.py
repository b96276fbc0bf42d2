"""Entries of large manifests copied as bytes: equal to decoded ones, and refused where they are ambiguous."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fastavro
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    UUIDType,
)

from partita.formats.iceberg.manifests import lookup as manifest_lookup
from partita.formats.iceberg.manifests.avro import encode_long
from partita.formats.iceberg.manifests.copy import ManifestNotCopyable, open_copyable_manifest
from partita.formats.iceberg.manifests.entries import read_manifest_entries
from partita.formats.iceberg.manifests.lookup import ManifestLookup
from partita.formats.iceberg.manifests.plan import ManifestPlanner
from partita.formats.iceberg.manifests.write import ManifestWriter
from partita.formats.iceberg.snapshot_change import SnapshotChange
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    check_totals,
    commit_change,
    current_snapshot,
    live_files,
    manifest_entries,
    new_table,
    partition_spec,
    read_avro,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table


def files_in(table: Table, count: int, values: Sequence[Any] = ("eu", "us"), **more: Any) -> list[DataFile]:
    """Return descriptions of files that need not exist, in partitions by turns."""
    files = []
    for index in range(count):
        fields: dict[str, Any] = {
            "content": DataFileContent.DATA,
            "file_path": f"{table.location()}/data/{index:06}-{uuid4()}.parquet",
            "file_format": FileFormat.PARQUET,
            "partition": Record(values[index % len(values)]),
            "record_count": 10 + index,
            "file_size_in_bytes": 1000 + index,
            "column_sizes": {1: index, 2: 2 * index},
            "value_counts": {1: 10, 2: 10},
            "null_value_counts": {},
            "nan_value_counts": {},
            "lower_bounds": {1: index.to_bytes(8, "little")},
            "upper_bounds": {1: (index + 9).to_bytes(8, "little")},
            "split_offsets": [4],
        }
        file = DataFile.from_args(**fields | more)
        file.spec_id = table.metadata.default_spec_id
        files.append(file)
    return files


def paths(files: Sequence[DataFile]) -> frozenset[str]:
    return frozenset(file.file_path for file in files)


def planned_manifests(table: Table, removed: Sequence[DataFile], monkeypatch: pytest.MonkeyPatch, *, large: int) -> Any:
    """Return the manifests that a delete writes if manifests of more than `large` entries are copied."""
    monkeypatch.setattr(manifest_lookup, "_LARGE_MANIFEST_ENTRIES", large)
    planner = ManifestPlanner(
        SnapshotChange("delete", removed_data_files=paths(removed)), ManifestLookup(table), ManifestWriter(table, 99)
    )
    manifests = planner.plan(current_snapshot(table)).manifests
    return sorted((manifest_contents(table, each) for each in manifests if each.added_snapshot_id == 99), key=repr)


def manifest_contents(table: Table, manifest: ManifestFile) -> tuple[Any, ...]:
    """Return the contents and the list row of a manifest, except its path and length."""
    summaries = [[each[index] for index in range(len(each))] for each in manifest.partitions or []]
    counts = [manifest[index] for index in range(2, 13)]
    spec_ = table.metadata.specs()[manifest.partition_spec_id]
    if table.metadata.format_version == 1:
        # As the manifest list will have it.
        manifest[4] = 0
    return counts, summaries, [entry_values(entry) for entry in read_manifest_entries(table.io, manifest, spec_)]


def entry_values(entry: ManifestEntry) -> tuple[Any, ...]:
    values = [entry.data_file[index] for index in range(len(entry.data_file))]
    plain = [dict(value) if hasattr(value, "items") else repr(value) for value in values]
    return entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, *plain


TYPES: dict[str, tuple[IcebergType, list[Any]]] = {
    "string": (StringType(), ["a", "ü", "", None]),
    "long": (LongType(), [-5, 0, 2**62, None]),
    "date": (DateType(), [0, -719162, 2_000_000]),
    "timestamp": (TimestampType(), [0, -1, 2**50, None]),
    "decimal": (DecimalType(9, 2), [Decimal("1.50"), Decimal("-2.00")]),
    "binary": (BinaryType(), [b"\x00", b"\xff\xfe", None]),
    "fixed": (FixedType(3), [b"abc", b"abd"]),
    "uuid": (UUIDType(), [b"\x00" * 16, b"\xff" * 16]),
    "double": (DoubleType(), [-0.0, 0.0, 1.5, None]),
    "nan": (DoubleType(), [float("nan"), 1.5]),
}


@pytest.mark.slow(reason="manifests of every kind, encoded and decoded")
@pytest.mark.parametrize(("kind", "version"), [*((kind, 2) for kind in TYPES), ("string", 1), ("date", 1)])
def test_copies_are_what_is_decoded_and_encoded(
    tmp_path: Path, kind: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_, values = TYPES[kind]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", type_))
    table = new_table(tmp_path, schema, partition_spec((2, "identity", "region")), version)
    files = files_in(table, 60, values)
    append_files(table, *files)
    # Added entries are moved; what stays of the manifest after that exists already, and its blocks are copied whole.
    for removed in (files[3::20], files[7:8], files[50:]):
        copied = planned_manifests(table, removed, monkeypatch, large=0)
        assert copied == planned_manifests(table, removed, monkeypatch, large=10**9)
        monkeypatch.setattr(manifest_lookup, "_LARGE_MANIFEST_ENTRIES", 0)
        commit_change(table, SnapshotChange("delete", removed_data_files=paths(removed)))
        files = [file for file in files if file not in removed]
        assert {path for path, _, _ in live_files(table)} == paths(files)
    check_totals(table)


@pytest.mark.slow(reason="many random or large manifests")
def test_untouched_blocks_are_copied_as_they_lie(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    files = files_in(table, 1200, ["eu"])
    append_files(table, *files)
    commit_change(table, SnapshotChange("delete", removed_data_files=paths(files[:1])))
    [before] = [each for each in current_snapshot(table).manifests(table.io) if each.existing_files_count]
    commit_change(table, SnapshotChange("delete", removed_data_files=paths(files[1:2])))
    [after] = [each for each in current_snapshot(table).manifests(table.io) if each.existing_files_count]
    opened = [open_copyable_manifest(table.io, each, table.spec(), 2).container.blocks for each in (before, after)]
    assert opened[0][1:] == opened[1][1:]
    assert opened[0][0] != opened[1][0]


@pytest.mark.slow(reason="many commits to a table")
def test_deleted_entries_of_others_are_left_behind(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    files = files_in(table, 600)
    append_files(table, *files)
    [manifest] = current_snapshot(table).manifests(table.io)
    rewritten(table, manifest, lambda records: [records[0] | {"status": 2}, *records[1:]])
    commit_change(table, SnapshotChange("delete", removed_data_files=paths(files[5:6])))
    assert {path for path, _, _ in live_files(table)} == paths([*files[1:5], *files[6:]])
    deleted_paths = [entry["data_file"]["file_path"] for entry in manifest_entries(table) if entry["status"] == 2]
    assert deleted_paths == [files[5].file_path]


def rewritten(table: Table, manifest: ManifestFile, change_: Any, schema: Any = None, **more: Any) -> None:
    """Write a manifest again with other records, as another writer would."""
    header, records = read_avro(table, manifest.manifest_path)
    metadata = {key: value for key, value in header.items() if not key.startswith("avro.")}
    with Path(manifest.manifest_path.removeprefix("file://")).open("wb") as out:
        avro_schema = json.loads(header["avro.schema"]) if schema is None else schema
        fastavro.writer(out, avro_schema, change_(records), metadata=metadata, **{"codec": "deflate", **more})


@pytest.mark.slow(reason="many random or large manifests")
def test_manifests_that_are_laid_out_otherwise_are_decoded(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    files = files_in(table, 600)
    append_files(table, *files)
    [manifest] = current_snapshot(table).manifests(table.io)
    header, _ = read_avro(table, manifest.manifest_path)
    schema = json.loads(header["avro.schema"])
    schema["fields"] = [schema["fields"][-1], *schema["fields"][:-1]]
    rewritten(table, manifest, list, schema)
    with pytest.raises(ManifestNotCopyable):
        open_copyable_manifest(table.io, manifest, table.spec(), 2)
    commit_change(table, SnapshotChange("delete", removed_data_files=paths(files[5:6])))
    assert {path for path, _, _ in live_files(table)} == paths([*files[:5], *files[6:]])
    check_totals(table)


@pytest.mark.slow(reason="many random or large manifests")
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_blocks_of_other_writers(tmp_path: Path, codec: str) -> None:
    table = new_table(tmp_path)
    files = files_in(table, 600)
    append_files(table, *files)
    [manifest] = current_snapshot(table).manifests(table.io)
    rewritten(table, manifest, list, codec=codec, sync_interval=1000)
    opened = open_copyable_manifest(table.io, manifest, table.spec(), 2)
    assert len(opened.container.blocks) > 50
    commit_change(table, SnapshotChange("delete", removed_data_files=paths(files[5:6])))
    assert {path for path, _, _ in live_files(table)} == paths([*files[:5], *files[6:]])
    check_totals(table)


@pytest.mark.slow(reason="many random or large manifests")
def test_a_bound_that_looks_like_the_next_entry(tmp_path: Path) -> None:
    """A bound with the bytes that the next entry begins with makes the position ambiguous, which is noticed."""
    table = new_table(tmp_path)
    files = files_in(table, 600, ["eu"])
    path = files[301].file_path.encode()
    # A bound can't know the snapshot's id, so the test chooses it: head, content, and path.
    head = encode_long(1) + b"\x02" + encode_long(77) + b"\x00" + b"\x00" + encode_long(0)
    files[300].lower_bounds[1] = head + encode_long(len(path)) + path
    append_files(table, *files)
    [manifest] = current_snapshot(table).manifests(table.io)
    rewritten(table, manifest, lambda records: [record | {"snapshot_id": 77} for record in records])
    opened = open_copyable_manifest(table.io, manifest, table.spec(), 2)
    with pytest.raises(ManifestNotCopyable):
        list(opened.copies_without_rows(opened.live_rows_of(paths(files[5:6])), 10_000))
    with pytest.raises(ManifestNotCopyable):
        list(opened.copies_without_rows([301], 10_000))
    commit_change(table, SnapshotChange("delete", removed_data_files=paths(files[301:302])))
    assert {path for path, _, _ in live_files(table)} == paths([*files[:301], *files[302:]])
    bounds = {e["data_file"]["file_path"]: e["data_file"]["lower_bounds"] for e in manifest_entries(table)}
    assert bounds[files[300].file_path] == [{"key": 1, "value": files[300].lower_bounds[1]}]
    check_totals(table)
