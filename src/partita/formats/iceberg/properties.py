"""Parsing table properties, which are all texts."""

from __future__ import annotations

from collections.abc import Mapping

from partita.errors import TableError


def int_property(properties: Mapping[str, str], name: str, default: int) -> int:
    """Parse an integer property; raise `TableError` naming the property."""
    text = properties.get(name)
    try:
        return default if text is None else int(text)
    except ValueError as error:
        raise TableError(f"the table's property {name} is {text!r}, and should be an integer") from error
