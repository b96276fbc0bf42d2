"""The runs of a workspace, as files beside the ledger: the plan of each, and its result.

```text
runs/<run>/plan.jsonl   the plan that the run was started with
runs/<run>/ended.json   the result; a run without it is running, or was killed
```

The outcome of each partition is in the ledger.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from partita.algebra.ulid import is_ulid, ulid_millis
from partita.assets.plan_file import plan_from_lines
from partita.assets.run_plan import RunPlan
from partita.errors import PlanError
from partita.formats.run_transactions import RETENTION_MILLIS
from partita.status.duckdb_engine import fetch_rows, open_connection, timestamp_from_micros
from partita.status.duckdb_sql import Sql, sql
from partita.status.events import FINISHED_KINDS, EventKind
from partita.status.ledger import Ledger
from partita.storage import Storage


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt at some partitions that has started and not ended."""

    asset: str
    attempt: int
    started_at: datetime
    code_version: str | None
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What the ledger recorded of a run; partitions are pairs of asset and key.

    `succeeded_partitions` succeeded, `open_attempts` have no outcome yet, and `attempt_numbers` has the last attempt at
    each partition. `made_by_others` are partitions that other runs made since this run began.
    """

    succeeded_partitions: frozenset[tuple[str, str]]
    open_attempts: tuple[OpenAttempt, ...]
    attempt_numbers: Mapping[tuple[str, str], int]
    made_by_others: frozenset[tuple[str, str]] = frozenset()


EMPTY_RUN_RECORD = RunRecord(frozenset(), (), {})


@dataclass(frozen=True, slots=True, eq=False)
class RunStore:
    """Stores the plans and results of runs in a workspace's folder."""

    storage: Storage
    folder: str

    def save_plan(self, run_id: str, plan: RunPlan) -> None:
        """Store a run's plan. Raise `PlanError` if the run exists."""
        data = "".join(f"{line}\n" for line in plan.json_lines()).encode()
        if not self.storage.put_if_absent(self._run_file_path(run_id, "plan.jsonl"), data):
            raise PlanError(f"there is a run {run_id} already; leave its id out to get a new one")

    def save_result(self, run_id: str, result: Mapping[str, Any]) -> None:
        """Store a run's result, replacing the one from before the run was resumed."""
        self.storage.put(self._run_file_path(run_id, "ended.json"), json.dumps(result, ensure_ascii=False).encode())

    def has_run(self, run_id: str) -> bool:
        """Return whether the workspace has this run; runs that were recorded from elsewhere have no plan here."""
        return is_ulid(run_id) and self.storage.exists(self._run_file_path(run_id, "plan.jsonl"))

    def load_plan(self, run_id: str) -> RunPlan:
        """Load the plan of a run."""
        data = self.storage.get(self._run_file_path(run_id, "plan.jsonl"))
        if data is None:
            raise PlanError(
                f"there is no run {run_id!r} here; the last runs are: {', '.join(self._run_ids()[-3:]) or 'none'}"
            )
        return plan_from_lines(data.splitlines(), f"the plan of run {run_id}")

    def last_unfinished_run(self) -> str:
        """Return the last run that has no result. Raise `PlanError` if all have one."""
        for run_id in reversed(self._run_ids()):
            if not self.storage.exists(self._run_file_path(run_id, "ended.json")):
                return run_id
        raise PlanError("every run here has ended, so there is nothing to resume; name a run to resume it anyway")

    def remove_old_runs(self) -> None:
        """Delete the files of runs that ended long ago; the ledger keeps the outcome of their partitions."""
        oldest_millis = time.time() * 1000 - RETENTION_MILLIS
        old_runs = [run_id for run_id in self._run_ids() if ulid_millis(run_id) < oldest_millis]
        ended_runs = [run_id for run_id in old_runs if self.storage.exists(self._run_file_path(run_id, "ended.json"))]
        # The plan last, because without one it is no run.
        self.storage.delete(
            self._run_file_path(run_id, name) for run_id in ended_runs for name in ("ended.json", "plan.jsonl")
        )

    def _run_ids(self) -> list[str]:
        folder = f"{self.folder}/runs"
        paths = (path.removeprefix(f"{folder}/") for path, _ in self.storage.list_paths(folder))
        return sorted({path.partition("/")[0] for path in paths if path.endswith("/plan.jsonl")})

    def _run_file_path(self, run_id: str, name: str) -> str:
        if not is_ulid(run_id):
            raise PlanError(f"{run_id!r} is not the id of a run, which is a ULID")
        return f"{self.folder}/runs/{run_id}/{name}"


def read_run_record(ledger: Ledger, run_id: str) -> RunRecord:
    """Read what the ledger recorded of a run."""
    with open_connection() as connection:
        events = Sql("events")
        ledger.create_view(connection, events, ledger.files().files_of(EventKind.STARTED, *FINISHED_KINDS))
        rows = fetch_rows(
            connection,
            sql(
                "SELECT asset_key, partition_key, attempt, kind, epoch_us(occurred_at), code_version FROM {events} "
                "WHERE run_id = {run_id}",
                events=events,
                run_id=run_id,
            ),
        )
    ended_attempts = {(asset, key, attempt) for asset, key, attempt, kind, *_ in rows if kind != EventKind.STARTED}
    open_keys: dict[tuple[str, int, int, str | None], set[str]] = {}
    attempt_numbers: dict[tuple[str, str], int] = {}
    for asset, key, attempt, kind, started_micros, code_version in rows:
        attempt_numbers[asset, key] = max(attempt_numbers.get((asset, key), 0), attempt)
        if kind == EventKind.STARTED and (asset, key, attempt) not in ended_attempts:
            open_keys.setdefault((asset, attempt, started_micros, code_version), set()).add(key)
    return RunRecord(
        frozenset((asset, key) for asset, key, _, kind, *_ in rows if kind == EventKind.SUCCEEDED),
        tuple(
            OpenAttempt(asset, attempt, timestamp_from_micros(micros), code_version, tuple(sorted(keys)))
            for (asset, attempt, micros, code_version), keys in open_keys.items()
        ),
        attempt_numbers,
    )
