"""Facts of status as people read them: single-line text, timestamps, ages, counts and sizes."""

from __future__ import annotations

from datetime import UTC, datetime

from partita.errors import escape_text

_MAX_LENGTH = 200
_TIME_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def one_line(text: str, max_length: int = _MAX_LENGTH) -> str:
    """Return the first non-empty line of a text, with unprintable characters escaped, cut to `max_length`."""
    start = text[: 50 * max_length].strip()
    return escape_text(start.splitlines()[0] if start else "", max_length)


def error_line(text: str, max_length: int = _MAX_LENGTH) -> str:
    """Return the line of an error that says what went wrong: the last line of a Python traceback, else the first."""
    lines = text.strip().splitlines() if text.lstrip().startswith("Traceback (") else []
    return one_line(lines[-1] if lines else text, max_length)


def timestamp_text(timestamp: datetime, *, separator: str = "T", timespec: str = "auto") -> str:
    """Return a timestamp in ISO 8601, in UTC with a Z; `timespec` is that of `datetime.isoformat`."""
    return timestamp.astimezone(UTC).replace(tzinfo=None).isoformat(separator, timespec) + "Z"


def json_timestamp(timestamp: datetime | None) -> str | None:
    """Return a timestamp as JSON documents have it; None stays None."""
    return None if timestamp is None else timestamp_text(timestamp)


def clock_text(timestamp: datetime | str | None) -> str:
    """Return a timestamp as pages show it, to the second; `-` for None."""
    return "-" if timestamp is None else timestamp_text(_parse(timestamp), separator=" ", timespec="seconds")


def age_text(timestamp: datetime | str | None, now: datetime) -> str:
    """Return how long ago a timestamp was, in its largest unit: `3 h ago`; `never` for None."""
    if timestamp is None:
        return "never"
    seconds = int((now - _parse(timestamp)).total_seconds())
    size, unit = next(((size, unit) for size, unit in _TIME_UNITS if abs(seconds) >= size), (1, "s"))
    count = abs(seconds) // size
    return f"{count:,} {unit} ago" if seconds >= 0 else f"in {count:,} {unit}"


def _parse(timestamp: datetime | str) -> datetime:
    return datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp


def count_text(number: int, noun: str) -> str:
    """Return a count with its noun: `3 batches`."""
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{plural}"


def size_text(byte_count: float) -> str:
    """Return a number of bytes in its largest unit: `12.5 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if byte_count < 1024:
            return f"{byte_count:,.0f} {unit}" if unit == "bytes" else f"{byte_count:,.1f} {unit}"
        byte_count /= 1024
    return f"{byte_count:,.1f} TiB"


def bytes_text(byte_count: int | None) -> str:
    """Return a number of bytes as `size_text` does; `-` for None."""
    return "-" if byte_count is None else size_text(byte_count)
