"""A Lance table in a folder."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from partita.errors import StorageError
from partita.formats.change_feed import ChangeFeed
from partita.formats.containment import DeletedFiles
from partita.formats.lance.format import LANCE
from partita.formats.lance.log import EMPTY_LOG_SNAPSHOT, LanceLog
from partita.formats.lance.namespace import read_namespace_tree
from partita.formats.lance.state import LanceTableVersion, table_version_from
from partita.formats.store import TableStore
from partita.storage import Storage
from partita.untrusted_input import translate_read_errors


class LanceTableStore(TableStore):
    """The Lance table in a folder."""

    format = LANCE

    def __init__(self, storage: Storage) -> None:
        self.uri = storage.uri
        self.storage = storage
        self.log = LanceLog(storage)
        self._log_snapshot = EMPTY_LOG_SNAPSHOT

    @classmethod
    def open_and_recover(cls, storage: Storage) -> Self:
        """Open the table in a folder, and finish a write that a killed process left unfinished."""
        store = cls(storage)
        store.recover_unfinished_write()
        return store

    def current_version(self) -> LanceTableVersion:
        """Return the table after the last finished write."""
        # The log is read first: a leaf is registered before the write that creates it is finished.
        log_snapshot, unfinished_write = self.log.read_latest(self._log_snapshot)
        with translate_read_errors(f"the Lance table at {self.uri}"):
            table_version = table_version_from(
                read_namespace_tree(self.storage), self.log, log_snapshot, unfinished_write
            )
        self._log_snapshot = log_snapshot
        return table_version

    def recover_unfinished_write(self) -> None:
        """Finish a write that a killed process left unfinished; leave it if the storage can't be written."""
        _, unfinished_write = self.log.read_latest(self._log_snapshot)
        if unfinished_write is not None:
            try:
                self.current_version().committer().finish_write(unfinished_write, wait=False)
            except StorageError:
                return

    def history(self) -> pa.Table:
        """Return the writes of the log, newest first."""
        rows = [
            {"version": outcome.number, "timestamp": outcome.at * 1000,
             "operation": outcome.operation if outcome.is_finished else f"{outcome.operation} (undone)",
             "parameters": list(outcome.parameters.items()), "metrics": list(outcome.metrics.items()),
             "leaves": len(outcome.leaves)}
            for outcome in self.log.write_outcomes()
        ]  # fmt: skip
        with translate_read_errors(f"the log of the Lance table at {self.uri}"):
            return pa.Table.from_pylist(rows, _HISTORY_SCHEMA)

    def change_feed(self, after: str | None) -> ChangeFeed:
        """Return what finished writes did, and what other writers committed to leaves."""
        from partita.formats.lance.change_feed import change_feed

        with translate_read_errors(f"the log of the Lance table at {self.uri}"):
            return change_feed(self, after)

    def remove_orphan_files(self, older_than: float) -> DeletedFiles:
        """Delete files that no version of a leaf has, and leaf versions older than that many seconds."""
        from partita.formats.lance.maintenance import remove_orphan_files

        return remove_orphan_files(self, older_than)


_HISTORY_SCHEMA = pa.schema([
    ("version", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("operation", pa.string()),
    ("parameters", pa.map_(pa.string(), pa.string())), ("metrics", pa.map_(pa.string(), pa.int64())),
    ("leaves", pa.int64()),
])  # fmt: skip
