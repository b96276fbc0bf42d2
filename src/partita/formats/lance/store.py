"""A Lance table as a `Store`: a file of its plans is a leaf."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import Predicate
from partita.algebra.spec import PartitionField
from partita.errors import SchemaError, StorageError
from partita.formats.chosen import Chosen
from partita.formats.commits import Commits
from partita.formats.containment import Removed
from partita.formats.lance.fragments import LanceTarget, leaf_names
from partita.formats.lance.leaf import Leaf, clean_version
from partita.formats.lance.log import NOTHING, Ending, Log
from partita.formats.lance.names import results, segment, texts
from partita.formats.lance.namespace import BETWEEN, read_tree
from partita.formats.lance.operations import Operation
from partita.formats.lance.state import LanceState, leaf_partitions, state_of
from partita.formats.lance.writes import QUIET, THREADS, Attempt, Writes
from partita.formats.plan import State, pruned_files
from partita.formats.store import NOWHERE, Change, Edits, Store, spec_ids, told_texts
from partita.storage import Storage
from partita.untrusted import reading

if TYPE_CHECKING:
    import numpy as np

    from partita.formats.lance.on_spark import LanceRows
    from partita.spark.rows import Column, DataFrame, SparkSession, StructType


@dataclass(frozen=True, slots=True)
class Gone:
    """Rows that go from a leaf: its place in the state, and fragments before and after, by number."""

    place: int
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any] | None]


class LanceStore(Store):
    """The Lance table in a folder."""

    form = "Lance"

    def __init__(self, storage: Storage) -> None:
        self.uri = storage.uri
        self.storage = storage
        self.log = Log(storage)
        self._seen = NOTHING

    @classmethod
    def opened(cls, storage: Storage) -> Self:
        """The table in a folder, after a write that a process left when it died has been seen to its end."""
        store = cls(storage)
        store.settle()
        return store

    def state(self) -> LanceState:
        """The table after the last write that has ended; one pass over the manifest."""
        # The log first: a leaf is registered before the write that made it ends.
        known, unended = self.log.known(self._seen)
        with reading(f"the Lance table at {self.uri}"):
            state = state_of(read_tree(self.storage), known, unended)
        self._seen = known
        return state

    def settle(self) -> None:
        """End a write that a process left when it died, if there is one; where it can't be written to, leave it."""
        _, unended = self.log.known(self._seen)
        if unended is not None:
            try:
                self.writes(self.state()).settle(unended, wait=False)
            except StorageError:
                return

    def writes(self, state: State) -> Writes:
        """The writes of the table."""
        return Writes(lance(state).root, self.log, lance(state).definition.stored)

    def check_writable(self, state: State, *, removes: bool) -> None:
        """Any table that can be read can be written to."""

    def seen(self, state: State, transaction: tuple[str, int]) -> bool:
        """Whether the log has that number of the application, or a later one."""
        application, number = transaction
        return lance(state).known.transactions.get(application, -1) >= number

    def commit(self, state: State, change: Change) -> int:
        """One write of the log, over all leaves that it touches."""
        own = lance(state)
        attempt = Attempt(
            change.operation,
            self.operations(own, change),
            _Conflicts(own, change),
            change.parameters,
            change.metrics,
            change.transaction,
        )
        number = self.writes(state).commit(attempt, own.known)
        return own.version if number is None else number

    def operations(self, state: LanceState, change: Change) -> list[Operation]:
        """What new fragments, leaves that go and rows that go mean for each leaf."""
        told: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        places = self.places(state)
        for row in change.added.to_pylist():
            names = leaf_names(state.spec.names, tuple(row["partition"] or ()))
            told.setdefault(names, []).append(row)
        changed = {one.place: one for one in (Gone(**json.loads(t)) for t in change.marked["details"].to_pylist())}
        whole = set(change.removed.tolist())
        done: list[Operation] = []
        for names, rows in told.items():
            place = places.get(BETWEEN.join(names))
            details = [json.loads(row["details"]) for row in rows]
            new = tuple(one["fragment"] for one in details)
            fields = _one_of([one["fields"] for one in details], rows[0]["path"])
            if place is None:
                done.append(Operation(names, rows[0]["path"], "add", True, new, fields))
            elif place in whole:
                done.append(self._operation(state, place, "replace", new, fields))
            else:
                done.append(self._operation(state, place, "change" if place in changed else "add", new, fields,
                                            changed.get(place)))  # fmt: skip
            whole.discard(place if place is not None else -1)
            changed.pop(place if place is not None else -1, None)
        done += [self._operation(state, place, "replace") for place in sorted(whole)]
        done += [self._operation(state, place, "change", gone=one) for place, one in changed.items()]
        return done

    def _operation(  # noqa: PLR0913, PLR0917 - what an operation is made of
        self, state: LanceState, place: int, kind: str, new: tuple[Mapping[str, Any], ...] = (),
        fields: Mapping[str, int] | None = None, gone: Gone | None = None,
    ) -> Operation:  # fmt: skip
        names = tuple(state.ids[place].as_py().split(BETWEEN))
        before, after = (gone.before, gone.after) if gone is not None else ({}, {})
        return Operation(names, state.locations[place].as_py(), kind, False, new, fields or {}, before, after)

    def places(self, state: LanceState) -> dict[str, int]:
        """The places of leaves by the ids that Partita gives their partitions."""
        return {one: place for place, one in reversed(list(enumerate(_own_ids(state))))}

    def history(self) -> pa.Table:
        """What the log says of the writes, newest first."""
        rows = [
            {"version": e.number, "timestamp": e.at * 1000,
             "operation": e.operation if e.finished else f"{e.operation} (undone)",
             "parameters": list(e.parameters.items()), "metrics": list(e.metrics.items()), "leaves": len(e.leaves)}
            for e in self.log.endings()
        ]  # fmt: skip
        with reading(f"the log of the Lance table at {self.uri}"):
            return pa.Table.from_pylist(rows, _HISTORY)

    def clean(self, older_than: float) -> Removed:
        """Delete files that no version of a leaf has, and versions older than so many seconds."""
        from partita.formats.lance.maintenance import clean

        return clean(self, older_than)

    def commits(self, after: str | None) -> Commits:
        """What finished writes did, and what others committed to leaves."""
        from partita.formats.lance.touched import commits

        with reading(f"the log of the Lance table at {self.uri}"):
            return commits(self, after)

    def told_partitions(self, state: State, told: pa.Table) -> pa.Table:
        """The partitions by their texts."""
        spec = state.spec
        columns = {"spec_id": spec_ids(spec.spec_id, told.num_rows)}
        for field, given in zip(spec.fields, told_texts(told, len(spec.fields)), strict=True):
            coded = pc.dictionary_encode(given, null_encoding="encode")
            names = pa.array([segment(field.name, text) for text in coded.dictionary.to_pylist()], pa.string())
            columns[field.name] = results(names, field).take(coded.indices)
        return pa.table(columns)

    def target(self, own: LanceState) -> LanceTarget:
        """Into the leaf of each partition."""
        canonical = _own_ids(own)
        odd = {
            name: location
            for name, found, location in zip(canonical, own.ids.to_pylist(), own.locations.to_pylist(), strict=True)
            if name != found or location != own.root.location(name.split(BETWEEN))
        }
        return LanceTarget(own.root, own.spec.names, own.definition.stored, odd)

    def versions(self, state: LanceState, places: np.ndarray) -> list[int]:
        """The versions of some leaves at which rows are read: what others committed counts, what is not ended doesn't.

        Looked at again where a write began meanwhile, so that no part of it is among them. A state keeps to those that
        it was first asked for.
        """
        unknown = [place for place in places.tolist() if place not in state.resolved]
        state.resolved.update(self._resolved(state, unknown))
        return [state.resolved[place] for place in places.tolist()]

    def _resolved(self, state: LanceState, places: list[int]) -> dict[int, int]:
        if not places:
            return {}
        found = self._clean_versions(state, places)
        known, unended = self.log.known(state.known)
        later = {leaf["id"] for leaf in unended.leaves} if unended is not None else set()
        for number in range(state.version + 1, known.version + 1):
            ending = self.log.ending(number)
            later |= {leaf[0] for leaf in ending.leaves} | set(ending.suspects) if ending is not None else set()
        again = [place for place in places if state.ids[place].as_py() in later]
        return found | self._clean_versions(state, again, walk=True)

    def _clean_versions(self, state: LanceState, places: Sequence[int], *, walk: bool = False) -> dict[int, int]:
        known = state.known
        doubtful = {leaf["id"] for leaf in state.unended.leaves} if state.unended is not None else set()
        doubtful |= set(known.suspects)

        def one(place: int) -> int:
            leaf, pin, name = self.leaf(state, place), state.pins[place].as_py(), state.ids[place].as_py()
            dataset = leaf.open()
            if pin is None and not walk and name not in doubtful:
                return dataset.version
            return clean_version(dataset, self.floor(state, place))

        with ThreadPoolExecutor(THREADS) as pool:
            return dict(zip(places, pool.map(one, places), strict=True))

    def leaf(self, state: LanceState, place: int) -> Leaf:
        """The leaf at a place."""
        return Leaf(state.root.storage, state.locations[place].as_py())

    def floor(self, state: LanceState, place: int) -> int:
        """The version of a leaf that the last finished write made; 0 where only others have written."""
        pin = state.pins[place].as_py()
        return state.known.dropped.get(state.ids[place].as_py(), 0) if pin is None else cast("int", pin)

    # On Spark.

    @cached_property
    def rows(self) -> LanceRows:
        """The rows on Spark."""
        from partita.formats.lance.on_spark import LanceRows

        return LanceRows(self)

    def frame_schema(self, state: State) -> StructType:
        """The columns as Spark has them."""
        return self.rows.schema(lance(state))

    def conform(self, state: State, rows: DataFrame) -> DataFrame:
        """Rows of others as the table's."""
        return self.rows.conform(lance(state), rows)

    def regenerate(self, state: State, rows: DataFrame) -> DataFrame:
        """Changed rows, which may hold no null where none may be."""
        return self.rows.regenerate(lance(state), rows)

    def field_values(self, state: State, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:  # noqa: ARG002
        """What the fields' functions make of the rows."""
        return self.rows.partition(rows, fields)

    def scan(  # noqa: PLR0913 - of the interface
        self,
        spark: SparkSession,
        state: State,
        places: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
        where: Predicate | None = None,
    ) -> DataFrame:
        """The rows of some leaves, at the versions that count now; Lance leaves out what it can."""
        return self.rows.scan(spark, lance(state), places, names, positions=positions, where=where)

    def write(self, state: State, rows: DataFrame, operation: str) -> pa.Table:  # noqa: ARG002 - of the interface
        """New fragments in the leaves of their partitions."""
        return self.rows.write(lance(state), rows)

    def discard(self, state: State, told: pa.Table) -> None:
        """The data files, under the names that only this write has; leaves stay, for others may be about to write."""
        for row in told.to_pylist():
            fragment = json.loads(row["details"]).get("fragment", {"files": ()})
            lance(state).root.storage.delete([f"{row['path']}/data/{file['path']}" for file in fragment["files"]])

    def take_away(
        self,
        state: State,
        places: np.ndarray,
        positions: DataFrame,
        operation: str,  # noqa: ARG002
        *,
        removed: np.ndarray = NOWHERE,  # noqa: ARG002
    ) -> Edits:
        """Deletions that the leaves note."""
        return self.rows.take_away(lance(state), places, positions)


_HISTORY = pa.schema([
    ("version", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("operation", pa.string()),
    ("parameters", pa.map_(pa.string(), pa.string())), ("metrics", pa.map_(pa.string(), pa.int64())),
    ("leaves", pa.int64()),
])  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Conflicts:
    """Whether what another write did to leaves is in what a change read."""

    state: LanceState
    change: Change

    def __call__(self, ending: Ending) -> str | None:
        read = self.change.read
        if read is None or ending.operation in QUIET or not ending.leaves:
            return None
        ids = pa.array([leaf[0] for leaf in ending.leaves], pa.string())
        looked_at = set(self.state.ids.take(pa.array(self.change.looked_at)).to_pylist())
        looked_at |= set(self.state.ids.take(pa.array(self.change.removed)).to_pylist())
        if looked_at & set(ids.to_pylist()):
            return "changed partitions that this one looked at"
        if isinstance(read, Chosen):
            touches = read.touches(self.state.specs, leaf_partitions(ids, ids, self.state.spec))
        else:
            touches = _matches(ids, self.state, read)
        return "wrote what this one would have looked at" if touches else None


def _matches(ids: pa.Array, state: LanceState, read: Predicate) -> bool:
    from dataclasses import replace

    partitions = leaf_partitions(ids, ids, state.spec)
    files = pa.table({"path": ids, "spec_id": partitions["spec_id"], "bytes": pa.nulls(len(ids), pa.int64())})
    return any(pruned_files(replace(state, files=files, partitions=partitions), read).may_match.to_pylist())


def _own_ids(state: LanceState) -> list[str]:
    """The ids that Partita would give the leaves' partitions."""
    if not state.spec.fields or not len(state.ids):
        return cast("list[str]", state.ids.to_pylist())
    columns = [texts(state.partitions[f.name].combine_chunks(), f).to_pylist() for f in state.spec.fields]
    return [BETWEEN.join(leaf_names(state.spec.names, row)) for row in zip(*columns, strict=True)]


def _one_of(fields: Sequence[Mapping[str, int]], path: str) -> Mapping[str, int]:
    if any(one != fields[0] for one in fields):
        raise SchemaError(f"the leaf {path} was made anew while rows were written to it; try again")
    return fields[0]


def lance(state: State) -> LanceState:
    """The state of a Lance table."""
    return cast("LanceState", state)
