"""Rows of tables whose change feed is read, and what its commits say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import partita as pt

if TYPE_CHECKING:
    from partita.formats.change_feed import ChangeFeed, TableCommit

SCHEMA = pt.Schema.of({"id": "long", "p": "string"})


def rows(*ids_and_values: tuple[int, str | None]) -> pa.Table:
    """Return rows of an id and a value of the partition field."""
    ids, values = zip(*ids_and_values, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array(values, pa.string())})


def touched_values(commit: TableCommit, field: str = "p") -> list[Any]:
    """Return the values of a field of the partitions that a commit touched."""
    return sorted(commit.partitions[field].to_pylist(), key=str)


def touched_by_commit(feed: ChangeFeed) -> list[list[Any]]:
    """Return the values of `p` that each commit touched."""
    return [touched_values(commit) for commit in feed.commits]
