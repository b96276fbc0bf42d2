"""The ledger and the status table: appended, folded exactly once, kept small, and read by others."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import partita as pt
from partita.lake import Lake
from partita.status.delta_tables import TableLocation, create_files_view, open_table, open_table_version
from partita.status.duckdb_engine import fetch_arrow, open_connection
from partita.status.duckdb_sql import Sql
from partita.status.events import Event, event_duckdb_types, event_schema, events_to_arrow
from partita.status.ledger import Ledger
from partita.status.schema import PARTITION_STATUS_COLUMNS, status_schema
from tests.status.histories import (
    KEY,
    event,
    events_from_arrow,
    failure_event,
    hours_after_start,
    status_rows,
    success_event,
)
from tests.vectors import load_vectors


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(TableLocation(str(tmp_path / "ledger")), "default", "default")


def events_in(ledger: Ledger) -> list[Event]:
    with open_connection() as connection:
        ledger.create_view(connection, Sql("events"), ledger.files().data_files)
        return events_from_arrow(fetch_arrow(connection, "SELECT * FROM events ORDER BY event_id", event_schema()))


def status_table_of(lake: Lake) -> Any:
    return lake._workspace.status_table


def test_one_append_takes_many_events(ledger: Ledger) -> None:
    many = [success_event(1, key=pt.PartitionKey.of(n=n)) for n in range(500)] + [failure_event(2), event("wiped", 3)]
    before = ledger.files().version
    assert ledger.append_events(many) == before + 2  # one to make the table
    assert events_in(ledger) == many
    assert ledger.append_events([]) is None


def test_unknown_kinds_are_kept(ledger: Ledger) -> None:
    strange = event("from_the_future", 1)
    ledger.append_events([strange, success_event(2)])
    assert events_in(ledger)[0] == strange


def test_events_of_another_workspace_are_refused(ledger: Ledger) -> None:
    other = Event(kind="wiped", tenant_id="else", workspace_id="default", asset_key="a", partition_key="")
    with pytest.raises(pt.StatusError, match="else/default"):
        ledger.append_events([other])


def test_a_ledger_goes_to_other_processes(ledger: Ledger) -> None:
    ledger.append_events([success_event(1)])
    pickle.loads(pickle.dumps(ledger)).append_events([success_event(2)])  # noqa: S301 - our own
    assert len(events_in(ledger)) == 2


@pytest.mark.slow(reason="hundreds of commits")
def test_small_appends_are_put_together_and_none_is_lost(ledger: Ledger) -> None:
    given = []
    for number in range(205):
        given.append(success_event(number, key=pt.PartitionKey.of(n=number)))
        ledger.append_events(given[-1:])
    files = ledger.files()
    assert len(files.data_files) < 20, "two compactions have run"
    assert events_in(ledger) == given
    log = Path(ledger.uri) / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    assert checkpoints
    assert files.version - int(checkpoints[-1].name[:20]) < 100


def test_files_since_a_version_hold_every_event_after_it(ledger: Ledger) -> None:
    ledger.append_events([success_event(1)])
    then = ledger.files()
    ledger.append_events([success_event(2)])
    now = ledger.files()
    assert len(ledger.files_since(now, then.version)) == 1
    assert ledger.files_since(now, now.version) == {}
    assert ledger.files_since(now, None) == now.data_files
    assert ledger.files_since(now, 10_000) == now.data_files, "a version that isn't there says nothing"
    table = open_table(ledger.location)
    assert table is not None
    table.optimize.compact()
    assert len(ledger.files_since(ledger.files(), now.version)) == 1, "a compacted file is read again"


def test_a_ledger_with_columns_of_a_newer_version_is_read_and_appended_to(ledger: Ledger) -> None:
    ledger.append_events([success_event(1)])
    newer = events_to_arrow([success_event(2)]).append_column("mood", pa.array(["good"]))
    write_deltalake(ledger.uri, newer, mode="append", schema_mode="merge")
    Ledger(ledger.location, "default", "default").append_events([success_event(3)])
    assert [e.occurred_at for e in events_in(ledger)] == [
        hours_after_start(1),
        hours_after_start(2),
        hours_after_start(3),
    ]


def test_events_are_read_the_same_without_duckdbs_own_reader(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append_events([success_event(1), failure_event(2), event("wiped", 3)])
    paths = ledger.files().data_files
    by_duckdb = events_in(ledger)
    monkeypatch.setattr(TableLocation, "is_local", False)
    with open_connection() as connection:
        create_files_view(connection, Sql("events"), ledger.location, paths, event_duckdb_types())
        read = fetch_arrow(connection, "SELECT * FROM events ORDER BY event_id", event_schema())
    assert events_from_arrow(read) == by_duckdb


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"occurred_at": hours_after_start(1).replace(tzinfo=None)}, "time zone"),
        ({"event_id": "nonsense"}, "ULID"),
        ({"partition_key": "date=2025-01-01"}, "canonical"),
        ({"partition_key": None}, "needs a partition_key"),
        ({"run_id": None}, "needs a run_id"),
        ({"attempt": -1}, "non-negative integer"),
        ({"rows": True}, "non-negative integer"),
        ({"asset_key": ""}, "non-empty string"),
        ({"error": "\ud800"}, "Unicode"),
    ],
)
def test_a_wrong_event_is_refused(fields: dict[str, Any], reason: str) -> None:
    right: dict[str, Any] = {
        "kind": "failed", "tenant_id": "t", "workspace_id": "w", "asset_key": "a", "partition_key": "", "run_id": "r",
        "attempt": 1,
    }  # fmt: skip
    assert Event(**right).kind == "failed"
    with pytest.raises(pt.PartitaError, match=reason):
        Event(**(right | fields))


# --- the status table


def test_the_schemas_of_ledger_and_status_table_only_ever_grow() -> None:
    golden = load_vectors("status_schema")
    for name, schema in (("ledger", event_schema()), ("status", status_schema())):
        found = [[field.name, str(field.type), field.nullable] for field in schema]
        assert found[: len(golden[name])] == golden[name], f"a column of the {name} changed; columns are only added"
        assert len(found) == len(golden[name]), f"a new column of the {name}: add it to status_schema.json"
    assert [name for name, *_ in golden["status"]][:14] == list(PARTITION_STATUS_COLUMNS)


@pytest.mark.slow(reason="several folds of a ledger")
def test_a_fold_writes_what_was_appended_and_records_how_far_it_read(lake: Lake) -> None:
    lake.record("sales", KEY, outcome="succeeded", run_id="r1", at=hours_after_start(1))
    before = status_rows(lake.status())
    done = lake.fold()
    files = lake._workspace.ledger.files()
    assert (done.ledger_version, done.row_count) == (files.version, 1)
    table = DeltaTable(status_table_of(lake).uri)
    assert table.transaction_version(f"partita.fold/{files.table_id}") == files.version
    assert table.to_pyarrow_table().num_rows == 1
    assert status_rows(lake.status()) == before
    version = table.version()
    assert lake.fold() == done
    assert DeltaTable(status_table_of(lake).uri).version() == version, "there was nothing to fold"


@pytest.mark.slow(reason="several status queries")
def test_a_reader_sees_the_snapshot_and_the_tail(lake: Lake) -> None:
    lake.record("sales", [{"n": 1}, {"n": 2}], outcome="succeeded", at=hours_after_start(1))
    lake.fold()
    lake.record("sales", {"n": 2}, outcome="failed", at=hours_after_start(2), run_id="r2")
    lake.record("sales", {"n": 3}, outcome="succeeded", at=hours_after_start(3))
    shown = [row["display_status"] for row in lake.status().to_pylist()]
    assert shown == ["MATERIALIZED", "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED", "MATERIALIZED"]
    everything = status_rows(lake.status())
    lake.fold()
    assert status_rows(lake.status()) == everything
    lake.fold()
    assert status_rows(lake.status()) == everything


def age(log: Path) -> None:
    """Let the files of a log be two hours old, so that the next checkpoint lets go of those before it."""
    for file in log.iterdir():
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 7200))


def small_appends(lake: Lake, numbers: range, run: str) -> None:
    for number in numbers:
        lake.record("sales", {"n": number}, outcome="succeeded", run_id=f"{run}{number}")


@pytest.mark.slow(reason="hundreds of commits")
def test_the_tail_stays_short_though_the_ledgers_log_has_forgotten_the_fold(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a compaction rewrites is read again; files that are large already, which these stand for, it leaves.
    monkeypatch.setattr("partita.status.delta_tables._COMPACTION_TIERS", ())
    ledger, log = lake._workspace.ledger, Path(lake._workspace.ledger.uri) / "_delta_log"
    small_appends(lake, range(30), "a")
    then, reached = ledger.files(), lake.fold().ledger_version
    small_appends(lake, range(25, 110), "b")
    age(log)
    small_appends(lake, range(110, 210), "c")
    assert open_table_version(ledger.location, reached) is None, "the log of the fold is gone"
    assert len(list(log.glob("*.json"))) < 150
    files = ledger.files()
    since = ledger.files_since(files, reached, status_table_of(lake).open_stored_status(files).ledger_file_digests)
    assert set(since) == set(files.data_files) - set(then.data_files)
    assert ledger.files_since(files, reached) == files.data_files
    everything = status_rows(lake.status())
    assert len(everything) == 210
    lake.fold()
    assert status_rows(lake.status()) == everything


@pytest.mark.slow(reason="several folds of a ledger")
def test_a_fold_without_file_digests_reads_the_log_of_the_ledger(lake: Lake) -> None:
    lake.record("sales", {"n": 1}, outcome="succeeded")
    lake.fold()
    lake.record("sales", {"n": 2}, outcome="succeeded")
    files = lake._workspace.ledger.files()
    assert len(status_table_of(lake).open_stored_status(files).ledger_file_digests) == 1
    for _ in range(5):
        DeltaTable(status_table_of(lake).uri).alter.set_table_properties({"delta.appendOnly": "false"})
    assert status_table_of(lake).open_stored_status(files).ledger_file_digests is None
    assert lake.status().num_rows == 2


@pytest.mark.slow(reason="several folds of a ledger")
def test_of_two_folds_the_later_one_builds_on_the_other(lake: Lake) -> None:
    from deltalake.exceptions import CommitFailedError

    lake.record("sales", {"n": 1}, outcome="succeeded")
    lake.fold()
    table, ledger = status_table_of(lake), lake._workspace.ledger
    files = ledger.files()
    started = table.open_stored_status(files, create=True)
    lake.record("sales", {"n": 2}, outcome="succeeded")
    lake.fold()
    with pytest.raises(CommitFailedError):
        table.write_rows(started, status_schema().empty_table(), files)
    assert lake.status().num_rows == 2
    assert DeltaTable(table.uri).to_pyarrow_table().num_rows == 2


@pytest.mark.slow(reason="several folds of a ledger")
def test_a_ledger_that_was_created_again_is_not_folded(lake: Lake, tmp_path: Path) -> None:
    import shutil

    lake.record("sales", {"n": 1}, outcome="succeeded")
    lake.fold()
    shutil.rmtree(lake._workspace.ledger.uri)
    again = Lake(lake.uri)
    again.record("sales", {"n": 2}, outcome="succeeded")
    assert [row["partition_key"] for row in again.status().to_pylist()] == ["n=i:2"]
    assert again.fold().row_count == 1


@pytest.mark.slow(reason="several status queries")
def test_a_lake_that_was_removed_and_made_again_can_be_used_by_who_had_it_open(lake: Lake) -> None:
    import shutil

    for number in range(3):
        lake.record("sales", {"n": number}, outcome="succeeded")
    shutil.rmtree(lake.uri)
    lake.record("sales", {"n": 7}, outcome="succeeded")
    assert [row["partition_key"] for row in lake.status().to_pylist()] == ["n=i:7"]


@pytest.mark.parametrize("name", ["per%20cent", "br[x]", "a^b", "a|b"])
def test_a_folder_that_deltalake_cannot_name_is_refused(name: str, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / name))
    with pytest.raises(pt.StorageError, match="rename"):
        lake.record("sales", outcome="succeeded")
    with pytest.raises(pt.StorageError, match="rename"):
        lake.status()


def test_the_names_of_tables_leave_out_where_status_is_kept(lake: Lake) -> None:
    with pytest.raises(pt.TableError, match="_partita"):
        lake.create_table("_partita.default.default.ledger", pa.schema([("a", pa.int64())]), format="delta")


FORKED = """
import multiprocessing, sys, partita
lake = partita.Lake(sys.argv[1])
lake.record("sales", outcome="succeeded")
def work(_):
    try:
        lake.record("sales", outcome="succeeded")
    except partita.StorageError as error:
        return str(error)
print(multiprocessing.get_context("fork").Pool(1).map(work, [1])[0])
"""


@pytest.mark.slow(reason="a process of its own")
def test_a_forked_process_is_refused_with_the_way_out(lake: Lake) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, lake.uri], capture_output=True, text=True, timeout=60, check=False
    )
    assert "spawn" in done.stdout, done.stderr


@pytest.mark.slow(reason="several status queries")
def test_a_sweep_stores_staleness_and_a_new_materialization_clears_it(lake: Lake) -> None:
    lake.register(pt.asset(name="orders")(print), pt.asset(name="sales", upstream=["orders"])(print))
    lake.record("sales", outcome="succeeded", at=hours_after_start(1))
    lake.record("orders", outcome="succeeded", at=hours_after_start(2))
    lake.sweep()

    def swept() -> dict[str, Any]:
        rows = {r["asset_key"]: r for r in DeltaTable(status_table_of(lake).uri).to_pyarrow_table().to_pylist()}
        return dict(rows["sales"])

    assert (swept()["stale_since"], swept()["stale_reasons"]) == (hours_after_start(2), ["UPSTREAM_CHANGED"])
    first = swept()["swept_at"]
    lake.record("sales", outcome="failed", at=hours_after_start(3))
    lake.fold()
    assert (swept()["stale_since"], swept()["swept_at"]) == (hours_after_start(2), first), (
        "a failure keeps what was found"
    )
    lake.record("sales", outcome="succeeded", at=hours_after_start(4))
    lake.fold()
    assert (swept()["stale_since"], swept()["stale_reason_code"], swept()["swept_at"]) == (None, None, None)


@pytest.mark.slow(reason="several status queries")
def test_an_export_is_the_seeds_file(lake: Lake, tmp_path: Path) -> None:
    lake.register(pt.asset(name="sales", partitions=pt.static("region", ["us", "eu"]), code_version="2")(print))
    lake.record("sales", {"region": "us"}, outcome="succeeded", code_version="1", run_id="r1", at=hours_after_start(1))
    file = tmp_path / "partition_status.parquet"
    assert lake.export_status(str(file)) == 1
    exported = pq.read_table(file)
    assert exported.column_names == list(PARTITION_STATUS_COLUMNS)
    assert exported.schema.types == [status_schema().field(name).type for name in PARTITION_STATUS_COLUMNS]
    (row,) = exported.to_pylist()
    assert (row["stale_reason_code"], row["partition_values"]) == ("CODE_CHANGED", [("region", "us")])


@pytest.mark.slow(reason="several status queries")
def test_duckdb_reads_both_tables_by_their_files(lake: Lake) -> None:
    lake.record("sales", {"n": 1}, outcome="succeeded")
    lake.fold()
    for uri in (lake._workspace.ledger.uri, status_table_of(lake).uri):
        assert duckdb.read_parquet(DeltaTable(uri).file_uris()).count("*").fetchall() == [(1,)]


# --- tenants and workspaces


@pytest.mark.slow(reason="several status queries")
def test_a_lake_opened_for_one_workspace_cannot_see_another(tmp_path: Path) -> None:
    lakes = {
        (tenant, workspace): Lake(str(tmp_path), tenant=tenant, workspace=workspace)
        for tenant in ("a", "b")
        for workspace in ("a", "b")
    }
    for (tenant, workspace), lake in lakes.items():
        lake.register(pt.asset(name=f"{tenant}-{workspace}")(print))
        lake.record("shared", outcome="succeeded", run_id=f"{tenant}/{workspace}")
    for (tenant, workspace), lake in lakes.items():
        for _ in ("from the ledger", "from the status table"):
            rows = lake.status().to_pylist()
            assert [row["asset_key"] for row in rows] == [f"{tenant}-{workspace}", "shared"]
            assert {(row["tenant_id"], row["workspace_id"]) for row in rows} == {(tenant, workspace)}
            assert [e["run_id"] for e in lake.history("shared").to_pylist()] == [f"{tenant}/{workspace}"]
            lake.fold()


@pytest.mark.slow(reason="several status queries")
def test_rows_of_another_workspace_in_the_same_table_are_not_seen(lake: Lake) -> None:
    lake.record("sales", outcome="succeeded")
    ledger = lake._workspace.ledger
    foreign = Event(kind="wiped", tenant_id="other", workspace_id="default", asset_key="theirs", partition_key="")
    ledger.append_rows(events_to_arrow([foreign]))
    assert [row["asset_key"] for row in lake.status().to_pylist()] == ["sales"]
    assert lake.fold().row_count == 1


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b"])
def test_a_workspace_has_a_name_that_a_folder_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(pt.StatusError, match="name"):
        Lake(str(tmp_path), workspace=name)


def test_no_tenant_has_the_name_of_the_folder_of_adopted_tables(tmp_path: Path) -> None:
    with pytest.raises(pt.StatusError, match="adopted"):
        Lake(str(tmp_path), tenant="adopted")
    assert Lake(str(tmp_path), workspace="adopted").tables() == []


@pytest.mark.slow(reason="several folds of a ledger")
def test_a_status_table_of_an_earlier_version_is_folded_anew(lake: Lake) -> None:
    from deltalake import write_deltalake

    lake.record("sales", {"n": 1}, outcome="succeeded")
    lake.fold()
    uri = status_table_of(lake).uri
    earlier = DeltaTable(uri).to_pyarrow_table().drop_columns(["last_materialization_started_at"])
    write_deltalake(uri, earlier, mode="overwrite", schema_mode="overwrite")
    assert lake.status().num_rows == 1
    lake.record("sales", {"n": 2}, outcome="succeeded")
    assert lake.fold().row_count == 2
    assert DeltaTable(uri).to_pyarrow_table().schema.names == status_schema().names
    assert lake.status().num_rows == 2


def test_other_clients_read_the_ledger_as_a_delta_table(lake: Lake) -> None:
    """As its files lie there, with the kind in their folders and not in them."""
    lake.register(pt.asset(name="sales", partitions=pt.static("n", [1, 2]))(print))
    lake.record("sales", [{"n": 1}, {"n": 2}], outcome="succeeded", at=hours_after_start(1), run_id="r1")
    lake.record("sales", {"n": 1}, outcome="failed", at=hours_after_start(2), run_id="r2", error="boom")
    events = DeltaTable(lake._workspace.ledger.uri).to_pyarrow_dataset()
    assert set(events.schema.names) == set(event_schema().names)
    with duckdb.connect() as connection:
        connection.register("events", events)
        found = connection.execute("SELECT kind, partition_key, run_id, error FROM events ORDER BY ALL").fetchall()
    assert found == [
        ("defined", None, None, None),
        ("failed", "n=i:1", "r2", "boom"),
        ("succeeded", "n=i:1", "r1", None),
        ("succeeded", "n=i:2", "r1", None),
    ]
