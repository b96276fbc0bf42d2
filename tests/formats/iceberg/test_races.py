"""Lost races and lost answers: one snapshot in the end, or none."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.types import StringType

from partita.algebra.partition_functions import bucket
from partita.errors import CommitConflict, PartitaError, StorageError, TableError, TableMissing
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    InterferingCatalog,
    append_files,
    check_totals,
    commit_change,
    current_snapshot,
    data_file,
    live_files,
    manifest_list,
    metadata_files,
    new_table,
    read_avro,
    referenced_metadata_files,
    reload_table,
    sqlite_catalog,
    table_ids,
    with_interference,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table


def test_a_transaction_that_another_was_first_with(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    ours = with_interference(table, before=[lambda: append_files(reload_table(table), file, transaction=("job", 1))])
    snapshot_id = append_files(ours, data_file(table, [{"id": 1, "region": "eu"}]), transaction=("job", 1))
    assert snapshot_id == reload_table(table).metadata.current_snapshot_id
    assert table_ids(table) == [1]
    assert metadata_files(table) == referenced_metadata_files(table)


@pytest.mark.slow(reason="many commits to a table")
def test_a_lost_race_writes_only_what_must_change(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    evolve_spec(table, add=[bucket("id", 4)])
    kept_file, removed_file = (data_file(table, [{"id": index, "region": "eu"}], 0) for index in (1, 2))
    append_files(table, kept_file, removed_file)
    others = [data_file(table, [{"id": index, "region": "eu"}]) for index in (11, 12, 13)]
    ours = with_interference(
        table,
        before=[lambda file=file: append_files(reload_table(table), file) for file in others],  # type: ignore[misc]
    )
    snapshot_id = commit_change(
        ours,
        SnapshotChange(
            "overwrite", [data_file(table, [{"id": 3, "region": "eu"}])], frozenset({removed_file.file_path})
        ),
    )
    assert table_ids(table) == [1, 3, 11, 12, 13]
    assert snapshot_id == reload_table(table).metadata.current_snapshot_id
    assert metadata_files(table) == referenced_metadata_files(table)
    assert len([m for m in manifest_list(table) if m["added_snapshot_id"] == snapshot_id]) == 3
    assert "-3-" in current_snapshot(reload_table(table)).manifest_list
    check_totals(table)


def test_a_retry_after_an_evolution_restamps_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])

    def meddle() -> None:
        evolve_spec(reload_table(table), drop=["region"], add=[bucket("id", 4)])
        append_files(reload_table(table), data_file(reload_table(table), [{"id": 2}]))

    append_files(with_interference(table, before=[meddle]), file)
    assert {(values, spec_id) for _, spec_id, values in live_files(table)} == {(("eu",), 0), ((0,), 1)}
    assert table_ids(table) == [1, 2]
    assert reload_table(table).metadata.default_spec_id == 1


def test_a_retry_after_an_upgrade_writes_the_new_version(tmp_path: Path) -> None:
    table = new_table(tmp_path, version=1)
    kept_file = data_file(table, [{"id": 1, "region": "eu"}])
    append_files(table, kept_file)

    def upgrade() -> None:
        other = reload_table(table)
        with other.transaction() as transaction:
            transaction.upgrade_table_version(2)
        append_files(other, data_file(table, [{"id": 2, "region": "eu"}]))

    ours = with_interference(table, before=[upgrade])
    append_files(ours, data_file(table, [{"id": 3, "region": "eu"}]))
    assert table_ids(table) == [1, 2, 3]
    headers = [
        (read_avro(table, m["manifest_path"])[0]["format-version"], m["sequence_number"]) for m in manifest_list(table)
    ]
    assert sorted(headers) == [("1", 0), ("2", 1), ("2", 2)]
    assert metadata_files(table) == referenced_metadata_files(table)


def test_retries_are_limited(tmp_path: Path) -> None:
    table = new_table(tmp_path, properties={"commit.retry.num-retries": "2"})
    others = [data_file(table, [{"id": index, "region": "eu"}]) for index in range(3)]
    ours = with_interference(
        table,
        before=[lambda file=file: append_files(reload_table(table), file) for file in others],  # type: ignore[misc]
    )
    with pytest.raises(CommitConflict, match=r"append: another writer in version \d+ was first in all of 3 attempts"):
        append_files(ours, data_file(table, [{"id": 9, "region": "eu"}]))
    assert table_ids(table) == [0, 1, 2]
    assert metadata_files(table) == referenced_metadata_files(table)


def fail(error: Exception) -> Any:
    def failing() -> NoReturn:
        raise error

    return failing


LOST = [CommitStateUnknownException("no answer"), ConnectionResetError("gone"), CommitFailedException("seen before")]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_an_answer_that_was_lost_after_the_catalog_took_it(tmp_path: Path, error: Exception) -> None:
    table = new_table(tmp_path)
    ours = with_interference(table, after=[fail(error)])
    snapshot_id = append_files(ours, data_file(table, [{"id": 1, "region": "eu"}]))
    assert [s.snapshot_id for s in reload_table(table).metadata.snapshots] == [snapshot_id]
    assert table_ids(table) == [1]
    assert metadata_files(table) == referenced_metadata_files(table)


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_an_error_on_the_way_to_the_catalog_is_tried_again(tmp_path: Path, error: Exception) -> None:
    table = new_table(tmp_path)
    ours = with_interference(table, before=[fail(error)])
    append_files(ours, data_file(table, [{"id": 1, "region": "eu"}]))
    assert table_ids(table) == [1]
    assert referenced_metadata_files(table) <= metadata_files(table)


def test_an_answer_that_was_lost_and_others_came_after(tmp_path: Path) -> None:
    table = new_table(tmp_path)

    def after() -> NoReturn:
        append_files(reload_table(table), data_file(table, [{"id": 2, "region": "eu"}]))
        raise CommitStateUnknownException("no answer")

    snapshot_id = append_files(with_interference(table, after=[after]), data_file(table, [{"id": 1, "region": "eu"}]))
    assert snapshot_id == reload_table(table).metadata.snapshots[0].snapshot_id
    assert table_ids(table) == [1, 2]


def test_nothing_is_deleted_while_the_outcome_is_unknown(tmp_path: Path) -> None:
    """The catalog takes it, then can't be reached: what the snapshot lists must not go."""
    table = new_table(tmp_path)
    ours = with_interference(table)
    catalog = ours.catalog
    assert isinstance(catalog, InterferingCatalog)

    def cut() -> NoReturn:
        catalog.is_reachable = False
        raise ConnectionResetError("gone")

    catalog.after.append(cut)
    with pytest.raises(TableError, match="the catalog did not say whether it took snapshot"):
        append_files(ours, data_file(table, [{"id": 1, "region": "eu"}]))
    assert table_ids(table) == [1]


class SlowCatalog(SqlCatalog):
    """A catalog that never answers, and keeps the requests to execute them later."""

    def commit_table(self, *request: Any) -> NoReturn:
        self.kept = [*getattr(self, "kept", []), request]
        raise CommitStateUnknownException("no answer yet")


def test_a_commit_that_lands_after_it_was_given_up(tmp_path: Path) -> None:
    """What its first try wrote is still there for it; the second one can't land any more."""
    table = new_table(tmp_path, properties={"commit.retry.num-retries": "1"})
    catalog = SlowCatalog("lake", **table.catalog.properties)
    with pytest.raises(TableError, match="the catalog did not say whether it took snapshot"):
        append_files(catalog.load_table("db.t"), data_file(table, [{"id": 1, "region": "eu"}]))
    first, second = catalog.kept
    SqlCatalog.commit_table(catalog, *first)
    with pytest.raises(CommitFailedException):
        SqlCatalog.commit_table(catalog, *second)
    assert table_ids(table) == [1]


def test_an_error_that_will_not_pass_leaves_its_files(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with pytest.raises(TableError, match="did not say whether it took snapshot"):
        append_files(
            with_interference(table, before=[fail(ValueError("broken"))]), data_file(table, [{"id": 1, "region": "eu"}])
        )
    assert reload_table(table).metadata.snapshots == []
    assert len(metadata_files(table)) == 2


def test_a_table_that_was_dropped(tmp_path: Path) -> None:
    """Nobody can say any more whether ours was in it, so its files stay."""
    table = new_table(tmp_path)
    ours = with_interference(
        table, before=[lambda: (table.catalog.drop_table("db.t"), fail(CommitFailedException("gone"))())]
    )
    with pytest.raises(TableMissing):
        append_files(ours, data_file(table, [{"id": 1, "region": "eu"}]))
    assert len(metadata_files(table)) == 2


def test_a_failure_that_could_not_be_looked_into(tmp_path: Path) -> None:
    """A catalog that says no to a request that it had taken before, and then can't be reached."""
    table = new_table(tmp_path)
    ours = with_interference(table)
    catalog = ours.catalog
    assert isinstance(catalog, InterferingCatalog)

    def cut() -> NoReturn:
        catalog.is_reachable = False
        raise CommitFailedException("taken before")

    catalog.after.append(cut)
    with pytest.raises(StorageError, match="no way to the catalog"):
        append_files(ours, data_file(table, [{"id": 1, "region": "eu"}]))
    assert table_ids(table) == [1]


def test_a_table_that_was_dropped_and_created_again(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])

    def anew() -> None:
        table.catalog.drop_table("db.t")
        new_table(tmp_path)

    with pytest.raises(TableError, match="dropped and created again"):
        append_files(with_interference(table, before=[anew]), file)
    assert reload_table(table).metadata.snapshots == []


WRITERS = 2


COMMITS = 15


WRITER = """
import sys
from pathlib import Path
from tests.formats.iceberg.snapshot_tables import append_files, sqlite_catalog, data_file
table = sqlite_catalog(Path(sys.argv[1])).load_table("db.t")
for at in range(int(sys.argv[3])):
    append_files(table, data_file(table, [{"id": 1000 * int(sys.argv[2]) + at, "region": f"r{at % 3}"}]))
"""


@pytest.mark.slow(reason="many commits at the same time")
def test_two_processes_all_land(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    root = str(Path(__file__).parents[3])
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(writer), str(COMMITS)], cwd=root)
        for writer in range(WRITERS)
    ]
    assert [each.wait(timeout=300) for each in running] == [0] * WRITERS
    check_all_landed(table)


@pytest.mark.slow(reason="many commits at the same time")
def test_two_threads_all_land(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    failed: list[PartitaError] = []

    def write(writer: int) -> None:
        mine = sqlite_catalog(tmp_path).load_table("db.t")
        try:
            for index in range(COMMITS):
                append_files(mine, data_file(mine, [{"id": 1000 * writer + index, "region": f"r{index % 3}"}]))
        except PartitaError as error:
            failed.append(error)

    running = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert failed == []
    check_all_landed(table)


def check_all_landed(table: Table) -> None:
    assert table_ids(table) == sorted(1000 * writer + index for writer in range(WRITERS) for index in range(COMMITS))
    metadata = reload_table(table).metadata
    assert len(metadata.snapshots) == WRITERS * COMMITS
    assert [s.sequence_number for s in metadata.snapshots] == list(range(1, WRITERS * COMMITS + 1))
    parents = [s.parent_snapshot_id for s in metadata.snapshots]
    assert parents == [None, *(s.snapshot_id for s in metadata.snapshots[:-1])]
    assert metadata_files(table) == referenced_metadata_files(table)
    check_totals(table)


def test_a_column_that_another_adds(tmp_path: Path) -> None:
    """A column that another adds meanwhile is no conflict; the snapshot says the schema that was there."""
    table = new_table(tmp_path)

    def add_column() -> None:
        with reload_table(table).update_schema() as update:
            update.add_column("note", StringType())

    append_files(with_interference(table, before=[add_column]), data_file(table, [{"id": 1, "region": "eu"}]))
    fresh = reload_table(table)
    assert current_snapshot(fresh).schema_id == fresh.metadata.current_schema_id == 1
    assert table_ids(table) == [1]
