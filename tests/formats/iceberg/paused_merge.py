"""A merge that stops half-way, for a test to kill it there; run as a script.

Arguments: the lake's folder, the step, and a file that is created when the step is reached. The steps are
`write_target`, where executors have begun data files, `position_delete_writer`, where they have written position-delete
files, and `commit_snapshot`, where all files are written.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import partita as pt
from partita.formats.iceberg import commit as iceberg_commit
from partita.formats.iceberg.spark import rows as iceberg_rows

MERGE_CONDITION = "t.id = s.id"
MERGE_CLAUSES = (
    pt.when_matched("s.k < 0").delete(),
    pt.when_matched().update({"k": "s.k"}),
    pt.when_not_matched().insert(),
)
# The session runs one merge of few rows, and is killed.
QUICK_START = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SOURCE_QUERY = "select id, int(id % 3) as p, if(id % 10 = 0, -1, id + 1000) as k from range(100, 400)"


@dataclass(frozen=True)
class PausedWriter:
    """Wraps an `IcebergTarget` or an `IcebergPositionDeleteWriter`, and stops once it has begun."""

    real: Any
    reached: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real, name)

    def open_sink(self, *arguments: Any) -> Any:
        sink = self.real.open_sink(*arguments)
        self.stop()
        return sink

    def write_deletes(self, *arguments: Any) -> Any:
        written = self.real.write_deletes(*arguments)
        self.stop()
        return written

    def stop(self, *_: Any) -> None:
        Path(self.reached).touch()
        time.sleep(600)


def main(folder: str, step: str, reached: str) -> None:
    module = iceberg_commit if step == "commit_snapshot" else iceberg_rows
    real = getattr(module, step)
    stop = PausedWriter(None, reached).stop
    paused = stop if step == "commit_snapshot" else lambda *arguments: PausedWriter(real(*arguments), reached)
    setattr(module, step, paused)
    table = pt.Lake(folder).table("t.t")
    spark = pt.spark.spark_session("paused-merge", **QUICK_START)
    table.merge(spark.sql(SOURCE_QUERY), MERGE_CONDITION, *MERGE_CLAUSES)


if __name__ == "__main__":
    main(*sys.argv[1:])
