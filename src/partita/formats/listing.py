"""Which tables a lake has: folders with a log of Delta's or a manifest of Lance's, and what the catalog lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from partita.formats.lance.namespace import MANIFEST
from partita.formats.opening import Tables
from partita.storage import Storage

_PART = re.compile(r"\w[\w-]*")
_DELTA = "_delta_log"


def table_names(tables: Tables, other: str) -> set[str]:
    """The names of all tables, whatever their format; `other` is a folder that holds none of the lake's.

    No folder of a table is looked into, so it takes a listing for each folder above them.
    """
    iceberg = _in_catalog(tables)
    return iceberg | set(_in_folders(tables.storage, "", frozenset({*iceberg, other})))


def _in_folders(storage: Storage, folder: str, known: frozenset[str]) -> Iterator[str]:
    """The tables of Delta and Lance in a folder and those below; what is `known` is passed by."""
    name = folder.replace("/", ".")
    if name in known:
        return
    below = storage.folders(folder)
    if folder and not {_DELTA, MANIFEST}.isdisjoint(below):
        yield name
        return
    for one in below:
        if _PART.fullmatch(one):
            yield from _in_folders(storage, f"{folder}/{one}" if folder else one, known)


def _in_catalog(tables: Tables) -> set[str]:
    catalog = tables.iceberg_catalog()
    if catalog is None:
        return set()
    from partita.formats.iceberg.catalogs import names_in

    return set(names_in(catalog))
