"""A process that is killed at a step of a write; each call that changes storage is a step."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import partita as pt
from partita.formats.lance import commit, namespace
from partita.formats.lance.leaf_dataset import LeafDataset
from partita.storage import LocalStorage
from tests.formats.lance.tables import commit_rows, event_rows

if TYPE_CHECKING:
    from collections.abc import Callable

NEW_ROWS = event_rows(
    (10, "2025-12-10", "US"), (11, "2025-12-11", "US"), (12, "2025-12-12", "DE"), (13, "2025-12-12", "US")
)
"""Rows for two existing leaves and two new ones."""


class ProcessKilled(BaseException):
    """Simulates a killed process: no `except Exception` catches it."""


class StepCounter:
    """Counts steps, and calls `die` before or right after step `last`, and at every later one."""

    def __init__(self, last: int, *, after: bool, die: Callable[[], None]) -> None:
        self.left = last
        self.after = after
        self.die = die
        self.taken = 0

    def wrap_step(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if self.taken > self.left or (self.taken == self.left and not self.after):
                self.taken += 1
                self.die()
            done = do(*args, **kwargs)
            self.taken += 1
            if self.taken == self.left + 1 and self.after:
                self.die()
            return done

        return step

    def patch_steps(self, setattr_: Callable[[Any, str, Any], None]) -> None:
        setattr_(commit, "THREADS", 1)
        setattr_(commit, "register_leaves", self.wrap_step(namespace.register_leaves))
        setattr_(LeafDataset, "create", self.wrap_step(LeafDataset.create))
        setattr_(LeafDataset, "commit", self.wrap_step(LeafDataset.commit))
        setattr_(LocalStorage, "put_if_absent", self.wrap_step(LocalStorage.put_if_absent))


def main(uri: str, last: str) -> None:
    """Write rows, and be killed at a step by the operating system."""
    table = pt.open_table(uri, format="lance")
    steps = StepCounter(int(last), after=True, die=lambda: os.kill(os.getpid(), 9))
    steps.patch_steps(setattr)
    commit_rows(table, NEW_ROWS)


if __name__ == "__main__":
    main(*sys.argv[1:])
