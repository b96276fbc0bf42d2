"""Histories for the tests of status: events made short, random ones, and the status spec's update logic as a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from partita.algebra.key import PartitionKey
from partita.status.events import FINISHED_KINDS, Event, EventKind, Outcome
from partita.status.schema import PARTITION_STATUS_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

START = datetime(2025, 1, 1, tzinfo=UTC)
KEY = PartitionKey.of(date=date(2025, 1, 15), region="us-east")


def hours_after_start(hours: float) -> datetime:
    """So many hours after the start of 2025."""
    return START + timedelta(hours=hours)


def events_from_arrow(table: pa.Table) -> list[Event]:
    """The events of rows of the ledger."""
    field_names = [f.name for f in fields(Event)]
    return [Event(**row) for row in table.select(field_names).to_pylist()]


def event(
    kind: str, hours: float, run: str | None = "r1", *, key: object = KEY, asset: str = "sales", **fields: Any
) -> Event:
    """An event of one workspace."""
    run_fields = (
        {"run_id": run, "attempt": fields.pop("attempt", 1)} if kind in (EventKind.STARTED, *FINISHED_KINDS) else {}
    )
    return Event(
        kind=kind,
        tenant_id="default",
        workspace_id="default",
        asset_key=asset,
        partition_key=str(key),
        occurred_at=hours_after_start(hours),
        **run_fields,
        **fields,
    )


def success_event(hours: float, run: str = "r1", version: str | None = "1", **fields: Any) -> Event:
    """A success."""
    return event(Outcome.SUCCEEDED.event_kind, hours, run, code_version=version, **fields)


def failure_event(hours: float, run: str = "r1", **fields: Any) -> Event:
    """A failure."""
    return event(Outcome.FAILED.event_kind, hours, run, **fields)


def cancellation_event(hours: float, run: str = "r1", **fields: Any) -> Event:
    """A cancelled attempt."""
    return event(Outcome.CANCELLED.event_kind, hours, run, **fields)


def status_rows(table: pa.Table) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of a table by asset and partition."""
    found = {(row["asset_key"], row["partition_key"]): row for row in table.to_pylist()}
    assert len(found) == table.num_rows, "a partition has two rows"
    return found


_RUN_IDS = st.sampled_from(["r1", "r2", "r3"])
_KEYS = [PartitionKey.of(), KEY, PartitionKey.of(date=date(2025, 3, 30), region=None, shard=-7)]


@st.composite
def event_histories(draw: st.DrawFn, most: int = 40) -> list[Event]:
    """Few runs, partitions and moments, so that events often meet in all of them."""
    return draw(st.lists(_random_events(), min_size=1, max_size=most))


@st.composite
def _random_events(draw: st.DrawFn) -> Event:
    kind = draw(
        st.sampled_from([*FINISHED_KINDS, *FINISHED_KINDS, EventKind.STARTED, EventKind.WIPED, "from_the_future"])
    )
    hours = draw(st.sampled_from([0, 1, 1, 2, 3, 1e-9 / 3.6]))
    fields: dict[str, Any] = {"key": draw(st.sampled_from(_KEYS)), "asset": draw(st.sampled_from(["a", "b"]))}
    if kind in FINISHED_KINDS:
        fields["started_at"] = draw(st.sampled_from([None, hours_after_start(0), hours_after_start(1)]))
        fields["code_version"] = draw(st.sampled_from([None, "1", "2"]))
        fields["rows"] = draw(st.sampled_from([None, 0, 5]))
    if kind in (EventKind.STARTED, *FINISHED_KINDS):
        fields["attempt"] = draw(st.integers(1, 2))
    return event(kind, hours, draw(_RUN_IDS), **fields)


def expected_status_rows(events: Iterable[Event]) -> dict[tuple[str, str], dict[str, Any]]:
    """The status spec's update logic, one event after the other by time and id: what the fold must equal."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one in sorted({e.event_id: e for e in events}.values(), key=lambda e: (e.occurred_at, e.event_id)):
        if one.kind not in (EventKind.STARTED, *FINISHED_KINDS, EventKind.WIPED):
            continue
        row = rows.setdefault((one.asset_key, one.partition_key or ""), _empty_row(one))
        row["row_version"] = max(row["row_version"], one.event_id)
        if one.kind in FINISHED_KINDS:
            _record_attempt(row, one)
        if one.kind == Outcome.SUCCEEDED.event_kind:
            _mark_materialized(row, one)
        if one.kind == EventKind.WIPED:
            for name in ("run_id", "at", "code_version"):
                row[f"last_materialization_{name}"] = None
    return rows


def _empty_row(one: Event) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(PARTITION_STATUS_COLUMNS)
    key = PartitionKey.parse(one.partition_key or "")
    values = [(name, None if value is None else _value_text(value)) for name, value in key.items()]
    return row | {
        "tenant_id": one.tenant_id,
        "workspace_id": one.workspace_id,
        "asset_key": one.asset_key,
        "partition_key": one.partition_key,
        "partition_values": values,
        "row_version": "",
    }


def _value_text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _record_attempt(row: dict[str, Any], one: Event) -> None:
    row["last_attempt_run_id"] = one.run_id
    row["last_attempt_at"] = one.occurred_at
    row["last_attempt_outcome"] = one.kind.upper()


def _mark_materialized(row: dict[str, Any], one: Event) -> None:
    row["last_materialization_run_id"] = one.run_id
    row["last_materialization_at"] = one.occurred_at
    row["last_materialization_code_version"] = one.code_version
    row["stale_since"] = None


def split_events(events: Sequence[Event], sizes: Sequence[int]) -> list[list[Event]]:
    """The events in parts, dealt out by the numbers."""
    parts: list[list[Event]] = [[], [], []]
    for one, place in zip(events, sizes, strict=True):
        parts[place % 3].append(one)
    return [part for part in parts if part]
