"""Find folders of tables by the files in them, so that a clean-up never deletes files of another table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from partita.formats.format import TableFormat
from partita.formats.registry import table_formats
from partita.storage import Storage


def nested_table_folders(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders of tables below a folder, by the paths of files relative to it."""
    return frozenset(match["folder"] for match in map(_nested_table_pattern().match, paths) if match)


@cache
def _nested_table_pattern() -> re.Pattern[str]:
    markers = "|".join(format_.folder_marker for format_ in table_formats())
    return re.compile(rf"(?P<folder>.+?)/(?:{markers})")


def table_formats_in(paths: Iterable[str]) -> frozenset[str]:
    """Return the names of the formats that a folder is a table of, by the paths of files relative to it."""
    all_paths = list(paths)
    return frozenset(
        format_.name for format_ in table_formats() if any(map(re.compile(format_.folder_marker).match, all_paths))
    )


def table_formats_of_folder(folder: Storage) -> tuple[TableFormat, ...]:
    """Return the formats that a folder seems to be a table of: by their markers, or else by plain data files."""
    marker_folders = {marker for format_ in table_formats() for marker in format_.marker_folders}
    format_names = table_formats_in(path for marker in marker_folders for path, _ in folder.list_paths(marker))
    if format_names:
        return tuple(format_ for format_ in table_formats() if format_.name in format_names)
    suffixes = {format_: format_.plain_file_suffix for format_ in table_formats() if format_.plain_file_suffix}
    paths = [path for path, _ in folder.list_paths()]
    return tuple(format_ for format_, suffix in suffixes.items() if any(path.endswith(suffix) for path in paths))


def enclosing_table_folder(folder: Storage) -> str | None:
    """Return the folder of the table whose partition or data file a folder has; None if it isn't part of a table."""
    match = _PART_OF_TABLE.fullmatch(folder.uri)
    if match is None:
        return None
    outer = match["outer"]
    return outer if is_table_folder(folder.with_uri(outer)) else None


_PART_OF_TABLE = re.compile(
    r"(?P<outer>([a-z0-9]+:/)?/.*?[^/:])((/data)?(/[^/=]+=[^/]*)+|/data)/?", re.DOTALL | re.IGNORECASE
)


def is_table_folder(folder: Storage) -> bool:
    """Return whether a folder is a table of any format; it costs one listing for each marker folder."""
    markers = [marker for format_ in table_formats() for marker in format_.marker_folders]
    return any(table_formats_in(path for path, _ in folder.list_paths(marker)) for marker in markers)
