"""Tasks in Spark's Python workers, and how the workers find the packages that the tasks import.

Workers run the `python3` of their machine unless `PYSPARK_PYTHON` names another. On a cluster and behind Spark Connect
they get Partita as an archive (`partita.spark.artifacts`). With a local master they run on this machine and search the
same folders for packages as this process, so that its environment need not be activated.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from partita.spark.archive_cache import keep_archive_directories
from partita.spark.artifacts import add_code_artifacts, needs_artifacts
from partita.spark.sql_text import alias_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

ArrowTask = Callable[[Iterable["pa.RecordBatch"]], Iterable["pa.RecordBatch"]]


def map_in_arrow(rows: DataFrame, task: ArrowTask, schema: StructType) -> DataFrame:
    """Call `DataFrame.mapInArrow` for columns of any name, in workers that can import Partita."""
    names = rows.columns

    def run_in_worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_archive_directories()
        yield from task(batch.rename_columns(names) for batch in batches)

    spark = rows.sparkSession
    function: Any = run_in_worker
    if needs_artifacts(spark):
        add_code_artifacts(spark)
    else:
        function = _FunctionWithPath(run_in_worker)
    return _with_plain_names(rows).mapInArrow(function, schema)


def _with_plain_names(rows: DataFrame) -> DataFrame:
    """Rename columns that PySpark would not find: it reads a dot or a backquote in a name as SQL."""
    names = rows.columns
    counts = Counter(name.lower() for name in names)
    aliases = alias_names(names, lambda name: _is_plain_name(name) and counts[name.lower()] == 1)
    return rows if aliases == names else rows.toDF(*aliases)


_is_plain_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


class _FunctionWithPath:
    """A function for workers on this machine, which adds the package folders of this process when it is unpickled.

    The folders are needed that early: unpickling imports what the function refers to, and PySpark imports pyarrow
    before it calls the function. Spark itself refuses workers of another minor version of Python.
    """

    def __init__(self, function: ArrowTask) -> None:
        self._function = function

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return self._function(batches)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # A nested function is pickled by value, so unpickling it imports nothing of Partita.
        def restore(folders: list[str], pickled_function: bytes) -> Any:
            import sys

            sys.path[:0] = [folder for folder in folders if folder not in sys.path]
            from pyspark import cloudpickle

            return cloudpickle.loads(pickled_function)

        pickled_function = cloudpickle.dumps(self._function)  # type: ignore[no-untyped-call] # PySpark's own
        return restore, (_package_folders(), pickled_function)


def _package_folders() -> list[str]:
    """Return the folders in which this process finds packages, Partita's first, without the standard library."""
    partita_folder = str(Path(__file__).parents[2])
    library_folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    folders = [path for path in sys.path if _is_folder(path) and Path(path).name != "lib-dynload"]
    return list(dict.fromkeys([partita_folder, *(path for path in folders if path not in library_folders)]))


def _is_folder(path: str) -> bool:
    # `Path.is_dir` raises for names that are too long or contain a NUL.
    return bool(path) and os.path.isdir(path)  # noqa: PTH112
