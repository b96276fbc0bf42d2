"""The log of one table: read it, commit to it, make checkpoints of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from partita.formats.delta.log.checkpoints import checkpoint_paths
from partita.formats.delta.log.commits import Commit, parsed, read_commits, serialized, split
from partita.formats.delta.log.replay import replay
from partita.formats.delta.log.segment import (
    commit_path,
    find_segment,
    latest_listing,
    list_log,
    segment_after,
)
from partita.formats.delta.log.snapshot import Snapshot
from partita.storage import Storage


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of the table in a folder."""

    storage: Storage

    def snapshot(self, version: int | None = None, after: Snapshot | None = None) -> Snapshot:
        """The table at that version, or at the newest.

        Given an earlier snapshot of it in `after`, only the commits since are read; it comes back itself where there
        are none.
        """
        if after is not None and (version is None or version >= after.version):
            newer = segment_after(self.storage, after.version, version)
            if newer is not None:
                return replay(self.storage, newer, after) if newer.commits else after
        return replay(self.storage, find_segment(self.storage, version))

    def latest_version(self) -> int:
        """The newest version."""
        return latest_listing(self.storage).latest

    def commits_after(self, version: int) -> list[Commit]:
        """Every commit after that version, oldest first; empty where it is the newest."""
        versions = range(version + 1, list_log(self.storage, version + 1).latest + 1)
        return [parsed(v, data) for v, data in zip(versions, read_commits(self.storage, versions), strict=True)]

    def commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Make that version of those actions; False where another writer made it first, and then nothing is changed."""
        return self.storage.put_new(commit_path(version), serialized(actions))

    def checkpoint(self, version: int) -> bool:
        """Write a checkpoint of a version that exists; False where that fails, which takes nothing from the table."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        options = dict(self.storage.options) or None
        try:
            DeltaTable(self.storage.uri, version=version, storage_options=options).create_checkpoint()
        except (DeltaError, OSError, ValueError):
            return False
        return True

    def named_paths(self) -> set[str]:
        """The path of every file that the log still speaks of: those that are there, and those that went."""
        listing = list_log(self.storage)
        named = {path for checkpoint in listing.checkpoints for path in checkpoint_paths(self.storage, checkpoint)}
        versions = sorted(listing.commits)
        for version, data in zip(versions, read_commits(self.storage, versions), strict=True):
            for action in parsed(version, data).actions:
                named.update(found["path"] for kind in ("add", "remove") if (found := action.get(kind)) is not None)
        return named

    def history(self, limit: int | None = None) -> pa.Table:
        """What the commits that the log still has say of themselves, newest first.

        Columns: `version`, `timestamp`, `operation`, `user_metadata`, and `operation_parameters` and
        `operation_metrics` as JSON; null where a commit doesn't say.
        """
        latest_listing(self.storage)
        versions = sorted(list_log(self.storage).commits, reverse=True)[:limit]
        commits = zip(versions, read_commits(self.storage, versions), strict=True)
        rows = [{"version": version, **_told(split(version, data).info)} for version, data in commits]
        return pa.Table.from_pylist(rows, _HISTORY)


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
