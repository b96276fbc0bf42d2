"""Merges on executors that are processes of their own, one of which dies in each merge; run as a script.

Argument: a folder for the lake. The first merge loses an executor between two data files, the second right after it
wrote a position-delete file.
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
from partita.formats.iceberg.spark import rows as iceberg_rows
from partita.spark import spark_session


def kill_executor_once(mark: str) -> None:
    """Kill the executor that this runs in, once."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return
    # The worker's parent is PySpark's daemon, and the daemon's is the executor.
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    os.kill(int(daemon[1]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class ExecutorKillingWriter:
    """Wraps an `IcebergTarget` or an `IcebergPositionDeleteWriter`, and kills its executor once."""

    real: Any
    mark_of: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real, name)

    def open_sink(self, partition: tuple[str | None, ...], task: str) -> Any:
        sink = self.real.open_sink(partition, task)
        if partition[0] == "2":
            kill_executor_once(self.mark_of)
        return sink

    def write_deletes(self, *arguments: Any) -> Any:
        written = self.real.write_deletes(*arguments)
        kill_executor_once(self.mark_of)
        return written


def main(folder: str) -> None:
    spark = spark_session(**{"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"})
    table = pt.Lake(folder).create_table(
        "t.t", pt.Schema.of({"id": "long", "p": "int", "k": "long"}), format="iceberg", partition_by=["p"]
    )
    rows = spark.range(0, 6_000, 1, 4).selectExpr("id", "int(id % 3) as p", "id as k")
    table.append(rows.where("id < 3000"))
    table.evolve(add=[pt.bucket("id", 2)])
    table.append(rows.where("id >= 3000"))
    clauses = [
        pt.when_matched("s.k < 0").delete(),
        pt.when_matched().update({"k": "s.k"}),
        pt.when_not_matched().insert(),
    ]
    for number, name in enumerate(["write_target", "position_delete_writer"]):
        real = getattr(iceberg_rows, name)
        mark = str(Path(folder) / f"killed_{name}")
        setattr(
            iceberg_rows, name, lambda *arguments, real=real, mark=mark: ExecutorKillingWriter(real(*arguments), mark)
        )
        source = spark.range(1_000, 7_000, 1, 4).selectExpr(
            "id", "int(id % 3) as p", f"if(id % 10 = {number}, -1, id + 10000 * {number + 1}) as k"
        )
        table.merge(source, "t.id = s.id", *clauses)
        setattr(iceberg_rows, name, real)
    aggregates = table.read().selectExpr("count(*)", "count(distinct id)", "sum(k)", "min(k)").first()
    assert aggregates is not None
    orphans = table.remove_orphans(timedelta(0))
    print(*aggregates, len(orphans), table.read().count())  # noqa: T201 - read by the test
    spark.stop()


main(*sys.argv[1:])
