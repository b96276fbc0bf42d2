"""The table formats. A new format is a folder with a `format.py`, and a line here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from partita.errors import TableError, value_repr

if TYPE_CHECKING:
    from partita.formats.format import TableFormat

_FORMATS = {
    "delta": "partita.formats.delta.format:DELTA",
    "iceberg": "partita.formats.iceberg.format:ICEBERG",
    "lance": "partita.formats.lance.format:LANCE",
    "parquet": "partita.formats.parquet.format:PARQUET",
}
"""Where each format is defined; its libraries are imported when a table is opened or created."""

FORMATS = tuple(_FORMATS)
"""The names of the formats, as `create_table` takes them; a lake looks for a table in this order."""


def table_format(name: str) -> TableFormat:
    """Return the format of that name; raises `TableError` if there is none."""
    if not isinstance(name, str) or name not in _FORMATS:
        raise TableError(f"unknown format {value_repr(name)}; the formats are {', '.join(FORMATS)}")
    return _load_format(name)


@cache
def _load_format(name: str) -> TableFormat:
    module, _, attribute = _FORMATS[name].partition(":")
    format_: TableFormat = getattr(import_module(module), attribute)
    return format_


def table_formats() -> tuple[TableFormat, ...]:
    """Return all formats."""
    return tuple(map(table_format, FORMATS))
