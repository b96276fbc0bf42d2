"""Executing the batches of a run: upstreams first, several batches at once, each as one Spark job and one commit.

A batch that fails is split in two until the partitions that fail stand alone; the others succeed. Partitions with a
failed upstream partition are skipped. Every attempt is recorded in the ledger when it starts, so a run that was killed
can be resumed: its commits are recognized by their transaction, and its open attempts count as failed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from partita.algebra.key import PartitionKey
from partita.algebra.mappings import upstream_selection
from partita.assets.attempt_recording import (
    LedgerUnavailable,
    attempt_error_text,
    end_time,
    record_success,
    record_with_retries,
)
from partita.assets.materializer import Materializer, MaterializeResult
from partita.assets.progress import PartitionFailure, RunProgress
from partita.errors import (
    CommitConflict,
    DefinitionError,
    PlanError,
    SchemaError,
    SpecError,
    UnsupportedFeature,
    value_repr,
)
from partita.status.attempts import record_events
from partita.status.definitions import AssetDefinition
from partita.status.events import EventKind, Outcome

if TYPE_CHECKING:
    from partita.assets.leases import LeaseHeartbeat
    from partita.assets.run_plan import Batch

_MAX_CONFLICT_RETRIES = 5
"""How often a batch is tried again after a commit conflict."""
_ASSET_ERRORS = (DefinitionError, SchemaError, SpecError, UnsupportedFeature, NameError, ImportError, SyntaxError)
"""Errors that usually don't depend on the partitions."""
_PROBE_PARTITIONS = 3
"""How many partitions run alone after such an error; if each has it too, and none succeeded, all fail with it."""
_RETRY_SECONDS = 2.0
"""Delay before a partition is tried again; doubled each time, up to a minute."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How many batches run at once, and after how many failed partitions the run stops.

    Setting `stop`, from any thread, cancels the batches that run and leaves the rest.
    """

    parallel: int = 2
    max_failures: int | None = None
    stop: Event | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.parallel, int) or self.parallel < 1:
            raise PlanError(f"parallel must be a positive integer, not {value_repr(self.parallel)}")
        if self.max_failures is not None and (not isinstance(self.max_failures, int) or self.max_failures < 0):
            raise PlanError(f"max_failures must be a non-negative integer, not {value_repr(self.max_failures)}")

    @property
    def is_stop_requested(self) -> bool:
        """Whether `stop` is set."""
        return self.stop is not None and self.stop.is_set()


@dataclass(frozen=True, slots=True)
class BatchTask:
    """Partitions of an asset that run together, and how often these same partitions were tried before."""

    asset: str
    keys: tuple[str, ...]
    retry_count: int = 0


@dataclass(slots=True)
class _AssetRunState:
    """How far an asset is in the run.

    `unavailable_keys` failed or were skipped, so their downstream partitions are skipped. `has_succeeded` is true once
    this run materialized any partition. `probed_keys` are the partitions that had an asset error alone, by its class.
    """

    pending_tasks: list[BatchTask]
    upstreams: frozenset[str]
    is_started: bool = False
    active_task_count: int = 0
    unavailable_keys: set[str] = field(default_factory=set)
    has_succeeded: bool = False
    probed_keys: dict[type, set[str]] = field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        return self.is_started and not self.active_task_count

    def is_asset_error(self, task: BatchTask, error: Exception) -> bool:
        """Return whether every partition of the asset fails with this error, as far as this run can tell."""
        if self.has_succeeded or not isinstance(error, _ASSET_ERRORS):
            return False
        probed_keys = self.probed_keys.setdefault(type(error), set())
        if len(task.keys) == 1:
            probed_keys.update(task.keys)
        return len(probed_keys) >= _PROBE_PARTITIONS


class RunExecutor:
    """Executes the batches of one run in this process."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a run
        self,
        materializer: Materializer,
        batches: Sequence[Batch],
        attempt_numbers: Mapping[tuple[str, str], int],
        options: RunOptions,
        progress: RunProgress,
        heartbeat: LeaseHeartbeat,
        cancel_event: Event,
    ) -> None:
        self._materializer = materializer
        self._assets = materializer.assets
        self._ledger = materializer.lake.workspace.ledger
        self._options = options
        self._progress = progress
        self._heartbeat = heartbeat
        self._attempt_numbers = dict(attempt_numbers)
        self._job_tag = f"partita-{materializer.run_id}"
        self._pool = ThreadPoolExecutor(options.parallel, thread_name_prefix=self._job_tag)
        self._stop_event = Event()
        self._cancel_event = cancel_event
        self._tasks_by_future: dict[Future[MaterializeResult], BatchTask] = {}
        self._ready_tasks: deque[BatchTask] = deque()
        self._delayed_tasks: list[tuple[float, BatchTask]] = []
        planned_assets = dict.fromkeys(batch.asset for batch in batches)
        self._asset_states = {
            name: _AssetRunState(
                [BatchTask(name, batch.keys) for batch in batches if batch.asset == name],
                frozenset(u.asset for u in self._assets[name].definition.upstreams) & set(planned_assets),
            )
            for name in planned_assets
        }

    def run(self) -> None:
        """Run until every partition is decided or the run stops.

        Ctrl-C cancels the running batches and is raised again; after `RunOptions.stop` this returns.
        """
        try:
            while not self._options.is_stop_requested and self._submit_tasks():
                self._wait_for_tasks()
            if self._tasks_by_future:
                self._cancel_tasks()
        except BaseException:
            self._cancel_tasks()
            raise
        self._pool.shutdown(wait=True)

    # --- submitting tasks

    def _submit_tasks(self) -> bool:
        """Submit tasks up to the limit of parallel batches, and return whether any is running or delayed."""
        if self._stop_event.is_set():
            self._delayed_tasks.clear()
            self._ready_tasks.clear()
            return bool(self._tasks_by_future)
        now = time.monotonic()
        self._ready_tasks += [task for due_time, task in self._delayed_tasks if due_time <= now]
        self._delayed_tasks = [(due_time, task) for due_time, task in self._delayed_tasks if due_time > now]
        for state in self._asset_states.values():
            if not state.is_started and all(self._asset_states[name].is_finished for name in state.upstreams):
                state.is_started = True
                tasks = list(filter(None, (self._skip_failed_upstreams(task) for task in state.pending_tasks)))
                state.active_task_count, state.pending_tasks = len(tasks), []
                self._ready_tasks += tasks
        while self._ready_tasks and len(self._tasks_by_future) < self._options.parallel:
            task = self._ready_tasks.popleft()
            self._tasks_by_future[self._pool.submit(self._attempt_task, task)] = task
        return bool(self._tasks_by_future or self._delayed_tasks)

    def _skip_failed_upstreams(self, task: BatchTask) -> BatchTask | None:
        """Return the task without the partitions whose upstream partitions failed; those are skipped."""
        state = self._asset_states[task.asset]
        unavailable_keys = {name: self._asset_states[name].unavailable_keys for name in state.upstreams}
        unavailable_keys = {name: keys for name, keys in unavailable_keys.items() if keys}
        if not unavailable_keys:
            return task
        definitions = self._materializer.definitions
        skipped_keys = _downstream_keys(definitions[task.asset], definitions, unavailable_keys, task.keys)
        if skipped_keys:
            state.unavailable_keys |= skipped_keys
            self._progress.skipped += len(skipped_keys)
            self._progress.notify_listener(
                "skipped", asset=task.asset, partitions=len(skipped_keys), keys=sorted(skipped_keys)[:10]
            )
        remaining = tuple(key for key in task.keys if key not in skipped_keys)
        return BatchTask(task.asset, remaining, task.retry_count) if remaining else None

    # --- handling results

    def _wait_for_tasks(self) -> None:
        due_time = min((due_time for due_time, _ in self._delayed_tasks), default=None)
        timeout = 1.0 if due_time is None else min(1.0, max(0.0, due_time - time.monotonic()))
        if not self._tasks_by_future:
            time.sleep(timeout)
            return
        finished_futures, _ = wait(self._tasks_by_future, timeout, FIRST_COMPLETED)
        for future in finished_futures:
            self._handle_result(self._tasks_by_future.pop(future), future)
        if not self._heartbeat.is_lease_held:
            self._stop_event.set()
            raise PlanError(
                f"the run {self._materializer.run_id} lost its lease: this machine was suspended or disconnected for "
                "too long; resume the run when no other run works on its partitions"
            )

    def _handle_result(self, task: BatchTask, future: Future[MaterializeResult]) -> None:
        state = self._asset_states[task.asset]
        event: dict[str, Any] = {"asset": task.asset, "partitions": len(task.keys), "keys": list(task.keys[:10])}
        error = future.exception()
        if error is None:
            state.active_task_count -= 1
            state.has_succeeded = True
            self._progress.succeeded += len(task.keys)
            result = future.result()
            self._progress.notify_listener("succeeded", **event, rows=result.total_rows, version=result.table_version)
            return
        if not isinstance(error, Exception):
            raise error
        self._progress.notify_listener("failed", **event, error=attempt_error_text(error))
        if isinstance(error, LedgerUnavailable):
            raise error
        retries = self._retry_tasks(task, error)
        state.active_task_count += len(retries) - 1
        if not retries:
            self._mark_failed(task, error)
        self._delayed_tasks += [(time.monotonic() + delay, retry) for delay, retry in retries]

    def _retry_tasks(self, task: BatchTask, error: Exception) -> list[tuple[float, BatchTask]]:
        """Return what to try after a failure, each with a delay in seconds; nothing if the partitions failed."""
        if self._stop_event.is_set():
            return []
        tries = task.retry_count + 1
        if isinstance(error, CommitConflict) and tries <= _MAX_CONFLICT_RETRIES:
            return [(0.1 * 2**tries, BatchTask(task.asset, task.keys, tries))]
        state = self._asset_states[task.asset]
        if state.is_asset_error(task, error):
            return []
        if len(task.keys) > 1:
            must_probe = (
                isinstance(error, _ASSET_ERRORS) and not state.has_succeeded and len(task.keys) > _PROBE_PARTITIONS
            )
            parts = _split_off_probes(task.keys) if must_probe else _split_in_half(task.keys)
            return [(0.0, BatchTask(task.asset, keys)) for keys in parts]
        if tries <= self._assets[task.asset].retries:
            return [(min(60.0, _RETRY_SECONDS * 2 ** (tries - 1)), BatchTask(task.asset, task.keys, tries))]
        return []

    def _mark_failed(self, task: BatchTask, error: Exception) -> None:
        self._asset_states[task.asset].unavailable_keys |= set(task.keys)
        self._progress.failed += len(task.keys)
        self._progress.failures += [PartitionFailure(task.asset, key, attempt_error_text(error)) for key in task.keys]
        limit = self._options.max_failures
        if limit is not None and self._progress.failed > limit:
            self._stop_event.set()

    def _cancel_tasks(self) -> None:
        """Cancel the Spark jobs, and wait until their attempts are recorded as cancelled."""
        from partita.spark.job_tags import interrupt_jobs

        self._cancel_event.set()
        self._stop_event.set()
        try:
            while self._tasks_by_future and wait(self._tasks_by_future, 0).not_done:
                # Repeated, because an asset's function may start its next job at any time.
                interrupt_jobs(self._materializer.spark, self._job_tag)
                wait(self._tasks_by_future, 1)
        except KeyboardInterrupt:
            self._abandon_tasks()
            raise
        finally:
            for future, task in self._tasks_by_future.items():
                if future.done() and future.exception() is None:
                    self._progress.succeeded += len(task.keys)
                else:
                    self._progress.cancelled += len(task.keys)

    def _abandon_tasks(self) -> None:
        """Record the running attempts as cancelled without waiting for them."""
        self._pool.shutdown(wait=False)
        for task in [task for future, task in self._tasks_by_future.items() if not future.done()]:
            number = max(self._attempt_numbers[task.asset, key] for key in task.keys)
            fields: dict[str, Any] = {"run_id": self._materializer.run_id, "attempt": number}
            kind = Outcome.CANCELLED.event_kind
            record_events(
                self._ledger,
                kind,
                task.asset,
                task.keys,
                error="the run ended without waiting for it",
                **fields,
            )

    # --- in a thread of the pool

    def _attempt_task(self, task: BatchTask) -> MaterializeResult:
        """Materialize the partitions of a task, and record the attempt and its outcome."""
        from partita.spark.job_tags import tag_jobs

        asset = self._assets[task.asset]
        number = 1 + max(self._attempt_numbers.get((task.asset, key), 0) for key in task.keys)
        self._attempt_numbers.update({(task.asset, key): number for key in task.keys})
        fields: dict[str, Any] = {
            "run_id": self._materializer.run_id, "attempt": number, "code_version": asset.definition.code_version,
        }  # fmt: skip
        started_at = record_with_retries(
            lambda: record_events(self._ledger, EventKind.STARTED, task.asset, task.keys, **fields)
        )
        self._progress.notify_listener("started", asset=task.asset, partitions=len(task.keys), attempt=number)
        fields["started_at"] = started_at
        try:
            with tag_jobs(self._materializer.spark, self._job_tag):
                result = self._materializer.materialize(asset, task.keys)
        except BaseException as error:
            is_cancelled = self._cancel_event.is_set() or not isinstance(error, Exception)
            kind = (Outcome.CANCELLED if is_cancelled else Outcome.FAILED).event_kind
            text = attempt_error_text(error, len(task.keys))
            ended_at = end_time(started_at)
            record_with_retries(
                lambda: record_events(self._ledger, kind, task.asset, task.keys, ended_at, error=text, **fields)
            )
            raise
        # A commit must be recorded as a success: trying the batch again would commit it again.
        record_with_retries(lambda: record_success(self._ledger, task.asset, task.keys, result, fields))
        return result


def _split_in_half(keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    half = len(keys) // 2
    return [keys[:half], keys[half:]]


def _split_off_probes(keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the first, the middle and the last key each alone, then all others together."""
    probes = (keys[0], keys[len(keys) // 2], keys[-1])
    return [*((key,) for key in probes), tuple(key for key in keys if key not in probes)]


def _downstream_keys(
    definition: AssetDefinition,
    definitions: Mapping[str, AssetDefinition],
    upstream_keys: Mapping[str, AbstractSet[str]],
    keys: Sequence[str],
) -> set[str]:
    """Return the keys of an asset that are made from any of the upstream partitions, which are given by asset."""
    downstream: set[str] = set()
    for upstream in definition.upstreams:
        parsed_keys = [PartitionKey.parse(key) for key in upstream_keys.get(upstream.asset, ())]
        if not parsed_keys:
            continue
        upstream_partitions = definitions[upstream.asset].partitions
        upstream_values: dict[tuple[str, ...], set[tuple[object, ...]]] = {}
        for key in keys:
            selection = upstream_selection(
                upstream.mapping, definition.partitions, upstream_partitions, [PartitionKey.parse(key)]
            )
            if selection.names not in upstream_values:
                upstream_values[selection.names] = {tuple(k[name] for name in selection.names) for k in parsed_keys}
            if upstream_values[selection.names] & set(selection.values):
                downstream.add(key)
    return downstream
