"""One operation on a table: the version that it looked at, what its executors wrote, and the commit of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import Predicate
from partita.errors import SchemaError
from partita.formats.plan import State, named_in
from partita.formats.store import Change, Store
from partita.spark.rewrite import GONE, REWRITTEN, changing, leaving, rewrite
from partita.spark.rows import DataFrame, filtered, translated
from partita.spark.scan import FILE, ROW, Files, scan
from partita.spark.session import session
from partita.spark.write import TOLD, write

NOWHERE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation did: the version that it made, or None where there was nothing to do, and counts."""

    version: int | None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """What a row-level change did to files.

    `copied` are rows of `REWRITTEN` for the files at `places`, `whole` the places of those that went without a look,
    `added` rows of `TOLD` for new files, of whose rows `moved` were in a copied file before.
    """

    places: np.ndarray
    copied: pa.Table = field(default_factory=REWRITTEN.empty_table)
    whole: np.ndarray = field(default_factory=lambda: NOWHERE)
    added: pa.Table = field(default_factory=TOLD.empty_table)
    moved: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """An operation on one version of a table."""

    store: Store
    state: State

    @classmethod
    def begin(cls, store: Store, *, removes: bool) -> Self:
        """An operation on the newest version, if it may be written; `removes` where rows go or change."""
        state = store.state()
        store.check_writable(state, removes=removes)
        return cls(store, state)

    def files(self, places: np.ndarray, names: Sequence[str] | None = None) -> Files:
        """The files at those places, with those columns alone."""
        files = self.store.files(self.state, places)
        if names is None:
            return files
        columns = {column[0]: column for column in files.columns}
        return replace(files, columns=tuple(columns[name] for name in dict.fromkeys(names)))

    def found(self, places: np.ndarray, predicate: Predicate, names: Sequence[str] | None = None) -> DataFrame:
        """The rows that match, with their positions."""
        return filtered(scan(session(), self.files(places, names), positions=True), predicate.sql())

    def written(self, rows: DataFrame) -> pa.Table:
        """New files of the table's rows; a row of `TOLD` for each."""
        with translated():
            stored = self.store.stored(self.state, rows)
            told = write(stored, self.store.target(self.state, _zone()), len(self.store.partition_columns(self.state)))
        return told.select(TOLD.names).cast(TOLD)

    def without(self, places: np.ndarray, predicate: Predicate) -> Edits:
        """The files at those places copied without the rows that match."""
        rows = leaving(self.found(places, predicate, named_in(predicate, self.state.schema)))
        return Edits(places, self._copied(rows, places))

    def columns(self, assigned: set[str]) -> set[str]:
        """The columns of changed rows that are needed: those that change, or all where more hangs on them."""
        changed = self.store.derived(self.state, assigned)
        moves = changed & set(self.store.partition_columns(self.state))
        alone = changed == assigned and not moves and not self.store.has_rules(self.state)
        return assigned if alone else set(self.state.schema.names)

    def edited(self, places: np.ndarray, rows: DataFrame, assigned: set[str], new: DataFrame | None = None) -> Edits:
        """The files at those places copied with changed rows (`partita.spark.merge`), and files of new ones.

        A row stays in its file's place unless a column changes that files are sorted by: then it goes there, and comes
        anew like one that is inserted.
        """
        for name in sorted(assigned & self.store.generated(self.state)):
            raise SchemaError(f"column {name!r} is generated from others; set those")
        changed = self.store.derived(self.state, assigned)
        if changed & set(self.store.partition_columns(self.state)):
            return self._moved(places, rows, new)
        ready = self.store.regenerate(self.state, rows) if assigned else rows
        columns = [column for column in self.store.stored_columns(self.state) if column[0] in changed]
        return Edits(places, self._copied(changing(ready, columns), places), added=self._inserted(new))

    def _moved(self, places: np.ndarray, rows: DataFrame, new: DataFrame | None) -> Edits:
        held = rows.persist()
        try:
            copied = self._copied(leaving(filtered(held, f"{GONE} is not null")), places)
            ready = self.store.regenerate(self.state, filtered(held, f"not {GONE}"))
            moved = self.written(ready.drop(FILE, ROW, GONE))
        finally:
            held.unpersist()
        return Edits(places, copied, added=pa.concat_tables([moved, self._inserted(new)]), moved=total(moved["rows"]))

    def _copied(self, changes: DataFrame, places: np.ndarray) -> pa.Table:
        if not len(places):
            return REWRITTEN.empty_table()
        copier = self.store.copier(self.state, places, _zone())
        with translated():
            return rewrite(changes, copier, len(places)).select(REWRITTEN.names).cast(REWRITTEN)

    def _inserted(self, new: DataFrame | None) -> pa.Table:
        return TOLD.empty_table() if new is None else self.written(self.store.conform(self.state, new))

    def commit(self, change: Change) -> Outcome:
        """Make a change a part of the table; nothing is no version, except to note a transaction."""
        counts = change.metrics or {
            "rows_inserted": total(change.added["rows"]),
            "files_added": change.added.num_rows,
            "files_removed": len(change.removed),
        }
        if not change.added.num_rows and not len(change.removed) and change.transaction is None:
            return Outcome(None, counts)
        return Outcome(self.store.commit(self.state, replace(change, metrics=counts)), counts)

    def commit_edits(self, operation: str, edits: Edits, read: Predicate) -> Outcome:
        """Make a row-level change a part of the table."""
        copied, added = edits.copied, edits.added
        copies = copied.filter(pc.is_valid(copied["path"])).select(TOLD.names)
        whole = total(self.state.row_counts(edits.whole))
        counts = {
            "rows_deleted": total(copied["gone"]) + whole - edits.moved,
            "rows_updated": total(copied["changed"]) + edits.moved,
            "rows_inserted": total(added["rows"]) - edits.moved,
            "files_removed": copied.num_rows + len(edits.whole),
            "files_added": copies.num_rows + added.num_rows,
        }
        removed = np.concatenate([edits.whole, edits.places[copied["file"].to_numpy().astype(np.int64)]])
        everything = pa.concat_tables([copies, added])
        change = Change(operation, everything, removed, read, {"predicate": str(read)}, counts)
        return self.commit(replace(change, looked_at=np.concatenate([edits.whole, edits.places])))


def total(column: pa.ChunkedArray | pa.Array) -> int:
    """The sum; of nothing, 0."""
    return int(pc.sum(column).as_py() or 0)


def _zone() -> str:
    return session().conf.get("spark.sql.session.timeZone") or "UTC"
