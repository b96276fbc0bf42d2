"""Committing: kinds of snapshots, their place in the metadata, transactions, lost races and lost answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from partita.algebra.functions import bucket
from partita.errors import StorageError
from partita.formats.iceberg.transaction import Changes, commit, evolve, history
from tests.formats.iceberg.transaction.tables import (
    again,
    append,
    avro,
    change,
    check_totals,
    data_file,
    delete_file,
    entries_of,
    ids_of,
    live_files,
    manifest_list,
    metadata_files,
    new_table,
    snapshot_of,
    summary_of,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


def head(table: Table) -> int | None:
    return table.metadata.current_snapshot_id


@pytest.mark.parametrize("version", [1, 2])
def test_each_kind_of_snapshot(tmp_path: Path, version: int) -> None:
    """Two specs, rows that stay in both, and totals that are right after each."""
    table = new_table(tmp_path, version=version)
    evolve(table, add=[bucket("id", 4)])
    files = [data_file(table, [{"id": at, "region": "eu", "amount": at}], at % 2) for at in range(6)]
    append(table, *files)
    assert summary_of(table)["operation"] == "append"
    check_totals(table)

    change(table, Changes("delete", removed=frozenset({files[0].file_path, files[1].file_path})))
    told = summary_of(table)
    names = ("operation", "deleted-data-files", "deleted-records", "changed-partition-count")
    assert [told[name] for name in names] == ["delete", "2", "2", "2"]
    check_totals(table)

    new = data_file(table, [{"id": 22, "region": "eu", "amount": 1}])
    change(table, Changes("overwrite", [new], frozenset({files[2].file_path})))
    assert summary_of(table)["operation"] == "overwrite"
    check_totals(table)

    same = data_file(table, [{"id": 3, "region": "eu", "amount": 3}, {"id": 22, "region": "eu", "amount": 1}], 0)
    change(table, Changes("replace", [same], frozenset({files[3].file_path, new.file_path})))
    told = summary_of(table)
    assert (told["operation"], told["added-records"], told["deleted-records"]) == ("replace", "2", "2")
    check_totals(table)

    assert ids_of(table) == [3, 4, 5, 22]
    assert {spec_id for _, spec_id, _ in live_files(table)} == {0, 1}
    assert all(m["added_snapshot_id"] for m in manifest_list(table))
    assert history(table)["operation"].to_pylist() == ["replace", "overwrite", "delete", "append"]


def test_row_deltas_are_deletes_or_overwrites(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": at, "region": "eu"} for at in range(3)])
    append(table, file)
    first = delete_file(table, {file.file_path: [0]}, file)
    change(table, Changes("row_delta", [first]))
    told = summary_of(table)
    assert (told["operation"], told["added-position-deletes"], told["added-delete-files"]) == ("delete", "1", "1")
    check_totals(table)
    # New deletes take the place of older ones.
    second = delete_file(table, {file.file_path: [0, 1]}, file)
    change(
        table,
        Changes(
            "row_delta",
            [second, data_file(table, [{"id": 9, "region": "us"}])],
            removed_deletes=frozenset({first.file_path}),
        ),
    )
    told = summary_of(table)
    assert (told["operation"], told["removed-position-delete-files"], told["total-position-deletes"]) == (
        "overwrite", "1", "2",
    )  # fmt: skip
    check_totals(table)
    assert ids_of(table) == [2, 9]


def test_an_overwrite_that_takes_nothing_is_an_append(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    commit(table, None, Changes("overwrite", [data_file(table, [{"id": 1, "region": "eu"}])]))
    assert summary_of(table)["operation"] == "append"


def test_the_snapshot_has_its_place_in_the_metadata(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    ids = [append(table, data_file(table, [{"id": at, "region": "eu"}])) for at in range(3)]
    metadata = again(table).metadata
    assert [s.snapshot_id for s in metadata.snapshots] == ids
    assert [s.parent_snapshot_id for s in metadata.snapshots] == [None, *ids[:2]]
    assert [s.sequence_number for s in metadata.snapshots] == [1, 2, 3]
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == ids
    times = [s.timestamp_ms for s in metadata.snapshots]
    assert times == sorted(set(times))
    assert metadata.refs["main"].snapshot_id == metadata.current_snapshot_id == ids[-1]
    assert {s.schema_id for s in metadata.snapshots} == {metadata.current_schema_id}
    header, _ = avro(table, snapshot_of(table).manifest_list)
    names = ("snapshot-id", "parent-snapshot-id", "sequence-number", "format-version")
    assert [header[name] for name in names] == [str(ids[2]), str(ids[1]), "3", "2"]


def test_time_does_not_run_back(tmp_path: Path) -> None:
    """A writer whose clock was ahead does not make the next snapshot the older one."""
    table = new_table(tmp_path)
    append(table, data_file(table, [{"id": 1, "region": "eu"}]))
    ahead = snapshot_of(table).model_copy(update={"timestamp_ms": 4_102_444_800_000})
    table.metadata = table.metadata.model_copy(update={"snapshots": [ahead], "last_updated_ms": ahead.timestamp_ms})
    change(table, Changes("append", [data_file(table, [{"id": 2, "region": "eu"}])]))
    assert again(table).metadata.snapshots[-1].timestamp_ms == ahead.timestamp_ms + 1


def test_what_main_keeps_is_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    first = append(table, data_file(table, [{"id": 1, "region": "eu"}]))
    table.manage_snapshots().create_branch(first, "main", min_snapshots_to_keep=7, max_snapshot_age_ms=1000).commit()
    append(table, data_file(table, [{"id": 2, "region": "eu"}]))
    main = again(table).metadata.refs["main"]
    assert (main.min_snapshots_to_keep, main.max_snapshot_age_ms) == (7, 1000)


def test_properties_and_the_engine_are_in_the_summary(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    append(table, data_file(table, [{"id": 1, "region": "eu"}]), properties={"job": "nightly", "total-records": "99"})
    told = summary_of(table)
    assert (told["job"], told["engine-name"], told["total-records"]) == ("nightly", "partita", "1")


def test_totals_are_counted_where_the_parent_does_not_say_them(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}])
    append(table, file)
    bare = snapshot_of(table).model_copy(update={"summary": None})
    table.metadata = table.metadata.model_copy(update={"snapshots": [bare]})
    change(table, Changes("row_delta", [delete_file(table, {file.file_path: [0]}, file)]))
    check_totals(table)
    assert summary_of(table)["total-records"] == "2"


@pytest.mark.parametrize("base", [None, "first"])
def test_nothing_to_do_commits_nothing(tmp_path: Path, base: str | None) -> None:
    table = new_table(tmp_path)
    first = append(table, data_file(table, [{"id": 1, "region": "eu"}])) if base else None
    before = table.metadata_location
    assert commit(table, first, Changes("delete")) == (first if base else -1)
    assert again(table).metadata_location == before


def test_a_transaction_is_committed_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    done = append(table, data_file(table, [{"id": 1, "region": "eu"}]), transaction=("job", 4))
    assert table.properties["partita.transaction.job"] == "4"
    append(table, data_file(table, [{"id": 2, "region": "eu"}]))
    before = metadata_files(table)
    assert append(table, data_file(table, [{"id": 1, "region": "eu"}]), transaction=("job", 4)) == done
    assert append(table, data_file(table, [{"id": 1, "region": "eu"}]), transaction=("job", 3)) == head(table)
    assert metadata_files(table) == before
    append(table, data_file(table, [{"id": 3, "region": "eu"}]), transaction=("job", 5))
    append(table, data_file(table, [{"id": 4, "region": "eu"}]), transaction=("other", 1))
    append(table, transaction=("empty", 1))
    assert again(table).properties["partita.transaction.empty"] == "1"
    assert ids_of(table) == [1, 2, 3, 4]


def test_version_1_upgraded_to_2(tmp_path: Path) -> None:
    """Files of both versions side by side: numbers of the old ones are 0, and deletes find them."""
    table = new_table(tmp_path, version=1)
    evolve(table, drop=["region"], add=[bucket("id", 4)])
    old = [data_file(table, [{"id": at, "region": "eu"}, {"id": at + 10, "region": "eu"}], 0) for at in range(2)]
    append(table, *old)
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    new = data_file(table, [{"id": 5, "region": "eu"}])
    assert list(new.partition._data) == [None, 3]
    append(table, new)
    deletes = delete_file(table, {old[0].file_path: [1]}, old[0])
    change(table, Changes("row_delta", [deletes]))
    change(table, Changes("delete", removed=frozenset({old[1].file_path})))
    assert ids_of(table) == [0, 5]
    found = {e["data_file"]["file_path"]: e for e in entries_of(table)}
    assert (found[old[0].file_path]["status"], found[old[0].file_path]["sequence_number"]) == (0, 0)
    assert found[old[1].file_path]["sequence_number"] == 0
    check_totals(table)


def test_a_manifest_that_can_not_be_written(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    metadata = Path(table.location().removeprefix("file://"), "metadata")
    metadata.rename(metadata.with_name("kept"))
    metadata.write_text("in the way")
    with pytest.raises(StorageError, match=r"can't read or write the metadata of db\.t"):
        append(table, file)


def test_a_table_that_is_behind_its_base(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    behind = again(table)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    base = append(table, file)
    commit(behind, base, Changes("delete", removed=frozenset({file.file_path})))
    assert ids_of(table) == []
