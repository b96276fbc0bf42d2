"""Folding and sweeping: the status table brought up to the ledger's newest version."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.status.board import BOARD
from partita.status.delta import retried
from partita.status.engine import connect, fetch, instant, listed
from partita.status.fold import merge
from partita.status.ledger import Files, Ledger
from partita.status.query import Answering, Question
from partita.status.rows import SWEPT, row_schema
from partita.status.shown import one_line
from partita.status.snapshot import ROWS, StatusTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Folded:
    """The version of the ledger that the status table has reached, -1 without a ledger, and how many rows it has."""

    version: int
    rows: int


def fold(ledger: Ledger, table: StatusTable, folded_elsewhere: Callable[[Files], pa.Table] | None = None) -> Folded:
    """Fold what the status table doesn't hold yet. Where a fold is running already, the later one builds on it.

    `folded_elsewhere` folds all events in the files by another engine.
    """

    def once() -> Folded:
        files = ledger.files()
        if files.table_id is None:
            return Folded(-1, 0)
        stored = table.stored(files, make=True)
        with connect() as connection:
            table.view(connection, files, stored)
            if stored.reached == files.version:
                count = listed(connection, f"SELECT count(*) FROM {ROWS}")[0][0]  # noqa: S608 - our own names
                return Folded(files.version, count)
            if folded_elsewhere is None:
                rows = fetch(connection, f"SELECT * FROM {ROWS}", row_schema())  # noqa: S608 - our own names
            else:
                swept = fetch(connection, "SELECT * FROM snapshot WHERE swept_at IS NOT NULL", row_schema())
                rows = folded_elsewhere(files)
                # What a sweep found is not in the ledger.
                rows = merge(rows, swept) if swept.num_rows else rows
        table.write(stored, rows, files)
        return Folded(files.version, rows.num_rows)

    return retried("fold", once)


def sweep(ledger: Ledger, table: StatusTable, question: Question) -> Folded:
    """Fold, and store with each row since when and why it is stale now.

    Assets that can't be judged in this process keep what the last sweep found, and a warning names them.
    """

    def once() -> Folded:
        with Answering(ledger, table, question, make=True) as answer:
            if answer.files.table_id is None:
                return Folded(-1, 0)
            judged = {name: f"board.{name}" for name in SWEPT} | {"swept_at": instant(answer.now)}
            columns = [
                f"CASE WHEN staleness = 'computed' THEN {judged[name]} ELSE stored.{name} END AS {name}"
                if name in judged
                else f"board.{name}"
                for name in row_schema().names
            ]
            rows = fetch(
                answer.connection,
                f"SELECT {', '.join(columns)} FROM {BOARD} AS board "  # noqa: S608 - our own names
                f"JOIN {ROWS} AS stored USING (asset_key, partition_key)",
                row_schema(),
            )
            table.write(answer.stored, rows, answer.files)
            warn_of_unknown(answer, "staleness <> 'computed'", "it keeps what the last sweep found")
            return Folded(answer.files.version, rows.num_rows)

    return retried("sweep", once)


def warn_of_unknown(answer: Answering, condition: str, what: str) -> None:
    """Log which assets have rows that can't be judged here, what becomes of those, and why."""
    for asset, reason in answer.unjudged(condition).items():
        logging.getLogger("partita").warning("%s can't be judged, so %s: %s", one_line(asset), what, reason)
