"""A process that commits changes whose files are written already, and may be killed before, in or after a commit.

`python -m tests.conformance.commit_process <lake> <file>` commits the pickled changes of a file to the table `t.t`,
each based on the version of that moment.

`python -m tests.conformance.commit_process <lake> <file> kill` reads steps from its input, and for each of them forks a
process that commits the first change and is killed by SIGKILL at that step: `before`, `after`, or the number of a
function call during the commit. It prints what became of the process: `killed`, or the number of calls that the whole
commit made. Steps are of one process because it takes much longer to start one than to commit.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import partita as pt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from partita.formats.table_change import TableChange


class CallCounter:
    """Counts the calls of functions in all threads, and kills this process at one of them."""

    def __init__(self, last: int | None) -> None:
        self.last = last
        self.count = 0

    def __call__(self, _: Any, event: str, __: Any) -> None:
        if event in ("call", "c_call"):
            self.count += 1
            if self.count == self.last:
                os.kill(os.getpid(), signal.SIGKILL)

    def start(self) -> None:
        """Count from now on."""
        threading.setprofile(self)
        sys.setprofile(self)


def commit_changes(lake: str, changes: Sequence[TableChange]) -> None:
    """Commit each change on top of the version of that moment."""
    table = pt.Lake(lake).table("t.t")
    for change in changes:
        table._store.current_version().commit(change)


def commit_and_be_killed(lake: str, change: TableChange, step: str) -> int:
    """Commit a change, and be killed at a step; return the number of calls if the step is none of them."""
    version = pt.Lake(lake).table("t.t")._store.current_version()
    if step == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    calls = CallCounter(int(step) if step.isdigit() else None)
    calls.start()
    version.commit(change)
    sys.setprofile(None)
    if step == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return calls.count


def fork_for_each_step(lake: str, change: TableChange) -> None:
    """Answer each line of input, a step, by what became of a process that committed the change."""
    for line in sys.stdin:
        receiver, sender = os.pipe()
        process = os.fork()
        if process == 0:
            count = commit_and_be_killed(lake, change, line.strip())
            os.write(sender, str(count).encode())
            os._exit(0)
        os.close(sender)
        _, status = os.waitpid(process, 0)
        count_text = os.read(receiver, 100).decode()
        os.close(receiver)
        is_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print("killed" if is_killed else count_text or f"failed with {status}", flush=True)  # noqa: T201 - read by the test


def main(lake: str, file: str, mode: str = "commit") -> None:
    """Commit the changes of a file."""
    changes = pickle.loads(Path(file).read_bytes())  # noqa: S301 - written by the test
    if mode == "kill":
        fork_for_each_step(lake, changes[0])
    else:
        commit_changes(lake, changes)


if __name__ == "__main__":
    main(*sys.argv[1:])
