"""The runs of a workspace, as files beside the ledger: what each was to do, and how it ended.

```text
runs/<run>/plan.jsonl   the plan that it was started with
runs/<run>/ended.json   how it ended; a run without it is at work, or was killed
```

What became of each partition is in the ledger.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from partita.algebra.ulid import is_ulid, ulid_time
from partita.assets.plan import Plan, plan_of
from partita.errors import PlanError
from partita.formats.transactions import KEPT
from partita.status.engine import connect, listed, moment, quoted
from partita.status.events import FINISHED, STARTED, Outcome
from partita.status.ledger import Ledger
from partita.storage import Storage


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt at some partitions that began and didn't end."""

    asset: str
    attempt: int
    at: datetime
    code_version: str | None
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What the ledger has of a run: what succeeded, the attempts that are open, and the last attempt at each.

    `by_others` is what others made since it began.
    """

    succeeded: frozenset[tuple[str, str]]
    open: tuple[Begun, ...]
    attempts: Mapping[tuple[str, str], int]
    by_others: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The runs in a workspace's folder."""

    storage: Storage
    folder: str

    def begin(self, run_id: str, plan: Plan) -> None:
        """Keep a run's plan."""
        data = "".join(f"{line}\n" for line in plan.lines()).encode()
        if not self.storage.put_new(self._path(run_id, "plan.jsonl"), data):
            raise PlanError(f"there is a run {run_id} already; leave its id out to get a new one")

    def end(self, run_id: str, result: Mapping[str, Any]) -> None:
        """Keep how a run ended; one that is resumed may end again."""
        self.storage.put(self._path(run_id, "ended.json"), json.dumps(result, ensure_ascii=False).encode())

    def has(self, run_id: str) -> bool:
        """Whether there is such a run here; attempts of others have ids of their own."""
        return is_ulid(run_id) and self.storage.exists(self._path(run_id, "plan.jsonl"))

    def plan(self, run_id: str) -> Plan:
        """The plan of a run."""
        data = self.storage.get(self._path(run_id, "plan.jsonl"))
        if data is None:
            raise PlanError(f"there is no run {run_id!r} here; the last ones are: {', '.join(self._last()) or 'none'}")
        return plan_of(data.splitlines(), f"the plan of run {run_id}")

    def unfinished(self) -> str:
        """The last run that has not ended."""
        for run_id in reversed(self._all()):
            if not self.storage.exists(self._path(run_id, "ended.json")):
                return run_id
        raise PlanError("every run here has ended, and there is nothing to resume; say which run to resume it anyway")

    def tidy(self) -> None:
        """Forget runs that ended long ago; what became of partitions stays in the ledger."""
        before = time.time() * 1000 - KEPT
        old = [run_id for run_id in self._all() if ulid_time(run_id) < before]
        ended = [run_id for run_id in old if self.storage.exists(self._path(run_id, "ended.json"))]
        # The plan last: a run without one is none.
        self.storage.delete(self._path(run_id, name) for run_id in ended for name in ("ended.json", "plan.jsonl"))

    def _all(self) -> list[str]:
        paths = (path.removeprefix(f"{self.folder}/runs/") for path, _ in self.storage.list(f"{self.folder}/runs"))
        found = {path.partition("/")[0] for path in paths if path.endswith("/plan.jsonl")}
        return sorted(found)

    def _last(self) -> list[str]:
        return self._all()[-3:]

    def _path(self, run_id: str, name: str) -> str:
        if not is_ulid(run_id):
            raise PlanError(f"{run_id!r} is no run's id, which is a ULID")
        return f"{self.folder}/runs/{run_id}/{name}"


def done_by(ledger: Ledger, run_id: str) -> Done:
    """What the ledger has of a run."""
    with connect() as connection:
        ledger.view(connection, "events", ledger.files().of(STARTED, *FINISHED))
        rows = listed(
            connection,
            "SELECT asset_key, partition_key, attempt, kind, epoch_us(occurred_at), code_version FROM events "  # noqa: S608
            f"WHERE run_id = {quoted(run_id)}",
        )
    ended = {(asset, key, attempt) for asset, key, attempt, kind, *_ in rows if kind != STARTED}
    begun: dict[tuple[str, int, int, str | None], set[str]] = {}
    attempts: dict[tuple[str, str], int] = {}
    for asset, key, attempt, kind, micros, version in rows:
        attempts[asset, key] = max(attempts.get((asset, key), 0), attempt)
        if kind == STARTED and (asset, key, attempt) not in ended:
            begun.setdefault((asset, attempt, micros, version), set()).add(key)
    return Done(
        frozenset((asset, key) for asset, key, _, kind, *_ in rows if kind == Outcome.SUCCEEDED.kind),
        tuple(Begun(a, n, moment(micros), v, tuple(sorted(keys))) for (a, n, micros, v), keys in begun.items()),
        attempts,
    )
