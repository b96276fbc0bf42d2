"""A run that is killed at a step: from then on it changes nothing, as if its process were dead.

A step is a change of the lake: an append to the ledger, a file of a run or a lease, a commit of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from partita import process
from partita.assets import leases
from partita.formats.delta.log import DeltaLog
from partita.formats.iceberg.state import IcebergTableVersion
from partita.formats.lance.log import LanceLog
from partita.status.ledger import Ledger
from partita.storage import LocalStorage


class ProcessKilled(BaseException):
    """Raised in place of killing the process."""


class StepCounter:
    """Counts steps, all or those of one function, and kills the run before one of them, or with `after` right after."""

    def __init__(self, last: int | None = None, *, after: bool = False, only: str | None = None) -> None:
        self.last, self.after, self.only = last, after, only
        self.count = 0
        self.dead = False

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise ProcessKilled
            if self.only not in (None, function.__qualname__):
                return function(*args, **kwargs)
            self.count += 1
            is_last = self.count == self.last
            if is_last and not self.after:
                self.dead = True
                raise ProcessKilled
            # A commit writes a file, which is a step within a step.
            result = function(*args, **kwargs)
            if is_last:
                self.dead = True
                raise ProcessKilled
            return result

        return step


@contextmanager
def kill_at_step(steps: StepCounter) -> Iterator[StepCounter]:
    """Count the steps of every run in the block, under the identity of a process that is dead."""
    with pytest.MonkeyPatch.context() as patch:
        identity = process.this_process()
        patch.setattr(leases, "this_process", lambda: {**identity, "start_time": "before"})
        # A renewal by the clock would be another step each time.
        patch.setattr(leases.LeaseHeartbeat, "_renew_lease", lambda _: None)
        patch.setattr(Ledger, "append_rows", steps.wrap(Ledger.append_rows))
        patch.setattr(LocalStorage, "put", steps.wrap(LocalStorage.put))
        patch.setattr(LocalStorage, "put_if_absent", steps.wrap(LocalStorage.put_if_absent))
        patch.setattr(LocalStorage, "delete", steps.wrap(LocalStorage.delete))
        patch.setattr(DeltaLog, "write_commit", steps.wrap(DeltaLog.write_commit))
        patch.setattr(IcebergTableVersion, "commit", steps.wrap(IcebergTableVersion.commit))
        patch.setattr(LanceLog, "end_write", steps.wrap(LanceLog.end_write))
        yield steps
