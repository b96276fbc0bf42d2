"""Settings of a table, which are texts."""

from __future__ import annotations

from collections.abc import Mapping

from partita.errors import TableError


def number_in(properties: Mapping[str, str], name: str, default: int) -> int:
    """A whole number; what is none is refused by the setting's name."""
    text = properties.get(name)
    try:
        return default if text is None else int(text)
    except ValueError as error:
        raise TableError(f"the table's property {name} is {text!r}, and should be a whole number") from error
