"""The ledger: a Delta table of events in the lake, to which any number of writers append without a server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from partita.errors import StatusError
from partita.status.delta import (
    Place,
    check_usable,
    make_table,
    make_view,
    open_table,
    open_version,
    paths_of,
    retried,
    tidy,
    translated,
)
from partita.status.events import Event, event_schema, event_types, to_arrow

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class Files:
    """The files of the ledger at a version, by path, with the kind of event that each holds.

    `table_id` tells the ledger from another that was made later in its place.
    """

    table_id: str | None
    version: int
    paths: Mapping[str, str]

    def of(self, *kinds: str) -> Mapping[str, str]:
        """Those that hold these kinds."""
        return {path: kind for path, kind in self.paths.items() if kind in kinds}


class Ledger:
    """The events of one workspace. It can be sent to other processes; each opens the table for itself."""

    def __init__(self, place: Place, tenant: str, workspace: str) -> None:
        self.place = place
        self.tenant = tenant
        self.workspace = workspace
        self._table: DeltaTable | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Ledger], tuple[Place, str, str]]:
        return type(self), (self.place, self.tenant, self.workspace)

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self.place.uri

    def append(self, events: Iterable[Event]) -> int | None:
        """Append events in one commit; returns its version, None where there were no events."""
        given = list(events)
        for event in given:
            if (event.tenant_id, event.workspace_id) != (self.tenant, self.workspace):
                raise StatusError(
                    f"an event of {event.tenant_id}/{event.workspace_id} can't go into the ledger of "
                    f"{self.tenant}/{self.workspace}"
                )
        return self.append_rows(to_arrow(given)) if given else None

    def append_rows(self, rows: pa.Table) -> int:
        """Append the rows of events in one commit. They must be whole events of this workspace; `append` makes such.

        Where it is not known whether a commit went through, appending the same events again is safe: each counts once.
        """
        check_usable(self.place)
        with self._lock, translated(self.uri):
            table = retried("append", lambda: self._appended(rows))
            version: int = table.version()
            tidy(table)
            return version

    def files(self) -> Files:
        """What the ledger consists of now."""
        table = open_table(self.place)
        if table is None:
            return Files(None, -1, {})
        return Files(str(table.metadata().id), table.version(), paths_of(table))

    def files_since(self, now: Files, version: int | None, marks: Collection[str] | None = None) -> Mapping[str, str]:
        """Those files that came after a version: they hold every event since, and perhaps some from before it.

        `marks` are those of the version's files, where they were kept; else the log says them, as far back as it goes.
        """
        if version == now.version:
            return {}
        if marks is not None:
            return {path: kind for path, kind in now.paths.items() if mark(path) not in marks}
        then = None if version is None else open_version(self.place, version)
        if then is None:
            return now.paths
        known = paths_of(then)
        return {path: kind for path, kind in now.paths.items() if path not in known}

    def view(self, connection: duckdb.DuckDBPyConnection, name: str, paths: Mapping[str, str]) -> None:
        """Make the events in some files a relation of DuckDB, with those of this workspace alone."""
        make_view(connection, f"{name}_stored", self.place, paths, event_types())
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {name}_stored "  # noqa: S608 - our own names
            f"WHERE {of_workspace(self.tenant, self.workspace)}"
        )

    def _appended(self, rows: pa.Table) -> DeltaTable:
        from deltalake import CommitProperties, write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        table = self._table or make_table(self.place, event_schema(), ["kind"])
        try:
            # A newer version of Partita may have added columns.
            options: Any = {"schema_mode": "merge"} if len(table.schema().fields) > rows.num_columns else {}
            write_deltalake(
                table, rows, mode="append", commit_properties=CommitProperties(max_commit_retries=50), **options
            )
        except CommitFailedError:
            self._table = None
            raise
        except DeltaError:
            if self._table is None:
                raise
            # The table that was open here may be gone, and another in its place.
            self._table = None
            return self._appended(rows)
        self._table = table
        return table


def mark(path: str) -> str:
    """What a file is known by where its path would be too long; files of different paths have different marks."""
    digest = hashlib.sha256(path.encode()).digest()[:16]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def of_workspace(tenant: str, workspace: str) -> str:
    """The condition that every query has."""
    from partita.status.engine import quoted

    return f"tenant_id = {quoted(tenant)} AND workspace_id = {quoted(workspace)}"
