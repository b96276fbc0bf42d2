"""Conflicts: what concurrent commits did, and whether it matters to a change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.types import LongType, StringType

from partita.algebra.partition_functions import bucket
from partita.errors import CommitConflict
from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.maintenance import expire_snapshots
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    check_totals,
    data_file,
    delete_file,
    live_files,
    manifest_entries,
    metadata_files,
    new_table,
    referenced_metadata_files,
    reload_table,
    table_ids,
    with_interference,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table


class World:
    """A table of two specs with two files of two rows in each, and a second writer that commits first."""

    def __init__(self, folder: Path) -> None:
        self.table = new_table(folder)
        evolve_spec(self.table, add=[bucket("id", 1)])
        self.files = [
            data_file(
                self.table, [{"id": 10 * index, "region": "eu"}, {"id": 10 * index + 1, "region": "eu"}], index % 2
            )
            for index in range(4)
        ]
        self.base = append_files(self.table, *self.files)

    def paths(self, *file_indices: int) -> frozenset[str]:
        return frozenset(self.files[index].file_path for index in file_indices)

    def new(self, row_id: int, spec_id: int = 1) -> DataFile:
        return data_file(self.table, [{"id": row_id, "region": "eu"}], spec_id)

    def deletes(self, file_index: int, *positions: int) -> DataFile:
        return delete_file(self.table, {self.files[file_index].file_path: positions}, self.files[file_index])

    def many_deletes(self, *file_indices: int) -> DataFile:
        """Return one position-delete file for the first rows of several data files of one partition."""
        return delete_file(
            self.table, {self.files[index].file_path: [0] for index in file_indices}, self.files[file_indices[0]]
        )

    def commit_after(self, other: SnapshotChange | Callable[[], object], ours: SnapshotChange) -> int:
        """Commit a change made from the base right after another writer has committed its own."""
        act = (
            (lambda: commit_snapshot(reload_table(self.table), self.base, other))
            if isinstance(other, SnapshotChange)
            else other
        )
        return commit_snapshot(with_interference(self.table, before=[act]), self.base, ours)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refuses(world: World, other: SnapshotChange | Callable[[], object], ours: SnapshotChange, reason: str) -> None:
    """Check that the change is a conflict that names the reason, and leaves no files behind."""
    with pytest.raises(CommitConflict, match=reason) as caught:
        world.commit_after(other, ours)
    assert caught.value.operation == ours.operation
    assert metadata_files(world.table) == referenced_metadata_files(world.table)
    check_totals(world.table)


def test_two_appends(world: World) -> None:
    world.commit_after(SnapshotChange("append", [world.new(50, 0)]), SnapshotChange("append", [world.new(60)]))
    assert table_ids(world.table) == [0, 1, 10, 11, 20, 21, 30, 31, 50, 60]


@pytest.mark.parametrize("operation", ["delete", "overwrite", "replace"])
def test_a_file_that_both_take_away(world: World, operation: str) -> None:
    added = [] if operation == "delete" else [world.new(60)]
    ours = SnapshotChange(operation, added, world.paths(0, 1))
    refuses(
        world,
        SnapshotChange("delete", removed_data_files=world.paths(1)),
        ours,
        "removed a file that this change needs",
    )
    assert table_ids(world.table) == [0, 1, 20, 21, 30, 31]


def test_deletes_of_a_file_that_was_taken_away(world: World) -> None:
    ours = SnapshotChange("row_delta", [world.deletes(0, 0)])
    refuses(
        world,
        SnapshotChange("delete", removed_data_files=world.paths(0)),
        ours,
        "removed a file that this change needs",
    )


def test_deletes_of_a_file_that_was_compacted(world: World) -> None:
    compacted = data_file(world.table, [{"id": index, "region": "eu"} for index in (0, 1, 20, 21)], 1)
    ours = SnapshotChange("row_delta", [world.deletes(0, 0)])
    refuses(
        world, SnapshotChange("replace", [compacted], world.paths(0, 2)), ours, "removed a file that this change needs"
    )
    assert table_ids(world.table) == [0, 1, 10, 11, 20, 21, 30, 31]


@pytest.mark.slow(reason="many commits to a table")
def test_files_of_others_go_side_by_side(world: World) -> None:
    world.commit_after(
        SnapshotChange("overwrite", [world.new(50)], world.paths(0)),
        SnapshotChange("overwrite", [world.new(60, 0)], world.paths(1, 2)),
    )
    assert table_ids(world.table) == [30, 31, 50, 60]
    check_totals(world.table)


@pytest.mark.parametrize("operation", ["overwrite", "replace"])
@pytest.mark.parametrize("scope", ["one", "several"])
def test_a_delete_of_another_is_never_undone(world: World, operation: str, scope: str) -> None:
    """The change replaces the rows of a file that another writer has deleted rows of."""
    theirs = [world.deletes(0, 1)] if scope == "one" else [world.many_deletes(0, 2)]
    other = SnapshotChange(
        "row_delta", theirs, referenced_data_files=world.paths(*((0,) if scope == "one" else (0, 2)))
    )
    rewritten = data_file(world.table, [{"id": 0, "region": "eu"}, {"id": 1, "region": "eu"}], 0)
    refuses(
        world,
        other,
        SnapshotChange(operation, [rewritten], world.paths(0)),
        "deleted rows of a file that this change rewrites",
    )


def test_an_update_of_rows_that_another_deleted(world: World) -> None:
    ours = SnapshotChange("row_delta", [world.deletes(0, 1), world.new(60)])
    refuses(
        world,
        SnapshotChange("row_delta", [world.deletes(0, 1)]),
        ours,
        "deleted rows of a file that this change rewrites",
    )


def test_deletes_of_other_files_of_the_partition(world: World) -> None:
    world.commit_after(
        SnapshotChange("row_delta", [world.deletes(2, 0)]), SnapshotChange("overwrite", [world.new(60)], world.paths(0))
    )
    assert table_ids(world.table) == [10, 11, 21, 30, 31, 60]


def test_the_same_values_under_another_spec_are_no_conflict(world: World) -> None:
    """A delete file of several files names none; its spec and partition say which it can't mean."""
    several = delete_file(world.table, {"a": [0], world.files[1].file_path: [0], "z": [0]}, world.files[1])
    other = SnapshotChange("row_delta", [several], referenced_data_files=world.paths(1))
    world.commit_after(other, SnapshotChange("overwrite", [world.new(60)], world.paths(0)))
    assert table_ids(world.table) == [11, 20, 21, 30, 31, 60]


def test_a_file_that_goes_whole_may_have_deletes(world: World) -> None:
    """Its rows are gone either way; deletes of nothing but it go with it."""
    world.commit_after(
        SnapshotChange("row_delta", [world.deletes(0, 1)]), SnapshotChange("delete", removed_data_files=world.paths(0))
    )
    assert table_ids(world.table) == [10, 11, 20, 21, 30, 31]
    assert [e["status"] for e in manifest_entries(world.table, content=1)] == [2]
    check_totals(world.table)


def test_two_deletes_of_one_file_add_up(world: World) -> None:
    world.commit_after(
        SnapshotChange("row_delta", [world.deletes(0, 0)]), SnapshotChange("row_delta", [world.deletes(0, 1)])
    )
    assert table_ids(world.table) == [10, 11, 20, 21, 30, 31]
    check_totals(world.table)


@pytest.mark.slow(reason="many commits to a table")
def test_both_take_the_place_of_the_same_older_deletes(world: World) -> None:
    """Each new delete file holds what the older one said, so neither loses it."""
    older = world.deletes(0, 0)
    world.base = commit_snapshot(world.table, world.base, SnapshotChange("row_delta", [older, world.deletes(2, 0)]))
    removed = frozenset({older.file_path})
    theirs = SnapshotChange("row_delta", [world.deletes(0, 0, 1)], removed_delete_files=removed)
    ours = SnapshotChange("row_delta", [world.deletes(0, 0)], removed_delete_files=removed)
    world.commit_after(theirs, ours)
    assert table_ids(world.table) == [10, 11, 21, 30, 31]
    assert older.file_path not in {path for path, _, _ in live_files(world.table)}
    check_totals(world.table)


def test_equality_deletes_of_another_engine(world: World) -> None:
    """Compacted rows would be newer than the delete, and come back."""
    equality = world.deletes(0, 0)
    equality[0] = DataFileContent.EQUALITY_DELETES
    equality[14] = [1]
    rewritten = data_file(world.table, [{"id": 0, "region": "eu"}, {"id": 1, "region": "eu"}], 0)
    refuses(
        world,
        lambda: commit_as_others(reload_table(world.table), equality),
        SnapshotChange("replace", [rewritten], world.paths(0)),
        "deleted rows of a file that this change rewrites",
    )


def test_an_equality_delete_of_a_spec_of_void_fields_is_of_all_partitions(tmp_path: Path) -> None:
    table = new_table(tmp_path, version=1)
    old = data_file(table, [{"id": 0, "region": "eu"}, {"id": 1, "region": "eu"}], 0)
    append_files(table, old)
    evolve_spec(table, drop=[field.name for field in table.spec().fields])
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    nowhere = data_file(table, [{"id": 0, "region": "eu"}], table.spec().spec_id)
    equality = delete_file(table, {old.file_path: [0]}, nowhere)
    equality[0] = DataFileContent.EQUALITY_DELETES
    equality[14] = [1]
    base = table.metadata.current_snapshot_id
    rewritten = data_file(table, [{"id": 0, "region": "eu"}, {"id": 1, "region": "eu"}], 0)
    ours = SnapshotChange("replace", [rewritten], frozenset({old.file_path}))
    with pytest.raises(CommitConflict, match="deleted rows of a file that this change rewrites"):
        commit_snapshot(
            with_interference(table, before=[lambda: commit_as_others(reload_table(table), equality)]), base, ours
        )


def commit_as_others(table: Table, file: DataFile) -> None:
    """Commit an equality-delete file, which Partita itself doesn't write."""
    from partita.formats.iceberg.commit import _SnapshotCommit

    _SnapshotCommit(
        table,
        table.metadata.current_snapshot_id,
        SnapshotChange("overwrite", [file], referenced_data_files=frozenset()),
    ).run()


class Reads:
    """A read conflict check that matches files of a region, and records the entries that it got."""

    def __init__(self, region: str) -> None:
        self.region = region
        self.asked: list[str] = []

    def __call__(self, table: Table, entries: list[ManifestEntry]) -> bool:
        self.asked += [entry.data_file.file_path for entry in entries]
        assert table.metadata.current_snapshot_id is not None
        assert all(entry.data_file.spec_id in (0, 1) for entry in entries)
        return any(entry.data_file.partition[0] == self.region for entry in entries)


def us_file(world: World) -> DataFile:
    return data_file(world.table, [{"id": 70, "region": "us"}], 0)


def test_rows_added_to_what_was_read(world: World) -> None:
    new = us_file(world)
    reads = Reads("us")
    ours = SnapshotChange("delete", removed_data_files=world.paths(0), read_conflict_check=reads)
    refuses(world, SnapshotChange("append", [new]), ours, "added rows that match what this operation read")
    assert reads.asked == [new.file_path]


def test_rows_added_elsewhere(world: World) -> None:
    world.commit_after(
        SnapshotChange("append", [us_file(world)]),
        SnapshotChange("delete", removed_data_files=world.paths(0), read_conflict_check=Reads("eu")),
    )
    assert table_ids(world.table) == [10, 11, 20, 21, 30, 31, 70]


def test_rows_that_were_moved_are_not_new(world: World) -> None:
    compacted = data_file(world.table, [{"id": index, "region": "eu"} for index in (1, 21, 0, 20)], 1)
    world.commit_after(
        SnapshotChange("replace", [compacted], world.paths(0, 2)),
        SnapshotChange("delete", removed_data_files=world.paths(1), read_conflict_check=Reads("eu")),
    )
    assert table_ids(world.table) == [0, 1, 20, 21, 30, 31]


@pytest.mark.parametrize("taken", ["file", "rows"])
def test_rows_taken_from_what_a_merge_read(world: World, taken: str) -> None:
    """A merge that saw a row, and so inserted none, would have inserted one after the other's delete."""
    theirs = (
        SnapshotChange("delete", removed_data_files=world.paths(2))
        if taken == "file"
        else SnapshotChange("row_delta", [world.deletes(2, 0)])
    )
    ours = SnapshotChange("row_delta", [world.deletes(0, 0), world.new(60)], read_conflict_check=Reads("eu"))
    refuses(world, theirs, ours, "removed rows that match what this operation read")


def test_a_delete_does_not_mind_what_others_take(world: World) -> None:
    world.commit_after(
        SnapshotChange("delete", removed_data_files=world.paths(2)),
        SnapshotChange("row_delta", [world.deletes(0, 0)], read_conflict_check=Reads("eu")),
    )
    assert table_ids(world.table) == [1, 10, 11, 30, 31]


def test_all_commits_since_are_looked_at(world: World) -> None:
    """What the base was made from lies several commits back, and manifests were merged since."""
    with world.table.transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "2"})
    base = world.base
    first = us_file(world)
    for file in (first, world.new(50), world.new(51), world.new(52, 0)):
        append_files(world.table, file)
    reads = Reads("us")
    with pytest.raises(CommitConflict, match="added rows that match what this operation read") as caught:
        commit_snapshot(
            world.table, base, SnapshotChange("delete", removed_data_files=world.paths(0), read_conflict_check=reads)
        )
    assert caught.value.version == world.table.metadata.snapshots[1].snapshot_id
    assert reads.asked == [first.file_path]


def test_a_table_that_was_rolled_back(world: World) -> None:
    later = append_files(world.table, world.new(50))

    def roll_back() -> None:
        reload_table(world.table).manage_snapshots().rollback_to_snapshot(world.base).commit()

    ours = with_interference(world.table, before=[roll_back])
    with pytest.raises(CommitConflict, match="rolled the table back"):
        commit_snapshot(ours, later, SnapshotChange("delete", removed_data_files=world.paths(0)))
    append_files(ours, world.new(60))
    assert table_ids(world.table) == [0, 1, 10, 11, 20, 21, 30, 31, 60]


def test_a_base_that_was_expired(world: World) -> None:
    from datetime import UTC, datetime

    for index in range(2):
        append_files(world.table, world.new(50 + index))
    expire_snapshots(world.table, datetime.now(UTC), 1)
    with pytest.raises(CommitConflict, match="expired the snapshot that this change is based on"):
        commit_snapshot(world.table, world.base, SnapshotChange("delete", removed_data_files=world.paths(0)))


def change_schema(table: Table, change: Callable[[Any], Any]) -> Callable[[], None]:
    def act() -> None:
        with reload_table(table).update_schema() as update:
            change(update)

    return act


def test_a_column_that_another_drops(world: World) -> None:
    drop = change_schema(world.table, lambda update: update.delete_column("amount"))
    refuses(world, drop, SnapshotChange("append", [world.new(60)]), "dropped column 'amount'")
    assert table_ids(world.table) == [0, 1, 10, 11, 20, 21, 30, 31]


def test_a_file_that_does_not_have_the_dropped_column(world: World) -> None:
    file = world.new(60)
    file[6], file[7] = {1: 10, 2: 10}, {1: 1, 2: 1}
    world.commit_after(
        change_schema(world.table, lambda update: update.delete_column("amount")), SnapshotChange("append", [file])
    )
    assert table_ids(world.table)[-1] == 60


def test_deletes_do_not_mind_a_dropped_column(world: World) -> None:
    drop = change_schema(world.table, lambda update: update.delete_column("amount"))
    world.commit_after(drop, SnapshotChange("row_delta", [world.deletes(0, 0)]))
    assert table_ids(world.table) == [1, 10, 11, 20, 21, 30, 31]


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize("change", [
    lambda update: update.add_column("note", StringType()),
    lambda update: update.rename_column("amount", "price"),
    lambda update: update.move_first("amount"),
])  # fmt: skip
def test_other_changes_of_the_schema(world: World, change: Callable[[Any], Any]) -> None:
    world.commit_after(change_schema(world.table, change), SnapshotChange("append", [world.new(60)]))
    assert table_ids(world.table)[-1] == 60


def test_a_promoted_column(tmp_path: Path) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IntegerType, NestedField

    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", IntegerType()))
    from tests.formats.iceberg.snapshot_tables import partition_spec

    table = new_table(tmp_path, schema, partition_spec((2, "identity", "p")))
    file = data_file(table, [{"id": 1, "p": 5}])
    append_files(
        with_interference(table, before=[change_schema(table, lambda u: u.update_column("p", LongType()))]), file
    )
    assert [values for _, _, values in live_files(table)] == [(5,)]
    assert table_ids(table) == [1]


def test_a_concurrent_evolution(world: World) -> None:
    def evolve_away() -> None:
        evolve_spec(reload_table(world.table), drop=["region", "id_bucket"])

    world.commit_after(evolve_away, SnapshotChange("row_delta", [world.deletes(0, 0), world.new(60, 0)]))
    fresh = reload_table(world.table)
    assert fresh.metadata.default_spec_id == 2
    assert {spec_id for _, spec_id, _ in live_files(world.table)} == {0, 1}
    assert table_ids(world.table) == [1, 10, 11, 20, 21, 30, 31, 60]


@pytest.mark.slow(reason="many commits to a table")
def test_repeated_retries(world: World) -> None:
    """Five get ahead, of all kinds; ours lands on top of all."""

    def evolve_and_append() -> None:
        evolve_spec(reload_table(world.table), drop=["region"])
        append_files(reload_table(world.table), world.new(51))

    acts: list[Callable[[], object]] = [
        lambda: append_files(reload_table(world.table), world.new(50)),
        evolve_and_append,
        lambda: commit_snapshot(
            reload_table(world.table), world.base, SnapshotChange("row_delta", [world.deletes(0, 0)])
        ),
        lambda: commit_snapshot(
            reload_table(world.table), world.base, SnapshotChange("delete", removed_data_files=world.paths(1))
        ),
        change_schema(world.table, lambda update: update.add_column("note", StringType())),
    ]
    ours = with_interference(world.table, before=acts)
    changes = SnapshotChange("row_delta", [world.deletes(2, 0), world.new(60, 0)])
    snapshot_id = commit_snapshot(ours, world.base, replace(changes, referenced_data_files=world.paths(2)))
    assert snapshot_id == reload_table(world.table).metadata.current_snapshot_id
    assert table_ids(world.table) == [1, 21, 30, 31, 50, 51, 60]
    assert metadata_files(world.table) == referenced_metadata_files(world.table)
    check_totals(world.table)
