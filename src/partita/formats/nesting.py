"""Tables in the folders of others, whose files a clean-up must never take for its own."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TABLE = re.compile(r"(?P<folder>.+?)/(?:_delta_log/|metadata/[^/]+\.metadata\.json(?:\.gz)?$|__manifest/|_versions/)")
"""What is in the folder of a table of Delta, of Iceberg, of a tree on Lance, of a Lance data set."""


def tables_below(paths: Iterable[str]) -> frozenset[str]:
    """The folders of tables below a folder, by the paths of the files in it, which are relative to it."""
    return frozenset(match["folder"] for match in map(_TABLE.match, paths) if match)


_MARKS = {
    "delta": re.compile(r"_delta_log/"),
    "iceberg": re.compile(r"metadata/[^/]+\.metadata\.json(?:\.gz)?$"),
    "lance": re.compile(r"__manifest/|_versions/"),
}


def formats_in(paths: Iterable[str]) -> frozenset[str]:
    """The formats of the tables that a folder itself is that of, by the paths of the files in it."""
    every = list(paths)
    return frozenset(form for form, mark in _MARKS.items() if any(map(mark.match, every)))
