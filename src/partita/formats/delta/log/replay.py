"""From the actions of a log to a snapshot (Action Reconciliation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import Array, Bools, one_array
from partita.errors import TableError
from partita.formats.delta.log.checkpoints import checkpoint_actions, checkpoint_files, checkpoint_removes, structs
from partita.formats.delta.log.commits import Lines, file_rows, read_commits, split
from partita.formats.delta.log.paths import TableRoot
from partita.formats.delta.log.segment import Segment, commit_path
from partita.formats.delta.log.snapshot import Metadata, Protocol, Snapshot, files_schema, partition_names
from partita.storage import Storage


def replay(storage: Storage, segment: Segment, previous: Snapshot | None = None) -> Snapshot:
    """The snapshot of a segment; where it has no checkpoint, its commits come on top of `previous`."""
    commits = [
        split(version, data)
        for version, data in zip(segment.commits, read_commits(storage, segment.commits), strict=True)
    ]
    earlier = [] if segment.checkpoint is None else checkpoint_actions(storage, segment.checkpoint)
    actions = [*earlier, *(action for commit in commits for action in commit.others)]
    protocol, metadata, transactions = _folded(actions, previous)
    names = partition_names(metadata)
    rows, is_add = file_rows(commits, names)
    root = TableRoot.of(storage)
    base = _base(storage, segment, previous, names)
    if segment.checkpoint is None:
        known = None if previous is None else previous.canonical_paths
    else:
        base, known = _reconciled_checkpoint(base, checkpoint_removes(storage, segment.checkpoint), root)
    files, canonical = reconciled(base, known, rows, root.canonical_paths(rows["path"]), is_add)
    timestamp = _timestamp(storage, segment, commits, files)
    return Snapshot(segment.version, timestamp, protocol, metadata, files, transactions, canonical)


def described(segment: Segment, earlier: Sequence[Mapping[str, Any]], commits: Sequence[Lines]) -> Snapshot:
    """The snapshot of a segment without its files, by the actions of its checkpoint and its commits.

    Its timestamp is 0 where its newest commit doesn't say one.
    """
    actions = [*earlier, *(action for commit in commits for action in commit.others)]
    protocol, metadata, transactions = _folded(actions, None)
    files = files_schema(partition_names(metadata)).empty_table()
    said = commits[-1].info.get("inCommitTimestamp", commits[-1].info.get("timestamp")) if commits else None
    return Snapshot(segment.version, said if isinstance(said, int) else 0, protocol, metadata, files, transactions)


def reconciled(
    base: pa.Table, base_paths: Array | None, rows: pa.Table, row_paths: Array | None, is_add: pa.ChunkedArray
) -> tuple[pa.Table, Array | None]:
    """The files of `base` with `rows` on top of it, and their canonical paths.

    Of each file the last row counts, and it stays if it was added. A file is its canonical path together with its
    deletion vector; `base` has each once. `base_paths` and `row_paths` are the canonical paths of both, None where all
    paths are canonical as they are.
    """
    if not rows.num_rows:
        return base, base_paths
    vectors = _has_vectors(base) or _has_vectors(rows)
    keys = _keys(rows, row_paths, vectors=vectors)
    added = pa.array(_last(keys) & _bools(is_add))
    replaced = pc.is_in(_keys(base, base_paths, vectors=vectors), value_set=keys)
    stays = pc.invert(replaced) if pc.any(replaced).as_py() else None
    files = pa.concat_tables([base if stays is None else base.filter(stays), rows.filter(added)])
    files = files.combine_chunks() if files["path"].num_chunks > _MANY else files
    if base_paths is None and row_paths is None:
        return files, None
    old, new = (one_array(t["path"]) if p is None else p for t, p in ((base, base_paths), (rows, row_paths)))
    kept = old if stays is None else old.filter(stays)
    return files, pa.concat_arrays([part.cast(pa.large_string()) for part in (kept, new.filter(added))])


def _reconciled_checkpoint(files: pa.Table, removes: pa.Table, root: TableRoot) -> tuple[pa.Table, Array | None]:
    """The files of a checkpoint and their canonical paths, where its writer took two spellings of a path for two files.

    Each file is there once, the last. One that is removed under another spelling is gone: order is lost in a
    checkpoint, and a file's name is used once.
    """
    canonical, removed = root.canonical_paths(files["path"]), root.canonical_paths(removes["path"])
    if canonical is None and removed is None:
        return files, None
    keys = _keys(files, canonical, vectors=True)
    stays = _last(keys)
    respelled = pc.is_in(keys, value_set=_keys(removes, removed, vectors=True))
    if pc.any(respelled).as_py():
        same = pc.is_in(_keys(files, None, vectors=True), value_set=_keys(removes, None, vectors=True))
        stays &= ~_bools(pc.and_not(respelled, same))
    kept = pa.array(stays)
    return files.filter(kept), (one_array(files["path"]) if canonical is None else canonical).filter(kept)


_MANY = 64
"""Chunks after which a table is laid out anew; each commit read on its own adds one."""


def _folded(
    actions: Sequence[Mapping[str, Any]], previous: Snapshot | None
) -> tuple[Protocol, Metadata, dict[str, int]]:
    """The last protocol, the last metadata, and the last version of each application."""
    protocol, metadata = _newest(actions, "protocol"), _newest(actions, "metaData")
    if previous is None and (protocol is None or metadata is None):
        raise TableError(f"the log has no {'protocol' if protocol is None else 'metaData'} action")
    known = cast("Snapshot", previous)
    return (
        known.protocol if protocol is None else Protocol.of(protocol),
        known.metadata if metadata is None else Metadata.of(metadata),
        {**({} if previous is None else previous.transactions), **_transactions(actions)},
    )


def _transactions(actions: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    try:
        return {txn["appId"]: txn["version"] for action in actions if (txn := action.get("txn"))}
    except KeyError as error:
        raise TableError(f"a txn action of the log lacks {error}") from error


def _newest(actions: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((action[name] for action in reversed(actions) if action.get(name)), None)


def _base(storage: Storage, segment: Segment, previous: Snapshot | None, names: Sequence[str]) -> pa.Table:
    if segment.checkpoint is not None:
        return checkpoint_files(storage, segment.checkpoint, names)
    if previous is None:
        return files_schema(names).empty_table()
    schema = files_schema(names)
    return previous.files if previous.files.schema == schema else _repartitioned(previous.files, schema)


def _repartitioned(files: pa.Table, schema: pa.Schema) -> pa.Table:
    """Files under other partition columns; those that they know nothing of are null."""
    values = one_array(files["partition_values"])
    known = {f.name for f in values.type}
    names = [f.name for f in schema.field("partition_values").type]
    columns = [pc.struct_field(values, n) if n in known else pa.nulls(len(values), pa.string()) for n in names]
    return files.set_column(1, schema.field(1), structs(columns, names, len(values)))


def _has_vectors(files: pa.Table) -> bool:
    return bool(pc.any(files["has_deletion_vector"]).as_py())


def _keys(files: pa.Table, canonical: Array | None, *, vectors: bool) -> pa.Array:
    """What tells files apart: canonical paths, with the ids of deletion vectors where any file has one."""
    path = one_array(files["path"]) if canonical is None else canonical
    path = path.cast(pa.large_string())
    if not vectors:
        return path
    ids = one_array(files["deletion_vector"]).cast(pa.large_string())
    return pc.binary_join_element_wise(path, pc.fill_null(ids, ""), pa.scalar("\n", pa.large_string()))


def _last(keys: pa.Array) -> Bools:
    """Whether each key comes for the last time."""
    codes = keys.dictionary_encode()
    at = np.zeros(len(codes.dictionary), np.int64)
    rows = np.arange(len(keys))
    # Of several values for the same index, numpy keeps the last.
    at[codes.indices.to_numpy()] = rows
    return cast("Bools", at[codes.indices.to_numpy()] == rows)


def _bools(array: pa.ChunkedArray) -> Bools:
    return cast("Bools", one_array(array).to_numpy(zero_copy_only=False))


def _timestamp(storage: Storage, segment: Segment, commits: Sequence[Lines], files: pa.Table) -> int:
    """When the version was committed; where no commit says so any more, when its newest file was written."""
    commit = commits[-1] if commits else _commit_of(storage, segment.version)
    info = {} if commit is None else commit.info
    said = info.get("inCommitTimestamp", info.get("timestamp"))
    if isinstance(said, int):
        return said
    return cast("int", pc.max(files["modification_time"]).as_py() or 0)


def _commit_of(storage: Storage, version: int) -> Lines | None:
    data = storage.get(commit_path(version))
    return None if data is None else split(version, data)
