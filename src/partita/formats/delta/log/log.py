"""The log of one table: read it, commit to it, make checkpoints of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from partita.formats.containment import check_inside
from partita.formats.delta.log.checkpoints import checkpoint_paths
from partita.formats.delta.log.commits import Commit, parsed, read_commits, serialized, split, vector_path
from partita.formats.delta.log.paths import TableRoot
from partita.formats.delta.log.replay import replay
from partita.formats.delta.log.segment import (
    FOLDER,
    commit_path,
    find_segment,
    latest_listing,
    list_log,
    segment_after,
)
from partita.formats.delta.log.snapshot import Snapshot
from partita.storage import Storage
from partita.untrusted import reading


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of the table in a folder."""

    storage: Storage

    @property
    def root(self) -> TableRoot:
        """The table's folder, which tells paths of the log apart."""
        return TableRoot.of(self.storage)

    def snapshot(self, version: int | None = None, after: Snapshot | None = None) -> Snapshot:
        """The table at that version, or at the newest.

        Given an earlier snapshot of it in `after`, only the commits since are read; it comes back itself where there
        are none.
        """
        self._check_inside()
        with self._reading():
            if after is not None and (version is None or version >= after.version):
                newer = segment_after(self.storage, after.version, version)
                if newer is not None:
                    return replay(self.storage, newer, after) if newer.commits else after
            return replay(self.storage, find_segment(self.storage, version))

    def _reading(self) -> AbstractContextManager[None]:
        return reading(f"the Delta log of {self.storage.uri}")

    def latest_version(self) -> int:
        """The newest version."""
        return latest_listing(self.storage).latest

    def commits_after(self, version: int) -> list[Commit]:
        """Every commit after that version, oldest first; empty where it is the newest."""
        versions = range(version + 1, list_log(self.storage, version + 1).latest + 1)
        return [parsed(v, data) for v, data in zip(versions, read_commits(self.storage, versions), strict=True)]

    def commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Make that version of those actions; False where another writer made it first, and then nothing is changed."""
        self._check_inside()
        return self.storage.put_new(commit_path(version), serialized(actions))

    def _check_inside(self) -> None:
        """Refuse a log behind a link out of the table's folder: it is that of another table."""
        check_inside(self.storage.uri, FOLDER, "the log")

    def checkpoint(self, version: int, known: Snapshot | None = None) -> bool:
        """Write a checkpoint of a version that exists; False where that fails, which takes nothing from the table.

        `known` is an earlier snapshot, which spares the replay of its commits.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        options = dict(self.storage.options) or None
        try:
            table = DeltaTable(self.storage.uri, version=version, storage_options=options)
            snapshot = self.snapshot(version, after=known)
            # delta-rs takes every spelling of a path for a file of its own, and would bring back what was removed.
            if snapshot.canonical_paths is not None and len(table.file_uris()) != snapshot.files.num_rows:
                return False
            table.create_checkpoint()
        except (DeltaError, OSError, ValueError):
            return False
        return True

    def named_paths(self) -> set[str]:
        """The canonical path of every file that the log still names: those that are there, and those that went.

        Files of change data and of deletion vectors are among them.
        """
        with self._reading():
            listing = list_log(self.storage)
            named = {path for checkpoint in listing.checkpoints for path in checkpoint_paths(self.storage, checkpoint)}
            versions = sorted(listing.commits)
            for version, data in zip(versions, read_commits(self.storage, versions), strict=True):
                for action in parsed(version, data).actions:
                    for found in filter(None, map(action.get, ("add", "remove", "cdc"))):
                        if isinstance(found, dict):
                            named.update(_named_by(found))
            return set(map(self.root.canonical_path, named))

    def history(self, limit: int | None = None) -> pa.Table:
        """What the commits that the log still has say of themselves, newest first.

        Columns: `version`, `timestamp`, `operation`, `user_metadata`, and `operation_parameters` and
        `operation_metrics` as JSON; null where a commit doesn't say.
        """
        with self._reading():
            latest_listing(self.storage)
            versions = sorted(list_log(self.storage).commits, reverse=True)[:limit]
            commits = zip(versions, read_commits(self.storage, versions), strict=True)
            rows = [{"version": version, **_told(split(version, data).info)} for version, data in commits]
            return pa.Table.from_pylist(rows, _HISTORY)


def _named_by(action: Mapping[str, Any]) -> Iterator[str]:
    """The paths of the file of an action, and of its deletion vector."""
    vector = action.get("deletionVector")
    paths = (action.get("path"), vector_path(vector) if isinstance(vector, Mapping) else None)
    return (path for path in paths if isinstance(path, str))


_HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("operation", pa.string()),
        ("user_metadata", pa.string()),
        ("operation_parameters", pa.string()),
        ("operation_metrics", pa.string()),
    ]
)


def _told(info: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "timestamp": info.get("inCommitTimestamp", info.get("timestamp")),
        "operation": info.get("operation"),
        "user_metadata": info.get("userMetadata"),
        "operation_parameters": _json(info.get("operationParameters")),
        "operation_metrics": _json(info.get("operationMetrics")),
    }


def _json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
