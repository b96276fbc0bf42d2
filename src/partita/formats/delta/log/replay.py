"""Replay the actions of a log into a snapshot (Action Reconciliation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import Array, Bools, dense_array
from partita.errors import TableError
from partita.formats.delta.log.checkpoints import (
    checkpoint_actions,
    checkpoint_files,
    checkpoint_removed_files,
)
from partita.formats.delta.log.commit_files import CommitLines, file_action_rows, read_commit_files, split_commit
from partita.formats.delta.log.partition_values import select_partition_values
from partita.formats.delta.log.paths import TableRoot
from partita.formats.delta.log.segment import LogSegment, commit_path
from partita.formats.delta.log.snapshot import (
    DeltaMetadata,
    DeltaProtocol,
    DeltaSnapshot,
    files_schema,
    physical_partition_names,
)
from partita.storage import Storage


def replay_log(storage: Storage, segment: LogSegment, previous: DeltaSnapshot | None = None) -> DeltaSnapshot:
    """Return the snapshot of a segment; without a checkpoint, its commits are applied on top of `previous`."""
    commits = [
        split_commit(version, data)
        for version, data in zip(
            segment.commit_versions, read_commit_files(storage, segment.commit_versions), strict=True
        )
    ]
    earlier_actions = [] if segment.checkpoint is None else checkpoint_actions(storage, segment.checkpoint)
    actions = [*earlier_actions, *(action for commit in commits for action in commit.other_actions)]
    protocol, metadata, transactions = _latest_table_actions(actions, previous)
    names = physical_partition_names(metadata)
    rows, is_add = file_action_rows(commits, names)
    root = TableRoot.of(storage)
    base_files = _base_files(storage, segment, previous, names)
    if segment.checkpoint is None:
        base_paths = None if previous is None else previous.canonical_paths
    else:
        base_files, base_paths = _reconcile_checkpoint(
            base_files, checkpoint_removed_files(storage, segment.checkpoint), root
        )
    files, canonical = reconcile_files(base_files, base_paths, rows, root.canonical_paths(rows["path"]), is_add)
    timestamp = _snapshot_timestamp(storage, segment, commits, files)
    return DeltaSnapshot(segment.version, timestamp, protocol, metadata, files, transactions, canonical)


def replay_without_files(
    segment: LogSegment, earlier_actions: Sequence[Mapping[str, Any]], commits: Sequence[CommitLines]
) -> DeltaSnapshot:
    """Return the snapshot of a segment without its files, from the actions of its checkpoint and its commits.

    Its timestamp is 0 if its newest commit has none.
    """
    actions = [*earlier_actions, *(action for commit in commits for action in commit.other_actions)]
    protocol, metadata, transactions = _latest_table_actions(actions, None)
    files = files_schema(physical_partition_names(metadata)).empty_table()
    timestamp = (commits[-1].timestamp if commits else None) or 0
    return DeltaSnapshot(segment.version, timestamp, protocol, metadata, files, transactions)


def reconcile_files(
    base_files: pa.Table, base_paths: Array | None, rows: pa.Table, row_paths: Array | None, is_add: pa.ChunkedArray
) -> tuple[pa.Table, Array | None]:
    """Apply the file actions `rows` to `base_files`; return the files and their canonical paths.

    The last action of each file counts, and the file stays if that is an `add`. A file is identified by its canonical
    path together with its deletion vector; `base_files` has each once. `base_paths` and `row_paths` are the canonical
    paths of both, or None if all paths are canonical already.
    """
    if not rows.num_rows:
        return base_files, base_paths
    vectors = _has_deletion_vectors(base_files) or _has_deletion_vectors(rows)
    keys = _file_keys(rows, row_paths, with_deletion_vectors=vectors)
    is_new_file = pa.array(_is_last_occurrence(keys) & _bool_values(is_add))
    is_replaced = pc.is_in(_file_keys(base_files, base_paths, with_deletion_vectors=vectors), value_set=keys)
    is_current = pc.invert(is_replaced) if pc.any(is_replaced).as_py() else None
    files = pa.concat_tables(
        [base_files if is_current is None else base_files.filter(is_current), rows.filter(is_new_file)]
    )
    files = files.combine_chunks() if files["path"].num_chunks > _MAX_CHUNKS else files
    if base_paths is None and row_paths is None:
        return files, None
    old_paths, new_paths = (
        dense_array(t["path"]) if p is None else p for t, p in ((base_files, base_paths), (rows, row_paths))
    )
    current_paths = old_paths if is_current is None else old_paths.filter(is_current)
    return files, pa.concat_arrays(
        [paths.cast(pa.large_string()) for paths in (current_paths, new_paths.filter(is_new_file))]
    )


def _reconcile_checkpoint(files: pa.Table, removes: pa.Table, root: TableRoot) -> tuple[pa.Table, Array | None]:
    """Return the files of a checkpoint and their canonical paths, each file once.

    The writer of the checkpoint may have taken two spellings of a path for two files. Then the last one counts; a file
    that is removed under another spelling is gone, since a checkpoint has no order and a file's name is used once.
    """
    canonical, removed_paths = root.canonical_paths(files["path"]), root.canonical_paths(removes["path"])
    if canonical is None and removed_paths is None:
        return files, None
    keys = _file_keys(files, canonical, with_deletion_vectors=True)
    is_current = _is_last_occurrence(keys)
    is_removed = pc.is_in(keys, value_set=_file_keys(removes, removed_paths, with_deletion_vectors=True))
    if pc.any(is_removed).as_py():
        has_same_spelling = pc.is_in(
            _file_keys(files, None, with_deletion_vectors=True),
            value_set=_file_keys(removes, None, with_deletion_vectors=True),
        )
        is_current &= ~_bool_values(pc.and_not(is_removed, has_same_spelling))
    mask = pa.array(is_current)
    return files.filter(mask), (dense_array(files["path"]) if canonical is None else canonical).filter(mask)


_MAX_CHUNKS = 64
"""Number of chunks from which on a table is copied into one; each commit that is replayed alone adds one."""


def _latest_table_actions(
    actions: Sequence[Mapping[str, Any]], previous: DeltaSnapshot | None
) -> tuple[DeltaProtocol, DeltaMetadata, dict[str, int]]:
    """Return the last protocol, the last metadata, and the last transaction of each application."""
    protocol, metadata = _latest_action(actions, "protocol"), _latest_action(actions, "metaData")
    if previous is None and (protocol is None or metadata is None):
        raise TableError(f"the log has no {'protocol' if protocol is None else 'metaData'} action")
    earlier = cast("DeltaSnapshot", previous)
    return (
        earlier.protocol if protocol is None else DeltaProtocol.from_action(protocol),
        earlier.metadata if metadata is None else DeltaMetadata.from_action(metadata),
        {**({} if previous is None else previous.transactions), **_transaction_versions(actions)},
    )


def _transaction_versions(actions: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    try:
        return {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
    except KeyError as error:
        raise TableError(f"a txn action of the log lacks {error}") from error


def _latest_action(actions: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((action[name] for action in reversed(actions) if action.get(name)), None)


def _base_files(
    storage: Storage, segment: LogSegment, previous: DeltaSnapshot | None, partition_names: Sequence[str]
) -> pa.Table:
    if segment.checkpoint is not None:
        return checkpoint_files(storage, segment.checkpoint, partition_names)
    if previous is None:
        return files_schema(partition_names).empty_table()
    schema = files_schema(partition_names)
    return previous.files if previous.files.schema == schema else _repartition_files(previous.files, schema)


def _repartition_files(files: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return files with the partition columns of another schema; values that they lack are null."""
    values = dense_array(files["partition_values"])
    names = [f.name for f in schema.field("partition_values").type]
    return files.set_column(1, schema.field(1), select_partition_values(values, names))


def _has_deletion_vectors(files: pa.Table) -> bool:
    return bool(pc.any(files["has_deletion_vector"]).as_py())


def _file_keys(files: pa.Table, canonical: Array | None, *, with_deletion_vectors: bool) -> pa.Array:
    """Return the identity of each file: its canonical path, and the id of its deletion vector if any file has one."""
    path = dense_array(files["path"]) if canonical is None else canonical
    path = path.cast(pa.large_string())
    if not with_deletion_vectors:
        return path
    ids = dense_array(files["deletion_vector"]).cast(pa.large_string())
    return pc.binary_join_element_wise(path, pc.fill_null(ids, ""), pa.scalar("\n", pa.large_string()))


def _is_last_occurrence(keys: pa.Array) -> Bools:
    """Whether no later key is equal to a key."""
    codes = keys.dictionary_encode()
    last_rows = np.zeros(len(codes.dictionary), np.int64)
    rows = np.arange(len(keys))
    # Of several values for the same index, numpy keeps the last.
    last_rows[codes.indices.to_numpy()] = rows
    return cast("Bools", last_rows[codes.indices.to_numpy()] == rows)


def _bool_values(array: pa.ChunkedArray) -> Bools:
    return cast("Bools", dense_array(array).to_numpy(zero_copy_only=False))


def _snapshot_timestamp(storage: Storage, segment: LogSegment, commits: Sequence[CommitLines], files: pa.Table) -> int:
    """Return when the version was committed; without a commit that says so, when its newest file was written."""
    commit = commits[-1] if commits else _read_commit(storage, segment.version)
    if commit is not None and commit.timestamp is not None:
        return commit.timestamp
    return cast("int", pc.max(files["modification_time"]).as_py() or 0)


def _read_commit(storage: Storage, version: int) -> CommitLines | None:
    data = storage.get(commit_path(version))
    return None if data is None else split_commit(version, data)
