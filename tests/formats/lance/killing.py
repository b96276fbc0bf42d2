"""A process that dies at a step of a write: every call that leaves something behind counts as one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import partita as pt
from partita.formats.lance import namespace, writes
from partita.formats.lance.leaf import Leaf
from partita.storage import Storage
from tests.formats.lance.tables import events, write

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = events((10, "2025-12-10", "US"), (11, "2025-12-11", "US"), (12, "2025-12-12", "DE"), (13, "2025-12-12", "US"))
"""Into two leaves that are there, and two new ones."""


class Killed(BaseException):
    """Stands for a process that is gone: nothing on the way handles it."""


class Steps:
    """Counts steps, and dies before one of them, or right after it; once dead, always dead."""

    def __init__(self, last: int, *, after: bool, die: Callable[[], None]) -> None:
        self.left = last
        self.after = after
        self.die = die
        self.taken = 0

    def around(self, do: Callable[..., Any]) -> Callable[..., Any]:
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

    def patched(self, setattr_: Callable[[Any, str, Any], None]) -> None:
        setattr_(writes, "THREADS", 1)
        setattr_(writes, "register", self.around(namespace.register))
        setattr_(Leaf, "create", self.around(Leaf.create))
        setattr_(Leaf, "commit", self.around(Leaf.commit))
        setattr_(Storage, "put_new", self.around(Storage.put_new))


def main(uri: str, last: str) -> None:
    """Write, and be killed at a step by the operating system."""
    table = pt.open_table(uri, format="lance")
    steps = Steps(int(last), after=True, die=lambda: os.kill(os.getpid(), 9))
    steps.patched(setattr)
    write(table, ROWS)


if __name__ == "__main__":
    main(*sys.argv[1:])
