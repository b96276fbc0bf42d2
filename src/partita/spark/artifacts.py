"""Artifacts: Partita and the code of a pipeline, sent to the executors of a cluster as archives.

Executors must have the packages that Partita depends on (pyarrow, and pylance for Lance tables), but not Partita.
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

from partita.spark.archive_cache import ARCHIVE_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE_FOLDER = Path(__file__).parents[1]
_NON_CODE_MARKERS = frozenset({"pyvenv.cfg", "_delta_log", "__manifest", "_versions", "_partita_table", "_partita"})
"""Files and folders that mark a folder without code of a project: virtual environments, tables and lakes.

Iceberg's `metadata` is not among them, because packages are called so too; its tables have no Python files.
"""
_added_archives: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def add_code_artifacts(spark: SparkSession, *folders: str) -> list[str]:
    """Send Partita and the Python files of some folders to the executors, and return the names of the archives.

    A local Spark gets nothing, because its workers import both from this machine (`partita.spark.workers`). Each
    archive is sent once to a session.
    """
    if not needs_artifacts(spark):
        return []
    added_archives = _added_archives.setdefault(spark, set())
    archives = [_partita_archive(), *(make_archive(Path(folder)) for folder in folders)]
    for archive in archives:
        if archive.name not in added_archives:
            # One call for each archive, because a classic session takes only one.
            spark.addArtifacts(str(archive), pyfile=True)
            added_archives.add(archive.name)
    return [archive.name for archive in archives]


def needs_artifacts(spark: SparkSession) -> bool:
    """Whether executors may not see the files of this process: on a cluster, and behind Spark Connect.

    PySpark sets `SPARK_LOCAL_REMOTE` if this process started the Connect server itself.
    """
    if is_remote() and "SPARK_LOCAL_REMOTE" not in os.environ:
        return True
    master = spark.conf.get("spark.master", "") or ""
    return master != "local" and not master.startswith("local[")


def make_archive(folder: Path, root_name: str = "") -> Path:
    """Write the Python files of a folder to an archive, below `root_name`, and return its path.

    The name of the archive contains a digest of its content.
    """
    archive_folder = _archive_folder()
    with tempfile.NamedTemporaryFile(dir=archive_folder, delete=False) as file, zipfile.ZipFile(file, "w") as archive:
        for path in sorted(_python_files(folder.resolve())):
            name = str(Path(root_name) / path.relative_to(folder.resolve()))
            # `ZipInfo` has a fixed time, so that the same files make the same archive.
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    temporary_path = Path(file.name)
    digest = hashlib.sha256(temporary_path.read_bytes()).hexdigest()[:16]
    return temporary_path.rename(archive_folder / f"{ARCHIVE_PREFIX}{root_name or 'code'}-{digest}.zip")


@cache
def _partita_archive() -> Path:
    return make_archive(_PACKAGE_FOLDER, "partita")


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files of a folder and of its subfolders, except hidden ones and those without code."""
    for path, folders, files in os.walk(folder):
        current = Path(path)
        if current != folder and not _NON_CODE_MARKERS.isdisjoint([*folders, *files]):
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if name.isidentifier() and name not in _NON_CODE_MARKERS | {"__pycache__"}
        ]
        yield from (current / name for name in files if name.endswith(".py"))


@cache
def _archive_folder() -> Path:
    """Create the folder of archives, from which Spark serves them until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="partita-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
