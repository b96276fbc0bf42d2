"""The names of types as text, read by Partita's names or Spark's."""

from __future__ import annotations

import re

from partita.algebra.types import (
    Field,
    Kind,
    LogicalType,
    char,
    decimal,
    fixed,
    list_of,
    map_of,
    struct_of,
    varchar,
)
from partita.errors import SchemaError

MAX_DEPTH = 64


def parse_type(text: str) -> LogicalType:
    """The type that a text names, by Partita's names or Spark's: `long`, `bigint`, `decimal(4,2)`, `array<date>`."""
    if not isinstance(text, str):
        raise SchemaError(f"a type is named by text, not by {text!r}")
    found, rest = _read_type(text.strip(), text, 0)
    if rest.strip():
        raise SchemaError(f"{text!r} is not a type: {rest.strip()!r} is left over")
    return found


_ALIASES = {
    "bool": "boolean", "tinyint": "byte", "smallint": "short", "integer": "int", "bigint": "long", "real": "float",
    "timestamp_ltz": "timestamp", "timestamptz": "timestamp", "array": "list", "null": "void",
}  # fmt: skip
_WORD = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(\s*([0-9]{1,10})\s*(?:,\s*([0-9]{1,10})\s*)?\))?\s*")
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:<>,`]+))\s*:")


def _read_type(text: str, whole: str, depth: int) -> tuple[LogicalType, str]:
    if depth > MAX_DEPTH:
        raise SchemaError(f"a type nested over {MAX_DEPTH} levels deep")
    match = _WORD.match(text)
    if match is None:
        raise SchemaError(f"{whole!r} is not a type: no name at {text[:20]!r}")
    word = match[1].lower()
    word = _ALIASES.get(word, word)
    rest = text[match.end() :]
    numbers = [int(n) for n in match.groups()[1:] if n is not None]
    if word in ("list", "map", "struct"):
        return _read_nested(word, rest, whole, depth + 1)
    if word == "decimal" and len(numbers) <= 2:
        return decimal(*(numbers + [10, 0][len(numbers) :])), rest
    if word == "fixed" and len(numbers) == 1:
        return fixed(numbers[0]), rest
    if word in _TEXTS and len(numbers) == 1 and numbers[0] > 0:
        return _TEXTS[word](numbers[0]), rest
    if word not in _ATOMS or numbers:
        raise SchemaError(f"{whole!r} is not a type: unknown name {match[0].strip()!r}")
    return LogicalType(Kind(word)), rest


_TEXTS = {"varchar": varchar, "char": char, "character": char}
_ATOMS = {k.value for k in Kind} - {"decimal", "fixed", "struct", "list", "map", "other"}


def _read_nested(word: str, text: str, whole: str, depth: int) -> tuple[LogicalType, str]:
    items: list[Field] = []
    rest = _expect(text, "<", whole)
    while not rest.lstrip().startswith(">"):
        rest = _expect(rest, ",", whole) if items else rest
        name = _NAME.match(rest) if word == "struct" else None
        if word == "struct" and name is None:
            raise SchemaError(f"{whole!r} is not a type: a struct's field is name:type")
        item, rest = _read_type(rest[name.end() :] if name else rest, whole, depth)
        label = (name[1].replace("``", "`") if name[1] is not None else name[2]) if name else ""
        items.append(Field(label, item))
    rest = _expect(rest, ">", whole)
    if word == "struct":
        return struct_of(*items), rest
    if len(items) != (1 if word == "list" else 2):
        raise SchemaError(f"{whole!r} is not a type: {word} has {len(items)} parts")
    return (list_of(items[0].type) if word == "list" else map_of(items[0].type, items[1].type)), rest


def _expect(text: str, mark: str, whole: str) -> str:
    stripped = text.lstrip()
    if not stripped.startswith(mark):
        raise SchemaError(f"{whole!r} is not a type: {mark!r} is missing")
    return stripped[1:]
