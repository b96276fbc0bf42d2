"""Read from the log which partitions the commits of a Delta table changed.

A cursor holds the id of the table, the version up to which commits were read, and the digest of that version's commit.
If that commit is still the newest one and has the same digest, nothing happened, and only a listing and one file are
read.

| the log since the cursor                 | the feed                                                            |
|------------------------------------------|---------------------------------------------------------------------|
| has every commit                         | has each commit that changed data                                   |
| lacks commits, which were cleaned up     | has the others, and all partitions of the oldest checkpoint before  |
| is that of a new table in the same place | starts from the beginning                                           |

Partitions that only a cleaned-up commit removed, and no later version has, are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import Ints, dense_array
from partita.arrow.distinct_rows import distinct_rows
from partita.errors import PartitaError, PartitionValueError, TableError
from partita.formats.change_feed import (
    ChangeFeed,
    TableCommit,
    datetime_from_millis,
    decode_cursor,
    encode_cursor,
    partitions_by_commit,
)
from partita.formats.delta.log import (
    DeltaLog,
    DeltaSnapshot,
    physical_names,
    physical_partition_names,
    select_partition_values,
    typed_partitions,
)
from partita.formats.delta.log.checkpoints import checkpoint_actions
from partita.formats.delta.log.commit_files import (
    CommitLines,
    parse_file_actions,
    read_commit_files,
    split_commit,
)
from partita.formats.delta.log.replay import replay_without_files
from partita.formats.delta.log.segment import LogListing, commit_path, find_log_segment, list_log
from partita.formats.table_change import spec_id_column

if TYPE_CHECKING:
    from partita.formats.delta.state import DeltaTableVersion

_FORMAT_NAME = "Delta"
_COMMITS_PER_READ = 256
"""Number of commits that are parsed at once."""


def read_change_feed(
    log: DeltaLog,
    version_from_snapshot: Callable[[DeltaSnapshot], DeltaTableVersion],
    load_current_version: Callable[[], DeltaTableVersion],
    after: str | None,
) -> ChangeFeed:
    """Return the commits after a cursor that changed data; all of them for None.

    `version_from_snapshot` builds a table version of a snapshot without files. `load_current_version` loads the newest
    version with its files; it is called only if a commit changed partitions that it doesn't name.
    """
    cursor = decode_cursor(_FORMAT_NAME, after)
    if after is not None and cursor is not None and _is_latest_commit(log, cursor["version"], cursor["digest"]):
        return ChangeFeed(after, ())
    reader = _CommitReader(log)
    current = version_from_snapshot(reader.snapshot_without_files())
    latest_version, table = current.version, current.metadata.id
    read_version = cursor["version"] if cursor is not None and cursor["table"] == table else -1
    # A version above the newest one was undone when someone restored the folder, and may have been made again.
    start = read_version if read_version <= latest_version else -1
    commits = (
        _ChangeFeedReader(reader, current, load_current_version).commits_after(start) if start < latest_version else ()
    )
    return ChangeFeed(
        encode_cursor(_FORMAT_NAME, table=table, version=latest_version, digest=_commit_digest(log, latest_version)),
        tuple(commits),
    )


def _is_latest_commit(log: DeltaLog, version: int, digest: str | None) -> bool:
    return (
        digest is not None
        and list_log(log.storage, version).latest_version == version
        and _commit_digest(log, version) == digest
    )


def _commit_digest(log: DeltaLog, version: int) -> str | None:
    data = log.storage.get(commit_path(version))
    return None if data is None else sha256(data).hexdigest()[:16]


@dataclass(frozen=True, slots=True, eq=False)
class _CommitReader:
    """Read the commits of a log, each of them once."""

    log: DeltaLog
    _commits_by_version: dict[int, CommitLines] = field(default_factory=dict)

    def commit_lines(self, versions: Sequence[int]) -> list[CommitLines]:
        """Return the commits of some versions; raise `TableError` if one is missing."""
        unread_versions = [version for version in versions if version not in self._commits_by_version]
        for version, data in zip(unread_versions, read_commit_files(self.log.storage, unread_versions), strict=True):
            self._commits_by_version[version] = split_commit(version, data)
        return [self._commits_by_version[version] for version in versions]

    def snapshot_without_files(self) -> DeltaSnapshot:
        """Return the snapshot of the newest version without its files."""
        segment = find_log_segment(self.log.storage)
        checkpoint = segment.checkpoint
        earlier_actions = [] if checkpoint is None else checkpoint_actions(self.log.storage, checkpoint)
        return replay_without_files(segment, earlier_actions, self.commit_lines(segment.commit_versions))


@dataclass(frozen=True, eq=False)
class _ChangeFeedReader:
    """Read the commits of a log with the current schema of the table; `current_version` has no files."""

    commit_reader: _CommitReader
    current_version: DeltaTableVersion
    load_current_version: Callable[[], DeltaTableVersion]

    @property
    def log(self) -> DeltaLog:
        """The log of the table."""
        return self.commit_reader.log

    def commits_after(self, after_version: int) -> list[TableCommit]:
        """Return the commits after a version that changed data, oldest first."""
        listing = list_log(self.log.storage, after_version + 1)
        first_version = _first_contiguous_version(listing, self.current_version.version)
        checkpoints = (
            []
            if first_version <= after_version + 1
            else [self._checkpoint_commit(listing, max(first_version - 1, after_version + 1))]
        )
        lines_by_commit = self.commit_reader.commit_lines(
            range(max(first_version, after_version + 1), self.current_version.version + 1)
        )
        last_repartition = max(
            (lines.version for lines in lines_by_commit if self._is_repartitioned(lines)), default=-1
        )
        commits = [
            self._table_commit(lines, partitions, is_repartitioned=lines.version <= last_repartition)
            for lines, partitions in zip(lines_by_commit, self._partitions_by_commit(lines_by_commit), strict=True)
        ]
        data_commits = (commit for commit in commits if commit is not None)
        return sorted([*data_commits, *checkpoints], key=lambda commit: commit.version)

    def _checkpoint_commit(self, listing: LogListing, min_version: int) -> TableCommit:
        """Return all partitions of the oldest complete version from `min_version` on, as one commit."""
        latest_version = self.current_version.version
        version = min(
            (c.version for c in listing.checkpoints if min_version <= c.version <= latest_version),
            default=latest_version,
        )
        snapshot = self.log.snapshot(version)
        partitions = self._distinct_partitions(dense_array(snapshot.files["partition_values"]))
        return TableCommit(
            f"{self._table_id}:{version}:checkpoint",
            version,
            datetime_from_millis(snapshot.timestamp),
            "CHECKPOINT",
            partitions,
        )

    def _is_repartitioned(self, lines: CommitLines) -> bool:
        """Whether files up to this commit may be partitioned by other columns than the table is now."""
        metadata_actions = [action["metaData"] for action in lines.other_actions if action.get("metaData")]
        removes_files = any(line.startswith(b'{"remove":') for _, line in lines.file_lines)
        columns = self.current_version.metadata.partition_columns
        return any(removes_files or tuple(m.get("partitionColumns") or ()) != columns for m in metadata_actions)

    def _table_commit(
        self, lines: CommitLines, partitions: pa.Table | None, *, is_repartitioned: bool
    ) -> TableCommit | None:
        """Return a commit with the partitions that it changed; None if it changed no data.

        With `is_repartitioned`, its files may have other partition columns, so all current partitions count as changed.
        """
        if partitions is None:
            return None
        return TableCommit(
            f"{self._table_id}:{lines.version}",
            lines.version,
            datetime_from_millis(self._commit_millis(lines)),
            str(lines.commit_info.get("operation") or "UNKNOWN"),
            distinct_rows(pa.concat_tables([partitions, self._current_partitions])) if is_repartitioned else partitions,
        )

    def _partitions_by_commit(self, lines_by_commit: Sequence[CommitLines]) -> Iterator[pa.Table | None]:
        """Return the partitions that each commit changed; None if it changed no data."""
        for start in range(0, len(lines_by_commit), _COMMITS_PER_READ):
            group = lines_by_commit[start : start + _COMMITS_PER_READ]
            rows, commits = _changed_file_rows(
                [[line for _, line in lines.file_lines] for lines in group], self._partition_names
            )
            lacks_values = bool(self._partition_names) and rows["partition_values"].null_count > 0
            partitions = None if lacks_values else self._partitions_or_none(rows)
            counts = np.bincount(commits, minlength=len(group))
            if partitions is not None:
                by_commit = partitions_by_commit(partitions, commits, len(group))
                yield from (table if count else None for table, count in zip(by_commit, counts.tolist(), strict=True))
                continue
            for index, lines in enumerate(group):
                commit_rows = rows.filter(pa.array(commits == index))
                yield self._commit_partitions(lines.version, commit_rows) if commit_rows.num_rows else None

    def _partitions_or_none(self, rows: pa.Table) -> pa.Table | None:
        """Return the partition of each file; None if a text is not a value of the current partition columns."""
        try:
            return self._typed_partitions(dense_array(rows["partition_values"]))
        except PartitionValueError:
            return None

    def _commit_millis(self, lines: CommitLines) -> float:
        if lines.timestamp is not None:
            return lines.timestamp
        return self.log.storage.modified_time(commit_path(lines.version)) * 1000

    def _commit_partitions(self, version: int, rows: pa.Table) -> pa.Table:
        """Return the distinct partitions of the files of one commit; some `remove` actions lack partition values."""
        lacks_values = pc.and_(pc.is_null(rows["partition_values"]), bool(self._partition_names))
        partitions = self._distinct_partitions(dense_array(rows["partition_values"].filter(pc.invert(lacks_values))))
        if not pc.any(lacks_values).as_py():
            return partitions
        path_partitions = self._partitions_of_paths(version, rows["path"].filter(lacks_values))
        return distinct_rows(pa.concat_tables([partitions, path_partitions]))

    def _partitions_of_paths(self, version: int, paths: pa.ChunkedArray) -> pa.Table:
        """Return the partitions of removed files, from the version before; all current ones if that is unknown."""
        try:
            snapshot = self.log.snapshot(version - 1)
        except PartitaError:  # cleaned up
            return self._current_partitions
        removed_paths, existing_paths = self.log.table_root.canonical_paths(paths), snapshot.canonical_paths
        file_indices = pc.index_in(
            (dense_array(paths) if removed_paths is None else removed_paths).cast(pa.large_string()),
            value_set=(dense_array(snapshot.files["path"]) if existing_paths is None else existing_paths).cast(
                pa.large_string()
            ),
        )
        if file_indices.null_count:
            return self._current_partitions
        return self._distinct_partitions(dense_array(snapshot.files["partition_values"].take(file_indices)))

    def _distinct_partitions(self, values: pa.Array) -> pa.Table:
        """Return each partition once; all current ones if a text is not a value of the current partition columns."""
        try:
            return distinct_rows(self._typed_partitions(values))
        except PartitionValueError:
            return self._current_partitions

    def _typed_partitions(self, values: pa.Array) -> pa.Table:
        """Return the partition of each file, with the columns of `TableVersion.partitions`."""
        metadata = self.current_version.metadata
        partitions = typed_partitions(
            pa.table({"partition_values": select_partition_values(values, self._partition_names)}),
            self.current_version.schema,
            metadata.partition_columns,
            physical_names(metadata),
        )
        return partitions.append_column(
            "spec_id", spec_id_column(self.current_version.spec.spec_id, partitions.num_rows)
        )

    @cached_property
    def _current_partitions(self) -> pa.Table:
        return distinct_rows(self.load_current_version().partitions)

    @property
    def _table_id(self) -> str:
        return self.current_version.metadata.id

    @property
    def _partition_names(self) -> tuple[str, ...]:
        return physical_partition_names(self.current_version.metadata)


def _first_contiguous_version(listing: LogListing, latest_version: int) -> int:
    """Return the first version from which on no commit is missing; one above the newest if that is missing."""
    version = latest_version + 1
    while version - 1 in listing.commit_versions:
        version -= 1
    return version


def _changed_file_rows(commits: Sequence[Sequence[bytes]], names: Iterable[str]) -> tuple[pa.Table, Ints]:
    """Return the files that commits added or removed with `dataChange`, and the index of the commit of each file.

    `commits` are the lines of their file actions, `names` the physical names of the partition columns. The files have
    the columns `path` and `partition_values`.
    """
    values = pa.struct([(name, pa.string()) for name in names])
    action = pa.struct([("path", pa.string()), ("partitionValues", values), ("dataChange", pa.bool_())])
    lines = [line for commit_lines in commits for line in commit_lines]
    rows = parse_file_actions(lines, pa.schema([("add", action), ("remove", action)]))
    if rows is None:
        raise TableError("the actions of files in the log can't be read")
    commit_indices = np.repeat(np.arange(len(commits)), [len(commit_lines) for commit_lines in commits])
    data_changes = [_data_change_rows(rows[kind]) for kind in ("add", "remove")]
    files = pa.concat_tables(data_change.drop_columns("line") for data_change in data_changes)
    return files, commit_indices[np.concatenate([data_change["line"].to_numpy() for data_change in data_changes])]


def _data_change_rows(column: pa.ChunkedArray) -> pa.Table:
    is_action = pc.is_valid(pc.struct_field(column, "path"))
    changes_data = pc.fill_null(pc.struct_field(column, "dataChange"), True)
    lines = np.flatnonzero(pc.and_(is_action, changes_data).to_numpy(zero_copy_only=False))
    actions = dense_array(column).take(pa.array(lines))
    return pa.table(
        {"path": actions.field("path"), "partition_values": actions.field("partitionValues"), "line": lines}
    )
