"""One operation on a table: the version that it looked at, what its executors wrote, and the commit of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa

from partita.algebra.parse import Condition, Where
from partita.algebra.predicate import Predicate
from partita.errors import SchemaError
from partita.formats.chosen import Chosen
from partita.formats.plan import State, named_in
from partita.formats.store import NOWHERE, TOLD, Change, Edits, Store, total
from partita.spark.rewrite import GONE
from partita.spark.rows import DataFrame, among, filtered, translated
from partita.spark.scan import FILE, ROW, frame_of
from partita.spark.session import session


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation did: the version that it made, or None where there was nothing to do, and counts.

    `written` is what a replacement of partitions wrote, by the fields that they were asked for by: a column for each of
    them, `rows`, `files`, `bytes`.
    """

    version: int | None
    counts: Mapping[str, int] = field(default_factory=dict)
    written: pa.Table | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """What a row-level change did to the files at `places`: its edits, and new files with `TOLD`.

    `whole` are the places of files that went without a look. Of the new files' rows, `moved` were in the table before.
    """

    places: np.ndarray
    edits: Edits = field(default_factory=Edits)
    whole: np.ndarray = field(default_factory=lambda: NOWHERE)
    added: pa.Table = field(default_factory=TOLD.empty_table)
    moved: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """An operation on one version of a table."""

    store: Store
    state: State
    operation: str

    @classmethod
    def begin(cls, store: Store, operation: str, *, removes: bool) -> Self:
        """An operation on the newest version, if it may be written; `removes` where rows go or change.

        The state may lack files; `with_files_for` adds those that the operation reads.
        """
        state = store.state_without_files()
        store.check_writable(state, removes=removes)
        return cls(store, state, operation)

    def with_files_for(self, read: Where | Condition | Chosen) -> Self:
        """The same operation on the same version, with every file that may hold what it reads."""
        return replace(self, state=self.state.with_files_for(read))

    def scan(self, places: np.ndarray, names: Sequence[str] | None = None) -> DataFrame:
        """The rows of the files at those places, with their positions."""
        wanted = self.state.schema.names if names is None else names
        with translated():
            return self.store.scan(session(), self.state, places, wanted, positions=True)

    def found(self, places: np.ndarray, predicate: Predicate, names: Sequence[str] | None = None) -> DataFrame:
        """The rows that match, with their positions."""
        return filtered(self.scan(places, names), predicate.sql())

    def written(self, rows: DataFrame) -> pa.Table:
        """New files of the table's rows; a row of `TOLD` for each."""
        with translated():
            return self.store.write(self.state, rows, self.operation)

    def without(self, places: np.ndarray, predicate: Predicate, removed: np.ndarray) -> Changed:
        """The files at those places without the rows that match; the commit removes the files at `removed` whole."""
        rows = self.found(places, predicate, named_in(predicate, self.state.schema))
        return Changed(places, self._taken(places, rows, removed))

    def without_partitions(self, places: np.ndarray, chosen: Chosen, removed: np.ndarray) -> Edits:
        """The files at those places, of other specs, without the rows in those partitions; `removed` as above."""
        with translated():
            rows = self.scan(places, sources_of(chosen))
            return self._taken(places, in_partitions(self.store, self.state, rows, chosen), removed)

    def columns(self, places: np.ndarray, assigned: set[str]) -> set[str]:
        """The columns of changed rows that are needed: those that change, or all where more hangs on them."""
        changed = self.store.derived(self.state, assigned)
        alone = changed == assigned and self._stays(places, changed) and not self.store.has_rules(self.state)
        return assigned if alone else set(self.state.schema.names)

    def edited(self, places: np.ndarray, rows: DataFrame, assigned: set[str], new: DataFrame | None = None) -> Changed:
        """The files at those places with changed rows (`partita.spark.merge`), and files of new ones."""
        for name in sorted(assigned & self.store.generated(self.state)):
            raise SchemaError(f"column {name!r} is generated from others; set those")
        changed = self.store.derived(self.state, assigned)
        if not self._stays(places, changed):
            return self._moved(places, rows, new) if assigned else self._delete_rows(places, rows, new)
        ready = self.store.regenerate(self.state, rows) if assigned else rows
        with translated():
            edits = self.store.replace(self.state, places, filtered(ready, f"{GONE} is not null"), changed)
        with self.or_discarded(edits.added):
            return Changed(places, edits, added=self._inserted(new))

    def _stays(self, places: np.ndarray, changed: set[str]) -> bool:
        return self.store.stays(self.state, places, changed, self.operation)

    def _delete_rows(self, places: np.ndarray, rows: DataFrame, new: DataFrame | None) -> Changed:
        """Delete rows; none of them gets new values."""
        edits = self._taken(places, filtered(rows, f"{GONE} is not null"))
        with self.or_discarded(edits.added, edits.marked):
            return Changed(places, edits, added=self._inserted(new))

    def _moved(self, places: np.ndarray, rows: DataFrame, new: DataFrame | None) -> Changed:
        """The old rows go, and those that have new values come anew, like those that are inserted."""
        held = rows.persist()
        try:
            ready = self.store.regenerate(self.state, filtered(held, f"not {GONE}"))
            moved = self.written(ready.drop(FILE, ROW, GONE))
            with self.or_discarded(moved):
                edits = self._taken(places, filtered(held, f"{GONE} is not null"))
        finally:
            held.unpersist()
        with self.or_discarded(moved, edits.added, edits.marked):
            added = pa.concat_tables([moved, self._inserted(new)])
        return Changed(places, edits, added=added, moved=total(moved["rows"]))

    @contextmanager
    def or_discarded(self, *told: pa.Table) -> Iterator[None]:
        """Files that were written are removed where what comes after them fails."""
        try:
            yield
        except Exception:
            self.store.discard(self.state, pa.concat_tables(told))
            raise

    def _taken(self, places: np.ndarray, rows: DataFrame, removed: np.ndarray = NOWHERE) -> Edits:
        if not len(places):
            return Edits()
        with translated():
            positions = rows.select(FILE, ROW)
            return self.store.take_away(self.state, places, positions, self.operation, removed=removed)

    def _inserted(self, new: DataFrame | None) -> pa.Table:
        return TOLD.empty_table() if new is None else self.written(self.store.conform(self.state, new))

    def commit(self, change: Change, *, copied: int = 0) -> Outcome:
        """Make a change a part of the table; nothing is no version, except to note a transaction.

        So many of the rows that are added are `copied` from files that go.
        """
        counts = change.metrics or {
            "rows_inserted": total(change.added["rows"]) - copied,
            "files_added": change.added.num_rows,
            "files_removed": len(change.removed),
        }
        files = change.added.num_rows + change.marked.num_rows + len(change.removed)
        if not files and change.transaction is None:
            return Outcome(None, counts)
        return Outcome(self.store.commit(self.state, replace(change, metrics=counts)), counts)

    def commit_changed(self, changed: Changed, read: Predicate) -> Outcome:
        """Make a row-level change a part of the table."""
        edits, added = changed.edits, changed.added
        with translated():
            whole = self.store.count(self.state, changed.whole) if len(changed.whole) else 0
        counts = {
            "rows_deleted": edits.gone + whole - changed.moved,
            "rows_updated": edits.changed + changed.moved,
            "rows_inserted": total(added["rows"]) - changed.moved,
            "files_removed": len(edits.removed) + len(changed.whole),
            "files_added": edits.added.num_rows + edits.marked.num_rows + added.num_rows,
        }
        return self.commit(
            Change(
                self.operation,
                pa.concat_tables([edits.added, added]),
                np.concatenate([changed.whole, edits.removed]),
                read,
                {"predicate": str(read)},
                counts,
                looked_at=np.concatenate([changed.whole, changed.places]),
                marked=edits.marked,
                unmarked=edits.unmarked,
            )
        )


def sources_of(chosen: Chosen) -> list[str]:
    """The columns that the fields of a choice are made from."""
    return list(dict.fromkeys(field.source.partition(".")[0] for field in chosen.fields))


def in_partitions(store: Store, state: State, rows: DataFrame, chosen: Chosen) -> DataFrame:
    """The table's rows that are in those partitions."""
    values = store.field_values(state, rows, chosen.fields)
    return among(rows, values, frame_of(rows.sparkSession, chosen.results))
