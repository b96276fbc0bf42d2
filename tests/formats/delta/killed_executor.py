"""A script that appends on executors that are separate processes, one of which is killed between two files.

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
from partita.formats.delta.state import DeltaTableVersion
from partita.spark import spark_session


@dataclass(frozen=True)
class ExecutorKillingTarget:
    """A target that kills its executor once, when it opens the third file."""

    target: Any
    mark: str

    def open_sink(self, partition: tuple[str | None, ...], task: str) -> Any:
        sink = self.target.open_sink(partition, task)
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
    spark = spark_session(**{"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"})
    table = pt.Lake(folder).create_table(
        "orders", pt.Schema.of({"id": "long", "p": "int"}), format="delta", partition_by=["p"]
    )
    if how == "kill":
        target = DeltaTableVersion.write_target
        mark = str(Path(folder) / "killed")
        DeltaTableVersion.write_target = lambda *given: ExecutorKillingTarget(target(*given), mark)  # type: ignore[method-assign,assignment] # a fault
    table.append(spark.range(0, 10_000, 1, 4).selectExpr("id", "int(id % 7) AS p"))
    rows = table.read()
    totals = rows.selectExpr("count(*)", "count(distinct id)", "sum(p)").first()
    assert totals is not None
    orphans = table.remove_orphans(timedelta(0))
    print(*totals, len(orphans), rows.count())  # noqa: T201 - read by the test
    spark.stop()


main(*sys.argv[1:])
