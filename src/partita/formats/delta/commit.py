"""Committing to a Delta table beside others: one file of actions, and what to do when another writer was first.

Two appends never conflict. A change of what the table is (its schema, its settings, its protocol) conflicts with
everything. A change that read some of the table conflicts with a commit that added to what it read, except blind
appends where the table is `WriteSerializable`, and with one that took away a file that it read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from partita.errors import Conflict
from partita.formats.delta.log import Commit, DeltaLog, Snapshot, TableRoot, isolation

Actions = Sequence[Mapping[str, Any]]

_OPERATIONS = {
    "append": "WRITE", "overwrite": "WRITE", "overwrite_partitions": "WRITE", "replace_partitions": "WRITE",
    "delete": "DELETE", "update": "UPDATE", "merge": "MERGE", "rewrite": "OPTIMIZE",
}  # fmt: skip
_MODES = {
    "append": "Append", "overwrite": "Overwrite", "overwrite_partitions": "Overwrite",
    "replace_partitions": "Overwrite",
}  # fmt: skip
_METRICS = {
    "rows_deleted": "numDeletedRows", "rows_updated": "numUpdatedRows", "rows_inserted": "numOutputRows",
    "files_removed": "numRemovedFiles", "files_added": "numAddedFiles",
}  # fmt: skip
CHECKPOINT_INTERVAL = 10


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """What is to be committed, and what it may not meet.

    `looked_at` are the paths of the files that were read. `touches` says whether files that another commit added are
    among what was read; None where nothing was.
    """

    operation: str
    actions: Actions
    parameters: Mapping[str, str]
    metrics: Mapping[str, int]
    touches: Callable[[list[Mapping[str, Any]]], bool] | None = None
    transaction: tuple[str, int] | None = None
    looked_at: frozenset[str] = frozenset()

    @property
    def removed(self) -> set[str]:
        """The paths of the files that go."""
        return {action["remove"]["path"] for action in self.actions if "remove" in action}


def commit(log: DeltaLog, snapshot: Snapshot, attempt: Attempt) -> int:
    """Commit on top of a snapshot, or of what others made of it since; the version.

    A `Conflict` is raised before anything is written. An application's transaction that is there already is not made
    again: its version comes back.
    """
    version = snapshot.version + 1
    interval = _checkpoint_interval(snapshot)
    info = _info(snapshot, attempt)
    while not log.commit(version, [info, *_transaction(attempt), *attempt.actions]):
        for other in log.commits_after(version - 1):
            # A store may answer a repeated request that the file is there: then it is ours.
            if _is_ours(other, info) or _is_same(other, attempt.transaction):
                return other.version
            _check(other, attempt, isolation(snapshot.metadata), log.root)
            version = other.version + 1
    if version % interval == 0:
        log.checkpoint(version, snapshot)
    return version


def _checkpoint_interval(snapshot: Snapshot) -> int:
    """After how many versions there is a checkpoint; what says no number says nothing."""
    given = str(snapshot.metadata.configuration.get("delta.checkpointInterval", ""))
    return int(given) if given.isdecimal() and int(given) > 0 else CHECKPOINT_INTERVAL


def _is_ours(other: Commit, info: Mapping[str, Any]) -> bool:
    return any(found.get("txnId") == info["commitInfo"]["txnId"] for found in _of(other, "commitInfo"))


def _is_same(other: Commit, transaction: tuple[str, int] | None) -> bool:
    if transaction is None:
        return False
    application, number = transaction
    return any(t["appId"] == application and t["version"] >= number for t in _of(other, "txn"))


def _check(other: Commit, attempt: Attempt, level: str, root: TableRoot) -> None:
    for kind, what in (("metaData", "changed the table's metadata"), ("protocol", "changed the table's protocol")):
        if any(_of(other, kind)):
            raise Conflict(attempt.operation, what, other.version)
    gone = _files(attempt.removed, root) & _files((r["path"] for r in _of(other, "remove")), root)
    if gone:
        raise Conflict(attempt.operation, f"took away a file that this one does ({min(gone)})", other.version)
    changed = (remove["path"] for remove in _of(other, "remove") if remove.get("dataChange", True))
    missed = _files(attempt.looked_at, root) & _files(changed, root)
    if missed:
        raise Conflict(attempt.operation, f"took away a file that this one read ({min(missed)})", other.version)
    if attempt.touches is None or (level == "WriteSerializable" and _is_blind(other)):
        return
    added = [add for add in _of(other, "add") if add.get("dataChange", True)]
    if added and attempt.touches(added):
        raise Conflict(attempt.operation, "added rows to what this one read", other.version)


def _files(paths: Iterable[str], root: TableRoot) -> set[str]:
    """The files that these paths name, however they are spelled."""
    return set(map(root.canonical_path, paths))


def _is_blind(commit: Commit) -> bool:
    """Whether the commit only added, and read nothing for it."""
    return any(info.get("isBlindAppend") is True for info in _of(commit, "commitInfo"))


def _of(commit: Commit, kind: str) -> Iterator[Mapping[str, Any]]:
    return (action[kind] for action in commit.actions if action.get(kind) is not None)


def _transaction(attempt: Attempt) -> list[Mapping[str, Any]]:
    if attempt.transaction is None:
        return []
    application, number = attempt.transaction
    return [{"txn": {"appId": application, "version": number, "lastUpdated": now()}}]


def _info(snapshot: Snapshot, attempt: Attempt) -> Mapping[str, Any]:
    parameters = {key: json.dumps(value) for key, value in attempt.parameters.items()}
    if attempt.operation in _MODES:
        parameters = {"mode": _MODES[attempt.operation], **parameters}
    return {
        "commitInfo": {
            "timestamp": now(),
            "operation": _OPERATIONS.get(attempt.operation, attempt.operation),
            "operationParameters": parameters,
            "operationMetrics": {_METRICS.get(key, key): str(value) for key, value in attempt.metrics.items()},
            "readVersion": snapshot.version,
            "isolationLevel": isolation(snapshot.metadata),
            "isBlindAppend": attempt.touches is None and not attempt.removed,
            "engineInfo": "Partita",
            "txnId": str(uuid4()),
        }
    }


def now() -> int:
    """Milliseconds from 1970."""
    return time.time_ns() // 1_000_000
