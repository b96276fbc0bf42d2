"""Which partitions the commits of a Delta table's log touched.

A cursor names the table, the version up to which commits were seen, and the digest of that version's commit: where it
is still the newest one, and the same, nothing happened, and no more than a listing and one file is read.

| what the log has since the cursor      | what is told                                                          |
|----------------------------------------|-----------------------------------------------------------------------|
| every commit                           | each that changed data                                                |
| some were cleaned up                   | those that are there, and the oldest checkpoint that leads on, whole  |
| another table, made in the same place  | as from the start                                                     |

What a commit that is no longer there took away, and what is in no later version, can't be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from partita.arrow.buffers import Ints, one_array
from partita.arrow.groups import distinct
from partita.errors import PartitaError, PartitionValueError, TableError
from partita.formats.commits import (
    Commits,
    TableCommit,
    cursor_fields,
    cursor_text,
    moment,
    partitions_by_commit,
)
from partita.formats.delta.log import DeltaLog, Metadata, Snapshot, physical_names, structs, typed_partitions
from partita.formats.delta.log.checkpoints import checkpoint_actions
from partita.formats.delta.log.commits import Lines, read_commits, split
from partita.formats.delta.log.replay import described
from partita.formats.delta.log.segment import Listing, commit_path, find_segment, list_log
from partita.formats.store import spec_ids

if TYPE_CHECKING:
    from partita.formats.delta.store import DeltaState

_FORM = "Delta"
_TOGETHER = 256
"""So many commits are parsed at once."""


def commits(
    log: DeltaLog,
    state_of: Callable[[Snapshot], DeltaState],
    state: Callable[[], DeltaState],
    after: str | None,
) -> Commits:
    """The commits after a cursor that changed data.

    `state_of` makes a state of a snapshot without files; `state` is the newest version, and asked for only where a
    commit touches partitions that it doesn't name.
    """
    cursor = cursor_fields(_FORM, after)
    if after is not None and cursor is not None and _is_newest(log, cursor["version"], cursor["digest"]):
        return Commits(after, ())
    reader = _Reader(log)
    now = state_of(reader.snapshot())
    newest, table = now.version, now.metadata.id
    seen = cursor["version"] if cursor is not None and cursor["table"] == table else -1
    # A version that is no longer there was taken back by whoever restored the folder, and may have come anew.
    start = seen if seen <= newest else -1
    found = _Touched(reader, now, state).after(start) if start < newest else ()
    return Commits(cursor_text(_FORM, table=table, version=newest, digest=_digest(log, newest)), tuple(found))


def _is_newest(log: DeltaLog, version: int, digest: str | None) -> bool:
    return digest is not None and list_log(log.storage, version).latest == version and _digest(log, version) == digest


def _digest(log: DeltaLog, version: int) -> str | None:
    data = log.storage.get(commit_path(version))
    return None if data is None else sha256(data).hexdigest()[:16]


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """The commits of a log, each read once."""

    log: DeltaLog
    _read: dict[int, Lines] = field(default_factory=dict)

    def commits(self, versions: Sequence[int]) -> list[Lines]:
        """The commits of those versions; refused where one is missing."""
        unread = [version for version in versions if version not in self._read]
        for version, data in zip(unread, read_commits(self.log.storage, unread), strict=True):
            self._read[version] = split(version, data)
        return [self._read[version] for version in versions]

    def snapshot(self) -> Snapshot:
        """The newest version without its files."""
        segment = find_segment(self.log.storage)
        checkpoint = segment.checkpoint
        earlier = [] if checkpoint is None else checkpoint_actions(self.log.storage, checkpoint)
        return described(segment, earlier, self.commits(segment.commits))


@dataclass(frozen=True, eq=False)
class _Touched:
    """The commits of a log, by what the table is now; `now` has no files."""

    reader: _Reader
    now: DeltaState
    state: Callable[[], DeltaState]

    @property
    def log(self) -> DeltaLog:
        """The log."""
        return self.reader.log

    def after(self, start: int) -> list[TableCommit]:
        """Those after a version, oldest first."""
        listing = list_log(self.log.storage, start + 1)
        first = _first_of_rest(listing, self.now.version)
        whole = [] if first <= start + 1 else [self._checkpoint(listing, max(first - 1, start + 1))]
        read = self.reader.commits(range(max(first, start + 1), self.now.version + 1))
        other = max((lines.version for lines in read if self._is_made_anew(lines)), default=-1)
        told = [
            self._commit(lines, touched, is_other=lines.version <= other)
            for lines, touched in zip(read, self._partitions_of(read), strict=True)
        ]
        return sorted([*(one for one in told if one is not None), *whole], key=lambda one: one.version)

    def _checkpoint(self, listing: Listing, least: int) -> TableCommit:
        """The oldest version, not before that, of which all files are known."""
        newest = self.now.version
        version = min((c.version for c in listing.checkpoints if least <= c.version <= newest), default=newest)
        snapshot = self.log.snapshot(version)
        partitions = self._typed(one_array(snapshot.files["partition_values"]))
        return TableCommit(
            f"{self._table}:{version}:checkpoint", version, moment(snapshot.timestamp), "CHECKPOINT", partitions
        )

    def _is_made_anew(self, lines: Lines) -> bool:
        """Whether files up to this commit may be partitioned by other columns than the table is now."""
        said = [action["metaData"] for action in lines.others if action.get("metaData")]
        takes = any(line.startswith(b'{"remove":') for _, line in lines.files)
        columns = self.now.metadata.partition_columns
        return any(takes or tuple(one.get("partitionColumns") or ()) != columns for one in said)

    def _commit(self, lines: Lines, touched: pa.Table | None, *, is_other: bool) -> TableCommit | None:
        """What a commit changed; None where that is nothing.

        With `is_other`, its partitions may be by other columns, and then it touches all that are there now.
        """
        if touched is None:
            return None
        info = lines.info
        return TableCommit(
            f"{self._table}:{lines.version}",
            lines.version,
            moment(self._time(lines.version, info)),
            str(info.get("operation") or "UNKNOWN"),
            distinct(pa.concat_tables([touched, self._every])) if is_other else touched,
        )

    def _partitions_of(self, read: Sequence[Lines]) -> Iterator[pa.Table | None]:
        """The partitions that each commit touched; None where it changed no data."""
        for start in range(0, len(read), _TOGETHER):
            group = read[start : start + _TOGETHER]
            rows, commits = _file_rows([[line for _, line in lines.files] for lines in group], self._names)
            has_silent = bool(self._names) and rows["partition_values"].null_count > 0
            together = None if has_silent else self._typed_together(rows)
            counts = np.bincount(commits, minlength=len(group))
            if together is not None:
                found = partitions_by_commit(together, commits, len(group))
                yield from (own if count else None for own, count in zip(found, counts.tolist(), strict=True))
                continue
            for at, lines in enumerate(group):
                own = rows.filter(pa.array(commits == at))
                yield self._partitions(lines.version, own) if own.num_rows else None

    def _typed_together(self, rows: pa.Table) -> pa.Table | None:
        """The partition of each file; None where a text says none that the table could have now."""
        try:
            return self._typed_values(one_array(rows["partition_values"]))
        except PartitionValueError:
            return None

    def _time(self, version: int, info: Any) -> float:
        said = info.get("inCommitTimestamp", info.get("timestamp"))
        return said if isinstance(said, int) else self.log.storage.modified(commit_path(version)) * 1000

    def _partitions(self, version: int, rows: pa.Table) -> pa.Table:
        silent = pc.and_(pc.is_null(rows["partition_values"]), bool(self._names))
        known = self._typed(one_array(rows["partition_values"].filter(pc.invert(silent))))
        if not pc.any(silent).as_py():
            return known
        return distinct(pa.concat_tables([known, self._removed(version, rows["path"].filter(silent))]))

    def _removed(self, version: int, paths: pa.ChunkedArray) -> pa.Table:
        """The partitions of files that a commit took away and didn't tell them of; all that are known where none is."""
        try:
            snapshot = self.log.snapshot(version - 1)
        except PartitaError:  # cleaned up
            return self._every
        removed, known = self.log.root.canonical_paths(paths), snapshot.canonical_paths
        found = pc.index_in(
            (one_array(paths) if removed is None else removed).cast(pa.large_string()),
            value_set=(one_array(snapshot.files["path"]) if known is None else known).cast(pa.large_string()),
        )
        values = snapshot.files["partition_values"]
        return self._every if found.null_count else self._typed(one_array(values.take(found)))

    def _typed(self, values: pa.Array) -> pa.Table:
        """Each partition of files once; all of today's where the texts say none that the table could have now."""
        try:
            return distinct(self._typed_values(values))
        except PartitionValueError:
            return self._every

    def _typed_values(self, values: pa.Array) -> pa.Table:
        """The partition of each file, as `State.partitions` has it."""
        metadata = self.now.metadata
        typed = typed_partitions(
            pa.table({"partition_values": _under(values, self._names)}), self.now.schema, metadata.partition_columns,
            physical_names(metadata),
        )  # fmt: skip
        return typed.append_column("spec_id", spec_ids(self.now.spec.spec_id, typed.num_rows))

    @cached_property
    def _every(self) -> pa.Table:
        return distinct(self.state().partitions)

    @property
    def _table(self) -> str:
        return self.now.metadata.id

    @property
    def _names(self) -> list[str]:
        return _physical(self.now.metadata)


def _physical(metadata: Metadata) -> list[str]:
    names = physical_names(metadata)
    return [names[name] for name in metadata.partition_columns]


def _first_of_rest(listing: Listing, newest: int) -> int:
    """The first version from which on every commit is there; one past the newest where none is."""
    first = newest + 1
    while first - 1 in listing.commits:
        first -= 1
    return first


def _under(values: pa.Array, names: Sequence[str]) -> pa.Array:
    """Partition values under those names alone; what they don't have is null."""
    known = {f.name for f in values.type}
    columns = [pc.struct_field(values, n) if n in known else pa.nulls(len(values), pa.string()) for n in names]
    return structs(columns, names, len(values))


def _file_rows(commits: Sequence[Sequence[bytes]], names: Iterable[str]) -> tuple[pa.Table, Ints]:
    """The files that commits added or took away with a change of data: path, and the partition's texts.

    The commits are given by their lines of files; the numbers say of each file which commit it is of.
    """
    values = pa.struct([(name, pa.string()) for name in names])
    one = pa.struct([("path", pa.string()), ("partitionValues", values), ("dataChange", pa.bool_())])
    lines = [line for own in commits for line in own]
    if not lines:
        empty = pa.table({"path": pa.nulls(0, pa.string()), "partition_values": pa.nulls(0, values)})
        return empty, np.zeros(0, np.int64)
    parse = pa_json.ParseOptions(
        explicit_schema=pa.schema([("add", one), ("remove", one)]), unexpected_field_behavior="ignore"
    )
    block = pa_json.ReadOptions(block_size=max(1 << 24, 2 * max(map(len, lines))))
    try:
        rows = pa_json.read_json(pa.BufferReader(b"\n".join(lines)), block, parse)
    except pa.ArrowException as error:
        raise TableError(f"the log's actions of files can't be read: {error}") from error
    if rows.num_rows != len(lines):
        raise TableError(f"the log's actions of files can't be read: {rows.num_rows} in {len(lines)} lines")
    numbers = np.repeat(np.arange(len(commits)), [len(own) for own in commits])
    parts = [_action(rows[kind]) for kind in ("add", "remove")]
    tables = pa.concat_tables(found.drop_columns("line") for found in parts)
    return tables, numbers[np.concatenate([found["line"].to_numpy() for found in parts])]


def _action(column: pa.ChunkedArray) -> pa.Table:
    there = pc.is_valid(pc.struct_field(column, "path"))
    changes = pc.fill_null(pc.struct_field(column, "dataChange"), True)
    lines = np.flatnonzero(pc.and_(there, changes).to_numpy(zero_copy_only=False))
    kept = one_array(column).take(pa.array(lines))
    return pa.table({"path": kept.field("path"), "partition_values": kept.field("partitionValues"), "line": lines})
