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


def check_conflict(other: DeltaCommit, pending: PendingCommit, level: str, root: TableRoot) -> None:
    """Raise `CommitConflict` if another commit changed what a pending one depends on, at an isolation level."""
    for kind, reason in (("metaData", "changed the table's metadata"), ("protocol", "changed the table's protocol")):
        if any(actions_of_kind(other, kind)):
            raise CommitConflict(pending.operation, reason, other.version)
    removes = list(actions_of_kind(other, "remove"))
    removed_by_both = _canonical_paths(pending.removed_paths, root) & _canonical_paths(
        (remove["path"] for remove in removes), root
    )
    if removed_by_both:
        reason = f"removed a file that this commit removes too ({min(removed_by_both)})"
        raise CommitConflict(pending.operation, reason, other.version)
    changed_paths = (remove["path"] for remove in removes if remove.get("dataChange", True))
    read_and_removed = _canonical_paths(pending.read_paths, root) & _canonical_paths(changed_paths, root)
    if read_and_removed:
        reason = f"removed a file that this commit read ({min(read_and_removed)})"
        raise CommitConflict(pending.operation, reason, other.version)
    if pending.matches_read is None or (level == "WriteSerializable" and _is_blind_append(other)):
        return
    added = [add for add in actions_of_kind(other, "add") if add.get("dataChange", True)]
    if added and pending.matches_read(added):
        raise CommitConflict(pending.operation, "added rows to what this commit read", other.version)


def actions_of_kind(commit: DeltaCommit, kind: str) -> Iterator[Mapping[str, Any]]:
    """Return the actions of one kind (`add`, `remove`, `txn`, ...) of a commit."""
    return (action[kind] for action in commit.actions if action.get(kind) is not None)


def _canonical_paths(paths: Iterable[str], root: TableRoot) -> set[str]:
    return set(map(root.canonical_path, paths))


def _is_blind_append(commit: DeltaCommit) -> bool:
    return any(info.get("isBlindAppend") is True for info in actions_of_kind(commit, "commitInfo"))
