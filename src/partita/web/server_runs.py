"""The runs of this server, one at a time, each in a thread of its own, with their events.

A server that was not started with `--allow-run` has no `ServerRunner` and runs no plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.exceptions import HTTPException

from partita.algebra.key_label import key_label
from partita.assets.progress import event_text
from partita.status.text import one_line

if TYPE_CHECKING:
    from partita.assets.progress import RunListener, RunResult
    from partita.assets.run_plan import RunPlan

MAX_BUFFERED_EVENTS = 2_000
"""The number of latest events that are kept for clients that connect late; each has the counts so far."""
MAX_SHOWN_FAILURES = 100
"""The number of failures in the document of a run."""
_MAX_ERROR_LENGTH = 4_000
_COUNT_FIELDS = ("total", "done", "succeeded", "failed", "skipped", "cancelled")

ServerRunEvent: TypeAlias = Mapping[str, Any]
"""An event of `lake.run` with `text`, its description in one line, or None if users need not see it."""


@dataclass(frozen=True, slots=True)
class ServerRunner:
    """How a server runs plans: a function, the limits of batches, and the assets that it can run.

    The function takes a plan, a listener, and an event that stops the run when it is set.
    """

    run_plan: Callable[[RunPlan, RunListener, Event], RunResult]
    batch_limits: Mapping[str, int] = field(default_factory=dict)
    asset_names: tuple[str, ...] | None = None


class ServerRun:
    """A run of a plan: its events so far, and its result or the error that ended it."""

    def __init__(self, number: int, plan: RunPlan) -> None:
        self.number = number
        self.plan = plan
        self.stop_requested = Event()
        self.end_event = Event()
        self.result: RunResult | None = None
        self.error: tuple[str, str] | None = None
        self._started_at = time.monotonic()
        self._first_event_number = 0
        self._events: list[ServerRunEvent] = []
        self._counts: dict[str, int] = {**dict.fromkeys(_COUNT_FIELDS, 0), "total": len(plan)}
        self._run_id: str | None = None
        self._lock = Lock()

    @property
    def state(self) -> str:
        """`starting` until the first event of the run itself, `running`, `stopping`, and `ended` or `refused`."""
        if self.end_event.is_set():
            return "ended" if self.error is None else "refused"
        return "stopping" if self.stop_requested.is_set() else "starting" if self._run_id is None else "running"

    def record_event(self, event: Mapping[str, Any]) -> None:
        """Add an event; this is a listener of `lake.run`."""
        with self._lock:
            if "total" in event:
                self._counts = {name: event[name] for name in _COUNT_FIELDS}
                self._run_id = event["run_id"]
            self._events.append({**event, "text": event_line(event)})
            if len(self._events) > MAX_BUFFERED_EVENTS:
                del self._events[0]
                self._first_event_number += 1

    def events_since(self, event_number: int) -> tuple[int, Sequence[ServerRunEvent]]:
        """Return the events from a number on, and the number of the first of them, which is higher if some are gone."""
        with self._lock:
            first = max(event_number, self._first_event_number)
            return first, self._events[first - self._first_event_number :]

    def document(self) -> dict[str, Any]:
        """Return the state of the run as values that JSON can represent."""
        result = self.result
        failures = () if result is None else result.failures
        return {
            "number": self.number,
            "run_id": self._run_id,
            "state": self.state,
            "ok": None if result is None else result.ok,
            **self._counts,
            "left": None if result is None else result.left,
            "seconds": round(time.monotonic() - self._started_at, 3) if result is None else result.seconds,
            "assets": list(self.plan.assets),
            "error": None if self.error is None else dict(zip(("type", "message"), self.error, strict=True)),
            "failures": [
                {"asset": f.asset, "key": f.key, "label": key_label(f.key), "error": f.error}
                for f in failures[:MAX_SHOWN_FAILURES]
            ],
            "failures_more": max(0, len(failures) - MAX_SHOWN_FAILURES),
        }


class RunController:
    """Starts and cancels runs. `latest` is the current run or the last one; `on_finish` is called when one ends."""

    def __init__(self, runner: ServerRunner | None = None, on_finish: Callable[[], object] = lambda: None) -> None:
        self.latest: ServerRun | None = None
        self._runner = runner
        self._on_finish = on_finish
        self._is_closed = False
        self._lock = Lock()
        self._thread: Thread | None = None

    @property
    def can_run(self) -> bool:
        """Whether this server can run plans."""
        return self._runner is not None

    @property
    def is_running(self) -> bool:
        """Whether there is a run that has not ended."""
        return self.latest is not None and not self.latest.end_event.is_set()

    def start_run(self, get_plan: Callable[[], RunPlan]) -> ServerRun:
        """Start a run of a plan and return without waiting for it.

        Raises `HTTPException` with status 403 if this server can't run plans, and 409 if another run has not ended.
        """
        runner = self._runner
        if runner is None:
            raise HTTPException(403, _RUNS_NOT_ALLOWED)
        with self._lock:
            if self._is_closed or self.is_running:
                raise HTTPException(409, "another run is in progress; wait for its end, or cancel it")
            plan = get_plan()
            if not len(plan):
                raise HTTPException(400, "the plan has no partitions to run")
            run = self.latest = ServerRun(1 if self.latest is None else self.latest.number + 1, plan)
            self._thread = Thread(target=self._execute_run, args=(runner, run), name="partita-run", daemon=True)
            self._thread.start()
        return run

    def require_latest(self) -> ServerRun:
        """Return the latest run. Raises `HTTPException` with status 404 if there is none."""
        if self.latest is None:
            raise HTTPException(404, "this server has run no plan since it was started")
        return self.latest

    def cancel_run(self) -> ServerRun:
        """Tell the current run to stop, without waiting for its end."""
        if not self.can_run:
            raise HTTPException(403, _RUNS_NOT_ALLOWED)
        run = self.require_latest()
        if self.is_running and not run.stop_requested.is_set():
            run.stop_requested.set()
            run.record_event({"event": "stopping"})
        return run

    def close(self) -> None:
        """Refuse new runs and tell the current one to stop, without waiting for its end."""
        with self._lock:
            self._is_closed = True
        if self.is_running:
            self.cancel_run()

    def join(self) -> None:
        """Wait for the end of the current run."""
        if self._thread is not None:
            self._thread.join()

    def _execute_run(self, runner: ServerRunner, run: ServerRun) -> None:
        run.record_event({"event": "starting"})
        try:
            run.result = runner.run_plan(run.plan, run.record_event, run.stop_requested)
            run.record_event({"event": "result", **_result_summary(run.result)})
        except Exception as error:  # noqa: BLE001 - every error is shown on the page of the run
            run.error = (type(error).__name__, str(error)[:_MAX_ERROR_LENGTH])
            run.record_event({"event": "refused", "error": run.error[0], "message": run.error[1]})
        finally:
            run.end_event.set()
            self._on_finish()


def _result_summary(result: RunResult) -> dict[str, Any]:
    """Return the document of a result without its failures, of which there may be many."""
    return {name: value for name, value in result.document().items() if name != "failures"}


_RUNS_NOT_ALLOWED = "this server does not run plans; start it with `partita ui --allow-run` in a project"
_EVENT_TEXTS = {
    "starting": "the run starts; the first run of a server also starts Spark, which takes a while",
    "stopping": "the run is stopping; its jobs are being cancelled",
}


def event_line(event: Mapping[str, Any]) -> str | None:
    """Describe an event of a run on this server in one line, or return None if users need not see it."""
    if event["event"] == "refused":
        return f"{event['error']}: {one_line(event['message'])}"
    return _EVENT_TEXTS.get(event["event"]) or event_text(event)
