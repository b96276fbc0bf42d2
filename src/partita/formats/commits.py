"""What was done to a table's data, by its own log: each commit with the partitions that it touched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from partita.errors import TableError

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class TableCommit:
    """A commit that changed data.

    `id` is its own for ever, and `at` when it was made, in UTC. `partitions` has each partition that it added to, took
    from or marked rows in once, with the columns of the table's `State.partitions`, so that
    `partita.formats.plan.partition_keys` takes it.
    """

    id: str
    version: int
    at: datetime
    operation: str
    partitions: pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class Commits:
    """Commits, oldest first, and the cursor to ask after for those that come next."""

    cursor: str
    commits: tuple[TableCommit, ...]


def moment(milliseconds: float) -> datetime:
    """The time so many milliseconds from 1970."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def cursor_text(form: str, **fields: object) -> str:
    """A cursor of a table of that format."""
    return json.dumps({"format": form, **fields}, separators=(",", ":"), sort_keys=True)


def cursor_fields(form: str, text: str | None) -> Mapping[str, Any] | None:
    """What a cursor says; None stands for the start, and what is no cursor of that format is refused."""
    if text is None:
        return None
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or fields.get("format") != form:
        raise TableError(f"{text[:80]!r} is no cursor of a {form} table; take one that commits() gave, or None")
    return fields
