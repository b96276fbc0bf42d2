"""A run from its start to its end: the hold on its partitions, its record, its batches, and what is left of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from partita.algebra.ulid import new_ulid
from partita.assets.asset import Asset
from partita.assets.ground import Ground
from partita.assets.leases import TERM, Heart, Lease, Leases
from partita.assets.making import Maker
from partita.assets.plan import Batch, Plan, key_words
from partita.assets.planning import unexpected, world_of
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
            check_world(self.ground, plan, self.assets)
        except BaseException as error:
            if lease is not None:
                self._leases.release(lease)
            self._runs.end(run_id, {"run_id": run_id, "refused": str(error)})
            raise
        return self._held(run_id, lease, batches, NOTHING_DONE)

    def resume(self, run_id: str | None = None) -> RunResult:
        """Do what a run left: by its id, or the last one that has not ended."""
        which = self._runs.unfinished() if run_id is None else run_id
        plan = self._runs.plan(which)
        self._check(plan)
        batches = plan.batches
        lease = self._taken(which, batches)
        return self._held(which, lease, batches, done_by(self.ground.workspace.ledger, which))

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

    def _held(self, run_id: str, lease: Lease, batches: tuple[Batch, ...], done: Done) -> RunResult:
        with Heart(self._leases, lease, self.term) as heart:
            cancelled = Event()
            maker = Maker(self.ground, self.assets, run_id, self.spark, _Hold(heart, run_id, cancelled))
            settled = {(begun.asset, key) for begun in done.open if self._settle(maker, begun) for key in begun.keys}
            left = _left(batches, done.succeeded | settled)
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

    def _settle(self, maker: Maker, begun: Begun) -> bool:
        """Record what became of an attempt that was open when its process died; whether it had committed."""
        asset = self.assets[begun.asset]
        said: dict[str, Any] = {
            "run_id": maker.run_id, "attempt": begun.attempt, "code_version": begun.code_version,
            "started_at": begun.at,
        }  # fmt: skip
        if maker.is_made(asset, begun.keys):
            report_success(maker, asset, begun.keys, maker.found(asset, begun.keys), said)
            return True
        error = "the process that ran it ended before it did; the run was resumed"
        record(self.ground.workspace.ledger, Outcome.FAILED.kind, begun.asset, begun.keys, error=error, **said)
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


def check_world(ground: Ground, plan: Plan, assets: Mapping[str, Asset]) -> None:
    """Refuse a plan whose world is not as it was, or that has partitions which nobody expects, or one twice."""
    needed = {*plan.assets, *(u.asset for name in plan.assets for u in assets[name].definition.upstreams)}
    if not needed <= set(plan.world):
        raise PlanError(f"the plan doesn't say what it was made from: {min(needed - set(plan.world))!r} is missing")
    with ground.workspace.ask(partly=True) as answer:
        now = world_of(answer, plan.world)
        odd = unexpected(answer, plan.partitions)
    moved = tuple(asset for asset, digest in plan.world.items() if now.get(asset) != digest)
    if moved:
        raise WorldMoved(moved)
    if odd is not None:
        raise PlanError(f"the plan has {odd[0]} {key_words(odd[1])}, {odd[2]}")
