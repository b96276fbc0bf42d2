"""Removing files that no snapshot names: what commits left behind that were killed, or lost their race."""

from __future__ import annotations

import re
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from partita.errors import TableError
from partita.formats.iceberg.data_path import data_path, owner_of
from partita.formats.iceberg.transaction.edge import delete_all, name_of, refresh, translated
from partita.formats.iceberg.transaction.expiry import check_collectable
from partita.formats.iceberg.transaction.manifests import read_entries
from partita.formats.nesting import outside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

GRACE = 3 * 24 * 60 * 60.0
"""Seconds: longer than any commit should take from its first file to its end."""


def remove_orphans(table: Table, older_than: float = GRACE) -> list[str]:
    """Delete the files under the table's location that nothing in the table names, older than so many seconds.

    In a folder that `write.data.path` names those whose names say that they are the table's. Their paths come back.
    Files whose name starts with a dot are others' own, and stay.
    """
    with translated(table):
        check_collectable(table.metadata, name_of(table))
        before = time.time() - older_than
        found = [path for path, modified in _listed_once(table) if modified < before]
        # Named after listed: what was committed in between counts as named.
        refresh(table)
        # By their names alone: a folder may be said in many ways, and the names of one table's files differ.
        named = {_name(path) for path in _named(table)}
        orphans = [path for path in found if _name(path) not in named and not _is_others(path)]
        delete_all(table.io, orphans)
        return sorted(orphans)


def _named(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics))
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        manifests |= {each.manifest_path: each for each in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        yield path
        yield from (entry.data_file.file_path for entry in read_entries(table.io, manifest))


def _listed_once(table: Table) -> Iterator[tuple[str, float]]:
    inside = list(_outside(table))
    known = {_name(path) for path, _ in inside}
    return chain(inside, (found for found in _elsewhere(table) if _name(found[0]) not in known))


def _outside(table: Table) -> Iterator[tuple[str, float]]:
    """Path and time of every file in the table's folder that is in no table of its own there."""
    listed = dict(_listed(table.io, table.metadata.location))
    root = f"{_plain(table.metadata.location).rstrip('/')}/"
    by_place = {_plain(path).removeprefix(root): path for path in listed}
    return ((by_place[place], listed[by_place[place]]) for place in outside(by_place))


def _elsewhere(table: Table) -> Iterator[tuple[str, float]]:
    """Path and time of the table's own files in the folder of its data, where other tables may have theirs."""
    owner = owner_of(table.metadata)
    if owner:
        yield from (
            found for found in _listed(table.io, data_path(table.metadata)) if _name(found[0]).startswith(owner)
        )


def _listed(io: FileIO, location: str) -> Iterable[tuple[str, float]]:
    """Path and time of every file in the folder and below."""
    if _is_local(location):
        return [(str(path), path.stat().st_mtime) for path in Path(_plain(location)).rglob("*") if path.is_file()]
    if not isinstance(io, PyArrowFileIO):
        raise TableError(
            f"files at {location} can't be listed through {type(io).__name__}; set py-io-impl to pyarrow's"
        )
    scheme, netloc, folder = io.parse_location(location, io.properties)
    infos = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    root, below = location.rstrip("/"), len(folder.rstrip("/"))
    return [(f"{root}{info.path[below:]}", info.mtime.timestamp()) for info in infos if info.type == FileType.File]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_others(path: str) -> bool:
    name = _name(path)
    return name.startswith(".") or name == "version-hint.text"


def _is_local(location: str) -> bool:
    return location.startswith(("/", "file:"))


def _plain(path: str) -> str:
    """A path without what writers disagree on: the scheme, and the name of the bucket or the account.

    Nothing is decoded: a location is a text, in which `%2F` and `?` stand for themselves.
    """
    _, colon, rest = path.partition("://")
    bare = f"/{rest.partition('/')[2]}" if colon else path.removeprefix("file:")
    return re.sub("/+", "/", bare)
