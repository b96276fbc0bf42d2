"""Whether a commit of another writer conflicts with one that is about to be committed on top of it.

| the other commit                     | conflicts with a commit that                                      |
|--------------------------------------|-------------------------------------------------------------------|
| changes the metadata or the protocol | does anything                                                     |
| removes a file                       | removes the same file                                             |
| removes a file with `dataChange`     | read the file                                                     |
| adds a file with `dataChange`        | read rows where the file may have some; at the isolation level    |
|                                      | `WriteSerializable` not if the other commit is a blind append     |

Two appends never conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from partita.errors import CommitConflict
from partita.formats.delta.log import DeltaCommit, TableRoot

if TYPE_CHECKING:
    from partita.formats.delta.commit import PendingCommit


def check_conflict(other_commit: DeltaCommit, pending_commit: PendingCommit, level: str, root: TableRoot) -> None:
    """Raise `CommitConflict` if another commit changed what a pending one depends on, at an isolation level."""
    for kind, reason in (("metaData", "changed the table's metadata"), ("protocol", "changed the table's protocol")):
        if any(actions_of_kind(other_commit, kind)):
            raise CommitConflict(pending_commit.change.operation, reason, other_commit.version)
    remove_actions = list(actions_of_kind(other_commit, "remove"))
    shared_removals = _canonical_paths(pending_commit.removed_paths, root) & _canonical_paths(
        (remove_action["path"] for remove_action in remove_actions), root
    )
    if shared_removals:
        reason = f"removed a file that this commit removes too ({min(shared_removals)})"
        raise CommitConflict(pending_commit.change.operation, reason, other_commit.version)
    changed_paths = (remove_action["path"] for remove_action in remove_actions if remove_action.get("dataChange", True))
    removed_read_paths = _canonical_paths(pending_commit.read_paths, root) & _canonical_paths(changed_paths, root)
    if removed_read_paths:
        reason = f"removed a file that this commit read ({min(removed_read_paths)})"
        raise CommitConflict(pending_commit.change.operation, reason, other_commit.version)
    if pending_commit.matches_read is None or (level == "WriteSerializable" and _is_blind_append(other_commit)):
        return
    added_files = [add for add in actions_of_kind(other_commit, "add") if add.get("dataChange", True)]
    if added_files and pending_commit.matches_read(added_files):
        raise CommitConflict(
            pending_commit.change.operation, "added rows to what this commit read", other_commit.version
        )


def actions_of_kind(commit: DeltaCommit, kind: str) -> Iterator[Mapping[str, Any]]:
    """Return the actions of one kind (`add`, `remove`, `txn`, ...) of a commit."""
    return (action[kind] for action in commit.actions if action.get(kind) is not None)


def _canonical_paths(paths: Iterable[str], root: TableRoot) -> set[str]:
    return set(map(root.canonical_path, paths))


def _is_blind_append(commit: DeltaCommit) -> bool:
    return any(info.get("isBlindAppend") is True for info in actions_of_kind(commit, "commitInfo"))
