"""Deleting files that no snapshot names: what commits left behind that were killed, or lost their race."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from partita.formats.containment import OTHER_FOLDER, Listing, Removed
from partita.formats.iceberg.places import (
    check_own_place,
    delete_files,
    is_owned_name,
    is_writers_folder,
    is_writers_name,
    list_files,
    named_places,
)
from partita.formats.iceberg.transaction.edge import name_of, refresh, translated
from partita.formats.iceberg.transaction.expiry import check_collectable
from partita.formats.iceberg.transaction.manifests import manifests_by_path, read_entries
from partita.formats.iceberg.transaction.other_tables import Claims, claims_in_catalog, claims_in_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table

    from partita.formats.containment import Place

GRACE = 3 * 24 * 60 * 60.0
"""Seconds: longer than any commit should take from its first file to its end."""


def remove_orphans(table: Table, older_than: float = GRACE, opened: str | None = None) -> Removed:
    """Delete the files in the table's own folder that nothing in the table names, older than so many seconds.

    Those are files below `data` and `metadata` with names that writers give, and files whose names say that they are
    the table's, also in a folder that a property names, such as `write.data.path`. What may be another table's is left
    alone (`partita.formats.iceberg.transaction.other_tables`).
    `opened` is the folder that the user opened or created the table in.
    """
    with translated(table):
        check_collectable(table.metadata, name_of(table))
        place = check_own_place(table, opened)
        before = time.time() - older_than
        elsewhere = [found for found in named_places(table, _named(table)) if not _is_within(found, place)]
        listings = [(each, Listing.of(list_files(table.io, each), "iceberg")) for each in (place, *elsewhere)]
        # Named after listed: what was committed in between counts as named.
        refresh(table)
        # So that what other tables committed in between counts, too.
        claims = claims_in_folder(table, place)
        claims_in_catalog(table, place, claims)
        # By their names alone: a folder may be said in many ways, and the names of one table's files differ.
        named = {_name(path) for path in _named(table)}
        removed = Removed()
        for each, listing in listings:
            claim = partial(_claim, table, claims, each, is_own=each == place)
            found = _orphans(table, listing, named, before, claim, is_own=each == place)
            delete_files(table.io, each, found)
            removed += [f"{each.root}/{path}" for path in found]
            removed.left |= {f"{each.root}/{path}": reason for path, reason in found.left.items()}
        removed.left |= claims.unknown
        removed.sort()
        return removed


def _claim(table: Table, claims: Claims, place: Place, path: str, *, is_own: bool) -> str | None:
    """Why a file may not be this table's, by its path in one of the table's folders."""
    claimed = claims.reason(f"{place.root}/{path}")
    is_expected = not is_own or is_writers_folder(path) or is_owned_name(table.metadata, path)
    return OTHER_FOLDER if claimed is None and not is_expected else claimed


def _orphans(  # noqa: PLR0913 - what tells orphans apart
    table: Table,
    listing: Listing,
    named: set[str],
    before: float,
    claim: Callable[[str], str | None],
    *,
    is_own: bool,
) -> Removed:
    def is_named(path: str) -> bool:
        return _name(path) in named

    if is_own:
        return listing.orphans(is_named, is_writers_name, before, claim)
    found = listing.orphans(is_named, lambda path: is_owned_name(table.metadata, path), before, claim)
    # What else is there is no business of this table's.
    found.left = {path: reason for path, reason in found.left.items() if is_owned_name(table.metadata, path)}
    return found


def _is_within(place: Place, other: Place) -> bool:
    return place == other or other.relative(place.root) is not None


def _named(table: Table) -> Iterator[str]:
    """The path of every file that the table's metadata names."""
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics))
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots)
    for path, manifest in manifests_by_path(table.io, metadata.snapshots).items():
        yield path
        yield from (entry.data_file.file_path for entry in read_entries(table.io, manifest))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
