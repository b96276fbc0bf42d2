"""Texts as people read them: on one line, with nothing in them that a terminal would obey."""

from __future__ import annotations

from datetime import datetime
from typing import Any

_MOST = 200


def one_line(text: str, most: int = _MOST) -> str:
    """The first line of a text that has something in it, what can't be printed escaped, cut where it is long."""
    start = text[: 50 * most].strip()
    return escaped(start.splitlines()[0] if start else "", most)


def escaped(text: str, most: int = _MOST) -> str:
    """The whole text with what can't be printed escaped, a line's end too; cut where it is long."""
    start = text[: most + 1]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in start)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def value_text(value: Any) -> str:
    """A value of a key: moments with their Z, nulls and booleans in lower case."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat() + "Z"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
