"""ULIDs: ids of 26 characters that sort by the millisecond of their creation."""

from __future__ import annotations

import os
import re
import time
from threading import Lock

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_PATTERN = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
_RANDOM_BITS = 80
_TIME_LENGTH = 10
"""The number of characters that encode the time."""


def new_ulid() -> str:
    """Return a new id that is greater than all ids that this process made before."""
    global _last_number  # noqa: PLW0603 - the order of ids is a fact of the process
    with _lock:
        _last_number = max(_draw_number(), _last_number + 1)
        return _encode_number(_last_number)


def is_ulid(text: str) -> bool:
    """Return whether the text is a ULID in canonical, upper-case form."""
    return _ULID_PATTERN.fullmatch(text) is not None


def ulid_millis(ulid: str) -> int:
    """Return the time of an id, in milliseconds since 1970."""
    milliseconds = 0
    for character in ulid[:_TIME_LENGTH]:
        milliseconds = milliseconds << 5 | _ALPHABET.index(character)
    return milliseconds


_last_number = 0
_lock = Lock()


def _draw_number() -> int:
    milliseconds = time.time_ns() // 1_000_000
    return milliseconds << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")


def _encode_number(number: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def _reset_after_fork() -> None:
    """Forget the last id: a forked process and its siblings would all continue from their parent's."""
    global _last_number, _lock
    _last_number, _lock = 0, Lock()


os.register_at_fork(after_in_child=_reset_after_fork)
