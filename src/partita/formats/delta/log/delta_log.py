"""The log of one table: read snapshots, write commits and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from partita.formats.containment import check_inside
from partita.formats.delta.log.checkpoints import checkpoint_file_paths
from partita.formats.delta.log.commit_files import (
    DeltaCommit,
    deletion_vector_path,
    parse_commit,
    read_commit_files,
    serialize_actions,
    split_commit,
)
from partita.formats.delta.log.paths import TableRoot
from partita.formats.delta.log.replay import replay_log
from partita.formats.delta.log.segment import (
    LOG_FOLDER,
    commit_path,
    find_log_segment,
    list_log,
    list_log_tail,
    log_segment_after,
)
from partita.formats.delta.log.snapshot import DeltaSnapshot
from partita.storage import Storage
from partita.untrusted_input import translate_read_errors


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of the table in a folder."""

    storage: Storage

    @property
    def table_root(self) -> TableRoot:
        """The table's folder, which canonical paths are relative to."""
        return TableRoot.of(self.storage)

    def snapshot(self, version: int | None = None, previous: DeltaSnapshot | None = None) -> DeltaSnapshot:
        """Return the table at a version, or at the newest one.

        With an earlier snapshot in `previous`, only the commits since are read; without any, `previous` itself is
        returned.
        """
        self._check_log_folder()
        with self._translate_read_errors():
            if previous is not None and (version is None or version >= previous.version):
                newer_segment = log_segment_after(self.storage, previous.version, version)
                if newer_segment is not None:
                    return (
                        replay_log(self.storage, newer_segment, previous) if newer_segment.commit_versions else previous
                    )
            return replay_log(self.storage, find_log_segment(self.storage, version))

    def _translate_read_errors(self) -> AbstractContextManager[None]:
        return translate_read_errors(f"the Delta log of {self.storage.uri}")

    def latest_version(self) -> int:
        """Return the newest version."""
        return list_log_tail(self.storage).latest_version

    def commits_after(self, version: int) -> list[DeltaCommit]:
        """Return every commit after a version, oldest first."""
        versions = range(version + 1, list_log(self.storage, version + 1).latest_version + 1)
        return [
            parse_commit(v, data) for v, data in zip(versions, read_commit_files(self.storage, versions), strict=True)
        ]

    def write_commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Write the commit of a version; return False, and write nothing, if another writer was first."""
        self._check_log_folder()
        return self.storage.put_if_absent(commit_path(version), serialize_actions(actions))

    def _check_log_folder(self) -> None:
        """Raise `TableError` if the log is a symbolic link out of the table's folder, to another table's log."""
        check_inside(self.storage.uri, LOG_FOLDER, "the log")

    def write_checkpoint(self, version: int, previous: DeltaSnapshot | None = None) -> bool:
        """Write a checkpoint of a version; return False if that fails, which does no harm to the table.

        `previous` is an earlier snapshot, which saves the replay of its commits.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        options = dict(self.storage.options) or None
        try:
            table = DeltaTable(self.storage.uri, version=version, storage_options=options)
            snapshot = self.snapshot(version, previous=previous)
            # delta-rs takes each spelling of a path for a file of its own, and would bring back removed files.
            if snapshot.canonical_paths is not None and len(table.file_uris()) != snapshot.files.num_rows:
                return False
            table.create_checkpoint()
        except (DeltaError, OSError, ValueError):
            return False
        return True

    def referenced_paths(self) -> set[str]:
        """Return the canonical paths of all files that the log references: added and removed ones.

        Files of change data and of deletion vectors are included.
        """
        with self._translate_read_errors():
            listing = list_log(self.storage)
            paths = {
                path for checkpoint in listing.checkpoints for path in checkpoint_file_paths(self.storage, checkpoint)
            }
            versions = sorted(listing.commit_versions)
            for version, data in zip(versions, read_commit_files(self.storage, versions), strict=True):
                for action in parse_commit(version, data).actions:
                    for file_action in filter(None, map(action.get, ("add", "remove", "cdc"))):
                        if isinstance(file_action, dict):
                            paths.update(_action_paths(file_action))
            return set(map(self.table_root.canonical_path, paths))

    def history(self, limit: int | None = None) -> pa.Table:
        """Return the `commitInfo` of the commits that the log still has, newest first.

        Columns: `version`, `timestamp`, `operation`, `user_metadata`, and `operation_parameters` and
        `operation_metrics` as JSON; null where a commit lacks the field.
        """
        with self._translate_read_errors():
            list_log_tail(self.storage)
            versions = sorted(list_log(self.storage).commit_versions, reverse=True)[:limit]
            commits = zip(versions, read_commit_files(self.storage, versions), strict=True)
            rows = [
                {"version": version, **_history_row(split_commit(version, data).commit_info)}
                for version, data in commits
            ]
            return pa.Table.from_pylist(rows, _HISTORY_SCHEMA)


def _action_paths(action: Mapping[str, Any]) -> Iterator[str]:
    """Return the path of the file of an action, and that of its deletion vector."""
    vector = action.get("deletionVector")
    paths = (action.get("path"), deletion_vector_path(vector) if isinstance(vector, Mapping) else None)
    return (path for path in paths if isinstance(path, str))


_HISTORY_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("operation", pa.string()),
        ("user_metadata", pa.string()),
        ("operation_parameters", pa.string()),
        ("operation_metrics", pa.string()),
    ]
)


def _history_row(info: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "timestamp": info.get("inCommitTimestamp", info.get("timestamp")),
        "operation": info.get("operation"),
        "user_metadata": info.get("userMetadata"),
        "operation_parameters": _json_text(info.get("operationParameters")),
        "operation_metrics": _json_text(info.get("operationMetrics")),
    }


def _json_text(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
