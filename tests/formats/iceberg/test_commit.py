"""Committing: kinds of snapshots, their place in the metadata, transactions, lost races and lost answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from partita.algebra.partition_functions import bucket
from partita.errors import StorageError
from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.history import snapshot_history
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    check_totals,
    commit_change,
    current_snapshot,
    data_file,
    delete_file,
    live_files,
    manifest_entries,
    manifest_list,
    metadata_files,
    new_table,
    read_avro,
    reload_table,
    snapshot_summary,
    table_ids,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


def head(table: Table) -> int | None:
    return table.metadata.current_snapshot_id


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize("version", [1, 2])
def test_each_kind_of_snapshot(tmp_path: Path, version: int) -> None:
    """Two specs, rows that stay in both, and totals that are right after each."""
    table = new_table(tmp_path, version=version)
    evolve_spec(table, add=[bucket("id", 4)])
    files = [data_file(table, [{"id": index, "region": "eu", "amount": index}], index % 2) for index in range(6)]
    append_files(table, *files)
    assert snapshot_summary(table)["operation"] == "append"
    check_totals(table)

    commit_change(
        table, SnapshotChange("delete", removed_data_files=frozenset({files[0].file_path, files[1].file_path}))
    )
    summary = snapshot_summary(table)
    names = ("operation", "deleted-data-files", "deleted-records", "changed-partition-count")
    assert [summary[name] for name in names] == ["delete", "2", "2", "2"]
    check_totals(table)

    new = data_file(table, [{"id": 22, "region": "eu", "amount": 1}])
    commit_change(table, SnapshotChange("overwrite", [new], frozenset({files[2].file_path})))
    assert snapshot_summary(table)["operation"] == "overwrite"
    check_totals(table)

    same = data_file(table, [{"id": 3, "region": "eu", "amount": 3}, {"id": 22, "region": "eu", "amount": 1}], 0)
    commit_change(table, SnapshotChange("replace", [same], frozenset({files[3].file_path, new.file_path})))
    summary = snapshot_summary(table)
    assert (summary["operation"], summary["added-records"], summary["deleted-records"]) == ("replace", "2", "2")
    check_totals(table)

    assert table_ids(table) == [3, 4, 5, 22]
    assert {spec_id for _, spec_id, _ in live_files(table)} == {0, 1}
    assert all(m["added_snapshot_id"] for m in manifest_list(table))
    assert snapshot_history(table)["operation"].to_pylist() == ["replace", "overwrite", "delete", "append"]


def test_row_deltas_are_deletes_or_overwrites(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": index, "region": "eu"} for index in range(3)])
    append_files(table, file)
    first = delete_file(table, {file.file_path: [0]}, file)
    commit_change(table, SnapshotChange("row_delta", [first]))
    summary = snapshot_summary(table)
    assert (summary["operation"], summary["added-position-deletes"], summary["added-delete-files"]) == (
        "delete",
        "1",
        "1",
    )
    check_totals(table)
    # New deletes take the place of older ones.
    second = delete_file(table, {file.file_path: [0, 1]}, file)
    commit_change(
        table,
        SnapshotChange(
            "row_delta",
            [second, data_file(table, [{"id": 9, "region": "us"}])],
            removed_delete_files=frozenset({first.file_path}),
        ),
    )
    summary = snapshot_summary(table)
    assert (summary["operation"], summary["removed-position-delete-files"], summary["total-position-deletes"]) == (
        "overwrite", "1", "2",
    )  # fmt: skip
    check_totals(table)
    assert table_ids(table) == [2, 9]


def test_an_overwrite_that_takes_nothing_is_an_append(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    commit_snapshot(table, None, SnapshotChange("overwrite", [data_file(table, [{"id": 1, "region": "eu"}])]))
    assert snapshot_summary(table)["operation"] == "append"


def test_the_snapshot_has_its_place_in_the_metadata(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    ids = [append_files(table, data_file(table, [{"id": index, "region": "eu"}])) for index in range(3)]
    metadata = reload_table(table).metadata
    assert [s.snapshot_id for s in metadata.snapshots] == ids
    assert [s.parent_snapshot_id for s in metadata.snapshots] == [None, *ids[:2]]
    assert [s.sequence_number for s in metadata.snapshots] == [1, 2, 3]
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == ids
    times = [s.timestamp_ms for s in metadata.snapshots]
    assert times == sorted(set(times))
    assert metadata.refs["main"].snapshot_id == metadata.current_snapshot_id == ids[-1]
    assert {s.schema_id for s in metadata.snapshots} == {metadata.current_schema_id}
    header, _ = read_avro(table, current_snapshot(table).manifest_list)
    names = ("snapshot-id", "parent-snapshot-id", "sequence-number", "format-version")
    assert [header[name] for name in names] == [str(ids[2]), str(ids[1]), "3", "2"]


def test_time_does_not_run_back(tmp_path: Path) -> None:
    """A writer whose clock was ahead does not make the next snapshot the older one."""
    table = new_table(tmp_path)
    append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    ahead = current_snapshot(table).model_copy(update={"timestamp_ms": 4_102_444_800_000})
    table.metadata = table.metadata.model_copy(update={"snapshots": [ahead], "last_updated_ms": ahead.timestamp_ms})
    commit_change(table, SnapshotChange("append", [data_file(table, [{"id": 2, "region": "eu"}])]))
    assert reload_table(table).metadata.snapshots[-1].timestamp_ms == ahead.timestamp_ms + 1


def test_retention_settings_of_main_are_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    first = append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    table.manage_snapshots().create_branch(first, "main", min_snapshots_to_keep=7, max_snapshot_age_ms=1000).commit()
    append_files(table, data_file(table, [{"id": 2, "region": "eu"}]))
    main = reload_table(table).metadata.refs["main"]
    assert (main.min_snapshots_to_keep, main.max_snapshot_age_ms) == (7, 1000)


def test_properties_and_the_engine_are_in_the_summary(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    append_files(
        table,
        data_file(table, [{"id": 1, "region": "eu"}]),
        summary_properties={"job": "nightly", "total-records": "99"},
    )
    summary = snapshot_summary(table)
    assert (summary["job"], summary["engine-name"], summary["total-records"]) == ("nightly", "partita", "1")


def test_totals_are_counted_where_the_parent_does_not_say_them(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}])
    append_files(table, file)
    bare = current_snapshot(table).model_copy(update={"summary": None})
    table.metadata = table.metadata.model_copy(update={"snapshots": [bare]})
    commit_change(table, SnapshotChange("row_delta", [delete_file(table, {file.file_path: [0]}, file)]))
    check_totals(table)
    assert snapshot_summary(table)["total-records"] == "2"


@pytest.mark.parametrize("base", [None, "first"])
def test_nothing_to_do_commits_nothing(tmp_path: Path, base: str | None) -> None:
    table = new_table(tmp_path)
    first = append_files(table, data_file(table, [{"id": 1, "region": "eu"}])) if base else None
    before = table.metadata_location
    assert commit_snapshot(table, first, SnapshotChange("delete")) == (first if base else -1)
    assert reload_table(table).metadata_location == before


def test_a_transaction_is_committed_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    done = append_files(table, data_file(table, [{"id": 1, "region": "eu"}]), transaction=("job", 4))
    assert table.properties["partita.transaction.job"] == "4"
    append_files(table, data_file(table, [{"id": 2, "region": "eu"}]))
    before = metadata_files(table)
    assert append_files(table, data_file(table, [{"id": 1, "region": "eu"}]), transaction=("job", 4)) == done
    assert append_files(table, data_file(table, [{"id": 1, "region": "eu"}]), transaction=("job", 3)) == head(table)
    assert metadata_files(table) == before
    append_files(table, data_file(table, [{"id": 3, "region": "eu"}]), transaction=("job", 5))
    append_files(table, data_file(table, [{"id": 4, "region": "eu"}]), transaction=("other", 1))
    append_files(table, transaction=("empty", 1))
    assert reload_table(table).properties["partita.transaction.empty"] == "1"
    assert table_ids(table) == [1, 2, 3, 4]


def test_version_1_upgraded_to_2(tmp_path: Path) -> None:
    """Files of both versions side by side: numbers of the old ones are 0, and deletes find them."""
    table = new_table(tmp_path, version=1)
    evolve_spec(table, drop=["region"], add=[bucket("id", 4)])
    old = [
        data_file(table, [{"id": index, "region": "eu"}, {"id": index + 10, "region": "eu"}], 0) for index in range(2)
    ]
    append_files(table, *old)
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    new = data_file(table, [{"id": 5, "region": "eu"}])
    assert list(new.partition._data) == [None, 3]
    append_files(table, new)
    deletes = delete_file(table, {old[0].file_path: [1]}, old[0])
    commit_change(table, SnapshotChange("row_delta", [deletes]))
    commit_change(table, SnapshotChange("delete", removed_data_files=frozenset({old[1].file_path})))
    assert table_ids(table) == [0, 5]
    entries = {e["data_file"]["file_path"]: e for e in manifest_entries(table)}
    assert (entries[old[0].file_path]["status"], entries[old[0].file_path]["sequence_number"]) == (0, 0)
    assert entries[old[1].file_path]["sequence_number"] == 0
    check_totals(table)


def test_a_manifest_that_can_not_be_written(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    metadata = Path(table.location().removeprefix("file://"), "metadata")
    metadata.rename(metadata.with_name("kept"))
    metadata.write_text("in the way")
    with pytest.raises(StorageError, match=r"can't read or write the metadata of db\.t"):
        append_files(table, file)


@pytest.mark.slow(reason="many commits to a table")
def test_a_table_that_is_behind_its_base(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    behind = reload_table(table)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    base = append_files(table, file)
    commit_snapshot(behind, base, SnapshotChange("delete", removed_data_files=frozenset({file.file_path})))
    assert table_ids(table) == []
