"""Shipping: Partita itself and the code of a pipeline, put on the executors of a cluster as archives.

Executors need the packages that Partita stands on (pyarrow, and pylance for Lance tables), and nothing of Partita's.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPED = "partita-shipped-"
"""How the names of archives begin that are named by what they hold."""
_PACKAGE = Path(__file__).parents[1]
_NO_CODE = frozenset({"pyvenv.cfg", "_delta_log", "__manifest", "_versions", "_partita"})
"""What is in folders that hold no code of a project: other Pythons, tables, lakes."""
_shipped: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def ship(spark: SparkSession, *folders: str) -> list[str]:
    """Make `import partita`, and what is in these folders, work on the executors; returns the archives' names.

    The workers of a local Spark find both on this machine (`partita.spark.workers`), and get nothing. What a session
    has is not sent again.
    """
    if not needs_shipping(spark):
        return []
    done = _shipped.setdefault(spark, set())
    archives = [_own_archive(), *(archive_of(Path(folder)) for folder in folders)]
    for archive in archives:
        if archive.name not in done:
            # One at a time: a classic session takes only one.
            spark.addArtifacts(str(archive), pyfile=True)
            done.add(archive.name)
    return [archive.name for archive in archives]


def needs_shipping(spark: SparkSession) -> bool:
    """Whether executors may not see the files of this process: on a cluster, and behind Spark Connect.

    PySpark sets `SPARK_LOCAL_REMOTE` where this process started the Connect server itself.
    """
    if is_remote() and "SPARK_LOCAL_REMOTE" not in os.environ:
        return True
    master = spark.conf.get("spark.master", "") or ""
    return master != "local" and not master.startswith("local[")


def archive_of(folder: Path, inside: str = "") -> Path:
    """An archive of the Python files in a folder, under the name `inside` in it; its own name is that of its bytes."""
    place = _place()
    with tempfile.NamedTemporaryFile(dir=place, delete=False) as file, zipfile.ZipFile(file, "w") as archive:
        for path in sorted(_code_in(folder.resolve())):
            name = str(Path(inside) / path.relative_to(folder.resolve()))
            # The same files are the same bytes, whenever they were written.
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    draft = Path(file.name)
    digest = hashlib.sha256(draft.read_bytes()).hexdigest()[:16]
    return draft.rename(place / f"{SHIPPED}{inside or 'code'}-{digest}.zip")


@cache
def _own_archive() -> Path:
    return archive_of(_PACKAGE, "partita")


def _code_in(folder: Path) -> Iterator[Path]:
    """The Python files in a folder and below it; not those of folders that are hidden or hold no code."""
    for at, folders, files in os.walk(folder):
        here = Path(at)
        if here != folder and not _NO_CODE.isdisjoint([*folders, *files]):
            folders.clear()
            continue
        folders[:] = [name for name in folders if name.isidentifier() and name not in _NO_CODE | {"__pycache__"}]
        yield from (here / name for name in files if name.endswith(".py"))


@cache
def _place() -> Path:
    """Where archives lie for as long as this process does: Spark serves them from there."""
    place = Path(tempfile.mkdtemp(prefix="partita-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place
