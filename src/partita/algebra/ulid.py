"""ULIDs: ids of 26 characters that sort by the millisecond they were made in."""

from __future__ import annotations

import os
import re
import time
from threading import Lock

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_FORM = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
_RANDOM_BITS = 80
_TIME = 10
"""Characters that say the time."""


def new_ulid() -> str:
    """A new id, greater than every one that this process made before it."""
    global _last  # noqa: PLW0603 - the order of ids is a fact of the process
    with _lock:
        _last = max(_drawn(), _last + 1)
        return _text(_last)


def is_ulid(text: str) -> bool:
    """Whether the text is a ULID in its canonical, upper-case form."""
    return _FORM.fullmatch(text) is not None


def ulid_time(ulid: str) -> int:
    """The millisecond from 1970 that an id was made in."""
    milliseconds = 0
    for character in ulid[:_TIME]:
        milliseconds = milliseconds << 5 | _ALPHABET.index(character)
    return milliseconds


_last = 0
_lock = Lock()


def _drawn() -> int:
    milliseconds = time.time_ns() // 1_000_000
    return milliseconds << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")


def _text(number: int) -> str:
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def _start_anew() -> None:
    """A forked process would count on from its parent's last id, and so would its siblings."""
    global _last, _lock
    _last, _lock = 0, Lock()


os.register_at_fork(after_in_child=_start_anew)
