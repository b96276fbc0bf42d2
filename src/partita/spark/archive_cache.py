"""Python workers keep what they have read from archives that never change.

Before each task a PySpark worker calls `importlib.invalidate_caches()`. Up to Python 3.12 that makes every zip importer
on the path read the directory of its archive again: PySpark's own, once for each package in it (0.1 s), and every jar
of the session, which Spark puts on Python's path too (0.5 s for the jars of a connector or two). Small changes of
tables would take most of their time for that (ADR 16).

`keep_archive_directories` therefore replaces `invalidate_caches` of the importers of those archives in a worker. The
first task of a worker still pays. From Python 3.13 on, archives are read lazily and this module can go.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipimport import zipimporter

ARCHIVE_PREFIX = "partita-shipped-"
"""The prefix of archives that Partita sends to executors, whose names contain a digest of their content."""


def keep_archive_directories() -> None:
    """Make the importers of archives that never change keep their directories; called in a worker."""
    for finder in sys.path_importer_cache.values():
        if isinstance(finder, zipimporter) and _is_immutable_archive(Path(finder.archive).name):
            finder.invalidate_caches = _do_nothing  # type: ignore[method-assign] # of this one finder


def _is_immutable_archive(archive: str) -> bool:
    return archive.startswith(("pyspark", "py4j", ARCHIVE_PREFIX)) or archive.endswith(".jar")


def _do_nothing() -> None:
    """Take the place of `zipimporter.invalidate_caches`."""
