"""Events: what happened to assets and their partitions, as frozen values and as the rows of one Arrow schema.

| kind | what happened |
|---|---|
| `defined` | a definition was seen: code version, partitions, upstreams, freshness |
| `retired` | an asset is no longer made |
| `started` | an attempt began |
| `succeeded`, `failed`, `cancelled` | an attempt ended, with what it wrote or why it didn't |
| `wiped` | a partition's data was deleted |
| `added`, `removed` | a value of a dynamic dimension came or went |

An event counts once: by its id, and by run, asset, partition, attempt and kind, the latest report of which counts.
Kinds that this version doesn't know are kept and passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from operator import index
from typing import TYPE_CHECKING, Any

from partita.algebra.key import PartitionKey
from partita.algebra.plain import is_finer, is_unicode
from partita.algebra.ulid import is_ulid, new_ulid
from partita.errors import StatusError, value_repr

if TYPE_CHECKING:
    import pyarrow as pa

DEFINED, RETIRED, STARTED, WIPED, ADDED, REMOVED = "defined", "retired", "started", "wiped", "added", "removed"


class Outcome(StrEnum):
    """How an attempt ended; the value is how the seed's status table says it."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def kind(self) -> str:
        """The kind of event that says so."""
        return self.value.lower()


FINISHED = tuple(outcome.kind for outcome in Outcome)
OF_PARTITIONS = (STARTED, *FINISHED, WIPED)
"""The kinds that are folded into status rows."""
OF_CATALOG = (DEFINED, RETIRED, ADDED, REMOVED)
"""The kinds that say which assets and partitions there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. What its kind has no use for is None."""

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
                raise StatusError(f"an event's {name} is text and not empty, not {value_repr(value)}")
        for name in ("kind", "tenant_id", "workspace_id", "asset_key", "run_id", "code_version", "error", "definition"):
            _check_text(name, getattr(self, name))
        if not is_ulid(self.event_id):
            raise StatusError(f"{self.event_id!r} is no ULID; leave event_id out to get a new one")
        object.__setattr__(self, "occurred_at", checked_instant("at", self.occurred_at))
        if self.started_at is not None:
            object.__setattr__(self, "started_at", checked_instant("started_at", self.started_at))
        for name in ("rows", "files", "bytes", "table_version", "attempt"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_count(name, getattr(self, name)))
        if self.run_id == "":
            raise StatusError("an event's run_id is not empty; leave it out where there is no run")
        if self.kind in (*OF_PARTITIONS, ADDED, REMOVED):
            _check_key(self.kind, self.partition_key)
        if self.kind in (STARTED, *FINISHED) and (self.run_id is None or self.attempt is None):
            raise StatusError(f"a {self.kind} event names its run and the number of the attempt")
        if self.kind == DEFINED and self.definition is None:
            raise StatusError("a defined event holds the definition")


_INSTANTS = ("occurred_at", "started_at")
_COUNTS = ("rows", "files", "bytes", "table_version")


def event_types() -> dict[str, str]:
    """The columns of the ledger, in order, and their types in DuckDB; later versions add columns at the end."""
    types = {**dict.fromkeys(_INSTANTS, "TIMESTAMPTZ"), **dict.fromkeys(_COUNTS, "BIGINT"), "attempt": "INTEGER"}
    return {f.name: types.get(f.name, "VARCHAR") for f in fields(Event)}


def event_schema() -> pa.Schema:
    """The same in Arrow."""
    import pyarrow as pa

    types = {
        "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
        "BIGINT": pa.int64(),
        "INTEGER": pa.int32(),
        "VARCHAR": pa.string(),
    }
    required = {"kind", "tenant_id", "workspace_id", "asset_key", "event_id", "occurred_at"}
    return pa.schema([pa.field(n, types[t], nullable=n not in required) for n, t in event_types().items()])


def to_arrow(events: Iterable[Event]) -> pa.Table:
    """The events as rows of the ledger."""
    import pyarrow as pa

    given = list(events)
    schema = event_schema()
    columns = [pa.array([getattr(e, f.name) for e in given], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def repeated(event: Event, differing: Mapping[str, Sequence[Any]]) -> pa.Table:
    """The rows of events that are like one, but for these values."""
    import pyarrow as pa

    one = to_arrow([event])
    size = len(next(iter(differing.values())))
    columns = [
        pa.array(differing[f.name], f.type) if f.name in differing else pa.repeat(one[f.name][0], size)
        for f in one.schema
    ]
    return pa.Table.from_arrays(columns, schema=one.schema)


def from_arrow(table: pa.Table) -> list[Event]:
    """The events that rows of the ledger say."""
    names = [f.name for f in fields(Event)]
    return [Event(**row) for row in table.select(names).to_pylist()]


def checked_instant(name: str, value: object) -> datetime:
    """A moment in UTC; one without a time zone, or finer than a microsecond, is refused."""
    if not isinstance(value, datetime) or value != value:  # noqa: PLR0124 - pandas' NaT
        raise StatusError(f"{name} is a datetime, not {value_repr(value)}")
    if value.utcoffset() is None:
        raise StatusError(f"{name} is {value}, which has no time zone; attach one, as in replace(tzinfo=UTC)")
    if is_finer(value):
        raise StatusError(f"{name} is {value}, which is finer than a microsecond; round it first")
    try:
        at = value.astimezone(UTC)
    except OverflowError:
        raise StatusError(f"{name} is {value}, which in UTC is outside of the years 1 to 9999") from None
    return datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, UTC)


def checked_count(name: str, value: object) -> int:
    """A whole number that is not negative; numpy's count too."""
    most = 2**31 if name == "attempt" else 2**63
    try:
        found = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type] # what isn't one raises
    except TypeError:
        found = None
    if found is None or not 0 <= found < most:
        raise StatusError(f"an event's {name} is a whole number that is not negative, not {value_repr(value)}")
    return found


def _check_text(name: str, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not is_unicode(value)):
        raise StatusError(f"an event's {name} is Unicode text, not {value_repr(value)}")


def _check_key(kind: str, text: str | None) -> None:
    if text is None:
        raise StatusError(f"a {kind} event names a partition; that of an asset without partitions is ''")
    PartitionKey.parse(text)
