"""Expired snapshots, and the files that only they reached."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate, SetStatisticsUpdate

from partita.algebra.partition_functions import bucket
from partita.errors import TableError
from partita.formats.iceberg.maintenance import expire_snapshots
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    commit_change,
    data_file,
    delete_file,
    live_files,
    metadata_files,
    new_table,
    referenced_metadata_files,
    reload_table,
    table_ids,
    with_interference,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


def head(table: Table) -> int:
    snapshot_id = table.metadata.current_snapshot_id
    assert snapshot_id is not None
    return snapshot_id


def on_disk(table: Table) -> set[str]:
    return {f"file://{path}" for path in Path(table.location().removeprefix("file://"), "data").iterdir()}


def now() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=1)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Five snapshots over two specs: two appends, a row delta, an overwrite of the first file, a delete of a third."""
    created = new_table(tmp_path)
    evolve_spec(created, add=[bucket("id", 4)])
    first, second, third = (
        data_file(created, [{"id": 10 * index, "region": "eu"}, {"id": 10 * index + 1, "region": "eu"}], index % 2)
        for index in range(3)
    )
    append_files(created, first, second)
    append_files(created, third)
    deletes = delete_file(created, {first.file_path: [0]}, first)
    commit_change(created, SnapshotChange("row_delta", [deletes]))
    new = data_file(created, [{"id": 5, "region": "eu"}])
    commit_change(created, SnapshotChange("overwrite", [new], frozenset({first.file_path})))
    commit_change(created, SnapshotChange("delete", removed_data_files=frozenset({third.file_path})))
    return created


def test_only_what_nothing_reaches_goes(table: Table) -> None:
    before = table_ids(table)
    removed = expire_snapshots(table, now(), 1)
    assert table_ids(table) == before == [5, 10, 11]
    assert on_disk(table) == {path for path, _, _ in live_files(table)}
    assert metadata_files(table) == referenced_metadata_files(table)
    assert len([path for path in removed if path.endswith(".parquet")]) == 3
    assert len(reload_table(table).metadata.snapshots) == 1
    assert expire_snapshots(table, now(), 1) == []


@pytest.mark.slow(reason="many snapshots of a table")
@pytest.mark.parametrize("retained", [2, 3, 4, 5, 9])
def test_the_last_ones_stay_readable(table: Table, retained: int) -> None:
    reads = {snapshot.snapshot_id: read_at(table, snapshot.snapshot_id) for snapshot in table.metadata.snapshots}
    expire_snapshots(table, now(), retained)
    retained_ids = [snapshot.snapshot_id for snapshot in reload_table(table).metadata.snapshots]
    assert retained_ids == list(reads)[-retained:]
    assert {each: read_at(table, each) for each in retained_ids} == {each: reads[each] for each in retained_ids}
    assert metadata_files(table) == referenced_metadata_files(table)


def read_at(table: Table, snapshot_id: int) -> list[int]:
    return sorted(reload_table(table).scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


def test_recent_snapshots_are_kept(table: Table) -> None:
    assert expire_snapshots(table, datetime.now(UTC) - timedelta(hours=1), 1) == []
    assert expire_snapshots(table) == []
    third = table.metadata.snapshots[2]
    expire_snapshots(table, datetime.fromtimestamp(third.timestamp_ms / 1000, UTC))
    assert reload_table(table).metadata.snapshots[0].snapshot_id == third.snapshot_id


def test_properties_of_the_table_set_count_and_age(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties(
            {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "3"}
        )
    time.sleep(0.01)
    expire_snapshots(table)
    assert len(reload_table(table).metadata.snapshots) == 3


@pytest.mark.slow(reason="many commits to a table")
def test_tags_and_branches_keep_what_they_reach(table: Table) -> None:
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    table.manage_snapshots().create_tag(ids[1], "audit").create_branch(ids[2], "work", min_snapshots_to_keep=2).commit()
    reads = {each: read_at(table, each) for each in ids}
    expire_snapshots(table, now(), 1)
    retained_ids = [snapshot.snapshot_id for snapshot in reload_table(table).metadata.snapshots]
    assert retained_ids == [ids[1], ids[2], ids[4]]
    assert {each: read_at(table, each) for each in retained_ids} == {each: reads[each] for each in retained_ids}


def test_a_tag_keeps_one_snapshot_however_many_branches_keep(table: Table) -> None:
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().create_tag(ids[1], "audit").commit()
    expire_snapshots(table, now(), 3)
    assert [s.snapshot_id for s in reload_table(table).metadata.snapshots] == ids[1:]


def test_refs_that_are_too_old_go(table: Table) -> None:
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().create_tag(ids[0], "old", max_ref_age_ms=1).create_tag(ids[1], "kept").commit()
    time.sleep(0.01)
    expire_snapshots(table, now(), 1)
    fresh = reload_table(table).metadata
    assert set(fresh.refs) == {"main", "kept"}
    assert [s.snapshot_id for s in fresh.snapshots] == [ids[1], ids[4]]


def test_old_snapshots_that_no_ref_reaches_are_expired(table: Table) -> None:
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().rollback_to_snapshot(ids[1]).commit()
    expire_snapshots(table, datetime.now(UTC) - timedelta(hours=1), 1)
    assert len(reload_table(table).metadata.snapshots) == 5
    expire_snapshots(table, now(), 5)
    assert [s.snapshot_id for s in reload_table(table).metadata.snapshots] == ids[:2]
    assert table_ids(table) == [0, 1, 10, 11, 20, 21]


def test_statistics_of_what_went_go(table: Table) -> None:
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    folder = Path(table.location().removeprefix("file://"), "metadata")
    for name in ("a.stats", "b.stats", "c.stats", "d.stats"):
        (folder / name).write_text("x")
    index = f"file://{folder}"

    def statistics_file_json(snapshot_id: int, name: str) -> dict[str, Any]:
        return {"snapshot-id": snapshot_id, "statistics-path": f"{index}/{name}", "file-size-in-bytes": 1}

    more = {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    whole = [
        StatisticsFile.model_validate({**statistics_file_json(*each), **more})
        for each in ((ids[0], "a.stats"), (ids[4], "b.stats"))
    ]
    parts = [
        PartitionStatisticsFile.model_validate(statistics_file_json(*each))
        for each in ((ids[0], "c.stats"), (ids[4], "d.stats"))
    ]
    updates = [SetStatisticsUpdate.model_validate({"statistics": each}) for each in whole]
    more_updates = [SetPartitionStatisticsUpdate.model_validate({"partition-statistics": each}) for each in parts]
    table.catalog.commit_table(table, (), (*updates, *more_updates))
    table.refresh()
    removed = expire_snapshots(table, now(), 1)
    assert {Path(path).name for path in removed if path.endswith(".stats")} == {"a.stats", "c.stats"}
    assert {path.name for path in folder.glob("*.stats")} == {"b.stats", "d.stats"}
    fresh = reload_table(table).metadata
    assert [s.snapshot_id for s in (*fresh.statistics, *fresh.partition_statistics)] == [ids[4], ids[4]]


def test_a_commit_in_between_is_kept(table: Table) -> None:
    ours = with_interference(
        table, before=[lambda: append_files(reload_table(table), data_file(table, [{"id": 99, "region": "eu"}]))]
    )
    expire_snapshots(ours, now(), 1)
    assert table_ids(table) == [5, 10, 11, 99]
    assert len(reload_table(table).metadata.snapshots) == 1
    assert metadata_files(table) == referenced_metadata_files(table)


def test_shared_files_are_not_deleted(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    with pytest.raises(TableError, match="enabled is false"):
        expire_snapshots(table, now(), 1)


@pytest.mark.parametrize(("older_than", "retained", "match"), [
    (datetime(2025, 1, 1), 1, "older_than needs a time zone"),  # noqa: DTZ001
    (None, 0, "retain_last can't be 0"),
])  # fmt: skip
def test_refused_expiry(table: Table, older_than: datetime | None, retained: int, match: str) -> None:
    with pytest.raises(TableError, match=match):
        expire_snapshots(table, older_than, retained)
