"""An Iceberg table of a catalog."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.transforms import PartitionFunction
from partita.formats.change_feed import ChangeFeed
from partita.formats.containment import DeletedFiles
from partita.formats.iceberg.catalogs import reload_table, translate_catalog_errors
from partita.formats.iceberg.change_feed import read_change_feed
from partita.formats.iceberg.format import ICEBERG
from partita.formats.iceberg.history import snapshot_history, spec_times
from partita.formats.iceberg.locations import check_metadata_folder
from partita.formats.iceberg.maintenance import expire_snapshots, remove_orphan_files
from partita.formats.iceberg.spec_evolution import evolve_spec
from partita.formats.iceberg.state import (
    IcebergTableVersion,
    check_readable,
    current_table_version,
    table_version_without_files,
)
from partita.formats.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

_MAX_REUSED_FILES = 10_000
"""Up to this many files of a cached version are pruned before only the manifests that a predicate needs are read."""


class IcebergTableStore(TableStore):
    """The Iceberg table that a catalog has under a name.

    `opened_location` is the folder that the user opened or created the table in, if there is one.
    """

    format = ICEBERG

    def __init__(self, table: Table, opened_location: str | None = None) -> None:
        self.uri = table.location()
        self._table = table
        self._opened_location = opened_location
        self._cached_version: IcebergTableVersion | None = None

    def current_version(self) -> IcebergTableVersion:
        """Return the current snapshot by freshly loaded metadata: a change must not start from cached metadata."""
        with translate_catalog_errors(self.uri):
            return self._version_at(self._load_table(), None)

    def current_version_for(self, where: PredicateLike | UnboundPredicate | None) -> IcebergTableVersion:
        """Return the current snapshot; manifests that the predicate doesn't need may be left out."""
        with translate_catalog_errors(self.uri):
            self._table = reload_table(self._table)
            return self._version_at(self._table, where)

    def current_version_without_files(self) -> IcebergTableVersion:
        """Return the current snapshot by freshly loaded metadata, without opening any manifest."""
        with translate_catalog_errors(self.uri):
            return table_version_without_files(self._load_table(), self._opened_location)

    def _load_readable_table(self) -> Table:
        table = self._load_table()
        check_readable(table)
        return table

    def _load_table(self) -> Table:
        self._table = self._table.catalog.load_table(self._table.name())
        return self._table

    def _version_at(self, table: Table, where: PredicateLike | UnboundPredicate | None) -> IcebergTableVersion:
        version = self._cached_version
        is_current = version is not None and version.table.metadata_location == table.metadata_location
        if version is not None and is_current and (where is None or version.files.num_rows <= _MAX_REUSED_FILES):
            return version
        version = current_table_version(table, where, self._opened_location)
        if not version.is_partial:
            self._cached_version = version
        return version

    def history(self) -> pa.Table:
        """Return the snapshots, newest first."""
        with translate_catalog_errors(self.uri):
            return snapshot_history(self._load_table())

    def spec_times(self) -> Mapping[int, datetime]:
        """Return since when the table has had each spec, as far as its metadata log has it."""
        with translate_catalog_errors(self.uri):
            return spec_times(self._load_table())

    def change_feed(self, after: str | None) -> ChangeFeed:
        """Return the snapshots on the way to the current one after a cursor."""
        with translate_catalog_errors(self.uri):
            return read_change_feed(self._load_table(), after)

    def evolve(
        self,
        *,
        add: Sequence[PartitionFunction | str],
        drop: Sequence[PartitionFunction | str],
        rename: Mapping[str, str],
    ) -> None:
        """Set a new partition spec, or an earlier one again; existing files keep theirs."""
        with translate_catalog_errors(self.uri):
            table = self._load_readable_table()
        check_metadata_folder(table, self._opened_location)
        with translate_catalog_errors(self.uri):
            evolve_spec(copy.copy(table), add, drop, rename)

    def remove_orphan_files(self, older_than: float) -> DeletedFiles:
        """Delete files in the table's folders that none of its snapshots references."""
        with translate_catalog_errors(self.uri):
            return remove_orphan_files(copy.copy(self._load_readable_table()), older_than, self._opened_location)

    def expire_versions(self, older_than: float | None, retain_last: int | None) -> DeletedFiles:
        """Expire snapshots; arguments default to the table's properties."""
        before = None if older_than is None else datetime.now(UTC) - timedelta(seconds=older_than)
        with translate_catalog_errors(self.uri):
            return expire_snapshots(copy.copy(self._load_readable_table()), before, retain_last, self._opened_location)
