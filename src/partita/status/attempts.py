"""Record what jobs do: attempts and their outcomes, wiped partitions, values of dynamic dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias

from partita.algebra.key import PartitionKey
from partita.algebra.physical_values import is_unicode
from partita.algebra.ulid import new_ulid
from partita.errors import StatusError, value_repr
from partita.status.events import Event, EventKind, Outcome, repeat_event, validate_count
from partita.status.ledger import Ledger

PartitionKeyLike: TypeAlias = PartitionKey | Mapping[str, object] | str | None
"""A partition key, its values, its canonical text, or None for an asset without partitions."""


class Attempt:
    """An attempt in progress, which `Lake.attempt` yields. Its output and outcome are recorded when its block ends."""

    def __init__(self, asset: str, keys: tuple[PartitionKey, ...], run_id: str, number: int) -> None:
        self.asset = asset
        self.keys = keys
        self.run_id = run_id
        self.number = number
        self.is_cancelled = False
        self.output_counts: dict[str, int] = {}

    def record_output(self, **counts: int) -> None:
        """Set what the attempt wrote: `rows`, `files`, `bytes` or `table_version`."""
        unknown = set(counts) - {"rows", "files", "bytes", "table_version"}
        if unknown:
            raise StatusError(
                f"unknown output {value_repr(min(unknown))}; an attempt records rows, files, bytes and table_version"
            )
        self.output_counts |= {name: validate_count(name, count) for name, count in counts.items()}

    def cancel(self) -> None:
        """Record the attempt as cancelled when its block ends, which is neither a success nor a failure."""
        self.is_cancelled = True


def record_events(  # noqa: PLR0913, PLR0917 - the fields of an event
    ledger: Ledger,
    kind: EventKind,
    asset: str,
    partition_keys: Sequence[str],
    occurred_at: datetime | None = None,
    varying_fields: Mapping[str, Sequence[Any]] | None = None,
    **fields: Any,
) -> datetime:
    """Append an event for each canonical key, in one commit; return the time of the events.

    The events share `fields` and differ in their keys, their ids and in `varying_fields`, which have a value for each
    key. So only one event is validated, and the others are built as columns. Where `run_id` is None, each event is its
    own run. Raises `StatusError` for a field that events don't have.
    """
    unknown = {*fields, *(varying_fields or ())} - _OPTIONAL_EVENT_FIELDS
    if unknown:
        raise StatusError(
            f"an event has no field {min(unknown)!r}; its fields are {', '.join(sorted(_OPTIONAL_EVENT_FIELDS))}"
        )
    ids = [new_ulid() for _ in partition_keys]
    varying_columns: dict[str, Sequence[Any]] = {
        "partition_key": partition_keys,
        "event_id": ids,
        **(varying_fields or {}),
    }
    if "run_id" in fields and fields["run_id"] is None:
        varying_columns["run_id"] = ids
    time_fields: dict[str, Any] = {} if occurred_at is None else {"occurred_at": occurred_at}
    identity: dict[str, Any] = {"tenant_id": ledger.tenant, "workspace_id": ledger.workspace, "asset_key": asset}
    first = Event(
        kind=kind, **identity, **time_fields, **fields | {name: values[0] for name, values in varying_columns.items()}
    )
    ledger.append_rows(repeat_event(first, varying_columns))
    return first.occurred_at


_OPTIONAL_EVENT_FIELDS = {
    "run_id",
    "attempt",
    "code_version",
    "started_at",
    "rows",
    "files",
    "bytes",
    "table_version",
    "error",
}


@contextmanager
def record_attempt(  # noqa: PLR0913, PLR0917 - the fields of an attempt
    ledger: Ledger,
    asset: str,
    keys: PartitionKeyLike | Sequence[PartitionKeyLike],
    run_id: str | None,
    number: int,
    code_version: str | None,
    check_keys: Callable[[str, Sequence[str]], None] | None = None,
) -> Iterator[Attempt]:
    """Record the start of an attempt, and its outcome at the end of the block.

    An exception is recorded as a failure and raised again. `check_keys` raises for keys that the asset can't have.
    """
    run = new_ulid() if run_id is None else run_id
    common: dict[str, Any] = {"run_id": run, "attempt": number, "code_version": code_version}
    texts = key_texts(keys)
    if check_keys is not None:
        check_keys(asset, texts)
    common["started_at"] = record_events(ledger, EventKind.STARTED, asset, texts, **common)
    attempt = Attempt(asset, tuple(map(PartitionKey.parse, texts)), run, number)
    try:
        yield attempt
    except BaseException as error:
        # KeyboardInterrupt and SystemExit stop the process: a job that was stopped has not failed.
        outcome = Outcome.FAILED if isinstance(error, Exception) else Outcome.CANCELLED
        record_events(ledger, outcome.event_kind, asset, texts, error=_error_text(error), **common)
        raise
    if attempt.is_cancelled:
        record_events(ledger, Outcome.CANCELLED.event_kind, asset, texts, **common)
    else:
        record_events(ledger, Outcome.SUCCEEDED.event_kind, asset, texts, **{**attempt.output_counts, **common})


def event_kind_from_outcome(outcome: str) -> EventKind:
    """Return the event kind of an outcome, in any case; "started" counts as one.

    Raises `StatusError` for any other text.
    """
    kinds = (EventKind.STARTED, *(o.event_kind for o in Outcome))
    if not isinstance(outcome, str) or outcome.lower() not in kinds:
        raise StatusError(f"unknown outcome {value_repr(outcome)}; the outcomes are {', '.join(kinds)}")
    return EventKind(outcome.lower())


def key_text(key: PartitionKeyLike) -> str:
    """Return the canonical text of a key."""
    if key is None:
        return ""
    if isinstance(key, str):
        return str(PartitionKey.parse(key))
    if not isinstance(key, Mapping):
        raise StatusError(f"a partition must be a key, a mapping, a canonical text or None, not {value_repr(key)}")
    return str(key if isinstance(key, PartitionKey) else PartitionKey.of(key))


def key_texts(keys: PartitionKeyLike | Sequence[PartitionKeyLike]) -> tuple[str, ...]:
    """Return the canonical texts of one key or of several."""
    return tuple(map(key_text, key_list(keys)))


def key_list(keys: PartitionKeyLike | Sequence[PartitionKeyLike]) -> Sequence[PartitionKeyLike]:
    """Return one key or several as a list; raise `StatusError` for an empty one."""
    if keys is None or isinstance(keys, str | Mapping) or not isinstance(keys, Iterable):
        return [keys]
    key_values = list(keys)
    if not key_values:
        raise StatusError("the list of partitions is empty; use None for an asset without partitions")
    return key_values


def _error_text(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if is_unicode(text) else text.encode("utf-8", "replace").decode()
