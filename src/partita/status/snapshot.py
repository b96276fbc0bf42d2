"""The status table: a Delta table of folded rows, and the tail of the ledger that it doesn't hold yet.

A fold overwrites the table and records the ledger's version that it has reached as a Delta transaction, in one commit.
Of two folds at once the second fails on the first one's transaction and starts again from it. The commit keeps marks of
the ledger's files at that version too, for the ledger's log forgets old versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from partita.status.delta import Place, make_table, make_view, open_table, paths_of, tidy, translated
from partita.status.engine import instant, listed
from partita.status.events import OF_PARTITIONS
from partita.status.fold import folded, merged, numbered
from partita.status.ledger import Files, Ledger, mark, of_workspace
from partita.status.rows import KEY, row_names, row_schema, row_types

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable

ROWS = "status_rows"
"""The relation with the rows of the workspace as of all events, or as of those up to a moment."""
EVERY_ROW = "every_status_row"
"""The same as of all events."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The status table at a version: its files, and the version of the ledger that it has reached.

    `table` is what a fold that started from here writes to; None where there is no table. `marks` are those of the
    ledger's files at that version; None where they can't be found.
    """

    table: DeltaTable | None
    paths: Mapping[str, str]
    reached: int | None
    marks: frozenset[str] | None = None


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
        # An earlier version of Partita had fewer columns: what it folded is folded anew.
        if reached is None or not _is_whole(table):
            return Stored(table, {}, None)
        marks = None if reached == files.version else _marks(table, application(files), reached)
        return Stored(table, paths_of(table), reached, marks)

    def view(
        self, connection: duckdb.DuckDBPyConnection, files: Files, stored: Stored, now: datetime | None = None
    ) -> None:
        """Make `EVERY_ROW` of snapshot and tail, and `ROWS` the same as of `now`, where something came after it."""
        make_view(connection, "snapshot_stored", self.place, stored.paths, row_types())
        ours = of_workspace(self.ledger.tenant, self.ledger.workspace)
        _make(connection, "VIEW", "snapshot", f"SELECT * FROM snapshot_stored WHERE {ours}")  # noqa: S608 - our own
        has_tail = self._make_tail(connection, files, stored)
        if has_tail:
            _join_tail(connection)
        else:
            _make(connection, "VIEW", EVERY_ROW, f"SELECT {', '.join(row_names())} FROM snapshot")  # noqa: S608
        if now is not None and _is_past(connection, now, has_tail=has_tail):
            self._cut(connection, files, now)
        else:
            _make(connection, "VIEW", ROWS, f"SELECT * FROM {EVERY_ROW}")  # noqa: S608 - our own names

    def write(self, stored: Stored, rows: pa.Table, files: Files) -> None:
        """Replace the table's rows by those of a fold that started from `stored` and reached these files of the ledger.

        Raises deltalake's CommitFailedError where another fold was first.
        """
        from deltalake import CommitProperties, Transaction, write_deltalake

        assert stored.table is not None  # noqa: S101 - a fold makes it before it reads
        table = stored.table
        reached = {"by": application(files), "version": files.version, "marks": sorted(map(mark, files.paths))}
        properties = CommitProperties(
            app_transactions=[Transaction(application(files), files.version)],
            custom_metadata={_REACHED: json.dumps(reached)},
        )
        with translated(self.uri):
            ordered = rows.sort_by([(name, "ascending") for name in ("asset_key", "partition_key")])
            schema_mode: Any = {} if _is_whole(table) else {"schema_mode": "overwrite"}
            write_deltalake(table, ordered, mode="overwrite", commit_properties=properties, **schema_mode)
            tidy(table)

    def _cut(self, connection: duckdb.DuckDBPyConnection, files: Files, now: datetime) -> None:
        """Make `ROWS`: partitions to which something happened after `now` are folded anew from what came up to it."""
        keys, names = ", ".join(KEY), ", ".join(row_names())
        later = " OR ".join(f"{column} > {instant(now)}" for column in _LAST)
        _make(connection, "TABLE", "later_rows", f"SELECT {keys} FROM {EVERY_ROW} WHERE {later}")  # noqa: S608
        self.ledger.view(connection, "past", files.of(*OF_PARTITIONS))
        events = f"(SELECT * FROM past SEMI JOIN later_rows USING ({keys}) WHERE occurred_at <= {instant(now)})"  # noqa: S608
        _make(connection, "TABLE", "past_rows", folded(events))
        rest = f"SELECT {names} FROM {EVERY_ROW} ANTI JOIN later_rows USING ({keys})"  # noqa: S608 - our own names
        _make(connection, "VIEW", ROWS, f"SELECT {names} FROM past_rows UNION ALL {rest}")  # noqa: S608 - our own

    def _make_tail(self, connection: duckdb.DuckDBPyConnection, files: Files, stored: Stored) -> bool:
        """Make `tail_rows` of the events that the snapshot doesn't hold; False where there are none."""
        since = self.ledger.files_since(files, stored.reached, stored.marks)
        paths = {path: kind for path, kind in since.items() if kind in OF_PARTITIONS}
        if paths:
            self.ledger.view(connection, "tail_events", paths)
            _make(connection, "TABLE", "tail_rows", folded("tail_events"))
        return bool(paths)


def _join_tail(connection: duckdb.DuckDBPyConnection) -> None:
    """Make `EVERY_ROW` of the tail's rows merged with those of the snapshot, and the snapshot's others."""
    keys, names = ", ".join(KEY), ", ".join(row_names())
    touched = f"SELECT {names} FROM snapshot SEMI JOIN tail_rows USING ({keys}) UNION ALL SELECT {names} FROM tail_rows"  # noqa: S608
    _make(connection, "TABLE", "touched_rows", numbered(touched))
    _make(connection, "TABLE", "changed_rows", merged("touched_rows"))
    rest = f"SELECT {names} FROM snapshot ANTI JOIN changed_rows USING ({keys})"  # noqa: S608 - our own names
    _make(connection, "VIEW", EVERY_ROW, f"SELECT {names} FROM changed_rows UNION ALL {rest}")  # noqa: S608 - our own names


_LAST = ("last_attempt_at", "last_start_at", "wiped_at")
"""When something happened last to a partition; a materialization is an attempt."""


def _is_past(connection: duckdb.DuckDBPyConnection, now: datetime, *, has_tail: bool) -> bool:
    relations = ("snapshot", "tail_rows") if has_tail else ("snapshot",)
    # A question for each column: files whose statistics say no are not read.
    return any(
        listed(connection, f"SELECT 1 FROM {relation} WHERE {column} > {instant(now)} LIMIT 1")  # noqa: S608 - our own
        for relation in relations
        for column in _LAST
    )


def _make(connection: duckdb.DuckDBPyConnection, what: str, name: str, select: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP {what} {name} AS {select}")


_REACHED = "partita.reached"
_RECENT = 4
"""How many commits are looked at for a fold's: a compaction may come after it, and another fold since it was read."""


def _marks(table: DeltaTable, by: str, version: int) -> frozenset[str] | None:
    """The marks of the ledger's files that the fold to a version kept in its commit; None where that isn't found."""
    from deltalake.exceptions import DeltaError

    with suppress(DeltaError, OSError):
        for commit in table.history(_RECENT):
            kept = json.loads(commit.get(_REACHED, "{}"))
            if (kept.get("by"), kept.get("version")) == (by, version):
                return frozenset(kept["marks"])
    return None


def _is_whole(table: DeltaTable) -> bool:
    """Whether a table has every column that this version of Partita knows."""
    return {field.name for field in table.schema().fields} >= set(row_names())


def application(files: Files) -> str:
    """The name under which a fold records how far it has read in a ledger."""
    return f"partita.fold/{files.table_id}"
