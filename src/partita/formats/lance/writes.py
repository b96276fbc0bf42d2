"""Writes over many leaves: begun in the log, carried out leaf by leaf, ended in the log.

```text
executors wrote files   no one knows of them
   │ begin              the log has all that the write will do; no other write begins
   │ make               new leaves are made and registered, in one change of the manifest
   │ apply              each leaf commits, with the write's name on it
   ▼ end                the log has the new versions: readers count the write from here on
```

A process that dies leaves a write begun. Whoever opens the table next carries it out to its end, for the log has all of
it, or, where another writer's change to a leaf stands in the way, ends it as undone and takes its commits back. Each
step can be done twice: a leaf takes an operation once (`partita.formats.lance.operations`), the log an ending once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import Conflict, PartitaError, TableError
from partita.formats.lance.fragments import same_columns
from partita.formats.lance.leaf import Leaf, commits_after, undo
from partita.formats.lance.log import EVERY, MANY, Ending, Intent, Known, Log, Pinned, folded
from partita.formats.lance.namespace import (
    BETWEEN,
    SCHEMA,
    Root,
    deregister,
    leaf_ids,
    properties_of,
    register,
    set_properties,
)
from partita.formats.lance.operations import Operation, applied, told
from partita.process import is_this, may_live, this_process

PATIENCE = 60.0
"""Seconds after which a write that another process runs is carried out here."""
THREADS = 16
ADD_COLUMN = "add column"
QUIET = frozenset({"compact", "index", "repair", ADD_COLUMN})
"""Operations that change no rows, and so are in nobody's way but where they change the very fragments."""
_SHORTEST, _LONGEST = 0.01, 0.5
"""Seconds between two looks at a write that another process runs."""
_RUNNING: set[str] = set()
"""The writes that this process runs."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A write to be: what it does to which leaves, and whether another's ending since it looked is in its way.

    `schema` are the columns that the table gets, where it gets others. `alone` is done first, while no other write
    runs; who ends the write in its place leaves it out.
    """

    operation: str
    leaves: Sequence[Operation]
    conflicts: Callable[[Ending], str | None] = lambda _: None
    parameters: Mapping[str, str] | None = None
    metrics: Mapping[str, int] | None = None
    transaction: tuple[str, int] | None = None
    schema: str | None = None
    alone: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Writes:
    """The writes of one table; `stored` are the columns of its leaves."""

    root: Root
    log: Log
    stored: pa.Schema

    def commit(self, attempt: Attempt, since: Known) -> int | None:
        """Carry out a write that looked at the table as it was `since`, and return its number.

        None where its transaction is a part of the table already. A lost race is a `Conflict`.
        """
        known = since
        write = uuid4().hex
        while True:
            known, unended = self.log.known(known)
            if unended is not None:
                self.settle(unended)
                continue
            if attempt.transaction and known.transactions.get(attempt.transaction[0], -1) >= attempt.transaction[1]:
                return None
            self._check(attempt, since, known)
            intent = Intent(
                known.version + 1, write, attempt.operation, _now(), this_process(),
                tuple(leaf.as_json() for leaf in attempt.leaves),
                attempt.parameters or {}, attempt.metrics or {}, attempt.transaction, attempt.schema,
            )  # fmt: skip
            _RUNNING.add(write)
            try:
                if self.log.begin(intent):
                    return self._carried_out(intent, known, attempt.alone)
            finally:
                _RUNNING.discard(write)

    def _carried_out(self, intent: Intent, known: Known, alone: Callable[[], None]) -> int:
        try:
            alone()
        finally:
            ending, error = self._run(intent, known, is_owner=True)
        if not ending.finished:
            raise _failure(intent, ending, error) from error
        if intent.number % EVERY == 0 or len(ending.leaves) >= MANY:
            # In the manifest's order, so that who reads both needs not look each leaf up.
            self.log.checkpoint(folded(known, [ending]).ordered(leaf_ids(self.root)))
        return intent.number

    def _check(self, attempt: Attempt, since: Known, known: Known) -> None:
        for number in range(since.version + 1, known.version + 1):
            ending = self.log.ending(number)
            if ending is None or not ending.finished:
                continue
            problem = attempt.conflicts(ending)
            if ending.operation == ADD_COLUMN and (attempt.schema or any(o.make for o in attempt.leaves)):
                problem = "gave the table a column, which this one doesn't know"
            if problem is not None:
                raise Conflict(attempt.operation, problem, number)

    def settle(self, intent: Intent, *, wait: bool = True) -> None:
        """See a write that has not ended to its end: wait for whoever runs it, or carry it out in its place."""
        pause = _SHORTEST
        while _is_running(intent):
            if not wait:
                return
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
            if self.log.ending(intent.number) is not None:
                return
        known, unended = self.log.known()
        if unended is not None and unended.number == intent.number:
            self._run(unended, known, is_owner=False)

    def _run(self, intent: Intent, known: Known, *, is_owner: bool) -> tuple[Ending, Exception | None]:
        """How a write ended, and the error that it ended by here."""
        problem: Exception | None = None
        operations = [Operation.of(leaf) for leaf in intent.leaves]
        shared: dict[str, Any] = {"parameters": intent.parameters, "metrics": intent.metrics,
                                  "transaction": intent.transaction}  # fmt: skip
        floors = known.floors([o.id for o in operations])
        try:
            self._make([o for o in operations if o.make], intent.write)
            pinned = self._applied(operations, intent.write, floors, is_owner=is_owner)
            if intent.schema is not None:
                # The leaves have the columns before the root says so: a column that only leaves have is not read.
                set_properties(self.root, {**properties_of(self.root), SCHEMA: intent.schema})
            deregister(self.root, [o.id for o in operations if o.kind == "drop"])
            ending = Ending(intent.number, True, intent.operation, _now(), tuple(pinned), **shared)
        except Exception as error:  # noqa: BLE001 - whatever it is, a write that can't end would keep all others out
            problem = error
            reason = error.reason if isinstance(error, Conflict) else f"{_FAILED}{error}"
            suspects = {o.id: o.make for o in operations}
            ending = Ending(intent.number, False, intent.operation, _now(), (), suspects, reason=reason, **shared)
        if not self.log.end(ending):
            ending = self.log.ending(intent.number) or ending
        if not ending.finished:
            self._take_back(operations, floors, intent.write)
        return ending, problem

    def _make(self, operations: Sequence[Operation], write: str) -> None:
        """New leaves, each made by one, and all in one change of the manifest."""
        if not operations:
            return
        there = self._registered({o.id for o in operations})
        new = [o for o in operations if o.id not in there]
        _each(lambda o: self._made(o, write), new)
        register(self.root, [(o.names, o.location) for o in new])
        there = self._registered({o.id for o in operations})
        for operation in operations:
            if there.get(operation.id) != operation.location:
                where = there.get(operation.id)
                raise Conflict(operation.kind, f"put {operation.id} at {where}, and not at {operation.location}")

    def _made(self, operation: Operation, write: str) -> None:
        leaf = Leaf(self.root.storage, operation.location)
        found = leaf.find()
        if found is None:
            leaf.create(self.stored)
        elif found.count_rows() and write not in commits_after(found, 0).writes.values():
            raise TableError(f"there are rows at {operation.location}, which is no part of the table; repair() adds it")
        elif not same_columns(found.schema, self.stored):
            from lance import LanceOperation

            leaf.commit(found, LanceOperation.Overwrite(self.stored, []), {})

    def _registered(self, ids: set[str]) -> dict[str, str]:
        rows = self.root.manifest().to_table(columns=["object_id", "location"])
        wanted = pa.array([BETWEEN.join((self.root.id, one)) for one in ids], pa.string())
        found = rows.filter(pc.is_in(rows["object_id"], value_set=wanted)).to_pylist()
        return {row["object_id"].removeprefix(self.root.id + BETWEEN): row["location"] for row in found}

    def _applied(
        self, operations: Sequence[Operation], write: str, floors: Mapping[str, int], *, is_owner: bool
    ) -> list[Pinned]:
        def one(operation: Operation) -> Pinned:
            leaf = Leaf(self.root.storage, operation.location)
            return told(operation, applied(leaf, operation, write, floors[operation.id], is_owner=is_owner))

        return _each(one, operations)

    def _take_back(self, operations: Sequence[Operation], floors: Mapping[str, int], write: str) -> None:
        """Undo what was done, and nothing of other writes; what can't be now is left to the next write on that leaf."""

        def one(operation: Operation) -> None:
            with suppress(PartitaError):
                undo(Leaf(self.root.storage, operation.location), floors[operation.id], lambda one: one == write)

        _each(one, operations)


_FAILED = "failed: "
"""How the reason of an ending begins where no other writer was in the way."""


def _failure(intent: Intent, ending: Ending, error: Exception | None) -> PartitaError:
    """Why a write was undone: the error itself, or a `Conflict` where another writer was in the way."""
    if isinstance(error, PartitaError) and not isinstance(error, Conflict):
        return error
    reason = ending.reason or "was in the way"
    if reason.startswith(_FAILED):
        return TableError(f"{intent.operation} {reason}; nothing was changed")
    return Conflict(intent.operation, reason, intent.number)


def _each(do: Callable[[Operation], Any], operations: Iterable[Operation]) -> list[Any]:
    given = list(operations)
    if len(given) < 2:
        return [do(one) for one in given]
    with ThreadPoolExecutor(min(THREADS, len(given))) as pool:
        return list(pool.map(do, given))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _is_running(intent: Intent) -> bool:
    """Whether the process that began a write may still end it."""
    owner = intent.owner
    if _now() - intent.at > PATIENCE * 1000:
        return False
    return intent.write in _RUNNING if is_this(owner) else may_live(owner)
