"""The status table: a Delta table of folded rows, and the tail of the ledger that it doesn't hold yet.

A fold overwrites the table and records the ledger version that it has reached as a Delta transaction, in one commit. Of
two concurrent folds the second fails on the first one's transaction and starts again from it. The commit also stores
digests of the paths of the ledger's files at that version, because the ledger's log forgets old versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from partita.status.delta_tables import (
    TableLocation,
    create_files_view,
    create_or_open_table,
    data_files_of,
    maintain_table,
    open_table,
    translate_delta_errors,
)
from partita.status.duckdb_engine import create_table, create_view, fetch_rows
from partita.status.duckdb_sql import Sql, any_of, name, names, sql
from partita.status.events import PARTITION_EVENT_KINDS
from partita.status.fold import fold_sql, merge_sql, number_rows_sql
from partita.status.ledger import Ledger, LedgerFiles, path_digest, workspace_condition
from partita.status.relations import (
    ALL_STATUS_ROWS,
    LATER_KEYS,
    MERGED_ROWS,
    NUMBERED_ROWS,
    PAST_EVENTS,
    PAST_ROWS,
    STATUS_ROWS,
    STORED_ROWS,
    TAIL_EVENTS,
    TAIL_ROWS,
)
from partita.status.schema import KEY_COLUMNS, status_column_names, status_duckdb_types, status_schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable

_LAST_CHANGE_COLUMNS = ("last_attempt_at", "last_start_at", "wiped_at")
"""The times of the last event of a partition; a materialization is an attempt."""
_FOLD_METADATA_KEY = "partita.reached"
_COMMITS_SEARCHED = 4
"""How many commits are searched for that of a fold: a compaction and another fold may have come after it."""


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """The status table at a version: its files, and the version of the ledger that it has reached.

    `table` is what a fold that starts from here writes to, None where there is no table. `ledger_file_digests` are
    those of the ledger's files at that version, None where they are unknown.
    """

    table: DeltaTable | None
    data_files: Mapping[str, str]
    ledger_version: int | None
    ledger_file_digests: frozenset[str] | None = None


class StatusTable:
    """The folded rows of one workspace."""

    def __init__(self, location: TableLocation, ledger: Ledger) -> None:
        self.location = location
        self.ledger = ledger

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self.location.uri

    def open_stored_status(self, files: LedgerFiles, *, create: bool = False) -> StoredStatus:
        """Return what is folded of a ledger; rows of an earlier ledger in its place don't count."""
        table = open_table(self.location)
        if table is None and create and files.table_id is not None:
            table = create_or_open_table(self.location, status_schema(), [])
        if table is None or files.table_id is None:
            return StoredStatus(table, {}, None)
        version = table.transaction_version(application_id(files))
        # An earlier version of Partita wrote fewer columns: everything is folded again.
        if version is None or not _has_all_columns(table):
            return StoredStatus(table, {}, None)
        digests = None if version == files.version else _ledger_file_digests(table, application_id(files), version)
        return StoredStatus(table, data_files_of(table), version, digests)

    def create_status_rows(
        self,
        connection: duckdb.DuckDBPyConnection,
        files: LedgerFiles,
        stored_status: StoredStatus,
        now: datetime | None = None,
    ) -> None:
        """Create `ALL_STATUS_ROWS` from the stored rows and the tail, and `STATUS_ROWS`: the same as of `now`."""
        is_workspace = workspace_condition(self.ledger.tenant, self.ledger.workspace)
        stored_files = stored_status.data_files
        create_files_view(connection, STORED_ROWS, self.location, stored_files, status_duckdb_types(), is_workspace)
        has_tail = self._create_tail_rows(connection, files, stored_status)
        if has_tail:
            _merge_tail_rows(connection)
        else:
            create_view(connection, ALL_STATUS_ROWS, _select_columns(STORED_ROWS))
        if now is not None and _has_later_events(connection, now, has_tail=has_tail):
            self._create_rows_as_of(connection, files, now)
        else:
            create_view(connection, STATUS_ROWS, sql("SELECT * FROM {rows}", rows=ALL_STATUS_ROWS))

    def write_rows(self, stored_status: StoredStatus, rows: pa.Table, files: LedgerFiles) -> None:
        """Replace the table's rows by those of a fold that started from `stored` and reached these ledger files.

        Raises deltalake's CommitFailedError where another fold committed first.
        """
        from deltalake import CommitProperties, Transaction, write_deltalake

        assert stored_status.table is not None  # noqa: S101 - a fold creates it
        table = stored_status.table
        fold_metadata = {
            "by": application_id(files),
            "version": files.version,
            "marks": sorted(map(path_digest, files.data_files)),
        }
        properties = CommitProperties(
            app_transactions=[Transaction(application_id(files), files.version)],
            custom_metadata={_FOLD_METADATA_KEY: json.dumps(fold_metadata)},
        )
        with translate_delta_errors(self.uri):
            sorted_rows = rows.sort_by([(column, "ascending") for column in ("asset_key", "partition_key")])
            schema_mode: Any = {} if _has_all_columns(table) else {"schema_mode": "overwrite"}
            write_deltalake(table, sorted_rows, mode="overwrite", commit_properties=properties, **schema_mode)
            maintain_table(table)

    def _create_rows_as_of(self, connection: duckdb.DuckDBPyConnection, files: LedgerFiles, now: datetime) -> None:
        """Create `STATUS_ROWS`: partitions with events after `now` are folded again, from their events up to it."""
        keys = names(KEY_COLUMNS)
        is_later = any_of(sql("{column} > {now}", column=name(c), now=now) for c in _LAST_CHANGE_COLUMNS)
        create_table(
            connection,
            LATER_KEYS,
            sql("SELECT {keys} FROM {rows} WHERE {later}", keys=keys, rows=ALL_STATUS_ROWS, later=is_later),
        )
        self.ledger.create_view(connection, PAST_EVENTS, files.files_of(*PARTITION_EVENT_KINDS), until=now)
        events = sql(
            "(SELECT * FROM {events} SEMI JOIN {later} USING ({keys}))", events=PAST_EVENTS, later=LATER_KEYS, keys=keys
        )
        create_table(connection, PAST_ROWS, fold_sql(events))
        create_view(connection, STATUS_ROWS, _replace_rows_sql(ALL_STATUS_ROWS, LATER_KEYS, PAST_ROWS))

    def _create_tail_rows(
        self, connection: duckdb.DuckDBPyConnection, files: LedgerFiles, stored_status: StoredStatus
    ) -> bool:
        """Create `TAIL_ROWS` from the events that the status table doesn't hold; return False where there are none."""
        tail_files = self.ledger.files_since(files, stored_status.ledger_version, stored_status.ledger_file_digests)
        partition_files = {path: kind for path, kind in tail_files.items() if kind in PARTITION_EVENT_KINDS}
        if partition_files:
            self.ledger.create_view(connection, TAIL_EVENTS, partition_files)
            create_table(connection, TAIL_ROWS, fold_sql(TAIL_EVENTS))
        return bool(partition_files)


def _merge_tail_rows(connection: duckdb.DuckDBPyConnection) -> None:
    """Create `ALL_STATUS_ROWS`: the tail's rows merged with the stored rows of their partitions, and all others."""
    stored_and_tail = sql(
        "{stored} SEMI JOIN {tail} USING ({keys}) UNION ALL {tail_select}",
        stored=_select_columns(STORED_ROWS),
        tail=TAIL_ROWS,
        keys=names(KEY_COLUMNS),
        tail_select=_select_columns(TAIL_ROWS),
    )
    create_table(connection, NUMBERED_ROWS, number_rows_sql(stored_and_tail))
    create_table(connection, MERGED_ROWS, merge_sql(NUMBERED_ROWS))
    create_view(connection, ALL_STATUS_ROWS, _replace_rows_sql(STORED_ROWS, MERGED_ROWS, MERGED_ROWS))


def _select_columns(rows: Sql) -> Sql:
    return sql("SELECT {columns} FROM {rows}", columns=names(status_column_names()), rows=rows)


def _replace_rows_sql(rows: Sql, replaced_keys: Sql, new_rows: Sql) -> Sql:
    """Return the select of the new rows, and of those rows whose keys aren't replaced."""
    return sql(
        "{new_rows} UNION ALL {rows} ANTI JOIN {replaced_keys} USING ({keys})",
        new_rows=_select_columns(new_rows),
        rows=_select_columns(rows),
        replaced_keys=replaced_keys,
        keys=names(KEY_COLUMNS),
    )


def _has_later_events(connection: duckdb.DuckDBPyConnection, now: datetime, *, has_tail: bool) -> bool:
    relations = (STORED_ROWS, TAIL_ROWS) if has_tail else (STORED_ROWS,)
    # One query for each column: DuckDB skips files by their statistics.
    return any(
        fetch_rows(
            connection,
            sql("SELECT 1 FROM {rows} WHERE {column} > {now} LIMIT 1", rows=relation, column=name(column), now=now),
        )
        for relation in relations
        for column in _LAST_CHANGE_COLUMNS
    )


def _ledger_file_digests(table: DeltaTable, app_id: str, version: int) -> frozenset[str] | None:
    """Return the path digests that the fold to a ledger version stored in its commit; None where it isn't found."""
    from deltalake.exceptions import DeltaError

    with suppress(DeltaError, OSError):
        for commit in table.history(_COMMITS_SEARCHED):
            fold_metadata = json.loads(commit.get(_FOLD_METADATA_KEY, "{}"))
            if (fold_metadata.get("by"), fold_metadata.get("version")) == (app_id, version):
                return frozenset(fold_metadata["marks"])
    return None


def _has_all_columns(table: DeltaTable) -> bool:
    """Return whether a table has every column that this version of Partita knows."""
    return {field.name for field in table.schema().fields} >= set(status_column_names())


def application_id(files: LedgerFiles) -> str:
    """Return the Delta application id under which a fold records how far it has read a ledger."""
    return f"partita.fold/{files.table_id}"
