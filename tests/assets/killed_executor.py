"""Run in a process of its own: a run on executor processes, one of which is killed while it makes a batch.

Arguments: a folder for the lake.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import partita as pt
from partita.spark import spark_session

if TYPE_CHECKING:
    import pyarrow as pa

DAYS = pt.daily("date", start="2025-01-01", end="2025-01-09")


def main(folder: str) -> None:
    spark = spark_session(**{"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"})
    marker = Path(folder, "killed")

    def kill_executor_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if date(2025, 1, 5) in batch["date"].to_pylist():
                try:
                    marker.touch(exist_ok=False)
                except FileExistsError:
                    yield batch
                    continue
                # The worker's parent is PySpark's daemon, and the daemon's is the executor.
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
                os.kill(int(daemon[1]), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    @pt.asset(table="orders", partitions=DAYS)
    def orders(ctx: Any) -> Any:
        rows = [(key["date"], number) for key in ctx.keys for number in range(100)]
        frame = ctx.spark.createDataFrame(rows, "date date, n long").repartition(4)
        return frame.mapInArrow(kill_executor_once, frame.schema)

    Path(folder).mkdir(parents=True, exist_ok=True)
    lake = pt.Lake(folder)
    lake.register(orders)
    result = lake.run(lake.plan())
    table = lake.table("orders")
    totals = table.read().selectExpr("count(*)", "count(distinct date)", "sum(n)").first()
    assert totals is not None
    attempts = lake.status("orders")["last_materialization_attempt"].to_pylist()
    print(result.succeeded, marker.exists(), *totals, len(table.change_feed().commits), set(attempts))  # noqa: T201 - read by the test
    spark.stop()


main(*sys.argv[1:])
