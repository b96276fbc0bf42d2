"""Which tables a lake has: folders that have a format's subfolder, and tables that a catalog lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from partita.formats.lake_tables import LakeTables
from partita.formats.registry import table_formats
from partita.storage import Storage

_NAME_PART = re.compile(r"\w[\w-]*")


def table_names(tables: LakeTables, excluded_folder: str) -> set[str]:
    """Return the names of all tables of a lake; `excluded_folder` is a folder that has none.

    No folder of a table is looked into, so it takes one listing for each folder above them.
    """
    names = {
        name for format_ in table_formats() for name in format_.catalog_table_names(tables.storage, tables.catalog)
    }
    subfolders = frozenset(f.table_subfolder for f in table_formats() if f.table_subfolder is not None)
    return names | set(_folder_table_names(tables.storage, "", subfolders, frozenset({*names, excluded_folder})))


def _folder_table_names(
    storage: Storage, folder: str, table_subfolders: frozenset[str], skipped_names: frozenset[str]
) -> Iterator[str]:
    """Return the names of tables in a folder and below it; skipped names are not listed."""
    name = folder.replace("/", ".")
    if name in skipped_names:
        return
    subfolders = storage.list_folders(folder)
    if folder and not table_subfolders.isdisjoint(subfolders):
        yield name
        return
    for subfolder in subfolders:
        if _NAME_PART.fullmatch(subfolder):
            path = f"{folder}/{subfolder}" if folder else subfolder
            yield from _folder_table_names(storage, path, table_subfolders, skipped_names)
