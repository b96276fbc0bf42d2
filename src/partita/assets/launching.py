"""A run from its start to its end: the hold on its partitions, its record, its batches, and what is left of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from partita.algebra.ulid import new_ulid, ulid_time
from partita.assets.asset import Asset
from partita.assets.ground import Ground
from partita.assets.leases import TERM, Heart, Lease, Leases
from partita.assets.making import Maker
from partita.assets.plan import Batch, Plan, key_words
from partita.assets.planning import made_by_others, open_runs, unexpected, world_of
from partita.assets.progress import Listener, Progress, RunResult
from partita.assets.running import Options, Runner, report_success
from partita.assets.runs import Begun, Done, Runs, done_by
from partita.errors import DefinitionError, Held, PlanError, WorldMoved
from partita.status.events import Outcome
from partita.status.recording import record

if TYPE_CHECKING:
    from partita.spark.rows import SparkSession

NOTHING_DONE = Done(frozenset(), (), {})


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """How runs are started: on which ground, with which assets, on which Spark, heard by whom.

    `wait` is for how many seconds to wait for partitions that another run holds; `term` how long a lease lasts.
    """

    ground: Ground
    assets: Mapping[str, Asset]
    spark: SparkSession
    options: Options = field(default_factory=Options)
    listener: Listener | None = None
    wait: float = 0.0
    term: float = TERM
    _plans: dict[str, Plan] = field(default_factory=dict)

    def run(self, plan: Plan) -> RunResult:
        """Run a plan that was made here, or stored; one that the world has moved away from is refused."""
        self._check(plan)
        run_id, batches = new_ulid(), plan.batches
        self._runs.begin(run_id, plan)
        lease: Lease | None = None
        try:
            lease = self._taken(run_id, batches)
            begun = check_world(self.ground, plan, self.assets)
        except BaseException as error:
            if lease is not None:
                self._leases.release(lease)
            self._runs.end(run_id, {"run_id": run_id, "refused": str(error)})
            raise
        return self._held(run_id, lease, batches, NOTHING_DONE, begun)

    def resume(self, run_id: str | None = None) -> RunResult:
        """Do what a run left: by its id, or the last one that has not ended.

        What another run made since it began is not made again; if that lacks what this run makes, it will be stale.
        """
        which = self._runs.unfinished() if run_id is None else run_id
        plan = self._runs.plan(which)
        self._check(plan)
        batches = plan.batches
        lease = self._taken(which, batches)
        with self.ground.workspace.ask(assets=list(plan.assets), partly=True) as answer:
            begun = open_runs(answer, plan.partitions)
            others = made_by_others(answer, plan.partitions, which, _began(which))
        done = replace(done_by(self.ground.workspace.ledger, which), by_others=others)
        return self._held(which, lease, batches, done, begun)

    @property
    def _runs(self) -> Runs:
        return Runs(self.ground.storage, self.ground.folder)

    @property
    def _leases(self) -> Leases:
        return Leases(self.ground.storage, self.ground.folder, self._planned)

    def _planned(self, run_id: str, asset: str) -> frozenset[str]:
        """The partitions of an asset that another run has; its plan is read once."""
        if run_id not in self._plans:
            self._plans[run_id] = self._runs.plan(run_id)
        rows = self._plans[run_id].partitions
        return frozenset(rows["partition_key"].filter(pc.equal(rows["asset_key"], asset)).to_pylist())

    def _check(self, plan: Plan) -> None:
        ledger = self.ground.workspace.ledger
        if (plan.lake, plan.tenant, plan.workspace) != (self.ground.storage.uri, ledger.tenant, ledger.workspace):
            raise PlanError(f"the plan is for {plan.tenant}/{plan.workspace} of {plan.lake}, not for this lake")
        for name in plan.assets:
            if name not in self.assets:
                known = ", ".join(self.assets) or "none"
                raise PlanError(f"the plan runs {name!r}, which this process has no function for; it has: {known}")
            if self.assets[name].is_source:
                raise PlanError(f"the plan runs {name!r}, which is a source: others write it")
            for upstream in self.assets[name].definition.upstreams:
                if upstream.asset not in self.assets:
                    raise DefinitionError(f"{name!r} is made from {upstream.asset!r}, which this process doesn't have")

    def _taken(self, run_id: str, batches: tuple[Batch, ...]) -> Lease:
        wanted: dict[str, frozenset[str]] = {}
        for batch in batches:
            wanted[batch.asset] = wanted.get(batch.asset, frozenset()) | frozenset(batch.keys)
        until = time.monotonic() + self.wait
        told = False
        while True:
            try:
                return self._leases.take(run_id, wanted, self.term)
            except Held as held:
                if time.monotonic() >= until or self.options.is_stopped:
                    raise
                if not told and self.listener is not None:
                    self.listener({"event": "waiting", "run_id": run_id, "for": held.run_id, "holder": held.holder})
                told = True
                time.sleep(min(1.0, max(0.0, until - time.monotonic())))

    def _held(
        self, run_id: str, lease: Lease, batches: tuple[Batch, ...], done: Done, begun_by: frozenset[str]
    ) -> RunResult:
        with Heart(self._leases, lease, self.term) as heart:
            cancelled = Event()
            maker = Maker(self.ground, self.assets, run_id, self.spark, _Hold(heart, run_id, cancelled))
            self._settle_dead(maker, begun_by, batches)
            why = "the run was resumed"
            settled = {
                (begun.asset, key)
                for begun in done.open
                if self._settle(maker, begun, why, done.by_others)
                for key in begun.keys
            }
            left = _left(batches, done.succeeded | done.by_others | settled)
            total = sum(len(batch.keys) for batch in batches)
            progress = Progress(run_id, total, self.listener)
            progress.succeeded = total - sum(len(batch.keys) for batch in left)
            progress.tell("begun", assets=list(dict.fromkeys(batch.asset for batch in batches)))
            try:
                Runner(maker, left, done.attempts, self.options, progress, heart, cancelled).run()
            finally:
                result = progress.result()
                progress.tell("ended", ok=result.ok, left=result.left)
                if not (result.cancelled or result.left):
                    self._runs.end(run_id, result.document())
                    self._runs.tidy()
        return result

    def _settle_dead(self, maker: Maker, run_ids: frozenset[str], batches: tuple[Batch, ...]) -> None:
        """Settle what dead runs began of these partitions, which would else be running for good."""
        held = {(batch.asset, key) for batch in batches for key in batch.keys} if run_ids else set()
        live = {lease.run_id for lease in self._leases.all()} if run_ids else set()
        for run_id in sorted(run_ids - live - {maker.run_id}):
            if self._runs.has(run_id):
                for begun in done_by(self.ground.workspace.ledger, run_id).open:
                    if any((begun.asset, key) in held for key in begun.keys):
                        self._settle(replace(maker, run_id=run_id), begun, f"run {maker.run_id} came after it")

    def _settle(
        self, maker: Maker, begun: Begun, why: str, by_others: frozenset[tuple[str, str]] = frozenset()
    ) -> bool:
        """Record what became of an attempt that was open when its process died; whether it had committed.

        Where others made some of it since, it counts as of its start, for it was before that.
        """
        asset = self.assets[begun.asset]
        said: dict[str, Any] = {
            "run_id": maker.run_id, "attempt": begun.attempt, "code_version": begun.code_version,
            "started_at": begun.at,
        }  # fmt: skip
        at = begun.at if any((begun.asset, key) in by_others for key in begun.keys) else None
        if maker.is_made(asset, begun.keys):
            report_success(maker, asset, begun.keys, maker.found(asset, begun.keys), said, at)
            return True
        error = f"the process that ran it ended before it did; {why}"
        record(self.ground.workspace.ledger, Outcome.FAILED.kind, begun.asset, begun.keys, at, error=error, **said)
        return False


@dataclass(frozen=True, slots=True)
class _Hold:
    """Raises where a run may not commit any more."""

    heart: Heart
    run_id: str
    cancelled: Event

    def __call__(self) -> None:
        if self.cancelled.is_set():
            raise PlanError(f"the run {self.run_id} was cancelled, and commits nothing more")
        if not self.heart.is_held:
            raise PlanError(f"the run {self.run_id} lost its hold on the partitions, and commits nothing more")


def _left(batches: tuple[Batch, ...], done: frozenset[tuple[str, str]] | set[tuple[str, str]]) -> list[Batch]:
    """The batches without what is done."""
    rest = [
        Batch(b.asset, b.number, tuple(key for key in b.keys if (b.asset, key) not in done)) for b in batches
    ]  # fmt: skip
    return [batch for batch in rest if batch.keys]


def _began(run_id: str) -> datetime:
    return datetime.fromtimestamp(ulid_time(run_id) / 1000, UTC)


def check_world(ground: Ground, plan: Plan, assets: Mapping[str, Asset]) -> frozenset[str]:
    """Refuse a plan whose world is not as it was, or that has partitions which nobody expects, or one twice.

    Returns the runs that began some of its partitions and said no more.
    """
    needed = {*plan.assets, *(u.asset for name in plan.assets for u in assets[name].definition.upstreams)}
    if not needed <= set(plan.world):
        raise PlanError(f"the plan doesn't say what it was made from: {min(needed - set(plan.world))!r} is missing")
    with ground.workspace.ask(partly=True) as answer:
        now = world_of(answer, plan.world)
        odd = unexpected(answer, plan.partitions)
        begun = open_runs(answer, plan.partitions)
    moved = tuple(asset for asset, digest in plan.world.items() if now.get(asset) != digest)
    if moved:
        raise WorldMoved(moved)
    if odd is not None:
        raise PlanError(f"the plan has {odd[0]} {key_words(odd[1])}, {odd[2]}")
    return begun
