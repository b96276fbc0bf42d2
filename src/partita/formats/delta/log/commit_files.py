"""Read and write the commit files of the log: one JSON file per version, one action per line.

The lines of `add` and `remove` actions are kept apart from the others, so that a commit of a hundred thousand files
becomes Arrow columns without a Python object per file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from partita.errors import TableError
from partita.formats.delta.log.segment import check_no_missing_commits, commit_path
from partita.formats.delta.log.snapshot import files_schema
from partita.storage import Storage
from partita.untrusted_input import parse_json


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """All actions of a version, in order, as in `{"add": {...}}`."""

    version: int
    actions: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CommitLines:
    """A commit with its `add` and `remove` actions as numbered lines, and all other actions parsed."""

    version: int
    file_lines: tuple[tuple[int, bytes], ...]
    other_actions: tuple[dict[str, Any], ...]

    @property
    def commit_info(self) -> Mapping[str, Any]:
        """The `commitInfo`; empty if there is none."""
        return next((action["commitInfo"] for action in self.other_actions if action.get("commitInfo")), {})

    @property
    def timestamp(self) -> int | None:
        """The time of the commit in milliseconds since 1970; None if `commitInfo` doesn't have it."""
        timestamp = self.commit_info.get("inCommitTimestamp", self.commit_info.get("timestamp"))
        return timestamp if isinstance(timestamp, int) else None


def read_commit_files(storage: Storage, versions: Sequence[int]) -> list[bytes]:
    """Return the bytes of the commits of some versions; raise `TableError` if one is missing."""
    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        contents = list(pool.map(storage.get, map(commit_path, versions)))
    check_no_missing_commits(
        (version for version, data in zip(versions, contents, strict=True) if data is not None), versions
    )
    return [data for data in contents if data is not None]


def parse_commit(version: int, data: bytes) -> DeltaCommit:
    """Parse every action of a commit."""
    return DeltaCommit(version, tuple(_parse_action(version, number, line) for number, line in _numbered_lines(data)))


def split_commit(version: int, data: bytes) -> CommitLines:
    """Parse a commit, but for its `add` and `remove` actions."""
    try:
        # Arrow's JSON reader doesn't check the encoding.
        str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{commit_path(version)} is not UTF-8: {error}") from error
    file_lines: list[tuple[int, bytes]] = []
    other_actions: list[dict[str, Any]] = []
    for number, line in _numbered_lines(data):
        if line.startswith(_FILE_ACTION_PREFIXES):
            file_lines.append((number, line))
        else:
            action = _parse_action(version, number, line)
            other_actions.append(action)
            if "add" in action or "remove" in action:
                file_lines.append((number, line))
    return CommitLines(version, tuple(file_lines), tuple(other_actions))


def serialize_actions(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the content of a commit file."""
    return "".join(f"{_JSON_ENCODER.encode(action)}\n" for action in actions).encode()


def file_action_rows(
    commits: Sequence[CommitLines], partition_names: Sequence[str]
) -> tuple[pa.Table, pa.ChunkedArray]:
    """Return the file actions of commits, in order, as rows of `DeltaSnapshot.files`; and whether each is an `add`."""
    lines = [line for commit in commits for _, line in commit.file_lines]
    rows = parse_file_actions(lines, _file_action_schema(partition_names))
    if rows is None:
        raise _first_line_error(commits, partition_names)
    add, remove = rows["add"], rows["remove"]
    is_add = pc.is_valid(pc.struct_field(add, "path"))
    path = pc.coalesce(pc.struct_field(add, "path"), pc.struct_field(remove, "path"))
    if path.null_count:
        raise _first_line_error(commits, partition_names)
    vector = deletion_vector_ids(
        pc.if_else(is_add, pc.struct_field(add, "deletionVector"), pc.struct_field(remove, "deletionVector"))
    )
    values = [pc.struct_field(add, name) for name in ("partitionValues", "size", "modificationTime", "stats")]
    columns = [path, *values, pc.is_valid(vector), vector]
    return pa.Table.from_arrays(columns, schema=files_schema(partition_names)), is_add


def parse_file_actions(lines: Sequence[bytes], schema: pa.Schema) -> pa.Table | None:
    """Parse lines of file actions into the columns of a schema; None if a line is not one action of that schema."""
    if not lines:
        return schema.empty_table()
    # Arrow's JSON reader takes no object that is longer than two blocks.
    block_size = max(_JSON_BLOCK_BYTES, 2 * max(map(len, lines)))
    parse = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        rows = pa_json.read_json(pa.BufferReader(b"\n".join(lines)), pa_json.ReadOptions(block_size=block_size), parse)
    except pa.ArrowException:
        return None
    return rows if rows.num_rows == len(lines) else None


def deletion_vector_ids(vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the unique ids of deletion vectors (Deletion Vectors, Derived Fields); null for null."""
    kind, path, offset = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset"))
    suffix = pc.binary_join_element_wise("@", pc.cast(offset, pa.string()), "")
    return pc.binary_join_element_wise(kind, path, pc.fill_null(suffix, ""), "")


def deletion_vector_path(vector: Mapping[str, Any]) -> str | None:
    """Return the path of the file of a deletion vector (Deletion Vector Format); None for an inline one.

    Storage type `u` has the name as a UUID in Z85, behind the name of an optional random folder.
    """
    kind, path = vector.get("storageType"), vector.get("pathOrInlineDv")
    if kind == "i" or not isinstance(path, str):
        return None
    if kind != "u":
        return path
    folder, encoded_uuid = path[:-_Z85_UUID_LENGTH], path[-_Z85_UUID_LENGTH:]
    number = 0
    for start in range(0, len(encoded_uuid), 5):
        group = 0
        for character in encoded_uuid[start : start + 5]:
            group = group * 85 + _Z85_ALPHABET.index(character)
        number = number << 32 | group
    name = f"deletion_vector_{UUID(int=number)}.bin"
    return f"{folder}/{name}" if folder else name


_Z85_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_UUID_LENGTH = 20

_MAX_THREADS = 16
"""Number of commits that are fetched at the same time."""

_JSON_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_FILE_ACTION_PREFIXES = (b'{"add":', b'{"remove":')
_JSON_BLOCK_BYTES = 1 << 24


def _numbered_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(data.split(b"\n"), 1) if line and not line.isspace())


def _parse_action(version: int, line_number: int, line: bytes) -> dict[str, Any]:
    try:
        action = parse_json(line)
    except ValueError as error:
        raise _line_error(version, line_number, str(error)) from error
    if not isinstance(action, dict):
        raise _line_error(version, line_number, "an action must be a JSON object")
    for name in _KNOWN_ACTIONS & action.keys():
        if action[name] is not None and not isinstance(action[name], dict):
            raise _line_error(version, line_number, f"the action {name} must be a JSON object")
    return action


_KNOWN_ACTIONS = frozenset({"add", "remove", "metaData", "protocol", "txn", "commitInfo"})
"""The actions that Partita reads; as the protocol asks, it ignores all others."""


def _file_action_schema(partition_names: Sequence[str]) -> pa.Schema:
    vector = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int64())])
    add = [
        ("path", pa.string()),
        ("partitionValues", pa.struct([(name, pa.string()) for name in partition_names])),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("deletionVector", vector),
    ]
    remove = [("path", pa.string()), ("deletionVector", vector)]
    return pa.schema([("add", pa.struct(add)), ("remove", pa.struct(remove))])


def _first_line_error(commits: Sequence[CommitLines], partition_names: Sequence[str]) -> TableError:
    """Return the error of the first line that is not an `add` or `remove` action."""
    for commit in commits:
        for number, line in commit.file_lines:
            action = _parse_action(commit.version, number, line)
            rows = parse_file_actions([line], _file_action_schema(partition_names))
            has_path = any((action.get(name) or {}).get("path") for name in ("add", "remove"))
            if rows is None or not has_path:
                return _line_error(commit.version, number, "not an add or a remove as the protocol has them")
    return TableError("the actions of files in the log can't be read")


def _line_error(version: int, line_number: int, reason: str) -> TableError:
    return TableError(f"{commit_path(version)}, line {line_number}: {reason}")
