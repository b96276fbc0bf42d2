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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from partita.arrow.buffers import one_array
from partita.arrow.groups import distinct
from partita.errors import PartitaError, PartitionValueError, TableError
from partita.formats.commits import Commits, TableCommit, cursor_fields, cursor_text, moment
from partita.formats.delta.log import DeltaLog, Metadata, physical_names, structs, typed_partitions
from partita.formats.delta.log.commits import Lines, read_commits, split
from partita.formats.delta.log.segment import Listing, commit_path, list_log
from partita.formats.store import spec_ids

if TYPE_CHECKING:
    from partita.formats.delta.store import DeltaState

_FORM = "Delta"


def commits(log: DeltaLog, state: Callable[[], DeltaState], after: str | None) -> Commits:
    """The commits after a cursor that changed data; `state` is the newest version, asked for where something is new."""
    cursor = cursor_fields(_FORM, after)
    if after is not None and cursor is not None and _is_newest(log, cursor["version"], cursor["digest"]):
        return Commits(after, ())
    now = state()
    newest, table = now.version, now.metadata.id
    seen = cursor["version"] if cursor is not None and cursor["table"] == table else -1
    # A version that is no longer there was taken back by whoever restored the folder, and may have come anew.
    start = seen if seen <= newest else -1
    found = _Touched(log, now).after(start) if start < newest else ()
    return Commits(cursor_text(_FORM, table=table, version=newest, digest=_digest(log, newest)), tuple(found))


def _is_newest(log: DeltaLog, version: int, digest: str | None) -> bool:
    return digest is not None and list_log(log.storage, version).latest == version and _digest(log, version) == digest


def _digest(log: DeltaLog, version: int) -> str | None:
    data = log.storage.get(commit_path(version))
    return None if data is None else sha256(data).hexdigest()[:16]


@dataclass(frozen=True, slots=True, eq=False)
class _Touched:
    """The commits of a log, by what the table is now."""

    log: DeltaLog
    now: DeltaState

    def after(self, start: int) -> list[TableCommit]:
        """Those after a version, oldest first."""
        listing = list_log(self.log.storage, start + 1)
        first = _first_of_rest(listing, self.now.version)
        whole = [] if first <= start + 1 else [self._checkpoint(listing, max(first - 1, start + 1))]
        versions = range(max(first, start + 1), self.now.version + 1)
        read = [split(v, data) for v, data in zip(versions, read_commits(self.log.storage, versions), strict=True)]
        other = max((lines.version for lines in read if self._is_made_anew(lines)), default=-1)
        told = [self._commit(lines, is_other=lines.version <= other) for lines in read]
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

    def _commit(self, lines: Lines, *, is_other: bool) -> TableCommit | None:
        """What a commit changed; None where that is nothing.

        With `is_other`, its partitions may be by other columns, and then it touches all that are there now.
        """
        rows = _file_rows([line for _, line in lines.files], self._names)
        if not rows.num_rows:
            return None
        info, touched = lines.info, self._partitions(lines.version, rows)
        return TableCommit(
            f"{self._table}:{lines.version}",
            lines.version,
            moment(self._time(lines.version, info)),
            str(info.get("operation") or "UNKNOWN"),
            distinct(pa.concat_tables([touched, self._every])) if is_other else touched,
        )

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
            files = self.log.snapshot(version - 1).files
        except PartitaError:  # cleaned up
            return self._every
        found = pc.index_in(paths, value_set=one_array(files["path"]))
        return self._every if found.null_count else self._typed(one_array(files["partition_values"].take(found)))

    def _typed(self, values: pa.Array) -> pa.Table:
        """Each partition of files once; all of today's where the texts say none that the table could have now."""
        metadata = self.now.metadata
        values = _under(values, self._names)
        try:
            typed = typed_partitions(
                pa.table({"partition_values": values}), self.now.schema, metadata.partition_columns,
                physical_names(metadata),
            )  # fmt: skip
        except PartitionValueError:
            return self._every
        return distinct(typed.append_column("spec_id", spec_ids(self.now.spec.spec_id, typed.num_rows)))

    @property
    def _every(self) -> pa.Table:
        return distinct(self.now.partitions)

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


def _file_rows(lines: Sequence[bytes], names: Iterable[str]) -> pa.Table:
    """The files that a commit added or took away with a change of data: path, and the partition's texts."""
    values = pa.struct([(name, pa.string()) for name in names])
    one = pa.struct([("path", pa.string()), ("partitionValues", values), ("dataChange", pa.bool_())])
    if not lines:
        return pa.table({"path": pa.nulls(0, pa.string()), "partition_values": pa.nulls(0, values)})
    parse = pa_json.ParseOptions(
        explicit_schema=pa.schema([("add", one), ("remove", one)]), unexpected_field_behavior="ignore"
    )
    block = pa_json.ReadOptions(block_size=max(1 << 24, 2 * max(map(len, lines))))
    try:
        rows = pa_json.read_json(pa.BufferReader(b"\n".join(lines)), block, parse)
    except pa.ArrowException as error:
        raise TableError(f"the log's actions of files can't be read: {error}") from error
    parts = [_action(rows[kind]) for kind in ("add", "remove")]
    return pa.concat_tables(parts)


def _action(column: pa.ChunkedArray) -> pa.Table:
    there = pc.is_valid(pc.struct_field(column, "path"))
    changes = pc.fill_null(pc.struct_field(column, "dataChange"), True)
    kept = one_array(column.filter(pc.and_(there, changes)))
    return pa.table({"path": kept.field("path"), "partition_values": kept.field("partitionValues")})
