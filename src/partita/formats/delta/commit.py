"""Commit actions to the log of a Delta table, and retry on top of the commits of other writers.

`partita.formats.delta.conflicts` says which commits of others a retry may not be put on top of.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from partita.formats.capabilities import Operation
from partita.formats.delta.conflicts import actions_of_kind, check_conflict
from partita.formats.delta.log import DeltaCommit, DeltaLog, DeltaSnapshot, isolation_level
from partita.formats.table_change import TableChange

Actions = Sequence[Mapping[str, Any]]

_OPERATION_NAMES = {
    Operation.APPEND: "WRITE", Operation.OVERWRITE: "WRITE", Operation.OVERWRITE_PARTITIONS: "WRITE",
    Operation.REPLACE_PARTITIONS: "WRITE", Operation.DELETE: "DELETE", Operation.UPDATE: "UPDATE",
    Operation.MERGE: "MERGE", Operation.REWRITE: "OPTIMIZE",
}  # fmt: skip
_WRITE_MODES = {
    Operation.APPEND: "Append", Operation.OVERWRITE: "Overwrite", Operation.OVERWRITE_PARTITIONS: "Overwrite",
    Operation.REPLACE_PARTITIONS: "Overwrite",
}  # fmt: skip
_METRIC_NAMES = {
    "rows_deleted": "numDeletedRows", "rows_updated": "numUpdatedRows", "rows_inserted": "numOutputRows",
    "files_removed": "numRemovedFiles", "files_added": "numAddedFiles",
}  # fmt: skip
DEFAULT_CHECKPOINT_INTERVAL = 10


@dataclass(frozen=True, slots=True, eq=False)
class PendingCommit:
    """A table change as actions of the log, and what it read of the table.

    `matches_read` says whether any of some `add` actions, those of another commit, belongs to what was read; it is None
    if nothing was read. `read_paths` are the paths of the files that were read, as the log has them.
    """

    change: TableChange
    actions: Actions
    matches_read: Callable[[list[Mapping[str, Any]]], bool] | None = None
    read_paths: frozenset[str] = frozenset()

    @property
    def removed_paths(self) -> set[str]:
        """The paths of the files that the commit removes."""
        return {action["remove"]["path"] for action in self.actions if "remove" in action}


def commit_actions(log: DeltaLog, snapshot: DeltaSnapshot, pending_commit: PendingCommit) -> int:
    """Commit on top of a snapshot, or of the commits that others made since, and return the version.

    If another commit has recorded the application's transaction already, nothing is committed and the version of that
    commit is returned. Raises `CommitConflict`, before anything is written, if a commit since the snapshot conflicts.
    """
    version = snapshot.version + 1
    interval = _checkpoint_interval(snapshot)
    commit_info = _commit_info_action(snapshot, pending_commit)
    while not log.write_commit(version, [commit_info, *_transaction_actions(pending_commit), *pending_commit.actions]):
        for other_commit in log.commits_after(version - 1):
            # An object store may answer a retried request with "exists": then the commit is our own.
            if _is_own_commit(other_commit, commit_info) or _has_transaction(
                other_commit, pending_commit.change.transaction
            ):
                return other_commit.version
            check_conflict(other_commit, pending_commit, isolation_level(snapshot.metadata), log.table_root)
            version = other_commit.version + 1
    if version % interval == 0:
        log.write_checkpoint(version, snapshot)
    return version


def _checkpoint_interval(snapshot: DeltaSnapshot) -> int:
    """Return `delta.checkpointInterval`, or the default if the property is not a positive integer."""
    text = str(snapshot.metadata.configuration.get("delta.checkpointInterval", ""))
    return int(text) if text.isdecimal() and int(text) > 0 else DEFAULT_CHECKPOINT_INTERVAL


def _is_own_commit(other_commit: DeltaCommit, commit_info: Mapping[str, Any]) -> bool:
    own_id = commit_info["commitInfo"]["txnId"]
    return any(info.get("txnId") == own_id for info in actions_of_kind(other_commit, "commitInfo"))


def _has_transaction(other_commit: DeltaCommit, transaction: tuple[str, int] | None) -> bool:
    if transaction is None:
        return False
    application, number = transaction
    return any(t["appId"] == application and t["version"] >= number for t in actions_of_kind(other_commit, "txn"))


def _transaction_actions(pending_commit: PendingCommit) -> list[Mapping[str, Any]]:
    if pending_commit.change.transaction is None:
        return []
    application, number = pending_commit.change.transaction
    return [{"txn": {"appId": application, "version": number, "lastUpdated": current_millis()}}]


def _commit_info_action(snapshot: DeltaSnapshot, pending_commit: PendingCommit) -> Mapping[str, Any]:
    parameters = {key: json.dumps(value) for key, value in pending_commit.change.parameters.items()}
    if pending_commit.change.operation in _WRITE_MODES:
        parameters = {"mode": _WRITE_MODES[pending_commit.change.operation], **parameters}
    return {
        "commitInfo": {
            "timestamp": current_millis(),
            "operation": _OPERATION_NAMES[pending_commit.change.operation],
            "operationParameters": parameters,
            "operationMetrics": {
                _METRIC_NAMES.get(key, key): str(value) for key, value in pending_commit.change.metrics.items()
            },
            "readVersion": snapshot.version,
            "isolationLevel": isolation_level(snapshot.metadata),
            "isBlindAppend": pending_commit.matches_read is None and not pending_commit.removed_paths,
            "engineInfo": "Partita",
            "txnId": str(uuid4()),
        }
    }


def current_millis() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
