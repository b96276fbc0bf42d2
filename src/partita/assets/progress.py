"""What a run tells while it works, as data and in words, and what it says at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from partita.status.shown import counted, one_line


@dataclass(frozen=True, slots=True)
class Failure:
    """A partition that could not be made, and the last lines of the error."""

    asset: str
    key: str
    error: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: how many partitions succeeded, failed, were skipped for a failed upstream, or cancelled.

    `left` are those that were not tried because the run stopped.
    """

    run_id: str
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    left: int = 0
    seconds: float = 0.0
    failures: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every partition was made."""
        return not (self.failed or self.skipped or self.cancelled or self.left)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "failures": [asdict(failure) for failure in self.failures], "ok": self.ok}


Listener: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Hears of a run: a mapping with `event` and what belongs to it, which is the JSON of `partita run --json`."""


_COUNTS = ("total", "done", "succeeded", "failed", "skipped", "cancelled")


@dataclass(slots=True)
class Progress:
    """Counts of a run that is at work, and who hears of it, one event at a time."""

    run_id: str
    total: int
    listener: Listener | None = None
    started: float = field(default_factory=time.monotonic)
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    failures: list[Failure] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def done(self) -> int:
        """How many partitions are decided."""
        return self.succeeded + self.failed + self.skipped + self.cancelled

    def tell(self, event: str, **what: Any) -> None:
        """Tell of something that happened, with the counts so far."""
        if self.listener is None:
            return
        with self._lock:
            counts = {name: getattr(self, name) for name in _COUNTS}
            self.listener({"event": event, "run_id": self.run_id, **what, **counts, "seconds_so_far": self.seconds})

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return round(time.monotonic() - self.started, 3)

    def result(self) -> RunResult:
        """How it ended."""
        left = self.total - self.done
        return RunResult(
            self.run_id, self.succeeded, self.failed, self.skipped, self.cancelled, left, self.seconds,
            tuple(self.failures),
        )  # fmt: skip


_DONE = {"started": "started", "succeeded": "made", "failed": "could not be made", "skipped": "skipped"}


def event_text(event: Mapping[str, Any], label: Callable[[str], str]) -> str | None:
    """An event in words, on one line, keys as `label` has them; None where it says nothing new."""
    what = event["event"]
    if what == "begun":
        assets = ", ".join(map(one_line, event["assets"]))
        return f"run {event['run_id']}: {counted(event['total'], 'partition')} of {assets}"
    if what == "waiting":
        return f"run {event['run_id']} waits for run {event['for']} of {one_line(event['holder'])}"
    if what not in _DONE:
        return None
    keys = event.get("keys") or []
    many = label(keys[0]) if event["partitions"] == 1 and keys else counted(event["partitions"], "partition")
    rows = "" if event.get("rows") is None else f", {counted(event['rows'], 'row')}"
    error = f": {one_line(event['error'])}" if what == "failed" else ""
    return f"{one_line(event['asset'])}: {many} {_DONE[what]}{rows}{error}"
