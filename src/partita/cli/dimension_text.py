"""Parsing of the dimensions that users type: `date=2025-01-15`, `count:int=42`, or a line of JSON.

A value without a type is a date if it has the form of one, and a string if it can't be mistaken for another type. An
ambiguous value such as `count=42` is refused, because a key with the wrong type silently names another partition.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import NoReturn

from partita.algebra.key import PartitionKey, check_dimension_name
from partita.algebra.key_text import KeyValue
from partita.errors import KeyFormatError, KeyValueError, PartitaError, caret_lines

KEY_TYPES = {
    "string": ("str", "s"),
    "int": ("long", "i"),
    "bool": ("b",),
    "date": ("d",),
    "timestamp": ("t",),
    "null": ("n",),
}
"""The types of key values, each with its aliases."""


def key_from_words(words: Iterable[str]) -> PartitionKey:
    """Parse a key from words such as `date=2025-01-15`, `count:int=42` and `missing:null`."""
    return PartitionKey(_unique_dimensions(_parse_dimension(word) for word in words))


def key_from_line(line: str) -> PartitionKey:
    """Parse a key from a line: a JSON object, or words that may be quoted as in a shell."""
    return _key_from_json(line) if line.lstrip().startswith("{") else key_from_words(_split_words(line))


def key_type_name(value: KeyValue) -> str:
    """Return the name of a value's type, as users write it."""
    return _TYPE_NAMES[type(value)]


_TYPE_NAMES = {str: "string", int: "int", bool: "bool", date: "date", datetime: "timestamp", type(None): "null"}
_TYPE_ALIASES = {alias: name for name, aliases in KEY_TYPES.items() for alias in (name, *aliases)}


_QUOTE_PATTERN = re.compile(r"""['"\\]""")
_WORD_PATTERN = re.compile(r"[^ \t\r\n]+")  # splits as shlex does, in a twentieth of the time


def _split_words(line: str) -> list[str]:
    if not _QUOTE_PATTERN.search(line):
        return _WORD_PATTERN.findall(line)
    try:
        return shlex.split(line)
    except ValueError as error:
        raise PartitaError(f"can't split the line into words: {error}") from None


def _unique_dimensions(dimensions: Iterable[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in dimensions:
        if name in values:
            raise KeyValueError(name, "given twice")
        values[name] = value
    return values


def _parse_dimension(word: str) -> tuple[str, KeyValue]:
    head, equals, text = word.partition("=")
    name, colon, type_ = head.partition(":")
    check_dimension_name(name)
    if not equals:
        if colon and _TYPE_ALIASES.get(type_) == "null":
            return name, None
        raise KeyValueError(name, f"the value is missing; write {head}=VALUE, or {name}:null for null")
    return name, _parse_typed_value(name, type_, text) if colon else _parse_untyped_value(name, word, text)


def _parse_typed_value(name: str, type_: str, text: str) -> KeyValue:
    return _VALUE_PARSERS[_canonical_type_name(name, type_)](name, text)


def _canonical_type_name(name: str, type_: object) -> str:
    if not isinstance(type_, str) or type_ not in _TYPE_ALIASES:
        raise KeyValueError(name, f"{type_!r} is not a type; the types are {', '.join(KEY_TYPES)}")
    return _TYPE_ALIASES[type_]


_DATE_PATTERN = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INT_PATTERN = re.compile("[+-]?[0-9]+")
_TIMESTAMP_PATTERN = re.compile(
    "(?P<day>[0-9]{4}-?[0-9]{2}-?[0-9]{2}|[0-9]{4}-?W[0-9]{2}-?[0-9])[T ]"
    "(?P<time>[0-9:]+([.,](?P<micros>[0-9]{1,6})(?P<finer>[0-9]*))?)(?P<zone>Z|[+-][0-9:]+)?"
)
_AMBIGUOUS_PATTERNS = {
    "int": _INT_PATTERN,
    "bool": re.compile("true|false", re.IGNORECASE),
    "null": re.compile("null", re.IGNORECASE),
    "timestamp": re.compile(f"{_DATE_PATTERN.pattern}[T ][0-9].*", re.DOTALL),
}


def _parse_untyped_value(name: str, word: str, text: str) -> KeyValue:
    """Parse a date or a string; raise `KeyValueError` for text that could have several types."""
    if _DATE_PATTERN.fullmatch(text):
        return _parse_date(name, text)
    for type_, pattern in _AMBIGUOUS_PATTERNS.items():
        if pattern.fullmatch(text):
            typed_word = f"{name}:null" if type_ == "null" else f"{name}:{type_}={text}"
            raise KeyValueError(name, f"{text!r} needs a type; write {typed_word} or {name}:string={text}")
    if text[1:2] == ":" and _is_canonical_text(word):
        raise KeyValueError(name, f"{text!r} is canonical text already; if it is a string write {name}:string={text}")
    return text


def _is_canonical_text(word: str) -> bool:
    try:
        PartitionKey.parse(word)
    except KeyFormatError:
        return False
    return True


def _parse_string(_: str, text: str) -> str:
    return text


def _parse_int(name: str, text: str) -> int:
    if not _INT_PATTERN.fullmatch(text):
        raise KeyValueError(name, f"{text!r} is not an int; write decimal digits, as in {name}:int=42")
    try:
        return int(text)
    except ValueError:  # Python limits the number of digits
        raise KeyValueError(name, f"an int of {len(text)} digits does not fit into 64 bits") from None


def _parse_bool(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise KeyValueError(name, f"{text!r} is not a bool; write {name}:bool=true or {name}:bool=false")
    return text == "true"


def _parse_null(name: str, text: str) -> None:
    if text != "null":
        raise KeyValueError(name, f"the type null takes no value, not {text!r}; write {name}:null")


def _parse_date(name: str, text: str) -> date:
    if not _DATE_PATTERN.fullmatch(text):
        raise KeyValueError(name, f"{text!r} is not a date; write YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise KeyValueError(
            name, f"the date {text} does not exist: {error}; if it is a string write {name}:string={text}"
        ) from None


def _parse_timestamp(name: str, text: str) -> datetime:
    match = _TIMESTAMP_PATTERN.fullmatch(text)
    if match is None:
        raise KeyValueError(name, f"{text!r} is not a timestamp; write ISO 8601 with an offset: 2025-01-15T10:30:00Z")
    if match["zone"] is None:
        raise KeyValueError(name, f"{text!r} has no time zone; append Z for UTC, or an offset as in +02:00")
    if (match["finer"] or "").strip("0"):
        raise KeyValueError(name, f"{text!r} is finer than a microsecond; round it first")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise KeyValueError(name, f"the timestamp {text} does not exist: {error}") from None


_VALUE_PARSERS: dict[str, Callable[[str, str], KeyValue]] = {
    "string": _parse_string,
    "int": _parse_int,
    "bool": _parse_bool,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "null": _parse_null,
}


def _key_from_json(line: str) -> PartitionKey:
    try:
        document = json.loads(
            line, object_pairs_hook=_unique_dimensions, parse_int=_parse_json_int, parse_constant=_reject_json_constant
        )
    except json.JSONDecodeError as error:
        raise PartitaError(f"the line is not JSON: {error.msg}\n{caret_lines(line, error.pos)}") from None
    except RecursionError:
        raise PartitaError("the line is not a key: the JSON is nested too deeply") from None
    return PartitionKey({name: _parse_json_value(name, value) for name, value in document.items()})


def _parse_json_int(digits: str) -> int:
    return _parse_int("of a JSON line", digits)


def _reject_json_constant(constant: str) -> NoReturn:
    raise PartitaError(f"the line is not JSON: {constant} is not a number of JSON, and keys have no floats")


def _parse_json_value(name: str, value: object) -> object:
    """Return a JSON value as it is, without guessing a type; an object names a type and a value."""
    if not isinstance(value, dict):
        return value
    type_ = _canonical_type_name(name, value.get("type"))
    if set(value) - {"type", "value"} or ("value" not in value and type_ != "null"):
        raise KeyValueError(name, 'a typed value is an object such as {"type": "date", "value": "2025-01-15"}')
    typed_value = value.get("value")
    if typed_value is None and type_ != "null":
        raise KeyValueError(name, f'null does not have the type {type_}; write null, or {{"type": "null"}}')
    if isinstance(typed_value, str):
        return _VALUE_PARSERS[type_](name, typed_value)
    if _TYPE_NAMES.get(type(typed_value)) != type_:
        raise KeyValueError(name, f"{json.dumps(typed_value)} does not have the type {type_}")
    return typed_value
