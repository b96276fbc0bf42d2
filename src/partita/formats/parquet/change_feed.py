"""What was done to a folder, from two listings of it: there is no log.

A cursor holds a digest of the names, sizes and times of each partition's files, and the time of the newest. A partition
whose digest differs was changed, whoever did it.

| the newest file of a changed partition | it counts as changed |
|---|---|
| is later than that of the cursor | when that file was written, or on a disk when it or its folder was moved there |
| isn't: files were deleted, or put there with an earlier time | when it was noticed |

A time that is still to come, by a clock that is ahead, counts as now: nobody would notice the change until then.

Spark's tasks write files that its job moves to their places at its end, with the times at which they were written:
alone, or with the folder of their partition if that is new or replaced.

Changes with less than two seconds between them are one commit, at the time of the latest, unless the names of their
newest files say that they are of different writes, as the names of Spark's and Partita's files do. Files that were
merged or copied count as a change, because a listing doesn't tell that no row changed; a file that was written anew
with the same size and the same time is not noticed.

The keys of all partitions change with the types of their columns. Without a definition, these are inferred from the
names of folders, and one more folder may change them: a feed is refused then.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from partita.algebra.types import INTEGER_KINDS, Field, LogicalType
from partita.arrow.distinct_rows import distinct_rows
from partita.errors import TableError
from partita.formats.change_feed import ChangeFeed, TableCommit, decode_cursor, encode_cursor
from partita.formats.parquet.create import DECLARATION_CALL
from partita.formats.parquet.values import folder_texts, inferred_type, typed_partitions
from partita.formats.table_change import spec_id_column
from partita.storage import StoredFile

if TYPE_CHECKING:
    from partita.formats.parquet.state import ParquetTableVersion

_FORMAT_NAME = "Parquet"
_COMMIT_GAP_SECONDS = 2.0
"""The time between two changes from which on they are two commits."""

_WRITE_ID = re.compile(r"(^|/)part-\d+-(\d+-)?(?P<write>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})[^/]*$")

_PartitionState = tuple[str, float]
"""The digest of a partition's files, and when the newest was written in seconds since 1970."""


def read_change_feed(table_version: ParquetTableVersion, after: str | None) -> ChangeFeed:
    """Return the partitions that differ from a cursor, all of them for None, and the cursor of this version.

    If the table's partition columns or the types of their keys are others than the cursor's, it starts anew; raises
    `TableError` if nobody declared these types. A declaration alone changes no partition, but another one starts anew.
    """
    fields = table_version.partition_fields
    key_types = [_key_type(field.type) for field in fields]
    columns = [f"{field.name} {key_type}" for field, key_type in zip(fields, key_types, strict=True)]
    table = "; ".join([table_version.table_id, *columns])
    states = _partition_states(table_version.data_files, len(fields))
    cursor_table, cursor_states = _decode_states(after)
    cursor_id, _, cursor_columns = cursor_table.partition("; ")
    cursor_types = _cursor_key_types(cursor_columns, fields)
    if cursor_types != key_types or cursor_id not in {"", table_version.table_id}:
        if not table_version.table_id and cursor_types is not None:
            _check_inferred_types(table_version, cursor_id, cursor_types, cursor_states, states)
        cursor_states = {}
    now = datetime.now(UTC).timestamp()
    arrival_times = {} if after is None else _arrival_times(table_version, states, cursor_states)
    change_times = {
        folder: min(now, arrival_times.get(folder, state[1]))
        if folder not in cursor_states or state[1] > cursor_states[folder][1]
        else now
        for folder, state in states.items()
        if folder not in cursor_states or cursor_states[folder][0] != state[0]
    }
    change_times |= dict.fromkeys(cursor_states.keys() - states.keys(), now)
    commits = [
        _table_commit(table_version, table, folders, modified_time, cursor_states, states)
        for folders, modified_time in _group_by_write(
            change_times, _newest_writes(table_version.data_files, len(fields))
        )
    ]
    cursor = encode_cursor(_FORMAT_NAME, table=table, partitions=states)
    return ChangeFeed(cursor, tuple(commit for commit in commits if commit.partitions.num_rows))


def _key_type(type_: LogicalType) -> str:
    """Return the type of a partition column, as far as keys depend on it: integers of any size have the same keys."""
    return "int" if type_.kind in INTEGER_KINDS else str(type_)


def _cursor_key_types(cursor_columns: str, fields: Sequence[Field]) -> list[str] | None:
    """Return the types of partition columns at a cursor, of which integers may have a size; None if it had others."""
    match = re.fullmatch("; ".join(rf"{re.escape(field.name)} (\S+)" for field in fields), cursor_columns)
    integers = {kind.value for kind in INTEGER_KINDS}
    return None if match is None else ["int" if text in integers else text for text in match.groups()]


def _decode_states(after: str | None) -> tuple[str, dict[str, _PartitionState]]:
    """Return the table of a cursor, with its id and partition columns, and the states of its partitions."""
    cursor = decode_cursor(_FORMAT_NAME, after)
    if cursor is None:
        return "", {}
    try:
        return str(cursor["table"]), {
            str(folder): (str(digest), float(newest_time))
            for folder, (digest, newest_time) in cursor["partitions"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(
            "the cursor of a Parquet table is damaged; take one that change_feed() gave, or None"
        ) from error


def _check_inferred_types(
    table_version: ParquetTableVersion,
    cursor_id: str,
    cursor_types: Sequence[str],
    cursor_states: Mapping[str, _PartitionState],
    states: Mapping[str, _PartitionState],
) -> None:
    """Raise `TableError` if a column has another type than at the cursor, and so all of its keys are others.

    A column that had only nulls had no type yet.
    """
    for index, (field, cursor_type) in enumerate(zip(table_version.partition_fields, cursor_types, strict=True)):
        key_type = _key_type(field.type)
        texts = {folder: _folder_text(folder, index) for folder in {*cursor_states, *states}}
        if cursor_type == key_type or all(texts[folder] is None for folder in cursor_states):
            continue
        folders = {
            "was added": _folder_of_other_type(states.keys() - cursor_states.keys(), texts, cursor_type),
            "was removed": _folder_of_other_type(cursor_states.keys() - states.keys(), texts, key_type),
        }
        causes = [f"since {folder} {event}" for event, folder in folders.items() if folder]
        cause = next(iter(causes), "since its definition was removed" if cursor_id else "now")
        raise TableError(
            f"the partition column {field.name!r} of {table_version.uri} was {cursor_type} at the cursor, and is "
            f"inferred as {key_type} {cause}, so the keys of its partitions would be others; take "
            f"that back, or declare the type with {DECLARATION_CALL}, after which the feed starts anew"
        )


def _folder_text(folder: str, index: int) -> str | None:
    """Return the text of a partition column in the path of a partition's folder."""
    pairs = folder_texts(folder) or ()
    return pairs[index][1] if index < len(pairs) else None


def _folder_of_other_type(folders: Iterable[str], texts: Mapping[str, str | None], key_type: str) -> str | None:
    """Return the first folder whose text alone would be of another type."""
    return next(
        (
            folder
            for folder in sorted(folders)
            if texts[folder] is not None and _key_type(inferred_type(pa.array([texts[folder]]))) != key_type
        ),
        None,
    )


def _partition_states(files: Sequence[StoredFile], depth: int) -> dict[str, _PartitionState]:
    """Return the state of each partition by its folder."""
    by_folder: dict[str, list[StoredFile]] = {}
    for file in files:
        by_folder.setdefault(_partition_folder(file, depth), []).append(file)
    return {folder: (_digest(group), max(f.modified_time for f in group)) for folder, group in by_folder.items()}


def _arrival_times(
    table_version: ParquetTableVersion,
    states: Mapping[str, _PartitionState],
    cursor_states: Mapping[str, _PartitionState],
) -> dict[str, float]:
    """Return when the last file of each changed partition came to its place."""
    storage, depth, times = table_version.storage, len(table_version.partition_fields), dict[str, float]()
    for file in table_version.data_files:
        folder = _partition_folder(file, depth)
        if folder not in cursor_states or cursor_states[folder][0] != states[folder][0]:
            time = storage.arrival_time(StoredFile(file.location, file.size, file.modified_time))
            times[folder] = max(time, times.get(folder, 0.0))
    return times


def _partition_folder(file: StoredFile, depth: int) -> str:
    return "/".join(file.path.split("/")[:depth])


def _digest(files: Sequence[StoredFile]) -> str:
    text = json.dumps([[file.path, file.size, file.modified_time] for file in files])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _newest_writes(files: Sequence[StoredFile], depth: int) -> dict[str, str]:
    """Return the id of the write that the newest file of a partition is of, where its name says it."""
    writes = {}
    for file in sorted(files, key=lambda file: file.modified_time):
        match = _WRITE_ID.search(file.path)
        writes[_partition_folder(file, depth)] = "" if match is None else match["write"]
    return writes


def _group_by_write(change_times: Mapping[str, float], writes: Mapping[str, str]) -> list[tuple[list[str], float]]:
    """Return groups of folders that changed by one write, or at about the same time; with the latest time of each."""
    folders = sorted(change_times, key=lambda folder: (change_times[folder], folder))
    starts = [
        number
        for number, (folder, before) in enumerate(zip(folders, ["", *folders], strict=False))
        if number == 0
        or change_times[folder] - change_times[before] >= _COMMIT_GAP_SECONDS
        or writes.get(folder, "") != writes.get(before, "")
    ]
    return [(folders[start:stop], change_times[folders[stop - 1]]) for start, stop in pairwise([*starts, len(folders)])]


def _table_commit(  # noqa: PLR0913, PLR0917 - what a commit is told from
    table_version: ParquetTableVersion,
    table: str,
    folders: Sequence[str],
    modified_time: float,
    cursor_states: Mapping[str, _PartitionState],
    states: Mapping[str, _PartitionState],
) -> TableCommit:
    change: list[Any] = [[folder, cursor_states.get(folder), states.get(folder)] for folder in folders]
    commit_id = hashlib.sha256(json.dumps([table_version.uri, table, change]).encode()).hexdigest()[:32]
    committed_at = datetime.fromtimestamp(modified_time, UTC)
    partitions = _partitions_of_folders(table_version, folders)
    return TableCommit(commit_id, int(modified_time * 1000), committed_at, "CHANGE", partitions)


def _partitions_of_folders(table_version: ParquetTableVersion, folders: Sequence[str]) -> pa.Table:
    """Return the partitions of folders. Those of a cursor have values of the same types, by which it is known."""
    fields = table_version.partition_fields
    pairs = [folder_texts(folder) or () for folder in folders]
    rows = [[text for _, text in pair] for pair in pairs if len(pair) == len(fields)]
    partitions = typed_partitions(
        fields, [pa.array([row[i] for row in rows], pa.string()) for i in range(len(fields))], len(rows)
    )
    return distinct_rows(partitions.append_column("spec_id", spec_id_column(0, partitions.num_rows)))
