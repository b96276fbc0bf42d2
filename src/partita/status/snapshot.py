"""The status table: a Delta table of folded rows, and the tail of the ledger that it doesn't hold yet.

A fold overwrites the table and records the ledger's version that it has reached as a Delta transaction, in one commit.
Of two folds at once the second fails on the first one's transaction and starts again from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from partita.status.delta import Place, make_table, make_view, open_table, paths_of, tidy, translated
from partita.status.engine import fetch, instant
from partita.status.events import OF_PARTITIONS
from partita.status.fold import folded, merged
from partita.status.ledger import Files, Ledger, of_workspace
from partita.status.rows import KEY, row_schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable

ROWS = "status_rows"
"""The relation with the rows of the workspace as of all events, or as of those up to a moment."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The status table at a version: its files, and the version of the ledger that it has reached.

    `table` is what a fold that started from here writes to; None where there is no table.
    """

    table: DeltaTable | None
    paths: Mapping[str, str]
    reached: int | None


class StatusTable:
    """The folded rows of one workspace."""

    def __init__(self, place: Place, ledger: Ledger) -> None:
        self.place = place
        self.ledger = ledger

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self.place.uri

    def stored(self, files: Files, *, make: bool = False) -> Stored:
        """What is folded of a ledger; rows of another ledger that was here before don't count."""
        table = open_table(self.place)
        if table is None and make and files.table_id is not None:
            table = make_table(self.place, row_schema(), [])
        if table is None or files.table_id is None:
            return Stored(table, {}, None)
        reached = table.transaction_version(application(files))
        return Stored(table, {} if reached is None else paths_of(table), reached)

    def view(
        self, connection: duckdb.DuckDBPyConnection, files: Files, stored: Stored, now: datetime | None = None
    ) -> None:
        """Make `ROWS` a relation: snapshot and tail, or where some of that came after `now`, a fold up to it."""
        make_view(connection, "snapshot_stored", self.place, stored.paths, row_schema())
        ours = of_workspace(self.ledger.tenant, self.ledger.workspace)
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW snapshot AS SELECT * FROM snapshot_stored WHERE {ours}"  # noqa: S608
        )
        tail = self._tail(connection, files, stored)
        if now is not None and self._is_past(connection, tail, now):
            self.ledger.view(connection, "past", files.of(*OF_PARTITIONS))
            events = f"(SELECT * FROM past WHERE occurred_at <= {instant(now)})"  # noqa: S608 - our own names
            connection.register(ROWS, folded(connection, events))
        elif tail.num_rows == 0:
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {ROWS} AS SELECT * FROM snapshot")
        else:
            keys = ", ".join(KEY)
            connection.register("tail_rows", tail)
            touched = fetch(connection, f"SELECT * FROM snapshot SEMI JOIN tail_rows USING ({keys})", row_schema())  # noqa: S608
            connection.register("changed_rows", merged(touched, tail) if touched.num_rows else tail)
            names = ", ".join(row_schema().names)
            connection.execute(
                f"CREATE OR REPLACE TEMP VIEW {ROWS} AS SELECT {names} FROM changed_rows UNION ALL "  # noqa: S608
                f"SELECT {names} FROM snapshot ANTI JOIN changed_rows USING ({keys})"
            )

    def write(self, stored: Stored, rows: pa.Table, files: Files) -> None:
        """Replace the table's rows by those of a fold that started from `stored` and reached these files of the ledger.

        Raises deltalake's CommitFailedError where another fold was first.
        """
        from deltalake import CommitProperties, Transaction, write_deltalake

        assert stored.table is not None  # noqa: S101 - a fold makes it before it reads
        table = stored.table
        properties = CommitProperties(app_transactions=[Transaction(application(files), files.version)])
        with translated(self.uri):
            ordered = rows.sort_by([(name, "ascending") for name in ("asset_key", "partition_key")])
            write_deltalake(table, ordered, mode="overwrite", commit_properties=properties)
            tidy(table)

    def _tail(self, connection: duckdb.DuckDBPyConnection, files: Files, stored: Stored) -> pa.Table:
        since = self.ledger.files_since(files, stored.reached)
        paths = {path: kind for path, kind in since.items() if kind in OF_PARTITIONS}
        if not paths:
            return row_schema().empty_table()
        self.ledger.view(connection, "tail_events", paths)
        return folded(connection, "tail_events")

    def _is_past(self, connection: duckdb.DuckDBPyConnection, tail: pa.Table, now: datetime) -> bool:
        connection.register("tail_rows", tail)
        last = "max(greatest(last_attempt_at, last_start_at, wiped_at, last_materialization_at))"
        sql = f"SELECT {last} FROM (SELECT * FROM snapshot UNION ALL BY NAME SELECT * FROM tail_rows)"  # noqa: S608
        found = fetch(connection, f"SELECT ({sql}) > {instant(now)} AS later")["later"][0].as_py()
        return found is True


def application(files: Files) -> str:
    """The name under which a fold records how far it has read in a ledger."""
    return f"partita.fold/{files.table_id}"
