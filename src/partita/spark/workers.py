"""What Spark's Python workers run, and how they find the packages for it.

Workers run the `python3` of their machine unless `PYSPARK_PYTHON` names another. On a cluster and behind Spark Connect
they get Partita as an archive (`partita.spark.shipping`). With a local master they run on this machine: there they look
for packages where this process does, so that it doesn't matter whether its environment is activated.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

from pyspark import cloudpickle

from partita.spark.shipping import SHIPPED, needs_shipping, ship

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Run = Callable[[Iterable["pa.RecordBatch"]], Iterable["pa.RecordBatch"]]


def map_in_arrow(rows: DataFrame, run: Run, schema: StructType) -> DataFrame:
    """`DataFrame.mapInArrow`, whatever names hold; a task begins at once in a worker that has run one before."""
    names = rows.columns

    def quickly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _keep_archives()
        yield from run(batch.rename_columns(names) for batch in batches)

    spark = rows.sparkSession
    sent: Any = quickly
    if needs_shipping(spark):
        ship(spark)
    else:
        sent = _WithPath(quickly)
    return _plainly_named(rows).mapInArrow(sent, schema)


def _plainly_named(rows: DataFrame) -> DataFrame:
    """The rows under names that PySpark finds: it reads a dot or a backquote in a name as SQL."""
    names = rows.columns
    if all(map(_PLAIN, names)) and len({name.lower() for name in names}) == len(names):
        return rows
    return rows.toDF(*(f"c{at}" for at in range(len(names))))


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


class _WithPath:
    """A function for workers on this machine; as it is unpickled there, they get the package folders of this process.

    It has to be then: what the function refers to is imported as it is unpickled, and PySpark imports pyarrow before it
    calls the function. Spark itself refuses workers of another minor version of Python.
    """

    def __init__(self, function: Run) -> None:
        self._function = function

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return self._function(batches)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # Defined in here, it is pickled by value, and imports nothing of ours.
        def restore(folders: list[str], pickled: bytes) -> Any:
            import sys

            sys.path[:0] = [folder for folder in folders if folder not in sys.path]
            from pyspark import cloudpickle

            return cloudpickle.loads(pickled)

        pickled = cloudpickle.dumps(self._function)  # type: ignore[no-untyped-call] # PySpark's own
        return restore, (_package_folders(), pickled)


def _package_folders() -> list[str]:
    """Where this process finds packages, Partita first; not the standard library, for workers have their own."""
    own = str(Path(__file__).parents[2])
    library = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    found = [path for path in sys.path if _is_folder(path) and Path(path).name != "lib-dynload"]
    return list(dict.fromkeys([own, *(path for path in found if path not in library)]))


def _is_folder(path: str) -> bool:
    # False where `Path.is_dir` raises: for names that are too long or hold a NUL.
    return bool(path) and os.path.isdir(path)  # noqa: PTH112


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
