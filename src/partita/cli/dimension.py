"""Dimensions as people type them: `date=2025-01-15`, `count:int=42`, or a line of JSON.

A word without a type is a date where it reads as one, and a string where it can't be taken for anything else. What
could be either, such as `count=42`, is refused: a key of the wrong type is another key, and nobody would notice.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import NoReturn

from partita.algebra.key import PartitionKey, checked_name
from partita.algebra.key_text import KeyValue
from partita.errors import KeyFormatError, KeyValueError, PartitaError, caret

TYPES = {
    "string": ("str", "s"),
    "int": ("long", "i"),
    "bool": ("b",),
    "date": ("d",),
    "timestamp": ("t",),
    "null": ("n",),
}
"""The types of a key, each with its other names."""


def key_of_words(words: Iterable[str]) -> PartitionKey:
    """The key of words such as `date=2025-01-15`, `count:int=42` and `missing:null`."""
    return PartitionKey(_once(_dimension(word) for word in words))


def key_of_line(line: str) -> PartitionKey:
    """The key of a line: a JSON object, or words with a shell's quotes."""
    return _key_of_json(line) if line.lstrip().startswith("{") else key_of_words(_split(line))


def type_name(value: KeyValue) -> str:
    """The type of a value, as it is written in front of one."""
    return _NAMES[type(value)]


_NAMES = {str: "string", int: "int", bool: "bool", date: "date", datetime: "timestamp", type(None): "null"}
_TYPE_OF = {alias: name for name, aliases in TYPES.items() for alias in (name, *aliases)}


_QUOTES = re.compile(r"""['"\\]""")
_WORD = re.compile(r"[^ \t\r\n]+")  # as shlex has it, which takes twenty times as long


def _split(line: str) -> list[str]:
    if not _QUOTES.search(line):
        return _WORD.findall(line)
    try:
        return shlex.split(line)
    except ValueError as error:
        raise PartitaError(f"can't split the line into words: {error}") from None


def _once(dimensions: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in dimensions:
        if name in found:
            raise KeyValueError(name, "given twice")
        found[name] = value
    return found


def _dimension(word: str) -> tuple[str, KeyValue]:
    head, equals, text = word.partition("=")
    name, colon, type_ = head.partition(":")
    checked_name(name)
    if not equals:
        if colon and _TYPE_OF.get(type_) == "null":
            return name, None
        raise KeyValueError(name, f"no value; write {head}=VALUE, or {name}:null for null")
    return name, _typed(name, type_, text) if colon else _untyped(name, word, text)


def _typed(name: str, type_: str, text: str) -> KeyValue:
    return _READERS[_known_type(name, type_)](name, text)


def _known_type(name: str, type_: object) -> str:
    if not isinstance(type_, str) or type_ not in _TYPE_OF:
        raise KeyValueError(name, f"no type {type_!r}; the types are {', '.join(TYPES)}")
    return _TYPE_OF[type_]


_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INT = re.compile("[+-]?[0-9]+")
_TIMESTAMP = re.compile(
    "(?P<day>[0-9]{4}-?[0-9]{2}-?[0-9]{2}|[0-9]{4}-?W[0-9]{2}-?[0-9])[T ]"
    "(?P<time>[0-9:]+([.,](?P<micros>[0-9]{1,6})(?P<finer>[0-9]*))?)(?P<zone>Z|[+-][0-9:]+)?"
)
_LOOKS_LIKE = {
    "int": _INT,
    "bool": re.compile("true|false", re.IGNORECASE),
    "null": re.compile("null", re.IGNORECASE),
    "timestamp": re.compile(f"{_DATE.pattern}[T ][0-9].*", re.DOTALL),
}


def _untyped(name: str, word: str, text: str) -> KeyValue:
    """A date or a string; what could be more than one thing is refused, with the ways to say which."""
    if _DATE.fullmatch(text):
        return _read_date(name, text)
    for type_, form in _LOOKS_LIKE.items():
        if form.fullmatch(text):
            said = f"{name}:null" if type_ == "null" else f"{name}:{type_}={text}"
            raise KeyValueError(name, f"{text!r} needs a type; write {said} or {name}:string={text}")
    if text[1:2] == ":" and _is_canonical(word):
        raise KeyValueError(name, f"{text!r} is canonical text already; for a string of it write {name}:string={text}")
    return text


def _is_canonical(word: str) -> bool:
    try:
        PartitionKey.parse(word)
    except KeyFormatError:
        return False
    return True


def _read_string(_: str, text: str) -> str:
    return text


def _read_int(name: str, text: str) -> int:
    if not _INT.fullmatch(text):
        raise KeyValueError(name, f"{text!r} is not an int; write decimal digits, as in {name}:int=42")
    try:
        return int(text)
    except ValueError:  # Python stops at thousands of digits
        raise KeyValueError(name, f"an int of {len(text)} digits is over 64 bits") from None


def _read_bool(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise KeyValueError(name, f"{text!r} is not a bool; write {name}:bool=true or {name}:bool=false")
    return text == "true"


def _read_null(name: str, text: str) -> None:
    if text != "null":
        raise KeyValueError(name, f"null has no value, and {text!r} is one; write {name}:null")


def _read_date(name: str, text: str) -> date:
    if not _DATE.fullmatch(text):
        raise KeyValueError(name, f"{text!r} is not a date; write YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise KeyValueError(name, f"no such date as {text}: {error}; for a string write {name}:string={text}") from None


def _read_timestamp(name: str, text: str) -> datetime:
    form = _TIMESTAMP.fullmatch(text)
    if form is None:
        raise KeyValueError(name, f"{text!r} is not a timestamp; write ISO 8601 with a zone: 2025-01-15T10:30:00Z")
    if form["zone"] is None:
        raise KeyValueError(name, f"{text!r} has no time zone; append Z for UTC, or an offset as in +02:00")
    if (form["finer"] or "").strip("0"):
        raise KeyValueError(name, f"{text!r} is finer than a microsecond; round it first")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise KeyValueError(name, f"no such timestamp as {text}: {error}") from None


_READERS: dict[str, Callable[[str, str], KeyValue]] = {
    "string": _read_string,
    "int": _read_int,
    "bool": _read_bool,
    "date": _read_date,
    "timestamp": _read_timestamp,
    "null": _read_null,
}


def _key_of_json(line: str) -> PartitionKey:
    try:
        document = json.loads(line, object_pairs_hook=_once, parse_int=_json_int, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise PartitaError(f"not JSON: {error.msg}\n{caret(line, error.pos)}") from None
    except RecursionError:
        raise PartitaError("not a key: the JSON is nested too deeply") from None
    return PartitionKey({name: _json_value(name, value) for name, value in document.items()})


def _json_int(digits: str) -> int:
    return _read_int("of a JSON line", digits)


def _no_constant(constant: str) -> NoReturn:
    raise PartitaError(f"not JSON: {constant} is no JSON number, and no key holds floats")


def _json_value(name: str, value: object) -> object:
    """What JSON says is what it is: a string is a string; an object gives a type and a value."""
    if not isinstance(value, dict):
        return value
    type_ = _known_type(name, value.get("type"))
    if set(value) - {"type", "value"} or ("value" not in value and type_ != "null"):
        raise KeyValueError(name, 'a typed value is an object such as {"type": "date", "value": "2025-01-15"}')
    given = value.get("value")
    if given is None and type_ != "null":
        raise KeyValueError(name, f'null is no {type_}; write null, or {{"type": "null"}}')
    if isinstance(given, str):
        return _READERS[type_](name, given)
    if _NAMES.get(type(given)) != type_:
        raise KeyValueError(name, f"{json.dumps(given)} is no {type_}")
    return given
