"""A process that appends events to a ledger, or folds it: `appender.py LAKE append NAME COUNT | fold SECONDS`.

What it appended it prints, a line for each commit, so that a test knows what must be there although it was killed.
"""

from __future__ import annotations

import sys
import time

from partita.lake import Lake


def append_batches(lake: Lake, name: str, count: int) -> None:
    """Append many small batches; each partition is of this process alone."""
    for number in range(count):
        lake.record(
            "sales", [{"n": number, "p": name}, {"n": number + count, "p": name}], outcome="succeeded", run_id=name
        )
        print(number, flush=True)  # noqa: T201 - what the test reads


def fold_repeatedly(lake: Lake, seconds: float) -> None:
    """Fold again and again."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        print(lake.fold().ledger_version, flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    where, what, *rest = sys.argv[1:]
    if what == "append":
        append_batches(Lake(where), rest[0], int(rest[1]))
    else:
        fold_repeatedly(Lake(where), float(rest[0]))
