"""The state that requests share: the lake, its latest snapshot, its tables, plans, runs and the access policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.web.access_control import AccessPolicy
from partita.web.plan_preview import PlanPreviews
from partita.web.request_threads import REQUEST_TIMEOUT_SECONDS
from partita.web.server_runs import RunController, ServerRunner
from partita.web.snapshot_refresh import SnapshotRefresher
from partita.web.table_facts import TableFactsCache

if TYPE_CHECKING:
    from partita.lake import Lake


@dataclass(frozen=True, slots=True)
class Site:
    """A lake with its tenant and workspace, as a server serves it."""

    lake: Lake
    snapshots: SnapshotRefresher
    tables: TableFactsCache
    access_policy: AccessPolicy
    plans: PlanPreviews
    runs: RunController
    request_timeout_seconds: float = REQUEST_TIMEOUT_SECONDS

    @classmethod
    def of(cls, lake: Lake, access_policy: AccessPolicy, runner: ServerRunner | None = None) -> Site:
        """Return the site of a lake. Its snapshot refresher is not started; without a `runner` it runs no plan."""
        snapshots = SnapshotRefresher(lake)
        limits = () if runner is None else (runner.batch_limits, runner.asset_names)
        plans = PlanPreviews(snapshots, *limits)
        runs = RunController(runner, snapshots.request_refresh)
        return cls(lake, snapshots, TableFactsCache(lake), access_policy, plans, runs)
