"""Since when a table has each of its specs, by the metadata files that it still names."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

from pyiceberg.serializers import FromInputFile

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = "00000-"
"""How the name of a table's first metadata file begins; where it isn't named any more, nobody knows how old its are."""


def spec_times(table: Table) -> dict[int, datetime]:
    """The moment of the first metadata that has each spec; a spec that is older than what is named has none.

    Metadata keeps every spec that it had, so few files are read of many.
    """
    files = [entry.metadata_file for entry in table.metadata.metadata_log] + [table.metadata_location]

    @cache
    def read(place: int) -> TableMetadata:
        if place == len(files) - 1:
            return table.metadata
        return FromInputFile.table_metadata(table.io.new_input(files[place]))

    def has(spec_id: int, place: int) -> bool:
        return spec_id in read(place).specs()

    is_whole = files[0].rpartition("/")[2].startswith(_FIRST)
    found = {}
    for spec_id in table.metadata.specs():
        # Files that are named may be gone: whoever cleans up may remove them.
        with suppress(FileNotFoundError):
            place = bisect_left(range(len(files)), True, key=partial(has, spec_id))
            if place or is_whole:
                found[spec_id] = _EPOCH + timedelta(milliseconds=read(place).last_updated_ms)
    return found
