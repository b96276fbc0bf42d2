"""Tables in the folders of others, whose files a clean-up must never take for its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TABLE = re.compile(r"(?P<folder>.+?)/(?:_delta_log/|metadata/[^/]+\.metadata\.json$|__manifest/|_versions/)")
"""What is in the folder of a table of Delta, of Iceberg, of a tree on Lance, of a Lance data set."""


def tables_below(paths: Iterable[str]) -> frozenset[str]:
    """The folders below a folder that hold tables, of the files in it; all paths are relative to it."""
    return frozenset(match["folder"] for match in map(_TABLE.match, paths) if match)


def outside(paths: Iterable[str]) -> Iterator[str]:
    """Those files below a table's folder that are in no table of their own."""
    every = list(paths)
    below = tuple(f"{folder}/" for folder in tables_below(every))
    return (path for path in every if not path.startswith(below))
