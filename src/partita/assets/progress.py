"""The progress of a run: its events for a listener, their text, and the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from partita.algebra.key_label import key_label
from partita.status.text import count_text, one_line


@dataclass(frozen=True, slots=True)
class PartitionFailure:
    """A partition that failed.

    Attributes:
        asset: the name of the asset.
        key: the canonical text of the partition key.
        error: the last lines of the error.
    """

    asset: str
    key: str
    error: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run, in numbers of partitions.

    Attributes:
        run_id: the id of the run.
        succeeded: partitions that were materialized.
        failed: partitions that failed.
        skipped: partitions that did not run because an upstream partition failed.
        cancelled: partitions whose attempt was cancelled.
        left: partitions that were not tried because the run stopped.
        seconds: how long the run took.
        failures: each partition that failed, with its error.
    """

    run_id: str
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    left: int = 0
    seconds: float = 0.0
    failures: tuple[PartitionFailure, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every partition succeeded."""
        return not (self.failed or self.skipped or self.cancelled or self.left)

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {**asdict(self), "failures": [asdict(failure) for failure in self.failures], "ok": self.ok}


RunListener: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Called with each event of a run: a mapping with `event` and its fields, the JSON of `partita run --json`."""


_COUNT_NAMES = ("total", "done", "succeeded", "failed", "skipped", "cancelled")


@dataclass(slots=True)
class RunProgress:
    """The counts of a running run. Its listener is called by one thread at a time."""

    run_id: str
    total: int
    listener: RunListener | None = None
    start_time: float = field(default_factory=time.monotonic)
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    failures: list[PartitionFailure] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def done(self) -> int:
        """How many partitions have an outcome."""
        return self.succeeded + self.failed + self.skipped + self.cancelled

    def notify_listener(self, event: str, **details: Any) -> None:
        """Call the listener with an event, its details and the counts so far."""
        if self.listener is None:
            return
        with self._lock:
            counts = {name: getattr(self, name) for name in _COUNT_NAMES}
            self.listener(
                {"event": event, "run_id": self.run_id, **details, **counts, "seconds_so_far": self.elapsed_seconds}
            )

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self.start_time, 3)

    def run_result(self) -> RunResult:
        """Return the result, with the partitions that have no outcome as `left`."""
        left = self.total - self.done
        return RunResult(
            self.run_id, self.succeeded, self.failed, self.skipped, self.cancelled, left, self.elapsed_seconds,
            tuple(self.failures),
        )  # fmt: skip


_EVENT_VERBS = {"started": "started", "succeeded": "made", "failed": "could not be made", "skipped": "skipped"}
_OUTCOME_COUNTS = ("failed", "skipped", "cancelled", "left")


def event_text(event: Mapping[str, Any]) -> str | None:
    """Describe an event in one line, or return None for an event that users need not see.

    The event `result` has the fields of `RunResult.document()`.
    """
    kind = event["event"]
    if kind == "result":
        counts = "".join(f", {event[name]:,} {name}" for name in _OUTCOME_COUNTS if event[name])
        return f"{count_text(event['succeeded'], 'partition')} made{counts}, in {duration_text(event['seconds'])}"
    if kind == "begun":
        assets = ", ".join(map(one_line, event["assets"]))
        return f"run {event['run_id']}: {count_text(event['total'], 'partition')} of {assets}"
    if kind == "waiting":
        return f"run {event['run_id']} waits for run {event['for']} of {one_line(event['holder'])}"
    if kind not in _EVENT_VERBS:
        return None
    keys = event.get("keys") or []
    is_single = event["partitions"] == 1 and keys
    partitions = key_label(keys[0]) if is_single else count_text(event["partitions"], "partition")
    rows = "" if event.get("rows") is None else f", {count_text(event['rows'], 'row')}"
    error = f": {one_line(event['error'])}" if kind == "failed" else ""
    return f"{one_line(event['asset'])}: {partitions} {_EVENT_VERBS[kind]}{rows}{error}"


def duration_text(seconds: float) -> str:
    """Return a duration as `12.3 s`, `4:05 min` or `1:30 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"
