"""Running a plan: upstreams before what is made from them, several batches at once, each one Spark job and one commit.

A batch that fails is cut in two, again and again, until the partitions that can't be made stand alone; the others
succeed. What is made from a partition that failed is skipped. Every attempt is in the ledger, with its start, so a run
that is killed can be resumed: what it committed is known by the commit's name, what was open counts as failed.
"""

from __future__ import annotations

import re
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from partita.algebra.plain import is_unicode
from partita.assets.asset import Asset
from partita.assets.downstream import made_from
from partita.assets.fingerprint import is_of_user
from partita.assets.making import COUNTS, Made, Maker
from partita.assets.progress import Failure, Progress
from partita.errors import (
    Conflict,
    DefinitionError,
    PartitaError,
    PlanError,
    SchemaError,
    SpecError,
    UnsupportedFeature,
    value_repr,
)
from partita.status.events import STARTED, Outcome
from partita.status.recording import record

if TYPE_CHECKING:
    from partita.assets.leases import Heart
    from partita.assets.plan import Batch

T = TypeVar("T")

_CONFLICTS = 5
"""How often a batch is tried again because another writer was first."""
_LINES, _CHARACTERS = 8, 4_000
"""How many of the last lines of an error are kept, and how much of them."""
_TELLINGS = 6
"""How often it is tried to record what became of a batch."""
_OF_ALL = (DefinitionError, SchemaError, SpecError, UnsupportedFeature, NameError, ImportError, SyntaxError)
"""Errors that mostly have nothing to do with which partitions are asked for."""
_ALONE = 3
"""So many partitions are tried alone after such an error; where each has it too, and none was made, it is of all."""
_BACKOFF = 2.0
"""Seconds before a partition is tried again; doubled each time, up to a minute."""


@dataclass(frozen=True, slots=True)
class Work:
    """Partitions that are made together, and how often they were tried alone."""

    asset: str
    keys: tuple[str, ...]
    tried: int = 0


@dataclass(slots=True)
class _State:
    """How far an asset is: whether it was begun, what of it is at work, and which of its partitions can't be read.

    `is_made` says whether this run made any of it, `alone` which partitions had an error of all when tried alone.
    """

    waiting: list[Work]
    upstreams: frozenset[str]
    begun: bool = False
    at_work: int = 0
    bad: set[str] = field(default_factory=set)
    is_made: bool = False
    alone: dict[type, set[str]] = field(default_factory=dict)

    def is_of_all(self, work: Work, error: Exception) -> bool:
        """Whether an error is that of every partition, as far as this run has seen."""
        if self.is_made or not isinstance(error, _OF_ALL):
            return False
        found = self.alone.setdefault(type(error), set())
        found |= set(work.keys) if len(work.keys) == 1 else set()
        return len(found) >= _ALONE


@dataclass(frozen=True, slots=True)
class Options:
    """How a run works: batches at once, and after how many failed partitions it stops.

    Once `stop` is set, by any thread, what is at work is cancelled, and the rest is left.
    """

    parallel: int = 2
    max_failures: int | None = None
    stop: Event | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.parallel, int) or self.parallel < 1:
            raise PlanError(f"a run has 1 or more batches at once, not {value_repr(self.parallel)}")
        if self.max_failures is not None and (not isinstance(self.max_failures, int) or self.max_failures < 0):
            raise PlanError(
                f"the failures that a run bears are a number from 0 on, not {value_repr(self.max_failures)}"
            )

    @property
    def is_stopped(self) -> bool:
        """Whether the run was told to stop."""
        return self.stop is not None and self.stop.is_set()


class Runner:
    """One run over batches, in this process."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a run is made of
        self, maker: Maker, batches: Sequence[Batch], attempts: Mapping[tuple[str, str], int], options: Options,
        progress: Progress, heart: Heart, cancelled: Event,
    ) -> None:  # fmt: skip
        self._maker = maker
        self._assets = maker.assets
        self._options = options
        self._progress = progress
        self._heart = heart
        self._attempts = dict(attempts)
        self._tag = f"partita-{maker.run_id}"
        self._pool = ThreadPoolExecutor(options.parallel, thread_name_prefix=self._tag)
        self._stop = Event()
        self._cancelled = cancelled
        self._futures: dict[Future[Made], Work] = {}
        self._ready: deque[Work] = deque()
        self._later: list[tuple[float, Work]] = []
        planned = {batch.asset for batch in batches}
        self._states = {
            name: _State(
                [Work(name, batch.keys) for batch in batches if batch.asset == name],
                frozenset(u.asset for u in self._assets[name].definition.upstreams) & planned,
            )
            for name in dict.fromkeys(batch.asset for batch in batches)
        }

    def run(self) -> None:
        """Work until everything is decided, or the run stops; Ctrl-C cancels what is at work and goes on.

        So does the event that is given to stop a run, after which this returns as after any run.
        """
        try:
            while not self._options.is_stopped and self._submit():
                self._wait()
            if self._futures:
                self._cancel()
        except BaseException:
            self._cancel()
            raise
        self._pool.shutdown(wait=True)

    # --- what is next

    def _submit(self) -> bool:
        """Hand out as much as may be at work at once; whether anything is."""
        if self._stop.is_set():
            self._later.clear()
            self._ready.clear()
            return bool(self._futures)
        now = time.monotonic()
        self._ready += [work for at, work in self._later if at <= now]
        self._later = [(at, work) for at, work in self._later if at > now]
        for state in self._states.values():
            if not state.begun and all(self._is_over(upstream) for upstream in state.upstreams):
                state.begun = True
                works = list(filter(None, (self._without_bad(work) for work in state.waiting)))
                state.at_work, state.waiting = len(works), []
                self._ready += works
        while self._ready and len(self._futures) < self._options.parallel:
            work = self._ready.popleft()
            self._futures[self._pool.submit(self._attempt, work)] = work
        return bool(self._futures or self._later)

    def _is_over(self, asset: str) -> bool:
        state = self._states[asset]
        return state.begun and not state.at_work

    def _without_bad(self, work: Work) -> Work | None:
        """The work without partitions whose upstreams failed; those are skipped."""
        bad = {name: self._states[name].bad for name in self._states[work.asset].upstreams if self._states[name].bad}
        if not bad:
            return work
        skipped = made_from(self._assets[work.asset].definition, self._maker.definitions, bad, work.keys)
        if skipped:
            self._states[work.asset].bad |= skipped
            self._progress.skipped += len(skipped)
            self._progress.tell("skipped", asset=work.asset, partitions=len(skipped), keys=sorted(skipped)[:10])
        rest = tuple(key for key in work.keys if key not in skipped)
        return Work(work.asset, rest, work.tried) if rest else None

    # --- what became of it

    def _wait(self) -> None:
        due = min((at for at, _ in self._later), default=None)
        timeout = 1.0 if due is None else min(1.0, max(0.0, due - time.monotonic()))
        if not self._futures:
            time.sleep(timeout)
            return
        done, _ = wait(self._futures, timeout, FIRST_COMPLETED)
        for future in done:
            self._decide(self._futures.pop(future), future)
        if not self._heart.is_held:
            self._stop.set()
            raise PlanError(
                f"the run {self._maker.run_id} lost its hold on the partitions: this machine was away for too long; "
                "resume it when nobody else works on them"
            )

    def _decide(self, work: Work, future: Future[Made]) -> None:
        state = self._states[work.asset]
        error = future.exception()
        if error is None:
            state.at_work -= 1
            state.is_made = True
            self._progress.succeeded += len(work.keys)
            made = future.result()
            self._progress.tell("succeeded", asset=work.asset, partitions=len(work.keys), keys=list(work.keys[:10]),
                                rows=made.rows, version=made.version)  # fmt: skip
            return
        if not isinstance(error, Exception):
            raise error
        self._progress.tell("failed", asset=work.asset, partitions=len(work.keys), keys=list(work.keys[:10]),
                            error=last_lines(error))  # fmt: skip
        if isinstance(error, Untold):
            raise error
        again = self._again(work, error)
        state.at_work += len(again) - 1
        if not again:
            self._fail(work, error)
        for delay, one in again:
            self._later.append((time.monotonic() + delay, one))

    def _again(self, work: Work, error: Exception) -> list[tuple[float, Work]]:
        """What is tried after a failure, and in how many seconds."""
        if self._stop.is_set():
            return []
        tried = work.tried + 1
        if isinstance(error, Conflict) and tried <= _CONFLICTS:
            return [(0.1 * 2**tried, Work(work.asset, work.keys, tried))]
        state = self._states[work.asset]
        if state.is_of_all(work, error):
            return []
        if len(work.keys) > 1:
            is_tested = isinstance(error, _OF_ALL) and not state.is_made and len(work.keys) > _ALONE
            cut = _tested(work.keys) if is_tested else _halves(work.keys)
            return [(0.0, Work(work.asset, keys)) for keys in cut]
        if tried <= self._assets[work.asset].retries:
            return [(min(60.0, _BACKOFF * 2 ** (tried - 1)), Work(work.asset, work.keys, tried))]
        return []

    def _fail(self, work: Work, error: Exception) -> None:
        self._states[work.asset].bad |= set(work.keys)
        self._progress.failed += len(work.keys)
        self._progress.failures += [Failure(work.asset, key, last_lines(error)) for key in work.keys]
        most = self._options.max_failures
        if most is not None and self._progress.failed > most:
            self._stop.set()

    def _cancel(self) -> None:
        """Stop the jobs, and wait until their attempts are recorded as cancelled."""
        from partita.spark.jobs import interrupt

        self._cancelled.set()
        self._stop.set()
        try:
            while self._futures and wait(self._futures, 0).not_done:
                # Again and again: a function may only now start a job.
                interrupt(self._maker.spark, self._tag)
                wait(self._futures, 1)
        except KeyboardInterrupt:
            self._leave()
            raise
        finally:
            for future, work in self._futures.items():
                if future.done() and future.exception() is None:
                    self._progress.succeeded += len(work.keys)
                else:
                    self._progress.cancelled += len(work.keys)

    def _leave(self) -> None:
        """Record what is still at work as cancelled, and wait for it no longer."""
        self._pool.shutdown(wait=False)
        ledger = self._maker.ground.workspace.ledger
        for work in (work for future, work in self._futures.items() if not future.done()):
            number = max(self._attempts[work.asset, key] for key in work.keys)
            said: dict[str, Any] = {"run_id": self._maker.run_id, "attempt": number}
            record(ledger, Outcome.CANCELLED.kind, work.asset, work.keys, error="the run was left", **said)

    # --- in a thread of its own

    def _attempt(self, work: Work) -> Made:
        from partita.spark.jobs import tagged

        asset = self._assets[work.asset]
        number = 1 + max(self._attempts.get((work.asset, key), 0) for key in work.keys)
        self._attempts.update({(work.asset, key): number for key in work.keys})
        ledger = self._maker.ground.workspace.ledger
        said: dict[str, Any] = {
            "run_id": self._maker.run_id, "attempt": number, "code_version": asset.definition.code_version,
        }  # fmt: skip
        at = told(lambda: record(ledger, STARTED, work.asset, work.keys, **said)).at
        self._progress.tell("started", asset=work.asset, partitions=len(work.keys), attempt=number)
        said["started_at"] = at
        try:
            with tagged(self._maker.spark, self._tag):
                made = self._made(asset, work.keys)
        except BaseException as error:
            stopped = self._cancelled.is_set() or not isinstance(error, Exception)
            outcome = Outcome.CANCELLED if stopped else Outcome.FAILED
            text = last_lines(error, len(work.keys))
            told(lambda: record(ledger, outcome.kind, work.asset, work.keys, _after(at), error=text, **said))
            raise
        # What is committed must be known as committed: to try the batch again would commit it again.
        told(lambda: report_success(self._maker, asset, work.keys, made, said))
        return made

    def _made(self, asset: Asset, keys: Sequence[str]) -> Made:
        try:
            return self._maker.make(asset, keys)
        except SystemExit as error:
            raise PlanError(f"the function of {asset.name!r} called sys.exit({error.code!r})") from error


def _halves(keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    half = len(keys) // 2
    return [keys[:half], keys[half:]]


def _tested(keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The first, one in the middle and the last alone, and then the others."""
    alone = (keys[0], keys[len(keys) // 2], keys[-1])
    return [*((key,) for key in alone), tuple(key for key in keys if key not in alone)]


class Untold(PlanError):
    """What became of a batch can't be recorded, so the run can't go on."""


def told(recording: Callable[[], T]) -> T:
    """Record something, again and again for a while where that fails."""
    for number in range(_TELLINGS - 1):
        try:
            return recording()
        except PartitaError:
            time.sleep(0.1 * 2**number)
    try:
        return recording()
    except PartitaError as error:
        raise Untold(f"the ledger can't be written, so the run stops; resume it later: {error}") from error


def report_success(  # noqa: PLR0913, PLR0917 - what there is to say
    maker: Maker, asset: Asset, keys: Sequence[str], made: Made, said: Mapping[str, Any], at: datetime | None = None
) -> None:
    """Record that partitions were made, now unless it is said when."""
    each = {name: made.counts[name] for name in COUNTS if name in made.counts}
    version = {} if made.version is None or made.version < 0 else {"table_version": made.version}
    ledger = maker.ground.workspace.ledger
    when = _after(said["started_at"]) if at is None else at
    record(ledger, Outcome.SUCCEEDED.kind, asset.name, keys, when, each, **said, **version)


def _after(start: datetime) -> datetime:
    """Now, and never before the start."""
    return max(start, datetime.now(UTC))


def last_lines(error: BaseException, partitions: int = 1) -> str:
    """The last lines of an error, those of the user's own code among them."""
    lines = [line for line in str(error).splitlines() if line.strip() and not _OF_JAVA.match(line)]
    said = [f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": "), *lines[1:]]
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_of_user(frame.filename)]
    where = [f"at {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}"] if own else []
    shared = [f"(in a batch of {partitions:,} partitions)"] if partitions > 1 else []
    text = _cut("\n".join([*said[:1], *said[1:][-(_LINES - 1) :]]))
    text = "\n".join([text, *where, *shared])
    return text if is_unicode(text) else text.encode("utf-8", "replace").decode()


_OF_JAVA = re.compile(r"\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more|(JVM|Driver) stacktrace:)\s*$")
"""Lines of a stack of Java, which would leave no room for what went wrong."""


def _cut(text: str) -> str:
    """The start and the end of a text that is long."""
    half = _CHARACTERS // 2
    return text if len(text) <= _CHARACTERS else f"{text[:half]} … {text[-half:]}"
