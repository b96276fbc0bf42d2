"""A table as it was after one commit: its schema, specs, files and statistics, and commits on top of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.arrow.prune import ColumnStatistics
from partita.formats.capabilities import Operation
from partita.formats.containment import absolute_paths

if TYPE_CHECKING:
    import numpy as np

    from partita.algebra.predicate import Predicate, PredicateLike, UnboundPredicate
    from partita.formats.file_plan import FilePlan
    from partita.formats.partition_selection import PartitionSelection
    from partita.formats.table_change import TableChange
    from partita.formats.table_rows import TableRows


@dataclass(frozen=True, slots=True, eq=False)
class TableVersion(ABC):
    """A table at one version.

    `files` has a row for each data file: path, spec_id, bytes. `partitions` has the same rows, with a column for each
    field of each spec, named as `SpecHistory.column_name` says, and `spec_id`. A file index is the number of a row of
    both. `statistics` returns the statistics of some columns in some files (None for all files), and `row_counts` the
    numbers of rows of some files, null where the metadata doesn't say.
    """

    version: int
    schema: Schema
    spec_history: SpecHistory
    files: pa.Table
    partitions: pa.Table
    statistics: Callable[[Sequence[str], np.ndarray | None], Mapping[str, ColumnStatistics]]
    row_counts: Callable[[np.ndarray], pa.Array]

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec of new files."""
        return self.spec_history.current

    @property
    @abstractmethod
    def uri(self) -> str:
        """The location of the table."""

    def with_all_files(self) -> Self:
        """Return this version with the files that were left out because a predicate can't match in them."""
        return self

    def with_files_for(self, read_scope: PredicateLike | UnboundPredicate | PartitionSelection) -> Self:  # noqa: ARG002 - of the interface
        """Return this version with every file that may hold rows of a predicate, or of selected partitions.

        If a partition has such a file, all files of the partition are included.
        """
        return self

    def outside_paths(self, file_indices: np.ndarray) -> pa.Array:
        """Return the paths of those files that lie outside the table's folder."""
        return absolute_paths(self.files["path"].take(pa.array(file_indices)))

    def check_writable(self, *, removes: bool) -> None:  # noqa: B027 - most formats have nothing to check
        """Raise `TableError` if the table can't be written; `removes` says that rows are deleted or updated."""

    def must_match_when_read(self, predicate: Predicate, plan: FilePlan) -> bool:  # noqa: ARG002 - of the interface
        """Return whether all rows of the planned files match, whenever the files are read."""
        return bool(plan.must_match.all())

    @abstractmethod
    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Return whether the table has that number of an application, or a later one."""

    @abstractmethod
    def commit(self, change: TableChange) -> int:
        """Commit a change on top of this version in one step, and return the new version.

        Raises `CommitConflict` if a concurrent commit contradicts the change.
        """

    @abstractmethod
    def written_partitions(self, written_files: pa.Table) -> pa.Table:
        """Return the partition of each written file, with the columns that `partitions` has for the current spec."""

    def check_selection(self, selection: PartitionSelection) -> None:  # noqa: B027 - most formats have nothing to check
        """Raise `PartitionValueError` if the format can't store one of the selected partitions."""

    @abstractmethod
    def discard_files(self, written_files: pa.Table) -> None:
        """Delete written files that no commit will reference."""

    @abstractmethod
    def rows(self, operation: Operation = Operation.READ) -> TableRows:
        """Return what reads and writes the rows of this version on Spark, for an operation."""
