"""Events: what happened to assets and their partitions, as frozen values and as rows of one Arrow schema.

| kind | what happened |
|---|---|
| `defined` | an asset was registered with a new definition: code version, partitions, upstreams, freshness |
| `retired` | an asset is no longer made |
| `started` | an attempt began |
| `succeeded`, `failed`, `cancelled` | an attempt ended, with what it wrote or why it failed |
| `wiped` | a partition's data was deleted |
| `added`, `removed` | a value of a dynamic dimension was added or removed |

An event counts once: by its id, and by run, asset, partition, attempt and kind, of which the latest report counts.
Kinds that this version doesn't know stay in the ledger and are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from operator import index
from typing import TYPE_CHECKING, Any

from partita.algebra.key import PartitionKey
from partita.algebra.physical_values import has_nanoseconds, is_unicode
from partita.algebra.ulid import is_ulid, new_ulid
from partita.errors import StatusError, value_repr

if TYPE_CHECKING:
    import pyarrow as pa


class EventKind(StrEnum):
    """What an event records; the value is the partition value of its file in the ledger."""

    DEFINED = "defined"
    RETIRED = "retired"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WIPED = "wiped"
    ADDED = "added"
    REMOVED = "removed"


class Outcome(StrEnum):
    """How an attempt ended; the value is that of the status table's `last_attempt_outcome`."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def event_kind(self) -> EventKind:
        """The kind of event that records the outcome."""
        return EventKind[self.name]


FINISHED_KINDS = tuple(outcome.event_kind for outcome in Outcome)
PARTITION_EVENT_KINDS = (EventKind.STARTED, *FINISHED_KINDS, EventKind.WIPED)
"""The kinds that are folded into status rows."""
CATALOG_EVENT_KINDS = (EventKind.DEFINED, EventKind.RETIRED, EventKind.ADDED, EventKind.REMOVED)
"""The kinds that define assets and the values of dynamic dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. Fields that its kind doesn't use are None.

    Raises `StatusError` where a field has a wrong type or value, or where one that the kind needs is missing. `kind` is
    text, as a newer version of Partita may have recorded kinds that this one doesn't know.
    """

    kind: str
    tenant_id: str
    workspace_id: str
    asset_key: str
    partition_key: str | None = None
    event_id: str = field(default_factory=new_ulid)
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    run_id: str | None = None
    attempt: int | None = None
    code_version: str | None = None
    started_at: datetime | None = None
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    table_version: int | None = None
    error: str | None = None
    definition: str | None = None

    def __post_init__(self) -> None:
        for name in ("kind", "tenant_id", "workspace_id", "asset_key"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise StatusError(f"an event's {name} must be a non-empty string, not {value_repr(value)}")
        for name in ("kind", "tenant_id", "workspace_id", "asset_key", "run_id", "code_version", "error", "definition"):
            _check_text(name, getattr(self, name))
        if not is_ulid(self.event_id):
            raise StatusError(f"{self.event_id!r} is not a ULID; leave event_id out to get a new one")
        object.__setattr__(self, "occurred_at", validate_timestamp("at", self.occurred_at))
        if self.started_at is not None:
            object.__setattr__(self, "started_at", validate_timestamp("started_at", self.started_at))
        for name in (*_COUNT_FIELDS, "attempt"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, validate_count(name, getattr(self, name)))
        if self.run_id == "":
            raise StatusError("an event's run_id must not be empty; leave it out if there is no run")
        if self.kind in (*PARTITION_EVENT_KINDS, EventKind.ADDED, EventKind.REMOVED):
            _check_key(self.kind, self.partition_key)
        is_attempt = self.kind in (EventKind.STARTED, *FINISHED_KINDS)
        if is_attempt and (self.run_id is None or self.attempt is None):
            raise StatusError(f"a {self.kind} event needs a run_id and the number of the attempt")
        if self.kind == EventKind.DEFINED and self.definition is None:
            raise StatusError("a defined event needs a definition")


_TIMESTAMP_FIELDS = ("occurred_at", "started_at")
_COUNT_FIELDS = ("rows", "files", "bytes", "table_version")


def event_duckdb_types() -> dict[str, str]:
    """Return the columns of the ledger, in order, and their types in DuckDB; later versions add columns at the end."""
    types = {
        **dict.fromkeys(_TIMESTAMP_FIELDS, "TIMESTAMPTZ"),
        **dict.fromkeys(_COUNT_FIELDS, "BIGINT"),
        "attempt": "INTEGER",
    }
    return {f.name: types.get(f.name, "VARCHAR") for f in fields(Event)}


def event_schema() -> pa.Schema:
    """Return the Arrow schema of the ledger."""
    import pyarrow as pa

    types = {
        "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
        "BIGINT": pa.int64(),
        "INTEGER": pa.int32(),
        "VARCHAR": pa.string(),
    }
    required_fields = {"kind", "tenant_id", "workspace_id", "asset_key", "event_id", "occurred_at"}
    return pa.schema(
        [pa.field(n, types[t], nullable=n not in required_fields) for n, t in event_duckdb_types().items()]
    )


def events_to_arrow(events: Iterable[Event]) -> pa.Table:
    """Return events as rows of the ledger."""
    import pyarrow as pa

    event_list = list(events)
    schema = event_schema()
    columns = [pa.array([getattr(event, f.name) for event in event_list], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def repeat_event(event: Event, varying_fields: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return rows of the ledger that equal one event but for `varying_fields`, which have a value for each row."""
    import pyarrow as pa

    row = events_to_arrow([event])
    size = len(next(iter(varying_fields.values())))
    columns = [
        pa.array(varying_fields[f.name], f.type) if f.name in varying_fields else pa.repeat(row[f.name][0], size)
        for f in row.schema
    ]
    return pa.Table.from_arrays(columns, schema=row.schema)


def validate_timestamp(name: str, value: object) -> datetime:
    """Return a timestamp in UTC; raise `StatusError` where it has no time zone or is finer than a microsecond."""
    if not isinstance(value, datetime) or value != value:  # noqa: PLR0124 - pandas' NaT
        raise StatusError(f"{name} must be a datetime, not {value_repr(value)}")
    if value.utcoffset() is None:
        raise StatusError(f"{name} is {value}, which has no time zone; attach one, as in replace(tzinfo=UTC)")
    if has_nanoseconds(value):
        raise StatusError(f"{name} is {value}, which is finer than a microsecond; round it first")
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise StatusError(f"{name} is {value}, which in UTC is outside of the years 1 to 9999") from None
    # A plain datetime, where pandas gave a Timestamp.
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC)


def validate_count(name: str, value: object) -> int:
    """Return a non-negative integer, numpy's too; raise `StatusError` for anything else."""
    limit = 2**31 if name == "attempt" else 2**63
    try:
        count = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type] # raises TypeError
    except TypeError:
        count = None
    if count is None or not 0 <= count < limit:
        raise StatusError(f"an event's {name} must be a non-negative integer, not {value_repr(value)}")
    return count


def _check_text(name: str, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not is_unicode(value)):
        raise StatusError(f"an event's {name} must be Unicode text, not {value_repr(value)}")


def _check_key(kind: str, text: str | None) -> None:
    if text is None:
        raise StatusError(f"a {kind} event needs a partition_key; use '' for an asset without partitions")
    PartitionKey.parse(text)
