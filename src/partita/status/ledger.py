"""The ledger: a Delta table of events in the lake, to which any number of writers append without a server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from partita.errors import StatusError
from partita.status.delta_tables import (
    TableLocation,
    check_location,
    create_files_view,
    create_or_open_table,
    data_files_of,
    maintain_table,
    open_table,
    open_table_version,
    retry_commit,
    translate_delta_errors,
)
from partita.status.duckdb_sql import Sql, sql
from partita.status.events import Event, event_duckdb_types, event_schema, events_to_arrow

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class LedgerFiles:
    """The data files of the ledger at a version, by path, with the event kind that each holds.

    `table_id` distinguishes the ledger from another one that was created in its place later.
    """

    table_id: str | None
    version: int
    data_files: Mapping[str, str]

    def files_of(self, *kinds: str) -> Mapping[str, str]:
        """Return the files that hold events of these kinds."""
        return {path: kind for path, kind in self.data_files.items() if kind in kinds}


class Ledger:
    """The events of one workspace. A ledger can be pickled; each process opens the table itself."""

    def __init__(self, location: TableLocation, tenant: str, workspace: str) -> None:
        self.location = location
        self.tenant = tenant
        self.workspace = workspace
        self._table: DeltaTable | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Ledger], tuple[TableLocation, str, str]]:
        return type(self), (self.location, self.tenant, self.workspace)

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self.location.uri

    def append_events(self, events: Iterable[Event]) -> int | None:
        """Append events in one commit and return its version, None where there are no events.

        Raises `StatusError` for an event of another workspace.
        """
        event_list = list(events)
        for event in event_list:
            if (event.tenant_id, event.workspace_id) != (self.tenant, self.workspace):
                raise StatusError(
                    f"an event of {event.tenant_id}/{event.workspace_id} can't go into the ledger of "
                    f"{self.tenant}/{self.workspace}"
                )
        return self.append_rows(events_to_arrow(event_list)) if event_list else None

    def append_rows(self, rows: pa.Table) -> int:
        """Append rows of events of this workspace in one commit and return its version.

        Where it is unknown whether a commit succeeded, appending the same events again is safe: each counts once.
        """
        check_location(self.location)
        with self._lock, translate_delta_errors(self.uri):
            table = retry_commit("append", lambda: self._commit_rows(rows))
            version: int = table.version()
            maintain_table(table)
            return version

    def files(self) -> LedgerFiles:
        """Return the files of the ledger at its newest version."""
        table = open_table(self.location)
        if table is None:
            return LedgerFiles(None, -1, {})
        return LedgerFiles(str(table.metadata().id), table.version(), data_files_of(table))

    def files_since(
        self, files: LedgerFiles, version: int | None, known_digests: Collection[str] | None = None
    ) -> Mapping[str, str]:
        """Return the files that were added after a version: they hold every later event, and perhaps earlier ones too.

        `known_digests` are the path digests of that version's files. Without them the log of the ledger is read, and
        where it no longer has the version, all files are returned.
        """
        if version == files.version:
            return {}
        if known_digests is not None:
            return {path: kind for path, kind in files.data_files.items() if path_digest(path) not in known_digests}
        earlier_table = None if version is None else open_table_version(self.location, version)
        if earlier_table is None:
            return files.data_files
        earlier_files = data_files_of(earlier_table)
        return {path: kind for path, kind in files.data_files.items() if path not in earlier_files}

    def create_view(
        self,
        connection: duckdb.DuckDBPyConnection,
        view: Sql,
        data_files: Mapping[str, str],
        until: datetime | None = None,
    ) -> None:
        """Create a view of this workspace's events in some data files, up to and including `until`."""
        condition = workspace_condition(self.tenant, self.workspace)
        if until is not None:
            condition = sql("{ours} AND occurred_at <= {until}", ours=condition, until=until)
        create_files_view(connection, view, self.location, data_files, event_duckdb_types(), condition)

    def _commit_rows(self, rows: pa.Table) -> DeltaTable:
        from deltalake import CommitProperties, write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        table = self._table or create_or_open_table(self.location, event_schema(), ["kind"])
        try:
            # A newer version of Partita may have added columns to the table.
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
            # The open table may have been deleted and created again.
            self._table = None
            return self._commit_rows(rows)
        self._table = table
        return table


def path_digest(path: str) -> str:
    """Return a short digest of a file's path, for lists that would be too long with paths."""
    digest = hashlib.sha256(path.encode()).digest()[:16]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def workspace_condition(tenant: str, workspace: str) -> Sql:
    """Return the condition that a row belongs to a workspace; every query has it. Spark understands it too."""
    return sql("tenant_id = {tenant} AND workspace_id = {workspace}", tenant=tenant, workspace=workspace)
