"""Small manifests become one, within their spec and content."""

from __future__ import annotations

from pathlib import Path

import pytest

from partita.algebra.partition_functions import bucket
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    ADDED,
    append_files,
    check_totals,
    commit_change,
    data_file,
    delete_file,
    live_files,
    manifest_entries,
    manifest_list,
    new_table,
    read_avro,
    strictly_read_ids,
    table_ids,
)


@pytest.mark.slow(reason="many random or large manifests")
def test_small_manifests_merge_within_their_spec_and_content(tmp_path: Path) -> None:
    table = new_table(tmp_path, properties={"commit.manifest.min-count-to-merge": "3"})
    evolve_spec(table, add=[bucket("id", 4)])
    unmerged = [
        data_file(table, [{"id": index, "region": "eu"}, {"id": 100 + index, "region": "eu"}], index % 2)
        for index in range(8)
    ]
    for file in unmerged:
        append_files(table, file)
        commit_change(table, SnapshotChange("row_delta", [delete_file(table, {file.file_path: [1]}, file)]))
    per_kind: dict[tuple[int, int], int] = {}
    for manifest in manifest_list(table):
        key = (manifest["content"], manifest["partition_spec_id"])
        per_kind[key] = per_kind.get(key, 0) + 1
    assert per_kind.keys() == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert max(per_kind.values()) <= 3
    assert table_ids(table) == list(range(8))
    numbers = {
        e["data_file"]["file_path"]: e["sequence_number"] or e["manifest"]["sequence_number"]
        for e in manifest_entries(table)
    }
    assert [numbers[file.file_path] for file in unmerged] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert all(
        e["status"] == ADDED or (e["sequence_number"] is not None and e["file_sequence_number"] is not None)
        for e in manifest_entries(table)
    )
    check_totals(table)


def test_the_table_can_turn_merging_off(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, properties={"commit.manifest.min-count-to-merge": "2", "commit.manifest-merge.enabled": "false"}
    )
    for index in range(5):
        append_files(table, data_file(table, [{"id": index, "region": "eu"}]))
    assert len(manifest_list(table)) == 5


@pytest.mark.slow(reason="many commits to a table")
def test_merging_keeps_the_partitions_of_a_dropped_column(tmp_path: Path) -> None:
    """The JVM runtime 1.12 makes these null, and brings deleted rows back with that."""
    table = new_table(tmp_path, properties={"commit.manifest.min-count-to-merge": "2"})
    regions = ["eu", "us", None]
    old = [
        data_file(table, [{"id": 10 * index, "region": region}, {"id": 10 * index + 1, "region": region}])
        for index, region in enumerate(regions)
    ]
    for file in old:
        append_files(table, file)
        commit_change(table, SnapshotChange("row_delta", [delete_file(table, {file.file_path: [1]}, file)]))
    evolve_spec(table, drop=["region"], add=[bucket("id", 4)])
    with table.update_schema() as update:
        update.delete_column("region")
    before = [line for line in live_files(table) if line[1] == 0]
    for index in range(3):
        append_files(table, data_file(table, [{"id": 100 + index}]))
    assert [line for line in live_files(table) if line[1] == 0] == before
    assert len([m for m in manifest_list(table) if (m["partition_spec_id"], m["content"]) == (0, 0)]) == 1
    merged = next(m for m in manifest_list(table) if (m["partition_spec_id"], m["content"]) == (0, 0))
    assert merged["partitions"] == [
        {"contains_null": True, "contains_nan": False, "lower_bound": b"eu", "upper_bound": b"us"}
    ]
    header, _ = read_avro(table, next(m["manifest_path"] for m in manifest_list(table) if m["partition_spec_id"] == 0))
    assert header["schema-id"] == "0"
    # Deletes still find their files, and new ones of the old spec can be written.
    last = delete_file(table, {old[0].file_path: [0]}, old[0])
    commit_change(table, SnapshotChange("row_delta", [last]))
    commit_change(table, SnapshotChange("delete", removed_data_files=frozenset({old[1].file_path})))
    assert strictly_read_ids(table) == table_ids(table) == [20, 100, 101, 102]
    check_totals(table)
