"""From the actions of a log to a snapshot (Action Reconciliation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import Bools, one_array
from partita.errors import TableError
from partita.formats.delta.log.checkpoints import checkpoint_actions, checkpoint_files, structs
from partita.formats.delta.log.commits import Lines, file_rows, read_commits, split
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
    files = reconciled(_base(storage, segment, previous, names), rows, is_add)
    timestamp = _timestamp(storage, segment, commits, files)
    return Snapshot(segment.version, timestamp, protocol, metadata, files, transactions)


def reconciled(base: pa.Table, rows: pa.Table, is_add: pa.ChunkedArray) -> pa.Table:
    """The files of `base`, with `rows` on top of it: of each file the last row counts, and it stays if it was added.

    A file is its path together with its deletion vector; `base` has each once.
    """
    if not rows.num_rows:
        return base
    vectors = any(pc.any(files["has_deletion_vector"]).as_py() for files in (base, rows))
    keys = _keys(rows, vectors=vectors)
    added = rows.filter(pa.array(_last(keys) & _bools(is_add)))
    replaced = pc.is_in(_keys(base, vectors=vectors), value_set=keys)
    kept = base.filter(pc.invert(replaced)) if pc.any(replaced).as_py() else base
    files = pa.concat_tables([kept, added])
    return files.combine_chunks() if files["path"].num_chunks > _MANY else files


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


def _keys(files: pa.Table, *, vectors: bool) -> pa.Array:
    path = files["path"]
    if vectors:
        path = pc.binary_join_element_wise(path, pc.fill_null(files["deletion_vector"], ""), "\n")
    return one_array(path)


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
