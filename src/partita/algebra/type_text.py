"""Parser for the names of types, as Partita or Spark writes them."""

from __future__ import annotations

import re

from partita.algebra.types import (
    Field,
    LogicalType,
    TypeKind,
    char_type,
    decimal_type,
    fixed_type,
    list_type,
    map_type,
    struct_type,
    varchar_type,
)
from partita.errors import SchemaError

MAX_TYPE_DEPTH = 64


def parse_type(text: str) -> LogicalType:
    """Parse the name of a type, such as `bigint`, `decimal(4,2)` or `array<date>`; raise `SchemaError` if unknown."""
    if not isinstance(text, str):
        raise SchemaError(f"the name of a type must be a string, not {text!r}")
    type_, rest = _parse_type(text.strip(), text, 0)
    if rest.strip():
        raise SchemaError(f"{text!r} is not a type: unexpected {rest.strip()!r} at the end")
    return type_


_ALIASES = {
    "bool": "boolean", "tinyint": "byte", "smallint": "short", "integer": "int", "bigint": "long", "real": "float",
    "timestamp_ltz": "timestamp", "timestamptz": "timestamp", "array": "list", "null": "void",
}  # fmt: skip
_TYPE_PATTERN = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(\s*([0-9]{1,10})\s*(?:,\s*([0-9]{1,10})\s*)?\))?\s*")
_FIELD_NAME_PATTERN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:<>,`]+))\s*:")


def _parse_type(text: str, full_text: str, depth: int) -> tuple[LogicalType, str]:
    if depth > MAX_TYPE_DEPTH:
        raise SchemaError(f"a type may be nested at most {MAX_TYPE_DEPTH} levels deep")
    match = _TYPE_PATTERN.match(text)
    if match is None:
        raise SchemaError(f"{full_text!r} is not a type: a name is expected at {text[:20]!r}")
    name = match[1].lower()
    name = _ALIASES.get(name, name)
    rest = text[match.end() :]
    numbers = [int(n) for n in match.groups()[1:] if n is not None]
    if name in ("list", "map", "struct"):
        return _parse_nested(name, rest, full_text, depth + 1)
    if name == "decimal" and len(numbers) <= 2:
        return decimal_type(*(numbers + [10, 0][len(numbers) :])), rest
    if name == "fixed" and len(numbers) == 1:
        return fixed_type(numbers[0]), rest
    if name in _TEXT_TYPES and len(numbers) == 1 and numbers[0] > 0:
        return _TEXT_TYPES[name](numbers[0]), rest
    if name not in _PRIMITIVE_NAMES or numbers:
        raise SchemaError(f"{full_text!r} is not a type: unknown name {match[0].strip()!r}")
    return LogicalType(TypeKind(name)), rest


_TEXT_TYPES = {"varchar": varchar_type, "char": char_type, "character": char_type}
_PRIMITIVE_NAMES = {k.value for k in TypeKind} - {"decimal", "fixed", "struct", "list", "map", "other"}


def _parse_nested(name: str, text: str, full_text: str, depth: int) -> tuple[LogicalType, str]:
    items: list[Field] = []
    rest = _expect_mark(text, "<", full_text)
    while not rest.lstrip().startswith(">"):
        rest = _expect_mark(rest, ",", full_text) if items else rest
        field_name = _FIELD_NAME_PATTERN.match(rest) if name == "struct" else None
        if name == "struct" and field_name is None:
            raise SchemaError(f"{full_text!r} is not a type: a field of a struct must be name:type")
        item, rest = _parse_type(rest[field_name.end() :] if field_name else rest, full_text, depth)
        label = ""
        if field_name is not None:
            label = field_name[2] if field_name[1] is None else field_name[1].replace("``", "`")
        items.append(Field(label, item))
    rest = _expect_mark(rest, ">", full_text)
    if name == "struct":
        return struct_type(*items), rest
    if len(items) != (1 if name == "list" else 2):
        raise SchemaError(f"{full_text!r} is not a type: {name} has {len(items)} parts")
    return (list_type(items[0].type) if name == "list" else map_type(items[0].type, items[1].type)), rest


def _expect_mark(text: str, mark: str, full_text: str) -> str:
    remaining_text = text.lstrip()
    if not remaining_text.startswith(mark):
        raise SchemaError(f"{full_text!r} is not a type: {mark!r} is missing")
    return remaining_text[1:]
