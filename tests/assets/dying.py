"""A run that dies: from one step on, nothing that it does leaves a trace, as if its process had been killed there.

A step is whatever changes the lake: an append to the ledger, a file of a run or a lease, a commit of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from partita import process
from partita.assets import leases
from partita.formats.delta.log import DeltaLog
from partita.formats.iceberg.store import IcebergStore
from partita.formats.lance.log import Log
from partita.status.ledger import Ledger
from partita.storage import Storage


class Killed(BaseException):
    """The process is dead."""


class Steps:
    """Counts steps, all or those of one name, and dies at one of them: before it, or with `after` right after it."""

    def __init__(self, last: int | None = None, *, after: bool = False, only: str | None = None) -> None:
        self.last, self.after, self.only = last, after, only
        self.count = 0
        self.dead = False

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if self.dead:
                raise Killed
            if self.only not in (None, function.__qualname__):
                return function(*args, **kwargs)
            self.count += 1
            is_last = self.count == self.last
            if is_last and not self.after:
                self.dead = True
                raise Killed
            # A commit is a file that is written: a step in a step.
            done = function(*args, **kwargs)
            if is_last:
                self.dead = True
                raise Killed
            return done

        return step


@contextmanager
def dying(steps: Steps) -> Iterator[Steps]:
    """The steps of every run in the block, which another process could tell to be dead."""
    with pytest.MonkeyPatch.context() as patch:
        mine = process.this_process()
        patch.setattr(leases, "this_process", lambda: {**mine, "born": "before"})
        # A step by the clock would be another one each time.
        patch.setattr(leases.Heart, "_beat", lambda _: None)
        patch.setattr(Ledger, "append_rows", steps.of(Ledger.append_rows))
        patch.setattr(Storage, "put", steps.of(Storage.put))
        patch.setattr(Storage, "put_new", steps.of(Storage.put_new))
        patch.setattr(Storage, "delete", steps.of(Storage.delete))
        patch.setattr(DeltaLog, "commit", steps.of(DeltaLog.commit))
        patch.setattr(IcebergStore, "commit", steps.of(IcebergStore.commit))
        patch.setattr(Log, "end", steps.of(Log.end))
        yield steps
