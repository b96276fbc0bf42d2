"""What jobs record: attempts and how they went, wiped partitions, values of dynamic dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from partita.algebra.key import PartitionKey
from partita.algebra.plain import is_unicode
from partita.algebra.ulid import new_ulid
from partita.errors import StatusError, value_repr
from partita.status.events import STARTED, Event, Outcome, checked_count, repeated
from partita.status.ledger import Ledger

Key: TypeAlias = PartitionKey | Mapping[str, object] | str | None
"""A partition: its key, the values of one, its canonical text, or None for an asset without partitions."""


class Attempt:
    """An attempt that is being made; what is said to it is recorded when it ends."""

    def __init__(self, asset: str, keys: tuple[PartitionKey, ...], run_id: str, number: int) -> None:
        self.asset = asset
        self.keys = keys
        self.run_id = run_id
        self.number = number
        self.is_cancelled = False
        self.written: dict[str, int] = {}

    def wrote(self, **counts: int) -> None:
        """Say what was written: `rows`, `files`, `bytes`, `table_version`."""
        unknown = set(counts) - {"rows", "files", "bytes", "table_version"}
        if unknown:
            raise StatusError(
                f"an attempt writes rows, files, bytes and a table_version, not {value_repr(min(unknown))}"
            )
        self.written |= {name: checked_count(name, count) for name, count in counts.items()}

    def cancel(self) -> None:
        """Say that the attempt ends without a result and without a failure."""
        self.is_cancelled = True


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was appended: the canonical keys, and when it happened."""

    keys: tuple[str, ...]
    at: datetime


def record(  # noqa: PLR0913, PLR0917 - what there is to say of partitions
    ledger: Ledger,
    kind: str,
    asset: str,
    keys: Key | Sequence[Key],
    at: datetime | None = None,
    each: Mapping[str, Sequence[Any]] | None = None,
    **fields: Any,
) -> Recorded:
    """Append an event of that kind for each key, in one commit. An attempt whose run is None is a run of its own.

    The events differ in their keys and ids, and in `each`, fields with a value for each key; so one is checked and the
    others are made as columns.
    """
    return record_canonical(ledger, kind, asset, key_texts(keys), at, each, **fields)


def record_canonical(  # noqa: PLR0913, PLR0917 - as above
    ledger: Ledger,
    kind: str,
    asset: str,
    texts: tuple[str, ...],
    at: datetime | None = None,
    each: Mapping[str, Sequence[Any]] | None = None,
    **fields: Any,
) -> Recorded:
    """The same of keys that `key_texts` gave."""
    unknown = {*fields, *(each or ())} - _FIELDS
    if unknown:
        raise StatusError(f"an event has no {min(unknown)!r}; there is: {', '.join(sorted(_FIELDS))}")
    ids = [new_ulid() for _ in texts]
    differing: dict[str, Sequence[Any]] = {"partition_key": texts, "event_id": ids, **(each or {})}
    if "run_id" in fields and fields["run_id"] is None:
        differing["run_id"] = ids
    when: dict[str, Any] = {} if at is None else {"occurred_at": at}
    names: dict[str, Any] = {"tenant_id": ledger.tenant, "workspace_id": ledger.workspace, "asset_key": asset}
    first = Event(kind=kind, **names, **when, **fields | {name: values[0] for name, values in differing.items()})
    ledger.append_rows(repeated(first, differing))
    return Recorded(texts, first.occurred_at)


_FIELDS = {"run_id", "attempt", "code_version", "started_at", "rows", "files", "bytes", "table_version", "error"}


@contextmanager
def attempt(  # noqa: PLR0913, PLR0917 - what there is to say of an attempt
    ledger: Ledger,
    asset: str,
    keys: Key | Sequence[Key],
    run_id: str | None,
    number: int,
    code_version: str | None,
    check: Callable[[str, Sequence[str]], None] | None = None,
) -> Iterator[Attempt]:
    """Record a start, and at the end of the block how it went. An error is recorded as a failure and goes on.

    `check` refuses canonical keys that the asset can't have.
    """
    run = new_ulid() if run_id is None else run_id
    common: dict[str, Any] = {"run_id": run, "attempt": number, "code_version": code_version}
    texts = key_texts(keys)
    if check is not None:
        check(asset, texts)
    started = record_canonical(ledger, STARTED, asset, texts, **common)
    common["started_at"] = started.at
    begun = Attempt(asset, tuple(map(PartitionKey.parse, texts)), run, number)
    try:
        yield begun
    except BaseException as error:
        # What isn't an Exception ends the process: a job that was stopped has not failed.
        outcome = Outcome.FAILED if isinstance(error, Exception) else Outcome.CANCELLED
        record_canonical(ledger, outcome.kind, asset, texts, error=_said(error), **common)
        raise
    if begun.is_cancelled:
        record_canonical(ledger, Outcome.CANCELLED.kind, asset, texts, **common)
    else:
        record_canonical(ledger, Outcome.SUCCEEDED.kind, asset, texts, **{**begun.written, **common})


def kind_of(outcome: str) -> str:
    """The kind of event of an outcome, in any case; "started" is one too."""
    kinds = (STARTED, *(o.kind for o in Outcome))
    if not isinstance(outcome, str) or outcome.lower() not in kinds:
        raise StatusError(f"no outcome {value_repr(outcome)}; the outcomes are {', '.join(kinds)}")
    return outcome.lower()


def key_text(key: Key) -> str:
    """The canonical text of a key, however it was given."""
    if key is None:
        return ""
    if isinstance(key, str):
        return str(PartitionKey.parse(key))
    if not isinstance(key, Mapping):
        raise StatusError(f"a partition is a key, a mapping, a canonical text or None, not {value_repr(key)}")
    return str(key if isinstance(key, PartitionKey) else PartitionKey.of(key))


def key_texts(keys: Key | Sequence[Key]) -> tuple[str, ...]:
    """The canonical texts of one key or of several."""
    return tuple(map(key_text, several(keys)))


def several(keys: Key | Sequence[Key]) -> Sequence[Key]:
    """The keys, of one or of many; none at all are refused."""
    if keys is None or isinstance(keys, str | Mapping) or not isinstance(keys, Iterable):
        return [keys]
    found = list(keys)
    if not found:
        raise StatusError("no partitions are given; that of an asset without partitions is None")
    return found


def _said(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if is_unicode(text) else text.encode("utf-8", "replace").decode()
