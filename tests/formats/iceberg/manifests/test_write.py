"""Manifests as an independent Avro reader sees them: specs, headers, sequence numbers, partitions, sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    LongType,
    NestedField,
    StringType,
)

from partita.algebra.partition_functions import bucket
from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    ADDED,
    DELETED,
    EXISTING,
    append_files,
    check_totals,
    commit_change,
    copy_data_file,
    data_file,
    delete_file,
    live_files,
    manifest_entries,
    manifest_list,
    new_table,
    partition_spec,
    read_avro,
    strictly_read_ids,
    table_ids,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


def statuses(table: Table) -> list[tuple[int, int, int, int | None]]:
    """Content, spec, status and sequence number of each entry, sorted."""
    return sorted(
        (e["manifest"].get("content", 0), e["spec_id"], e["status"], e.get("sequence_number"))
        for e in manifest_entries(table)
    )


def test_each_spec_has_its_manifest(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    evolve_spec(table, add=[bucket("id", 4)])
    evolve_spec(table, drop=["region"])
    files = [data_file(table, [{"id": index, "region": "eu", "amount": index}], index % 3) for index in range(9)]
    append_files(table, *files)
    assert [(m["partition_spec_id"], m["added_files_count"], m["added_rows_count"]) for m in manifest_list(table)] == [
        (0, 3, 3), (1, 3, 3), (2, 3, 3),
    ]  # fmt: skip
    assert live_files(table) == sorted((f.file_path, f.spec_id, tuple(f.partition._data)) for f in files)
    assert table_ids(table) == list(range(9))
    check_totals(table)


def test_the_header_has_schema_spec_and_content(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    append_files(table, file)
    evolve_spec(table, add=[bucket("id", 4)])
    with table.update_schema() as update:
        update.add_column("note", StringType())
    append_files(table, data_file(table, [{"id": 2, "region": "eu"}]))
    commit_change(table, SnapshotChange("row_delta", [delete_file(table, {file.file_path: [0]}, file)]))
    for manifest in manifest_list(table):
        header, _ = read_avro(table, manifest["manifest_path"])
        spec_id = manifest["partition_spec_id"]
        assert header["format-version"] == "2"
        assert header["content"] == ("deletes" if manifest["content"] == 1 else "data")
        assert header["partition-spec-id"] == str(spec_id)
        header_fields = json.loads(header["partition-spec"])
        assert [(f["name"], f["field-id"], f["source-id"], f["transform"]) for f in header_fields] == [
            (f.name, f.field_id, f.source_id, str(f.transform)) for f in table.specs()[spec_id].fields
        ]
        schema = json.loads(header["schema"])
        assert str(schema["schema-id"]) == header["schema-id"]
        assert manifest["manifest_length"] == Path(manifest["manifest_path"].removeprefix("file://")).stat().st_size
    assert {read_avro(table, m["manifest_path"])[0]["schema-id"] for m in manifest_list(table)} == {"0", "1"}


def test_sequence_numbers_are_inherited_only_by_what_is_added(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    removed_file, existing_file, untouched_file = (
        data_file(table, [{"id": index, "region": "eu"}]) for index in range(3)
    )
    first = append_files(table, removed_file, existing_file)
    second = append_files(table, untouched_file)
    assert statuses(table) == [(0, 0, ADDED, None), (0, 0, ADDED, None), (0, 0, ADDED, None)]
    last = commit_snapshot(
        table, second, SnapshotChange("delete", removed_data_files=frozenset({removed_file.file_path}))
    )
    entries = {e["data_file"]["file_path"]: e for e in manifest_entries(table)}
    existing, deleted, untouched = (entries[f.file_path] for f in (existing_file, removed_file, untouched_file))
    names = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
    assert [existing[name] for name in names] == [EXISTING, first, 1, 1]
    assert (deleted["status"], deleted["snapshot_id"], deleted["sequence_number"], deleted["file_sequence_number"]) == (
        DELETED, last, 1, 1,
    )  # fmt: skip
    assert (untouched["status"], untouched["snapshot_id"], untouched["sequence_number"]) == (ADDED, second, None)
    numbers = {
        (m["added_files_count"], m["existing_files_count"], m["deleted_files_count"]): (
            m["sequence_number"], m["min_sequence_number"], m["added_snapshot_id"],
        )
        for m in manifest_list(table)
    }  # fmt: skip
    assert numbers == {(0, 1, 0): (3, 1, last), (0, 0, 1): (3, 3, last), (1, 0, 0): (2, 2, second)}
    assert table_ids(table) == [1, 2]


def test_a_manifest_of_what_went_is_listed_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    append_files(table, file)
    commit_change(table, SnapshotChange("delete", removed_data_files=frozenset({file.file_path})))
    assert [m["deleted_files_count"] for m in manifest_list(table)] == [1]
    append_files(table, data_file(table, [{"id": 2, "region": "eu"}]))
    assert [(m["added_files_count"], m["deleted_files_count"]) for m in manifest_list(table)] == [(1, 0)]
    check_totals(table)


def test_untouched_manifests_are_carried_over(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    evolve_spec(table, add=[bucket("id", 4)])
    files = [data_file(table, [{"id": index, "region": "eu"}], index % 2) for index in range(4)]
    for file in files:
        append_files(table, file)
    before = {m["manifest_path"]: m for m in manifest_list(table)}
    commit_change(table, SnapshotChange("delete", removed_data_files=frozenset({files[1].file_path})))
    after = {m["manifest_path"]: m for m in manifest_list(table)}
    assert len(before.keys() & after.keys()) == 3
    assert all(before[path] == after[path] for path in before.keys() & after.keys())
    assert table_ids(table) == [0, 2, 3]


@pytest.mark.slow(reason="many random or large manifests")
def test_large_commits_are_split_by_size(tmp_path: Path) -> None:
    table = new_table(tmp_path, properties={"commit.manifest.target-size-bytes": "10000"})
    file = data_file(table, [{"id": 1, "region": "eu"}])
    files = [copy_data_file(file, f"{file.file_path}-{uuid4()}") for _ in range(1001)]
    append_files(table, *files)
    sizes = [m["added_files_count"] for m in manifest_list(table)]
    assert sum(sizes) == 1001
    # A block of entries may lie across the target, and what is left over is smaller.
    least, *others = sorted(m["manifest_length"] for m in manifest_list(table))
    assert len(others) >= 3
    assert least < 12_000
    assert all(10_000 <= length < 12_000 for length in others)
    assert sorted(e["data_file"]["file_path"] for e in manifest_entries(table)) == sorted(f.file_path for f in files)
    commit_change(table, SnapshotChange("delete", removed_data_files=frozenset(f.file_path for f in files[::2])))
    assert [path for path, _, _ in live_files(table)] == sorted(f.file_path for f in files[1::2])
    check_totals(table)


def test_equal_tuples_under_different_specs_stay_apart(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "other", LongType()))
    table = new_table(tmp_path, schema, partition_spec((1, "bucket[4]", "shard")))
    evolve_spec(table, drop=["shard"], add=[bucket("other", 4).alias("shard")])
    rows = [{"id": 1, "other": 1}, {"id": 2, "other": 2}]
    first_file, second_file = data_file(table, rows, 0, [0]), data_file(table, rows, 1, [0])
    append_files(table, first_file, second_file)
    commit_change(table, SnapshotChange("row_delta", [delete_file(table, {first_file.file_path: [0]}, first_file)]))
    assert [(m["content"], m["partition_spec_id"]) for m in manifest_list(table)] == [(1, 0), (0, 0), (0, 1)]
    assert strictly_read_ids(table) == [1, 2, 2]
    assert [m["partitions"] for m in manifest_list(table)].count(manifest_list(table)[0]["partitions"]) == 3
    check_totals(table)


def test_names_that_avro_has_no_letters_for(tmp_path: Path) -> None:
    table = new_table(tmp_path, partitioned=partition_spec((2, "truncate[1]", "région 1")))
    append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    removed = frozenset({live_files(table)[0][0]})
    commit_change(table, SnapshotChange("replace", [data_file(table, [{"id": 1, "region": "eu"}])], removed))
    assert table_ids(table) == [1]
    assert [values for _, _, values in live_files(table)] == [("e",)]
