"""A Delta table in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.formats.change_feed import ChangeFeed
from partita.formats.containment import DeletedFiles
from partita.formats.delta.change_feed import read_change_feed
from partita.formats.delta.format import DELTA
from partita.formats.delta.log import DeltaLog, DeltaSnapshot, check_readable
from partita.formats.delta.maintenance import remove_orphan_files
from partita.formats.delta.state import DeltaTableVersion, table_version_from
from partita.formats.store import TableStore
from partita.storage import Storage
from partita.untrusted_input import translate_read_errors

if TYPE_CHECKING:
    import pyarrow as pa


class DeltaTableStore(TableStore):
    """The Delta table in a folder."""

    format = DELTA

    def __init__(self, storage: Storage) -> None:
        self.uri = storage.uri
        self.storage = storage
        self.log = DeltaLog(storage)
        self._cached_version: DeltaTableVersion | None = None

    def current_version(self) -> DeltaTableVersion:
        """Return the newest version; raises `UnsupportedFeature` for deletion vectors and unknown features."""
        snapshot = self.log.snapshot(previous=None if self._cached_version is None else self._cached_version.snapshot)
        if self._cached_version is None or snapshot is not self._cached_version.snapshot:
            self._cached_version = self._version_from_snapshot(snapshot)
        return self._cached_version

    def _version_from_snapshot(self, snapshot: DeltaSnapshot) -> DeltaTableVersion:
        check_readable(snapshot.protocol, snapshot.metadata, snapshot.files)
        return table_version_from(self.storage, snapshot, snapshot.files)

    def history(self) -> pa.Table:
        """Return the `commitInfo` of each commit, newest first."""
        return self.log.history()

    def change_feed(self, after: str | None) -> ChangeFeed:
        """Return the commits of the log after a cursor."""
        with translate_read_errors(f"the Delta log of {self.uri}"):
            return read_change_feed(self.log, self._version_from_snapshot, self.current_version, after)

    def remove_orphan_files(self, older_than: float) -> DeletedFiles:
        """Delete files that no commit names and that have names which writers of Delta tables give."""
        return remove_orphan_files(self.log, older_than)
