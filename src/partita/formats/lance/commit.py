"""Commit a write over many leaves: begin it in the log, apply it leaf by leaf, end it in the log.

```text
executors wrote files   nothing references them yet
   │ begin              the log has the intent of the write, in full; no other write can begin
   │ create             new leaves are created, and registered in one change of the manifest
   │ apply              each leaf commits, with the id of the write in its transaction properties
   ▼ end                the log has the outcome with the new leaf versions; readers see the write from here on
```

A process that dies leaves an unfinished write. Whoever opens the table next finishes it from its intent; or, if a
change of another writer conflicts, ends it as undone and undoes its commits. Every step can be repeated: a leaf takes
an operation once (`partita.formats.lance.leaf_operations`), the log an outcome once.
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

from partita.errors import CommitConflict, PartitaError, TableError
from partita.formats.lance.files import has_same_columns
from partita.formats.lance.leaf_dataset import LeafDataset, commits_after, undo_commits
from partita.formats.lance.leaf_operations import LeafOperation, LeafOperationKind, apply_operation, leaf_version_after
from partita.formats.lance.log import (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_LEAF_COUNT,
    LanceLog,
    LanceLogOperation,
    LeafVersion,
    LogSnapshot,
    WriteIntent,
    WriteOutcome,
    fold_outcomes,
)
from partita.formats.lance.namespace import (
    SCHEMA_PROPERTY,
    RootNamespace,
    deregister_leaves,
    leaf_ids,
    namespace_properties,
    register_leaves,
    set_namespace_properties,
)
from partita.formats.lance.values import ID_SEPARATOR
from partita.process import is_this_process, may_be_alive, this_process

WRITE_TIMEOUT_SECONDS = 60.0
"""Seconds after which a write of another process is finished by this one."""
THREADS = 16
ROW_PRESERVING_OPERATIONS = frozenset({
    LanceLogOperation.COMPACT, LanceLogOperation.INDEX, LanceLogOperation.REPAIR, LanceLogOperation.ADD_COLUMN
})  # fmt: skip
"""Operations that change no rows, and so conflict only with changes of the same fragments."""
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.01, 0.5
"""Least and greatest number of seconds between two checks whether a write of another process has ended."""
_RUNNING_WRITES: set[str] = set()
"""The ids of the writes that this process is running."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write that is to be committed: its operations on leaves, and what it conflicts with.

    `conflict_reason` says why the outcome of a write since the table was read conflicts; None if it doesn't.
    `schema_json` is the new schema of the table, or None to keep it. `exclusive_action` runs first, while no other
    write runs; another process that finishes the write leaves it out.
    """

    operation: str
    operations: Sequence[LeafOperation]
    conflict_reason: Callable[[WriteOutcome], str | None] = lambda _: None
    parameters: Mapping[str, str] | None = None
    metrics: Mapping[str, int] | None = None
    transaction: tuple[str, int] | None = None
    schema_json: str | None = None
    exclusive_action: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class LanceCommitter:
    """Commits the writes of one table; `stored_schema` has the columns of its leaves."""

    root: RootNamespace
    log: LanceLog
    stored_schema: pa.Schema

    def commit(self, request: WriteRequest, read_snapshot: LogSnapshot) -> int | None:
        """Commit a write that read the table at a snapshot of the log, and return its number.

        Returns None if its transaction is in the table already. Raises `CommitConflict` if a write since the snapshot,
        or another writer of a leaf, conflicts.
        """
        snapshot = read_snapshot
        write_id = uuid4().hex
        while True:
            snapshot, unfinished_write = self.log.read_latest(snapshot)
            if unfinished_write is not None:
                self.finish_write(unfinished_write)
                continue
            if request.transaction and snapshot.transactions.get(request.transaction[0], -1) >= request.transaction[1]:
                return None
            self._check_conflicts(request, read_snapshot, snapshot)
            intent = WriteIntent(
                snapshot.version + 1, write_id, request.operation, _now_millis(), this_process(),
                tuple(operation.as_json() for operation in request.operations),
                request.parameters or {}, request.metrics or {}, request.transaction, request.schema_json,
            )  # fmt: skip
            _RUNNING_WRITES.add(write_id)
            try:
                if self.log.begin_write(intent):
                    return self._execute_write(intent, snapshot, request.exclusive_action)
            finally:
                _RUNNING_WRITES.discard(write_id)

    def _execute_write(
        self, intent: WriteIntent, log_snapshot: LogSnapshot, exclusive_action: Callable[[], None]
    ) -> int:
        try:
            exclusive_action()
        finally:
            outcome, error = self._run_write(intent, log_snapshot, is_owner=True)
        if not outcome.is_finished:
            raise _write_error(intent, outcome, error) from error
        if intent.number % CHECKPOINT_INTERVAL == 0 or len(outcome.leaves) >= CHECKPOINT_LEAF_COUNT:
            # In the manifest's order, so that readers of both need not look up each leaf.
            self.log.write_checkpoint(fold_outcomes(log_snapshot, [outcome]).with_leaf_order(leaf_ids(self.root)))
        return intent.number

    def _check_conflicts(self, request: WriteRequest, read_snapshot: LogSnapshot, log_snapshot: LogSnapshot) -> None:
        for number in range(read_snapshot.version + 1, log_snapshot.version + 1):
            outcome = self.log.write_outcome(number)
            if outcome is None or not outcome.is_finished:
                continue
            reason = request.conflict_reason(outcome)
            if outcome.operation == LanceLogOperation.ADD_COLUMN and (
                request.schema_json or any(o.make for o in request.operations)
            ):
                reason = "added a column to the table, which this write lacks"
            if reason is not None:
                raise CommitConflict(request.operation, reason, number)

    def finish_write(self, intent: WriteIntent, *, wait: bool = True) -> None:
        """Finish a write that has not ended: wait for the process that runs it, or finish it in its place.

        Without `wait`, return at once if the process may still run.
        """
        pause = _MIN_POLL_SECONDS
        while _is_running(intent):
            if not wait:
                return
            time.sleep(pause)
            pause = min(pause * 1.5, _MAX_POLL_SECONDS)
            if self.log.write_outcome(intent.number) is not None:
                return
        snapshot, unfinished_write = self.log.read_latest()
        if unfinished_write is not None and unfinished_write.number == intent.number:
            self._run_write(unfinished_write, snapshot, is_owner=False)

    def _run_write(
        self, intent: WriteIntent, log_snapshot: LogSnapshot, *, is_owner: bool
    ) -> tuple[WriteOutcome, Exception | None]:
        """Apply a write and end it; return its outcome, and the error that made this process undo it."""
        failure: Exception | None = None
        operations = [LeafOperation.from_json(leaf) for leaf in intent.leaves]
        request_fields: dict[str, Any] = {"parameters": intent.parameters, "metrics": intent.metrics,
                                  "transaction": intent.transaction}  # fmt: skip
        committed_versions = log_snapshot.committed_versions([o.id for o in operations])
        try:
            self._create_leaves([o for o in operations if o.make], intent.write)
            leaf_versions = self._apply_operations(operations, intent.write, committed_versions, is_owner=is_owner)
            if intent.schema is not None:
                # After the leaves: a column that only leaves have is not read, one that only the root has is missed.
                set_namespace_properties(self.root, {**namespace_properties(self.root), SCHEMA_PROPERTY: intent.schema})
            deregister_leaves(self.root, [o.id for o in operations if o.kind == LeafOperationKind.DROP])
            outcome = WriteOutcome(
                intent.number, True, intent.operation, _now_millis(), tuple(leaf_versions), **request_fields
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, a write that can't end would keep all others out
            failure = error
            reason = error.reason if isinstance(error, CommitConflict) else f"{_FAILURE_PREFIX}{error}"
            suspects = {o.id: o.make for o in operations}
            outcome = WriteOutcome(
                intent.number, False, intent.operation, _now_millis(), (), suspects, reason=reason, **request_fields
            )
        if not self.log.end_write(outcome):
            outcome = self.log.write_outcome(intent.number) or outcome
        if not outcome.is_finished:
            self._undo_write(operations, committed_versions, intent.write)
        return outcome, failure

    def _create_leaves(self, operations: Sequence[LeafOperation], write_id: str) -> None:
        """Create the new leaves, and register all of them in one change of the manifest."""
        if not operations:
            return
        locations = self._registered_locations({o.id for o in operations})
        new_leaves = [o for o in operations if o.id not in locations]
        _map_operations(lambda o: self._create_leaf(o, write_id), new_leaves)
        register_leaves(self.root, [(o.names, o.location) for o in new_leaves])
        locations = self._registered_locations({o.id for o in operations})
        for operation in operations:
            location = locations.get(operation.id)
            if location != operation.location:
                reason = f"registered {operation.id} at {location} instead of {operation.location}"
                raise CommitConflict(operation.kind, reason)

    def _create_leaf(self, operation: LeafOperation, write_id: str) -> None:
        leaf = LeafDataset(self.root.storage, operation.location)
        dataset = leaf.open_if_exists()
        if dataset is None:
            leaf.create(self.stored_schema)
        elif dataset.count_rows() and write_id not in commits_after(dataset, 0).write_ids.values():
            raise TableError(
                f"there are rows at {operation.location}, which is not registered in the table; repair() registers it"
            )
        elif not has_same_columns(dataset.schema, self.stored_schema):
            from lance import LanceOperation

            leaf.commit(dataset, LanceOperation.Overwrite(self.stored_schema, []), {})

    def _registered_locations(self, ids: set[str]) -> dict[str, str]:
        rows = self.root.open_manifest().to_table(columns=["object_id", "location"])
        object_ids = pa.array([ID_SEPARATOR.join((self.root.id, leaf_id)) for leaf_id in ids], pa.string())
        leaf_rows = rows.filter(pc.is_in(rows["object_id"], value_set=object_ids)).to_pylist()
        return {row["object_id"].removeprefix(self.root.id + ID_SEPARATOR): row["location"] for row in leaf_rows}

    def _apply_operations(
        self,
        operations: Sequence[LeafOperation],
        write_id: str,
        committed_versions: Mapping[str, int],
        *,
        is_owner: bool,
    ) -> list[LeafVersion]:
        def apply_to_leaf(operation: LeafOperation) -> LeafVersion:
            leaf = LeafDataset(self.root.storage, operation.location)
            return leaf_version_after(
                operation,
                apply_operation(leaf, operation, write_id, committed_versions[operation.id], is_owner=is_owner),
            )

        return _map_operations(apply_to_leaf, operations)

    def _undo_write(
        self, operations: Sequence[LeafOperation], committed_versions: Mapping[str, int], write_id: str
    ) -> None:
        """Undo the commits of a write; what fails now is left to the next write on that leaf."""

        def undo_leaf(operation: LeafOperation) -> None:
            with suppress(PartitaError):
                undo_commits(
                    LeafDataset(self.root.storage, operation.location),
                    committed_versions[operation.id],
                    lambda commit_write_id: commit_write_id == write_id,
                )

        _map_operations(undo_leaf, operations)


_FAILURE_PREFIX = "failed: "
"""How the reason of an undone write begins if no other writer caused it."""


def _write_error(intent: WriteIntent, outcome: WriteOutcome, error: Exception | None) -> PartitaError:
    """Return the error to raise for an undone write; a `CommitConflict` if another writer caused it."""
    if isinstance(error, PartitaError) and not isinstance(error, CommitConflict):
        return error
    reason = outcome.reason or "was in the way"
    if reason.startswith(_FAILURE_PREFIX):
        return TableError(f"{intent.operation} {reason}; nothing was changed")
    return CommitConflict(intent.operation, reason, intent.number)


def _map_operations(function: Callable[[LeafOperation], Any], operations: Iterable[LeafOperation]) -> list[Any]:
    items = list(operations)
    if len(items) < 2:
        return [function(operation) for operation in items]
    with ThreadPoolExecutor(min(THREADS, len(items))) as pool:
        return list(pool.map(function, items))


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


def _is_running(intent: WriteIntent) -> bool:
    """Whether the process that began a write may still be running it."""
    owner = intent.owner
    if _now_millis() - intent.at > WRITE_TIMEOUT_SECONDS * 1000:
        return False
    return intent.write in _RUNNING_WRITES if is_this_process(owner) else may_be_alive(owner)
