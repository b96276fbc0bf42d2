"""The change feed of a table: the commits of its log, each with the partitions that it changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from partita.arrow.buffers import Ints
from partita.arrow.distinct_rows import distinct_rows
from partita.errors import TableError
from partita.untrusted_input import parse_json_object

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class TableCommit:
    """A commit that changed rows of a table.

    Attributes:
        id: the identity of the commit, which never changes.
        version: the table version that it made.
        committed_at: its time, in UTC.
        operation: the operation, by the name that the format gives it.
        partitions: the partitions to which it added files, or from which it removed or marked rows; one row each, with
            `spec_id` and a column for each partition field.
    """

    id: str
    version: int
    committed_at: datetime
    operation: str
    partitions: pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class ChangeFeed:
    """The commits of a table since a cursor, oldest first.

    Attributes:
        cursor: the argument of the next `Table.change_feed`, which continues after these commits.
        commits: the commits.
    """

    cursor: str
    commits: tuple[TableCommit, ...]


def partitions_by_commit(partitions: pa.Table, commit_numbers: Ints, commit_count: int) -> Iterator[pa.Table]:
    """Yield the distinct partitions of each commit; `commit_numbers` has the number of the commit of each row."""
    distinct_partitions = distinct_rows(partitions.append_column("commit", pa.array(commit_numbers)))
    order = np.argsort(distinct_partitions["commit"].to_numpy(), kind="stable")
    distinct_partitions = distinct_partitions.take(pa.array(order)).combine_chunks()
    ends = np.searchsorted(distinct_partitions["commit"].to_numpy(), np.arange(commit_count + 1))
    distinct_columns = distinct_partitions.drop_columns("commit")
    return (distinct_columns.slice(start, stop - start) for start, stop in pairwise(ends.tolist()))


def datetime_from_millis(milliseconds: float) -> datetime:
    """Return the time that is some milliseconds after 1970."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def encode_cursor(format_name: str, **fields: object) -> str:
    """Encode a cursor of a table of a format as JSON."""
    return json.dumps({"format": format_name, **fields}, separators=(",", ":"), sort_keys=True)


def decode_cursor(format_name: str, text: str | None) -> Mapping[str, Any] | None:
    """Return the fields of a cursor, None for None; raise `TableError` if it is no cursor of that format."""
    if text is None:
        return None
    try:
        fields = parse_json_object(text) if isinstance(text, str) else {}
    except ValueError:
        fields = {}
    if fields.get("format") != format_name:
        preview = text[:80] if isinstance(text, str) else text
        raise TableError(
            f"{preview!r} is no cursor of a {format_name} table; use one that change_feed() returned, or None"
        )
    return fields
