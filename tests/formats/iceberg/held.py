"""Runs in a process of its own: a merge that stops half-way, for the test to kill it there.

Arguments: the lake's folder, the step, and a file that is made when the step is reached. The steps are `_target`, where
executors have begun data files, `_marker`, where they have written deletes, and `commit`, where all is written.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import partita as pt
from partita.formats.iceberg import store as iceberg_store

ON = "t.id = s.id"
CLAUSES = (
    pt.when_matched("s.k < 0").delete(),
    pt.when_matched().update({"k": "s.k"}),
    pt.when_not_matched().insert(),
)
SOURCE = "select id, int(id % 3) as p, if(id % 10 = 0, -1, id + 1000) as k from range(100, 400)"


@dataclass(frozen=True)
class Held:
    """A target or a marker that stops once it has begun."""

    real: Any
    reached: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real, name)

    def open(self, *given: Any) -> Any:
        sink = self.real.open(*given)
        self.stop()
        return sink

    def mark(self, *given: Any) -> Any:
        told = self.real.mark(*given)
        self.stop()
        return told

    def stop(self, *_: Any) -> None:
        Path(self.reached).touch()
        time.sleep(600)


def main(folder: str, step: str, reached: str) -> None:
    real = getattr(iceberg_store, step)
    stop = Held(None, reached).stop
    held = stop if step == "commit" else lambda *given: Held(real(*given), reached)
    setattr(iceberg_store, step, held)
    table = pt.Lake(folder).table("t.t")
    table.merge(pt.spark.session().sql(SOURCE), ON, *CLAUSES)


if __name__ == "__main__":
    main(*sys.argv[1:])
