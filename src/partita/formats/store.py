"""What each format does its own way: how files are named, described and committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.parse import Condition, Where
from partita.algebra.predicate import Predicate
from partita.algebra.spec import PartitionField
from partita.algebra.transforms import PartitionFunction
from partita.errors import TableError
from partita.formats.chosen import Chosen
from partita.formats.commits import Commits
from partita.formats.containment import Removed
from partita.formats.plan import State

if TYPE_CHECKING:
    from partita.spark.rows import Column, DataFrame, SparkSession, StructType

TOLD = pa.schema([("path", pa.string()), ("partition", pa.list_(pa.string())), ("rows", pa.int64()),
                  ("bytes", pa.int64()), ("modified", pa.int64()), ("details", pa.string())])  # fmt: skip
"""What an executor tells of a file: `details` is the format's own."""

NOWHERE = np.zeros(0, np.int64)


def told_texts(told: pa.Table, count: int) -> list[pa.Array]:
    """The texts of the partitions that executors told of, field by field; `count` are the fields."""
    flat = told["partition"].combine_chunks().flatten()
    return [flat.take(pa.array(np.arange(at, len(flat), count))) for at in range(count)]


def total(column: pa.ChunkedArray | pa.Array) -> int:
    """The sum; of nothing, 0."""
    return int(pc.sum(column).as_py() or 0)


def spec_ids(spec_id: int, size: int) -> pa.Array:
    """The column `spec_id` of so many partitions of one spec."""
    return pa.array(np.full(size, spec_id, np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """What a change of rows did to the files that they are in.

    `removed` are the places of the files that go, `added` rows of `TOLD` for what is there instead. Where rows are
    marked as gone and their files stay, `marked` are rows of `TOLD` for the files that mark them, and `unmarked` the
    paths of such files that these replace. `gone` and `changed` count rows.
    """

    removed: np.ndarray = field(default_factory=lambda: NOWHERE)
    added: pa.Table = field(default_factory=TOLD.empty_table)
    marked: pa.Table = field(default_factory=TOLD.empty_table)
    unmarked: tuple[str, ...] = ()
    gone: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What one operation does to a table.

    `added` are rows of `TOLD`; `removed` the places of files in the state that it was made from; `marked` and
    `unmarked` as `Edits` has them. `read` is what it looked at: nothing, as an append does, what a predicate says, or
    whole partitions; `looked_at` are the places of the files that it found there. `transaction`
    is an application and its own number: a number that the table has seen from it is not written again.
    """

    operation: str
    added: pa.Table
    removed: np.ndarray = field(default_factory=lambda: NOWHERE)
    read: Predicate | Chosen | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    looked_at: np.ndarray = field(default_factory=lambda: NOWHERE)
    marked: pa.Table = field(default_factory=TOLD.empty_table)
    unmarked: tuple[str, ...] = ()


class Store(ABC):
    """A table as its format keeps it; `form` is what the format is called."""

    uri: str
    form: ClassVar[str]

    @abstractmethod
    def state(self) -> State:
        """The table as it is now; what can't be read right is refused."""

    def state_without_files(self) -> State:
        """The table as it is now, perhaps without its files: `State.with_files_for` adds those that are needed."""
        return self.state()

    def state_for(self, where: Where | Condition | None) -> State:  # noqa: ARG002
        """The same for planning by a predicate: files in which none of it can match may be left out."""
        return self.state()

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

    def spec_times(self) -> Mapping[int, datetime]:
        """Since when the table has each spec, by its id, as far as the format tells; most have one for life."""
        return {}

    def evolve(
        self,
        *,
        add: Sequence[PartitionFunction | str],  # noqa: ARG002
        drop: Sequence[PartitionFunction | str],  # noqa: ARG002
        rename: Mapping[str, str],  # noqa: ARG002
    ) -> None:
        """Partition what is written from now on another way; refused where the format has one way for life."""
        raise TableError(
            f"a {self.form} table keeps the partitioning that it was made with; make a new table with the other one, "
            "and append this one's rows to it, or use format='iceberg'"
        )

    @abstractmethod
    def clean(self, older_than: float) -> Removed:
        """Delete files that no version of the table has ever had, older than so many seconds; their paths."""

    def expire(self, older_than: float | None, retain_last: int | None) -> Removed:  # noqa: ARG002
        """Forget versions older than so many seconds but for the last few, and remove what only they have."""
        raise TableError(f"the versions of the table at {self.uri} are kept by its format; use the format's own vacuum")

    @abstractmethod
    def told_partitions(self, state: State, told: pa.Table) -> pa.Table:
        """The partition of each file that executors told of, as `State.partitions` has those of the current spec."""

    @abstractmethod
    def commits(self, after: str | None) -> Commits:
        """What the table's own log says was done to its data after a cursor, or from the start."""

    def check_chosen(self, chosen: Chosen) -> None:  # noqa: B027 - most hold everything
        """Refuse partitions that the format can't hold."""

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

    def has_rules(self, state: State) -> bool:  # noqa: ARG002
        """Whether the table has rules that look at more than one column."""
        return False

    def derived(self, state: State, changed: set[str]) -> set[str]:  # noqa: ARG002
        """The columns that change when these do: they, and what is generated."""
        return changed

    def generated(self, state: State) -> frozenset[str]:  # noqa: ARG002
        """The columns that the table makes from others."""
        return frozenset()

    @abstractmethod
    def scan(  # noqa: PLR0913 - what is read, and of what
        self,
        spark: SparkSession,
        state: State,
        places: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
        where: Predicate | None = None,
    ) -> DataFrame:
        """Those columns of the rows of the files at those places; with `positions`, `FILE` and `ROW` come after them.

        `FILE` is the number of a row's file among the places, `ROW` what tells it from the other rows of that file.
        Rows that don't match `where` may be left out, and whoever asks filters the rest.
        """

    def count(self, state: State, places: np.ndarray) -> int:
        """How many rows the files at those places have; those that don't say it are looked into."""
        from partita.spark.session import session

        counts = state.row_counts(places)
        silent = places[counts.is_null().to_numpy(zero_copy_only=False)]
        said = total(counts)
        return said + self.scan(session(), state, silent, state.schema.names[:1]).count() if len(silent) else said

    @abstractmethod
    def field_values(self, state: State, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:
        """The values of partition fields of the table's rows."""

    def is_outdated(self, state: State, places: np.ndarray) -> np.ndarray:
        """Of the files at those places, which are not as they would be written now: those of another spec."""
        outdated: np.ndarray = state.files["spec_id"].to_numpy()[places] != state.spec.spec_id
        return outdated

    @abstractmethod
    def write(self, state: State, rows: DataFrame, operation: str) -> pa.Table:
        """New files of the table's rows; a row of `TOLD` for each."""

    @abstractmethod
    def discard(self, state: State, told: pa.Table) -> None:
        """Remove files that executors told of and that no commit will name."""

    def stays(self, state: State, places: np.ndarray, changed: set[str], operation: str) -> bool:  # noqa: ARG002
        """Whether rows of the files at those places, with other values in some columns, can take the old ones' place.

        Where they can't, the old rows are taken away and the new ones written like any other.
        """
        return False

    def replace(self, state: State, places: np.ndarray, changed: DataFrame, columns: set[str]) -> Edits:  # noqa: ARG002
        """Rows of the files at those places that go or get other values where they are: `FILE`, `ROW`, `GONE`, columns.

        Only where a row `stays`. One that is named twice is a `ConstraintError`.
        """
        raise TableError(f"a row of a {self.form} table that changes goes, and comes anew")

    @abstractmethod
    def take_away(
        self, state: State, places: np.ndarray, positions: DataFrame, operation: str, *, removed: np.ndarray = NOWHERE
    ) -> Edits:
        """Delete rows of the files at those places, by `FILE` and `ROW`; a row that is named twice is refused.

        `removed` are the places of files that the same commit removes whole.
        """
