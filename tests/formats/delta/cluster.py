"""Runs in a process of its own: an append on executors that are processes, one of which is killed between two files.

Arguments: a folder for the lake, and whether the executor dies (`kill`) or stays (`stay`).
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import partita as pt
from partita.formats.delta.store import DeltaStore
from partita.spark import session


@dataclass(frozen=True)
class Deadly:
    """A target that kills its executor as it opens the third file, once."""

    target: Any
    mark: str

    def text(self, value: Any) -> Any:
        return self.target.text(value)

    def open(self, partition: tuple[str | None, ...], task: str) -> Any:
        sink = self.target.open(partition, task)
        if partition == ("2",):
            try:
                Path(self.mark).touch(exist_ok=False)
            except FileExistsError:
                return sink
            # The worker's parent is PySpark's daemon, and the daemon's is the executor.
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            os.kill(int(daemon[1]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return sink


def main(folder: str, how: str) -> None:
    spark = session(**{"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"})
    table = pt.Lake(folder).create_table(
        "orders", pt.Schema.of({"id": "long", "p": "int"}), format="delta", partition_by=["p"]
    )
    if how == "kill":
        target = DeltaStore.target
        mark = str(Path(folder) / "killed")
        DeltaStore.target = lambda *given: Deadly(target(*given), mark)  # type: ignore[method-assign,assignment] # a fault
    table.append(spark.range(0, 10_000, 1, 4).selectExpr("id", "int(id % 7) AS p"))
    rows = table.read()
    found = rows.selectExpr("count(*)", "count(distinct id)", "sum(p)").first()
    assert found is not None
    orphans = table.remove_orphans(timedelta(0))
    print(*found, len(orphans), rows.count())  # noqa: T201 - read by the test
    spark.stop()


main(*sys.argv[1:])
