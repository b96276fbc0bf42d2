"""The canonical text of a partition key (seed 000), written and strictly read.

```text
key       ::= dimension ("," dimension)*       names in order; the empty key has the empty text
dimension ::= name "=" tag ":" value           name ::= [a-z][a-z0-9_]*
s:dXMtZWFzdA                     string        base64url without padding, of the UTF-8 bytes
i:-42                            int           64 bits, no sign but minus, no leading zeros
b:true                           bool
d:2025-01-15                     date          years 0001 to 9999
t:2025-01-15T10:30:00.000000Z    timestamp     in UTC, six digits
n:null                           null
```
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import TypeAlias, cast

from partita.errors import KeyFormatError

KeyValue: TypeAlias = str | int | bool | date | datetime | None
"""What a dimension can hold, once its Python type is one of these exactly."""

NAME = "[a-z][a-z0-9_]*"
INT64 = range(-(2**63), 2**63)


def tagged(value: KeyValue) -> str:
    """The tag of a value's type, and its text: `i:42`."""
    if value is None:
        return "n:null"
    if isinstance(value, bool):
        return "b:true" if value else "b:false"
    if isinstance(value, int):
        return f"i:{value}"
    if isinstance(value, str):
        return "s:" + urlsafe_b64encode(value.encode()).decode().rstrip("=")
    if isinstance(value, datetime):
        return f"t:{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return f"d:{value.isoformat()}"


def read_dimensions(text: str) -> Iterator[tuple[str, KeyValue]]:
    """The names and values that a canonical text says; any other is a `KeyFormatError`."""
    start, last = 0, None
    while text:
        stop = text.find(",", start)
        stop = len(text) if stop < 0 else stop
        name, value = _dimension(text, start, stop)
        if last is not None and name <= last:
            raise KeyFormatError(text, start, f"{name!r} stands twice" if name == last else
                                 f"{name!r} comes before {last!r}: names are in alphabetical order")  # fmt: skip
        yield name, value
        if stop == len(text):
            return
        start, last = stop + 1, name


_HEAD = re.compile(f"({NAME})=([a-z]):")


def _dimension(text: str, start: int, stop: int) -> tuple[str, KeyValue]:
    head = _HEAD.match(text, start, stop)
    if head is None:
        raise _head_error(text, start, stop)
    name, tag = head.groups()
    if tag not in _READERS:
        raise KeyFormatError(text, head.start(2), f"unknown type tag {tag!r}; the tags are {', '.join(_READERS)}")
    value_text = text[head.end() : stop]
    try:
        return name, _READERS[tag](value_text)
    except _NotCanonical as problem:
        raise KeyFormatError(text, head.end() + problem.offset, problem.reason) from None


def _head_error(text: str, start: int, stop: int) -> KeyFormatError:
    name = re.compile(NAME).match(text, start, stop)
    if start == stop:
        return KeyFormatError(text, start, "an empty dimension")
    if name is None:
        return KeyFormatError(text, start, "a name starts with a lower-case letter")
    if name.end() == stop:
        return KeyFormatError(text, stop, f"no '=' after the name {name[0]!r}")
    if text[name.end()] != "=":
        return KeyFormatError(text, name.end(), "a name holds lower-case letters, digits and underscores, then '='")
    return KeyFormatError(text, name.end() + 1, "a value is a type tag of one letter, ':' and the text")


class _NotCanonical(Exception):
    def __init__(self, offset: int, reason: str) -> None:
        self.offset = offset
        self.reason = reason


def _numbers(form: str, text: str, reason: str) -> list[int]:
    """The numbers that stand in `text` where `form` has zeros; all else must stand as in the form."""
    for at, wanted in enumerate(form):
        if at >= len(text) or (text[at] != wanted if wanted != "0" else text[at] not in "0123456789"):
            raise _NotCanonical(at, reason)
    if len(text) > len(form):
        raise _NotCanonical(len(form), reason)
    return [int(n) for n in re.findall("[0-9]+", text)]


_INT = re.compile("0|-?[1-9][0-9]*")
_DATE = "0000-00-00"
_TIMESTAMP = "0000-00-00T00:00:00.000000Z"
_BASE64 = re.compile("[A-Za-z0-9_-]*")
_LONGEST_INT = 20


def _read_int(text: str) -> int:
    match = _INT.match(text)
    if match is None or match.end() < len(text):
        at = match.end() if match else 0
        raise _NotCanonical(at, "an int is decimal digits without leading zeros, after '-' where it is negative")
    number = int(text) if len(text) <= _LONGEST_INT else None
    if number is None or number not in INT64:
        raise _NotCanonical(0, "an int of over 64 bits")
    return number


def _read_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise _NotCanonical(0, "a bool is 'true' or 'false'")
    return text == "true"


def _read_null(text: str) -> None:
    if text != "null":
        raise _NotCanonical(0, "null is written 'null'")


def _read_date(text: str) -> date:
    numbers = _numbers(_DATE, text, "a date is YYYY-MM-DD")
    try:
        return date(*numbers)
    except ValueError as error:
        raise _NotCanonical(0, f"no such date: {error}") from None


def _read_timestamp(text: str) -> datetime:
    numbers = _numbers(_TIMESTAMP, text, "a timestamp is YYYY-MM-DDTHH:MM:SS.ffffffZ")
    try:
        return datetime(*numbers, tzinfo=UTC)  # type: ignore[arg-type, misc] # seven numbers, in datetime's order
    except ValueError as error:
        raise _NotCanonical(0, f"no such timestamp: {error}") from None


def _read_string(text: str) -> str:
    stray = len(cast("re.Match[str]", _BASE64.match(text))[0])
    if stray < len(text):
        raise _NotCanonical(stray, "not of base64url's alphabet, without padding")
    if len(text) % 4 == 1:
        raise _NotCanonical(len(text) - 1, "base64url can't have that length")
    octets = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_")
    if urlsafe_b64encode(octets).decode().rstrip("=") != text:
        raise _NotCanonical(len(text) - 1, "the last character has bits that belong to no byte")
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise _NotCanonical(error.start * 4 // 3, f"byte {error.start} is not UTF-8") from None


_READERS: dict[str, Callable[[str], KeyValue]] = {
    "s": _read_string,
    "i": _read_int,
    "b": _read_bool,
    "d": _read_date,
    "t": _read_timestamp,
    "n": _read_null,
}
