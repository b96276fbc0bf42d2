"""What each format does its own way: how files are named, described and committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from partita.algebra.predicate import Predicate
from partita.algebra.transforms import PartitionFunction
from partita.formats.plan import State

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.spark.rewrite import Copier
    from partita.spark.rows import DataFrame, DataType, StructType
    from partita.spark.scan import Files
    from partita.spark.write import Target


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What one operation does to a table.

    `added` are rows of `partita.spark.write.TOLD`; `removed` the places of files in the state that it was made from.
    `read` is what it looked at: nothing, as an append does, what a predicate says, or whole partitions by their typed
    values; `looked_at` are the places of the files that it found there. `transaction` is an application and
    its own number: a number that the table has seen from it is not written again.
    """

    operation: str
    added: pa.Table
    removed: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    read: Predicate | frozenset[tuple[object, ...]] | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    looked_at: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


class Store(ABC):
    """A table as its format keeps it."""

    uri: str

    @abstractmethod
    def state(self) -> State:
        """The table as it is now; what can't be read right is refused."""

    @abstractmethod
    def check_writable(self, state: State, *, removes: bool) -> None:
        """Refuse what can't be written, before anything is; `removes` where rows go or change."""

    @abstractmethod
    def seen(self, state: State, transaction: tuple[str, int]) -> bool:
        """Whether that number of an application, or a later one, is a part of the table already."""

    @abstractmethod
    def commit(self, state: State, change: Change) -> int:
        """Make the change a part of the table in one step, and return the version; a lost race is a `Conflict`."""

    @abstractmethod
    def history(self) -> pa.Table:
        """The versions of the table, newest first."""

    @abstractmethod
    def evolve(
        self,
        *,
        add: Sequence[PartitionFunction | str],
        drop: Sequence[PartitionFunction | str],
        rename: Mapping[str, str],
    ) -> None:
        """Partition what is written from now on another way."""

    @abstractmethod
    def clean(self, older_than: float) -> list[str]:
        """Remove files that no version of the table has ever had, older than so many seconds; their paths."""

    @abstractmethod
    def told_partitions(self, state: State, told: pa.Table) -> frozenset[tuple[object, ...]]:
        """The partitions that executors told of, as `partita.formats.plan.identities` of the state has them."""

    # On Spark.

    @abstractmethod
    def frame_schema(self, state: State) -> StructType:
        """The table's columns as Spark has them."""

    @abstractmethod
    def conform(self, state: State, rows: DataFrame) -> DataFrame:
        """Rows of others as the table's, with generated columns filled and all its rules applied."""

    @abstractmethod
    def regenerate(self, state: State, rows: DataFrame) -> DataFrame:
        """The table's own rows after a change: generated columns made anew, and all rules applied.

        Where there are no rules and nothing is generated, the rows may have some of the columns alone.
        """

    @abstractmethod
    def has_rules(self, state: State) -> bool:
        """Whether the table has rules that look at more than one column."""

    @abstractmethod
    def derived(self, state: State, changed: set[str]) -> set[str]:
        """The columns that change when these do: they, and what is generated."""

    @abstractmethod
    def generated(self, state: State) -> frozenset[str]:
        """The columns that the table makes from others."""

    @abstractmethod
    def stored(self, state: State, rows: DataFrame) -> DataFrame:
        """The table's rows as files hold them, the texts of the partition first."""

    @abstractmethod
    def stored_columns(self, state: State) -> Sequence[tuple[str, str, DataType]]:
        """For each column that files hold: its name, its name there, and its type with the names there."""

    @abstractmethod
    def partition_columns(self, state: State) -> tuple[str, ...]:
        """The columns that rows are sorted into files by."""

    @abstractmethod
    def files(self, state: State, places: np.ndarray) -> Files:
        """Some of the files, for a scan."""

    @abstractmethod
    def target(self, state: State, time_zone: str) -> Target:
        """Where new files go."""

    @abstractmethod
    def copier(self, state: State, places: np.ndarray, time_zone: str) -> Copier:
        """How some of the files are copied."""
