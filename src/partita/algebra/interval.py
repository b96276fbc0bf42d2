"""Intervals of physical values."""

from __future__ import annotations

from dataclasses import dataclass

from partita.algebra.physical_values import PhysicalValue


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of physical values; a bound of None is unbounded. `upper` is included unless `upper_open` is true."""

    lower: PhysicalValue | None = None
    upper: PhysicalValue | None = None
    upper_open: bool = False


UNBOUNDED = Interval()


def prefix_interval(prefix: str | bytes) -> Interval:
    """Return the interval of all strings, or byte strings, that start with the prefix."""
    upper = _string_after_prefix(prefix) if isinstance(prefix, str) else _bytes_after_prefix(prefix)
    return Interval(prefix, upper, upper_open=upper is not None)


_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def _string_after_prefix(prefix: str) -> str | None:
    """Return the least string above all strings with the prefix, or None if there is none."""
    while prefix:
        code_point = ord(prefix[-1]) + 1
        if code_point <= _MAX_CODE_POINT:
            return prefix[:-1] + chr(_SURROGATES.stop if code_point in _SURROGATES else code_point)
        prefix = prefix[:-1]
    return None


def _bytes_after_prefix(prefix: bytes) -> bytes | None:
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
