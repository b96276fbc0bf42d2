"""The commits of the log: one JSON file each, one action a line.

The lines of files are kept apart from the rest, so that a commit of a hundred thousand files becomes Arrow columns
without a Python object for each.
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
from partita.formats.delta.log.segment import check_complete, commit_path
from partita.formats.delta.log.snapshot import files_schema
from partita.storage import Storage
from partita.untrusted import parse_json


@dataclass(frozen=True, slots=True)
class Commit:
    """All actions of a version, in order: `{"add": {...}}` and so on."""

    version: int
    actions: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """A commit as `replay` takes it: the lines of `add` and `remove` with their numbers, all other actions parsed."""

    version: int
    files: tuple[tuple[int, bytes], ...]
    others: tuple[dict[str, Any], ...]

    @property
    def info(self) -> Mapping[str, Any]:
        """The `commitInfo`; empty where there is none."""
        return next((action["commitInfo"] for action in self.others if action.get("commitInfo")), {})


def read_commits(storage: Storage, versions: Sequence[int]) -> list[bytes]:
    """The bytes of those commits; refused where one is missing."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(storage.get, map(commit_path, versions)))
    check_complete((version for version, data in zip(versions, found, strict=True) if data is not None), versions)
    return [data for data in found if data is not None]


def parsed(version: int, data: bytes) -> Commit:
    """A commit with every action as a dict."""
    return Commit(version, tuple(_action(version, at, line) for at, line in _numbered(data)))


def split(version: int, data: bytes) -> Lines:
    """A commit with the lines of its files kept apart, unread."""
    try:
        # Arrow's reader of JSON takes any bytes for text.
        str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"{commit_path(version)} is not UTF-8: {error}") from error
    files: list[tuple[int, bytes]] = []
    others: list[dict[str, Any]] = []
    for at, line in _numbered(data):
        if line.startswith(_OF_FILES):
            files.append((at, line))
        else:
            action = _action(version, at, line)
            others.append(action)
            if "add" in action or "remove" in action:
                files.append((at, line))
    return Lines(version, tuple(files), tuple(others))


def serialized(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """The bytes of a commit of those actions."""
    return "".join(f"{_ENCODER.encode(action)}\n" for action in actions).encode()


def file_rows(commits: Sequence[Lines], partitions: Sequence[str]) -> tuple[pa.Table, pa.ChunkedArray]:
    """The files of those commits, in order, in the columns of `Snapshot.files`; and whether each is an `add`."""
    lines = [line for commit in commits for _, line in commit.files]
    rows = _read(lines, partitions) if lines else pa.Table.from_batches([], _schema(partitions))
    if rows is None:
        raise _first_problem(commits, partitions)
    add, remove = rows["add"], rows["remove"]
    is_add = pc.is_valid(pc.struct_field(add, "path"))
    path = pc.coalesce(pc.struct_field(add, "path"), pc.struct_field(remove, "path"))
    if path.null_count:
        raise _first_problem(commits, partitions)
    vector = vector_ids(
        pc.if_else(is_add, pc.struct_field(add, "deletionVector"), pc.struct_field(remove, "deletionVector"))
    )
    values = [pc.struct_field(add, name) for name in ("partitionValues", "size", "modificationTime", "stats")]
    columns = [path, *values, pc.is_valid(vector), vector]
    return pa.Table.from_arrays(columns, schema=files_schema(partitions)), is_add


def vector_ids(vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    """The unique ids of deletion vectors (Deletion Vectors, Derived Fields); null where there is none."""
    kind, place, offset = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset"))
    marked = pc.binary_join_element_wise("@", pc.cast(offset, pa.string()), "")
    return pc.binary_join_element_wise(kind, place, pc.fill_null(marked, ""), "")


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """The path of the file that a deletion vector is in (Deletion Vector Format); None of one within the log.

    A file below the table has a UUID in Z85 for a name, after the random folder that it may be in.
    """
    kind, place = vector.get("storageType"), vector.get("pathOrInlineDv")
    if kind == "i" or not isinstance(place, str):
        return None
    if kind != "u":
        return place
    folder, coded = place[:-_Z85_UUID], place[-_Z85_UUID:]
    number = 0
    for start in range(0, len(coded), 5):
        group = 0
        for character in coded[start : start + 5]:
            group = group * 85 + _Z85.index(character)
        number = number << 32 | group
    name = f"deletion_vector_{UUID(int=number)}.bin"
    return f"{folder}/{name}" if folder else name


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_UUID = 20

_AT_ONCE = 16
"""Commits that are fetched at the same time."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_OF_FILES = (b'{"add":', b'{"remove":')
_BLOCK = 1 << 24


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    return ((at, line) for at, line in enumerate(data.split(b"\n"), 1) if line and not line.isspace())


def _action(version: int, at: int, line: bytes) -> dict[str, Any]:
    try:
        action = parse_json(line)
    except ValueError as error:
        raise _corrupt(version, at, str(error)) from error
    if not isinstance(action, dict):
        raise _corrupt(version, at, "an action is a JSON object")
    for name in _ACTIONS & action.keys():
        if action[name] is not None and not isinstance(action[name], dict):
            raise _corrupt(version, at, f"an action is a JSON object, and {name} is none")
    return action


_ACTIONS = frozenset({"add", "remove", "metaData", "protocol", "txn", "commitInfo"})
"""The actions that are read; readers ignore all others, whatever they hold."""


def _schema(partitions: Sequence[str]) -> pa.Schema:
    vector = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int64())])
    add = [
        ("path", pa.string()),
        ("partitionValues", pa.struct([(name, pa.string()) for name in partitions])),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("deletionVector", vector),
    ]
    remove = [("path", pa.string()), ("deletionVector", vector)]
    return pa.schema([("add", pa.struct(add)), ("remove", pa.struct(remove))])


def _read(lines: Sequence[bytes], partitions: Sequence[str]) -> pa.Table | None:
    """A row for each line; None where one of them doesn't hold just one action of files."""
    # No object may be longer than two blocks.
    block = max(_BLOCK, 2 * max(map(len, lines)))
    parse = pa_json.ParseOptions(explicit_schema=_schema(partitions), unexpected_field_behavior="ignore")
    try:
        rows = pa_json.read_json(pa.BufferReader(b"\n".join(lines)), pa_json.ReadOptions(block_size=block), parse)
    except pa.ArrowException:
        return None
    return rows if rows.num_rows == len(lines) else None


def _first_problem(commits: Sequence[Lines], partitions: Sequence[str]) -> TableError:
    for commit in commits:
        for at, line in commit.files:
            action = _action(commit.version, at, line)
            rows = _read([line], partitions)
            named = any((action.get(name) or {}).get("path") for name in ("add", "remove"))
            if rows is None or not named:
                return _corrupt(commit.version, at, "not an add or a remove as the protocol has them")
    return TableError("the actions of files in the log can't be read")


def _corrupt(version: int, at: int, reason: str) -> TableError:
    return TableError(f"{commit_path(version)}, line {at}: {reason}")
