"""The canonical text of a partition key: formatting and strict parsing.

```text
key       ::= dimension ("," dimension)*       sorted by name; the empty key has the empty text
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
"""The value of a dimension, of exactly one of these Python types."""

NAME_PATTERN = "[a-z][a-z0-9_]*"
INT64_RANGE = range(-(2**63), 2**63)


def canonical_value_text(value: KeyValue) -> str:
    """Return the canonical text of a value: the tag of its type, and its text, such as `i:42`."""
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


def parse_dimensions(text: str) -> Iterator[tuple[str, KeyValue]]:
    """Yield the names and values of a canonical text; raise `KeyFormatError` for any other text."""
    start, last = 0, None
    while text:
        stop = text.find(",", start)
        stop = len(text) if stop < 0 else stop
        name, value = _parse_dimension(text, start, stop)
        if last is not None and name <= last:
            raise KeyFormatError(text, start, f"the dimension {name!r} is given twice" if name == last else
                                 f"{name!r} must come before {last!r}: names are in alphabetical order")  # fmt: skip
        yield name, value
        if stop == len(text):
            return
        start, last = stop + 1, name


_DIMENSION_HEAD = re.compile(f"({NAME_PATTERN})=([a-z]):")


def _parse_dimension(text: str, start: int, stop: int) -> tuple[str, KeyValue]:
    head = _DIMENSION_HEAD.match(text, start, stop)
    if head is None:
        raise _head_error(text, start, stop)
    name, tag = head.groups()
    if tag not in _PARSERS:
        raise KeyFormatError(text, head.start(2), f"unknown type tag {tag!r}; the tags are {', '.join(_PARSERS)}")
    value_text = text[head.end() : stop]
    try:
        return name, _PARSERS[tag](value_text)
    except _NotCanonical as problem:
        raise KeyFormatError(text, head.end() + problem.offset, problem.reason) from None


def _head_error(text: str, start: int, stop: int) -> KeyFormatError:
    name = re.compile(NAME_PATTERN).match(text, start, stop)
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


def _parse_numbers(layout: str, text: str, reason: str) -> list[int]:
    """Return the numbers in `text` where `layout` has zeros; all other characters must be those of the layout."""
    for index, character in enumerate(layout):
        if index >= len(text) or (text[index] != character if character != "0" else text[index] not in "0123456789"):
            raise _NotCanonical(index, reason)
    if len(text) > len(layout):
        raise _NotCanonical(len(layout), reason)
    return [int(n) for n in re.findall("[0-9]+", text)]


_INT_PATTERN = re.compile("0|-?[1-9][0-9]*")
_DATE_LAYOUT = "0000-00-00"
_TIMESTAMP_LAYOUT = "0000-00-00T00:00:00.000000Z"
_BASE64_PATTERN = re.compile("[A-Za-z0-9_-]*")
_MAX_INT_LENGTH = 20


def _parse_int(text: str) -> int:
    match = _INT_PATTERN.match(text)
    if match is None or match.end() < len(text):
        raise _NotCanonical(
            match.end() if match else 0, "an int is decimal digits without leading zeros, with '-' if it is negative"
        )
    number = int(text) if len(text) <= _MAX_INT_LENGTH else None
    if number is None or number not in INT64_RANGE:
        raise _NotCanonical(0, "the int exceeds 64 bits")
    return number


def _parse_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise _NotCanonical(0, "a bool is 'true' or 'false'")
    return text == "true"


def _parse_null(text: str) -> None:
    if text != "null":
        raise _NotCanonical(0, "null is written 'null'")


def _parse_date(text: str) -> date:
    numbers = _parse_numbers(_DATE_LAYOUT, text, "a date is YYYY-MM-DD")
    try:
        return date(*numbers)
    except ValueError as error:
        raise _NotCanonical(0, f"no such date: {error}") from None


def _parse_timestamp(text: str) -> datetime:
    numbers = _parse_numbers(_TIMESTAMP_LAYOUT, text, "a timestamp is YYYY-MM-DDTHH:MM:SS.ffffffZ")
    try:
        return datetime(*numbers, tzinfo=UTC)  # type: ignore[arg-type, misc] # seven numbers, in datetime's order
    except ValueError as error:
        raise _NotCanonical(0, f"no such timestamp: {error}") from None


def _parse_string(text: str) -> str:
    valid_length = len(cast("re.Match[str]", _BASE64_PATTERN.match(text))[0])
    if valid_length < len(text):
        raise _NotCanonical(valid_length, "not a character of base64url without padding")
    if len(text) % 4 == 1:
        raise _NotCanonical(len(text) - 1, "no base64url text has this length")
    octets = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_")
    if urlsafe_b64encode(octets).decode().rstrip("=") != text:
        raise _NotCanonical(len(text) - 1, "the last character has bits beyond the last byte")
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        raise _NotCanonical(error.start * 4 // 3, f"byte {error.start} is not UTF-8") from None


_PARSERS: dict[str, Callable[[str], KeyValue]] = {
    "s": _parse_string,
    "i": _parse_int,
    "b": _parse_bool,
    "d": _parse_date,
    "t": _parse_timestamp,
    "n": _parse_null,
}
