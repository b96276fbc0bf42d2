"""Bring the status table up to the ledger's newest version: folds, and sweeps that also store staleness."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.status.delta_tables import retry_commit
from partita.status.duckdb_engine import fetch_arrow, fetch_rows, open_connection
from partita.status.duckdb_sql import Sql, comma_separated, literal, name, sql
from partita.status.fold import merge_status_rows
from partita.status.ledger import Ledger, LedgerFiles
from partita.status.queries import StatusQuery, StatusReader, open_status_reader
from partita.status.relations import STATUS_ROWS, STATUS_VIEW, STORED_ROWS
from partita.status.schema import SWEEP_COLUMNS, status_column_names, status_schema
from partita.status.status_table import StatusTable
from partita.status.text import one_line

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FoldResult:
    """The ledger version that the status table has reached, -1 without a ledger, and its number of rows."""

    ledger_version: int
    row_count: int


def fold_ledger(
    ledger: Ledger, table: StatusTable, fold_files: Callable[[LedgerFiles], pa.Table] | None = None
) -> FoldResult:
    """Fold the events that the status table doesn't hold yet. Of concurrent folds the later one builds on the other.

    `fold_files` folds all events in the files by another engine.
    """

    def fold_once() -> FoldResult:
        files = ledger.files()
        if files.table_id is None:
            return FoldResult(-1, 0)
        stored_status = table.open_stored_status(files, create=True)
        with open_connection() as connection:
            table.create_status_rows(connection, files, stored_status)
            if stored_status.ledger_version == files.version:
                count = fetch_rows(connection, sql("SELECT count(*) FROM {rows}", rows=STATUS_ROWS))[0][0]
                return FoldResult(files.version, count)
            if fold_files is None:
                rows = fetch_arrow(connection, sql("SELECT * FROM {rows}", rows=STATUS_ROWS), status_schema())
            else:
                swept_sql = sql("SELECT * FROM {rows} WHERE swept_at IS NOT NULL", rows=STORED_ROWS)
                swept_rows = fetch_arrow(connection, swept_sql, status_schema())
                rows = fold_files(files)
                # What a sweep found is not in the ledger.
                rows = merge_status_rows(rows, swept_rows) if swept_rows.num_rows else rows
        table.write_rows(stored_status, rows, files)
        return FoldResult(files.version, rows.num_rows)

    return retry_commit("fold", fold_once)


def sweep_staleness(ledger: Ledger, table: StatusTable, query: StatusQuery) -> FoldResult:
    """Fold, and store with each row since when and why it is stale now.

    Assets whose staleness can't be computed in this process keep that of the last sweep; a warning names them.
    """

    def sweep_once() -> FoldResult:
        with open_status_reader(ledger, table, query, create_table=True) as reader:
            if reader.ledger_files.table_id is None:
                return FoldResult(-1, 0)
            select = sql(
                "SELECT {columns} FROM {view} AS computed JOIN {rows} AS stored USING (asset_key, partition_key)",
                columns=comma_separated(
                    _swept_column_sql(column, literal(reader.now)) for column in status_column_names()
                ),
                view=STATUS_VIEW,
                rows=STATUS_ROWS,
            )
            rows = fetch_arrow(reader.connection, select, status_schema())
            table.write_rows(reader.stored_status, rows, reader.ledger_files)
            warn_unknown_staleness(reader, Sql("staleness <> 'computed'"), "it keeps what the last sweep found")
            return FoldResult(reader.ledger_files.version, rows.num_rows)

    return retry_commit("sweep", sweep_once)


def _swept_column_sql(column: str, now: Sql) -> Sql:
    """Return a column of the rows that a sweep stores; staleness that wasn't computed stays as stored."""
    if column not in SWEEP_COLUMNS:
        return name(column, relation="computed")
    return sql(
        "CASE WHEN staleness = 'computed' THEN {computed} ELSE {stored} END AS {column}",
        computed=now if column == "swept_at" else name(column, relation="computed"),
        stored=name(column, relation="stored"),
        column=name(column),
    )


def warn_unknown_staleness(reader: StatusReader, condition: Sql, consequence: str) -> None:
    """Log for which assets with rows that meet a condition staleness can't be computed, the consequence, and why."""
    for asset, reason in reader.unknown_reasons(condition).items():
        logging.getLogger("partita").warning(
            "the staleness of %s can't be computed, so %s: %s", one_line(asset), consequence, reason
        )
