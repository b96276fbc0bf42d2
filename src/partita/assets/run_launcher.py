"""A run from start to end: its lease, its record, its batches, and the attempts that killed runs left open."""

from __future__ import annotations

import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from partita.algebra.ulid import new_ulid, ulid_millis
from partita.assets.asset import Asset
from partita.assets.attempt_recording import record_success
from partita.assets.lake_context import LakeContext
from partita.assets.leases import LEASE_SECONDS, Lease, LeaseHeartbeat, LeaseStore
from partita.assets.materializer import Materializer
from partita.assets.plan_validation import (
    check_plan_assets,
    check_plan_inputs,
    partitions_made_by_others,
    runs_with_open_attempts,
)
from partita.assets.progress import RunListener, RunProgress, RunResult
from partita.assets.run_executor import RunExecutor, RunOptions
from partita.assets.run_plan import Batch, RunPlan
from partita.assets.run_store import EMPTY_RUN_RECORD, OpenAttempt, RunRecord, RunStore, read_run_record
from partita.errors import PartitionsLeased, PlanError
from partita.status.attempts import record_events
from partita.status.events import Outcome

if TYPE_CHECKING:
    from partita.spark.rows import SparkSession


@dataclass(frozen=True, slots=True, eq=False)
class RunLauncher:
    """Starts and resumes runs of a lake with the assets of this process.

    `wait_seconds` is how long to wait for partitions that another run leases, `lease_seconds` how long a lease lasts
    without renewal.
    """

    lake: LakeContext
    assets: Mapping[str, Asset]
    spark: SparkSession
    options: RunOptions = field(default_factory=RunOptions)
    listener: RunListener | None = None
    wait_seconds: float = 0.0
    lease_seconds: float = LEASE_SECONDS
    _plan_cache: dict[str, RunPlan] = field(default_factory=dict)

    def run(self, plan: RunPlan) -> RunResult:
        """Run a plan. Raise `PlanOutdated` if its inputs changed, and `PartitionsLeased` if another run has them."""
        check_plan_assets(self.lake, plan, self.assets)
        run_id, batches = new_ulid(), plan.batches
        self._run_store.save_plan(run_id, plan)
        lease: Lease | None = None
        try:
            lease = self._acquire_lease(run_id, batches)
            open_run_ids = check_plan_inputs(self.lake, plan, self.assets)
        except BaseException as error:
            if lease is not None:
                self._lease_store.release(lease)
            self._run_store.save_result(run_id, {"run_id": run_id, "refused": str(error)})
            raise
        return self._run_with_lease(run_id, lease, batches, EMPTY_RUN_RECORD, open_run_ids)

    def resume(self, run_id: str | None = None) -> RunResult:
        """Run what a run left, by default the last run that has not ended.

        Partitions that another run made since it began are not made again; if they lack what this run makes, they will
        be stale.
        """
        if run_id is None:
            run_id = self._run_store.last_unfinished_run()
        plan = self._run_store.load_plan(run_id)
        check_plan_assets(self.lake, plan, self.assets)
        batches = plan.batches
        lease = self._acquire_lease(run_id, batches)
        with self.lake.workspace.open_reader(assets=list(plan.assets), allow_unknown=True) as reader:
            open_run_ids = runs_with_open_attempts(reader, plan.partitions)
            made_by_others = partitions_made_by_others(reader, plan.partitions, run_id, _run_start_time(run_id))
        record = replace(read_run_record(self.lake.workspace.ledger, run_id), made_by_others=made_by_others)
        return self._run_with_lease(run_id, lease, batches, record, open_run_ids)

    @property
    def _run_store(self) -> RunStore:
        return RunStore(self.lake.storage, self.lake.folder)

    @property
    def _lease_store(self) -> LeaseStore:
        return LeaseStore(self.lake.storage, self.lake.folder, self._planned_keys)

    def _planned_keys(self, run_id: str, asset: str) -> frozenset[str]:
        """Return the partitions of an asset in the plan of another run; the plan is loaded once."""
        if run_id not in self._plan_cache:
            self._plan_cache[run_id] = self._run_store.load_plan(run_id)
        rows = self._plan_cache[run_id].partitions
        return frozenset(rows["partition_key"].filter(pc.equal(rows["asset_key"], asset)).to_pylist())

    def _acquire_lease(self, run_id: str, batches: tuple[Batch, ...]) -> Lease:
        """Lease the partitions of the batches, waiting for another run up to `wait_seconds`."""
        keys_by_asset: dict[str, frozenset[str]] = {}
        for batch in batches:
            keys_by_asset[batch.asset] = keys_by_asset.get(batch.asset, frozenset()) | frozenset(batch.keys)
        deadline = time.monotonic() + self.wait_seconds
        has_notified = False
        while True:
            try:
                return self._lease_store.acquire(run_id, keys_by_asset, self.lease_seconds)
            except PartitionsLeased as error:
                if time.monotonic() >= deadline or self.options.is_stop_requested:
                    raise
                if not has_notified and self.listener is not None:
                    self.listener({"event": "waiting", "run_id": run_id, "for": error.run_id, "holder": error.holder})
                has_notified = True
                time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))

    def _run_with_lease(
        self, run_id: str, lease: Lease, batches: tuple[Batch, ...], record: RunRecord, open_run_ids: frozenset[str]
    ) -> RunResult:
        """Settle open attempts, execute the remaining batches, and store the result."""
        with LeaseHeartbeat(self._lease_store, lease, self.lease_seconds) as heartbeat:
            cancel_event = Event()
            guard = _CommitGuard(heartbeat, run_id, cancel_event)
            materializer = Materializer(self.lake, self.assets, run_id, self.spark, guard)
            self._settle_dead_runs(materializer, open_run_ids, batches)
            committed_partitions = {
                (attempt.asset, key)
                for attempt in record.open_attempts
                if self._settle_attempt(materializer, attempt, "the run was resumed", record.made_by_others)
                for key in attempt.keys
            }
            finished_partitions = record.succeeded_partitions | record.made_by_others | committed_partitions
            remaining_batches = _remaining_batches(batches, finished_partitions)
            total = sum(len(batch.keys) for batch in batches)
            progress = RunProgress(run_id, total, self.listener)
            progress.succeeded = total - sum(len(batch.keys) for batch in remaining_batches)
            progress.notify_listener("begun", assets=list(dict.fromkeys(batch.asset for batch in batches)))
            executor = RunExecutor(
                materializer, remaining_batches, record.attempt_numbers, self.options, progress, heartbeat, cancel_event
            )
            try:
                executor.run()
            finally:
                result = progress.run_result()
                progress.notify_listener("ended", ok=result.ok, left=result.left)
                if not (result.cancelled or result.left):
                    self._run_store.save_result(run_id, result.document())
                    self._run_store.remove_old_runs()
        return result

    def _settle_dead_runs(
        self, materializer: Materializer, run_ids: frozenset[str], batches: tuple[Batch, ...]
    ) -> None:
        """Record the outcome of open attempts of dead runs at these partitions, which would stay running forever."""
        if not run_ids:
            return
        partitions = {(batch.asset, key) for batch in batches for key in batch.keys}
        live_run_ids = {lease.run_id for lease in self._lease_store.live_leases()}
        for run_id in sorted(run_ids - live_run_ids - {materializer.run_id}):
            if not self._run_store.has_run(run_id):
                continue
            for attempt in read_run_record(self.lake.workspace.ledger, run_id).open_attempts:
                if any((attempt.asset, key) in partitions for key in attempt.keys):
                    reason = f"run {materializer.run_id} came after it"
                    self._settle_attempt(replace(materializer, run_id=run_id), attempt, reason)

    def _settle_attempt(
        self,
        materializer: Materializer,
        attempt: OpenAttempt,
        reason: str,
        made_by_others: frozenset[tuple[str, str]] = frozenset(),
    ) -> bool:
        """Record the outcome of an attempt that was open when its process died, and return whether it had committed.

        If others made some of its partitions since, the outcome is dated at the attempt's start, before theirs.
        """
        ledger = self.lake.workspace.ledger
        asset = self.assets[attempt.asset]
        fields: dict[str, Any] = {
            "run_id": materializer.run_id, "attempt": attempt.attempt, "code_version": attempt.code_version,
            "started_at": attempt.started_at,
        }  # fmt: skip
        is_overtaken = any((attempt.asset, key) in made_by_others for key in attempt.keys)
        occurred_at = attempt.started_at if is_overtaken else None
        if materializer.is_committed(asset, attempt.keys):
            result = materializer.stored_result(asset, attempt.keys)
            record_success(ledger, attempt.asset, attempt.keys, result, fields, occurred_at)
            return True
        error = f"the process that ran it ended before it did; {reason}"
        kind = Outcome.FAILED.event_kind
        record_events(ledger, kind, attempt.asset, attempt.keys, occurred_at, error=error, **fields)
        return False


@dataclass(frozen=True, slots=True)
class _CommitGuard:
    """Raises `PlanError` if the run may no longer commit."""

    heartbeat: LeaseHeartbeat
    run_id: str
    cancel_event: Event

    def __call__(self) -> None:
        if self.cancel_event.is_set():
            raise PlanError(f"the run {self.run_id} was cancelled, so it commits nothing more")
        if not self.heartbeat.is_lease_held:
            raise PlanError(f"the run {self.run_id} lost its lease, so it commits nothing more")


def _remaining_batches(batches: tuple[Batch, ...], finished_partitions: AbstractSet[tuple[str, str]]) -> list[Batch]:
    """Return the batches without their finished partitions; empty batches are dropped."""
    remaining = [
        replace(b, keys=tuple(key for key in b.keys if (b.asset, key) not in finished_partitions)) for b in batches
    ]
    return [batch for batch in remaining if batch.keys]


def _run_start_time(run_id: str) -> datetime:
    return datetime.fromtimestamp(ulid_millis(run_id) / 1000, UTC)
