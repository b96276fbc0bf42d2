"""One table of a format: its current version, its history, and the operations that need no version."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from partita.formats.capabilities import Operation
from partita.formats.containment import DeletedFiles

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.predicate import PredicateLike, UnboundPredicate
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.change_feed import ChangeFeed
    from partita.formats.format import TableFormat
    from partita.formats.table_version import TableVersion


class TableStore(ABC):
    """A table as its format stores it."""

    uri: str
    format: ClassVar[TableFormat]

    @abstractmethod
    def current_version(self) -> TableVersion:
        """Return the current version; raises `UnsupportedFeature` if it can't be read correctly."""

    def current_version_without_files(self) -> TableVersion:
        """Return the current version, possibly without files; `TableVersion.with_files_for` adds those needed."""
        return self.current_version()

    def current_version_for(self, where: PredicateLike | UnboundPredicate | None) -> TableVersion:  # noqa: ARG002 - of the interface
        """Return the current version for planning; files in which the predicate can't match may be left out."""
        return self.current_version()

    def history(self) -> pa.Table:
        """Return the versions of the table, newest first."""
        raise self.format.unsupported_operation(Operation.HISTORY)

    @abstractmethod
    def change_feed(self, after: str | None) -> ChangeFeed:
        """Return what commits did to the table's data after a cursor, or from the start."""

    def spec_times(self) -> Mapping[int, datetime]:
        """Return since when the table has had each spec, by spec id; empty if the format doesn't record it."""
        return {}

    def evolve(
        self,
        *,
        add: Sequence[PartitionFunction | str],  # noqa: ARG002 - of the interface
        drop: Sequence[PartitionFunction | str],  # noqa: ARG002 - of the interface
        rename: Mapping[str, str],  # noqa: ARG002 - of the interface
    ) -> None:
        """Change the partition spec of new files; raise `UnsupportedOperation` if the format declares a gap."""
        raise self.format.unsupported_operation(Operation.EVOLVE)

    @abstractmethod
    def remove_orphan_files(self, older_than: float) -> DeletedFiles:
        """Delete files older than that many seconds that no version of the table references."""

    def expire_versions(self, older_than: float | None, retain_last: int | None) -> DeletedFiles:  # noqa: ARG002 - of the interface
        """Expire versions older than that many seconds except the last few, and delete the files only they have."""
        raise self.format.unsupported_operation(Operation.EXPIRE_SNAPSHOTS)
