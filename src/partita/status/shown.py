"""Values as people read them: texts on one line, with nothing in them that a terminal would obey; moments, sizes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

_MOST = 200


def one_line(text: str, most: int = _MOST) -> str:
    """The first line of a text that has something in it, what can't be printed escaped, cut where it is long."""
    start = text[: 50 * most].strip()
    return escaped(start.splitlines()[0] if start else "", most)


def error_line(text: str, most: int = _MOST) -> str:
    """The line of an error that says what went wrong: the last of a traceback of Python's, else the first."""
    lines = text.strip().splitlines() if text.lstrip().startswith("Traceback (") else []
    return one_line(lines[-1] if lines else text, most)


def escaped(text: str, most: int = _MOST) -> str:
    """The whole text with what can't be printed escaped, a line's end too; cut where it is long."""
    start = text[: most + 1]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in start)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def value_text(value: Any) -> str:
    """A value of a key: moments with their Z, nulls and booleans in lower case."""
    if isinstance(value, datetime):
        return stamp(value)
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def stamp(at: datetime) -> str:
    """A moment in ISO 8601, in UTC, with its Z."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def counted(number: int, what: str) -> str:
    """So many things, in words."""
    plural = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{plural}"


def size_text(size: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
