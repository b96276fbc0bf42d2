"""The runs of this server, one at a time, each in a thread of its own, and what is told of them.

`Doing` says how plans are run; where there is none, the server was not started with `--allow-run`, and nothing runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.exceptions import HTTPException

from partita.assets.progress import event_text
from partita.status.shown import counted, one_line
from partita.web.labels import label_of

if TYPE_CHECKING:
    from partita.assets.plan import Plan
    from partita.assets.progress import Listener, RunResult

KEPT = 2_000
"""How many of the last events of a run are kept for those who come late; each has the counts so far."""
FAILURES = 100
"""How many failures of a run are shown."""
_ERROR = 4_000
_COUNTS = ("total", "done", "succeeded", "failed", "skipped", "cancelled")

Told: TypeAlias = Mapping[str, Any]
"""An event as it is told: what `lake.run` tells, with `text`, the same in words, or None where it says nothing new."""


@dataclass(frozen=True, slots=True)
class Doing:
    """How plans are run: with a listener, and an event that stops them; how large batches are; and of which assets."""

    run: Callable[[Plan, Listener, Event], RunResult]
    sizes: Mapping[str, int] = field(default_factory=dict)
    among: tuple[str, ...] | None = None


class Run:
    """One run: its plan, its events so far, and how it ended."""

    def __init__(self, number: int, plan: Plan) -> None:
        self.number = number
        self.plan = plan
        self.stop = Event()
        self.over = Event()
        self.result: RunResult | None = None
        self.error: tuple[str, str] | None = None
        self._began = time.monotonic()
        self._first = 0
        self._events: list[Told] = []
        self._counts: dict[str, int] = {**dict.fromkeys(_COUNTS, 0), "total": len(plan)}
        self._run_id: str | None = None
        self._lock = Lock()

    @property
    def state(self) -> str:
        """`starting` until the first partition is about to be made, `running`, `stopping`, and `ended` or `refused`."""
        if self.over.is_set():
            return "ended" if self.error is None else "refused"
        return "stopping" if self.stop.is_set() else "starting" if self._run_id is None else "running"

    def tell(self, event: Mapping[str, Any]) -> None:
        """Something happened; a listener of `lake.run`."""
        with self._lock:
            if "total" in event:
                self._counts = {name: event[name] for name in _COUNTS}
                self._run_id = event["run_id"]
            self._events.append({**event, "text": line_of(event)})
            if len(self._events) > KEPT:
                del self._events[0]
                self._first += 1

    def since(self, number: int) -> tuple[int, Sequence[Told]]:
        """The events from a number on, and the number of the first that is there."""
        with self._lock:
            first = max(number, self._first)
            return first, self._events[first - self._first :]

    def document(self) -> dict[str, Any]:
        """How the run is, as values that JSON can hold."""
        result = self.result
        failures = () if result is None else result.failures
        return {
            "number": self.number,
            "run_id": self._run_id,
            "state": self.state,
            "ok": None if result is None else result.ok,
            **self._counts,
            "left": None if result is None else result.left,
            "seconds": round(time.monotonic() - self._began, 3) if result is None else result.seconds,
            "assets": list(self.plan.assets),
            "error": None if self.error is None else dict(zip(("type", "message"), self.error, strict=True)),
            "failures": [
                {"asset": f.asset, "key": f.key, "label": label_of(f.key), "error": f.error}
                for f in failures[:FAILURES]
            ],
            "failures_more": max(0, len(failures) - FAILURES),
        }


class Runs:
    """What was run here. `newest` is the run at work, or the last one; `after` is called when one ends."""

    def __init__(self, doing: Doing | None = None, after: Callable[[], object] = lambda: None) -> None:
        self.newest: Run | None = None
        self._doing = doing
        self._after = after
        self._closed = False
        self._lock = Lock()
        self._thread: Thread | None = None

    @property
    def allowed(self) -> bool:
        """Whether this server may run plans."""
        return self._doing is not None

    @property
    def is_at_work(self) -> bool:
        """Whether a run is at work."""
        return self.newest is not None and not self.newest.over.is_set()

    def begin(self, plan: Callable[[], Plan]) -> Run:
        """Start to run a plan, and return at once; refused where none may run, or one is at work."""
        doing = self._doing
        if doing is None:
            raise HTTPException(403, "this server runs nothing; start it as `partita ui --allow-run` in a project")
        with self._lock:
            if self._closed or self.is_at_work:
                raise HTTPException(409, "a run is at work here; wait for its end, or cancel it")
            found = plan()
            if not len(found):
                raise HTTPException(400, "there is nothing to run in this plan")
            run = self.newest = Run(1 if self.newest is None else self.newest.number + 1, found)
            self._thread = Thread(target=self._work, args=(doing, run), name="partita-run", daemon=True)
            self._thread.start()
        return run

    def found(self) -> Run:
        """The newest run; refused where there was none."""
        if self.newest is None:
            raise HTTPException(404, "nothing was run here since the server was started")
        return self.newest

    def cancel(self) -> Run:
        """Have the run at work stopped, without waiting for that."""
        if not self.allowed:
            raise HTTPException(403, "this server runs nothing; start it as `partita ui --allow-run` in a project")
        run = self.found()
        if self.is_at_work and not run.stop.is_set():
            run.stop.set()
            run.tell({"event": "stopping"})
        return run

    def close(self) -> None:
        """Start no run any more, and stop the one at work, without waiting for that."""
        with self._lock:
            self._closed = True
        if self.is_at_work:
            self.cancel()

    def join(self) -> None:
        """Wait for the end of the run at work."""
        if self._thread is not None:
            self._thread.join()

    def _work(self, doing: Doing, run: Run) -> None:
        run.tell({"event": "starting"})
        try:
            run.result = doing.run(run.plan, run.tell, run.stop)
            run.tell({"event": "result", **_summed(run.result)})
        except Exception as error:  # noqa: BLE001 - whatever it was: who looks on has to hear of it
            run.error = (type(error).__name__, str(error)[:_ERROR])
            run.tell({"event": "refused", "error": run.error[0], "message": run.error[1]})
        finally:
            run.over.set()
            self._after()


def _summed(result: RunResult) -> dict[str, Any]:
    """A result without its failures, of which there may be many."""
    return {name: value for name, value in result.document().items() if name != "failures"}


_PLAIN = {
    "starting": "the run starts; the first one of a server starts Spark, which takes a while",
    "stopping": "the run was told to stop; its jobs are being cancelled",
}


def line_of(event: Mapping[str, Any]) -> str | None:
    """An event in words, on one line; None where it says nothing new."""
    what = event["event"]
    if what == "refused":
        return f"{event['error']}: {one_line(event['message'])}"
    if what == "result":
        counts = (f", {event[name]:,} {name}" for name in ("failed", "skipped", "cancelled", "left") if event[name])
        return f"{counted(event['succeeded'], 'partition')} made{''.join(counts)}, in {event['seconds']:,.1f} s"
    return _PLAIN.get(what) or event_text(event, label_of)
