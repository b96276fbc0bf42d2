"""Values as documents and pages say them: moments in ISO 8601, sizes in bytes and their multiples."""

from __future__ import annotations

from datetime import UTC, datetime

from partita.status import shown


def stamp(at: datetime | None) -> str | None:
    """A moment as JSON has it: in UTC, with its Z."""
    return None if at is None else shown.stamp(at)


def clock(at: datetime | str | None) -> str:
    """A moment as people read it, to the second."""
    if at is None:
        return "-"
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    return found.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") + "Z"


_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def age(at: datetime | str | None, now: datetime) -> str:
    """How long ago a moment was, in its largest unit: `3 h ago`."""
    if at is None:
        return "never"
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    seconds = int((now - found).total_seconds())
    size, unit = next(((size, unit) for size, unit in _STEPS if abs(seconds) >= size), (1, "s"))
    count = abs(seconds) // size
    return f"{count:,} {unit} ago" if seconds >= 0 else f"in {count:,} {unit}"


def size(octets: int | None) -> str:
    """A number of bytes as people read it: `12.5 MiB`."""
    return "-" if octets is None else shown.size_text(octets)
