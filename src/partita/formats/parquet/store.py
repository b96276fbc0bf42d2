"""A plain folder of Parquet files."""

from __future__ import annotations

from partita.formats.change_feed import ChangeFeed
from partita.formats.containment import DeletedFiles
from partita.formats.parquet.change_feed import read_change_feed
from partita.formats.parquet.format import PARQUET
from partita.formats.parquet.maintenance import remove_orphan_files
from partita.formats.parquet.state import ParquetTableVersion, load_table_version
from partita.formats.store import TableStore
from partita.storage import Storage


class ParquetTableStore(TableStore):
    """The Parquet files in a folder."""

    format = PARQUET

    def __init__(self, storage: Storage) -> None:
        self.uri = storage.uri
        self.storage = storage

    def current_version(self) -> ParquetTableVersion:
        """List the folder; raises `TableMissing` if it has no files and no definition."""
        return load_table_version(self.storage)

    def change_feed(self, after: str | None) -> ChangeFeed:
        """Return the partitions whose files differ from those at a cursor."""
        return read_change_feed(self.current_version(), after)

    def remove_orphan_files(self, older_than: float) -> DeletedFiles:
        """Delete staged files that no commit will publish."""
        return remove_orphan_files(self.storage, older_than)
