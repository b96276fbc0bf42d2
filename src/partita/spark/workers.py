"""What Spark's Python workers run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zipimport import zipimporter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SHIPPED = "partita-shipped-"
"""How the names of archives begin that are named by what they hold."""
Run = Callable[[Iterable["pa.RecordBatch"]], Iterable["pa.RecordBatch"]]


def map_in_arrow(rows: DataFrame, run: Run, schema: StructType) -> DataFrame:
    """`DataFrame.mapInArrow`, whatever names hold; a task begins at once in a worker that has run one before."""
    names = rows.columns

    def quickly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _keep_archives()
        yield from run(batch.rename_columns(names) for batch in batches)

    # PySpark reads a dot or a backquote in a name as SQL.
    return rows.toDF(*(f"c{at}" for at in range(len(names)))).mapInArrow(quickly, schema)


def _keep_archives() -> None:
    """Don't read archives that never change again for each task: Spark's own, its jars, and those that `ship` made.

    Before a task, a worker asks Python to look for modules anew. Up to Python 3.12 that reads the directories of all
    archives on its path, and those are PySpark's own, once for each package in it, and every jar that a session has:
    a tenth of a second for the one, and half a second for the jars of a connector or two.
    """
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter) and _never_changes(Path(finder.archive).name):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign] # of this one finder


def _never_changes(archive: str) -> bool:
    return archive.startswith(("pyspark", "py4j", SHIPPED)) or archive.endswith(".jar")


def _nothing() -> None:
    """What is to be done for an archive that doesn't change."""
