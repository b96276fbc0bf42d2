"""Spark's schemas, in the JSON that `StructType.jsonValue()` gives and Delta's log keeps; without pyspark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from partita.algebra.schema import Schema
from partita.algebra.type_text import MAX_DEPTH, parse_type
from partita.algebra.types import (
    STRING,
    TIME,
    CharType,
    Field,
    Kind,
    ListType,
    LogicalType,
    MapType,
    StructType,
    VarcharType,
    list_of,
    map_of,
    other,
    struct_of,
)
from partita.errors import SchemaError


def schema_from_json(json: object) -> Schema:
    """The schema of a struct's JSON; what Partita doesn't know in it becomes an `other` type under Spark's name.

    JSON that says no schema is a `SchemaError` with the place, as in `fields[1].type.elementType`.
    """
    if not isinstance(json, Mapping) or json.get("type") != "struct":
        raise SchemaError("a Spark schema is a struct, as StructType.jsonValue() gives it")
    return Schema(_fields(json, ""))


def schema_to_json(schema: Schema) -> dict[str, object]:
    """The JSON of a schema; a type that Delta's schemas don't have is a `SchemaError` with the column's name."""
    return _struct_json(schema.fields, "")


_COLLATIONS = "__COLLATIONS"
"""Where a field's metadata says how the strings in it compare, by the path to each."""
_BINARY = "UTF8_BINARY"

TEXT_LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
"""Where a column's metadata says its type with CHAR(n) and VARCHAR(n); in the type itself they are strings."""


def _fields(struct: Mapping[str, Any], at: str) -> tuple[Field, ...]:
    fields = _part(struct, "fields", list, at)
    return tuple(_field(f, f"{at}fields[{number}]") for number, f in enumerate(fields))


def _field(json: object, at: str) -> Field:
    field = _of_kind(json, dict, at)
    at += "."
    name = _part(field, "name", str, at)
    type_ = _part(field, "type", object, at)
    metadata = _part(field, "metadata", dict, at) if field.get("metadata") is not None else {}
    collations = _part({_COLLATIONS: {}, **metadata}, _COLLATIONS, dict, f"{at}metadata.")
    nullable = _part({"nullable": True, **field}, "nullable", bool, at)
    found = _type(type_, f"{at}type", name, collations)
    return Field(name, _with_lengths(found, metadata.get(TEXT_LENGTHS)), nullable)


def _with_lengths(type_: LogicalType, text: object) -> LogicalType:
    """The type with the lengths of the texts in it; where the metadata can't be read, without."""
    try:
        return type_ if text is None else _with_lengths_of(type_, parse_type(str(text)))
    except SchemaError:
        return type_


def _with_lengths_of(type_: LogicalType, declared: LogicalType) -> LogicalType:
    if isinstance(declared, CharType | VarcharType):
        return declared if type_ == STRING else type_
    if isinstance(type_, StructType) and isinstance(declared, StructType) and len(type_.fields) == len(declared.fields):
        pairs = zip(type_.fields, declared.fields, strict=True)
        return struct_of(*(replace(own, type=_with_lengths_of(own.type, other.type)) for own, other in pairs))
    if isinstance(type_, ListType) and isinstance(declared, ListType):
        return list_of(_with_lengths_of(type_.element, declared.element))
    if isinstance(type_, MapType) and isinstance(declared, MapType):
        return map_of(_with_lengths_of(type_.key, declared.key), _with_lengths_of(type_.value, declared.value))
    return type_


def _type(json: object, at: str, path: str, collations: Mapping[str, Any]) -> LogicalType:
    """The type at that place of the document, whose strings compare as the collation under `path` says."""
    if at.count(".") > 2 * MAX_DEPTH:
        raise SchemaError(f"not a Spark schema: a type nested over {MAX_DEPTH} levels deep")
    if isinstance(json, str):
        collation = _part({path: _BINARY, **collations}, path, str, "the collation of ")
        # `provider.NAME`, and a version of the provider's perhaps.
        return _atom(json, (collation.split(".")[1:] or [collation])[0])
    if not isinstance(json, dict):
        raise SchemaError(f"not a Spark schema: {at} must be text or an object, found {_shown(json)}")
    nested, at = json, f"{at}."
    word = _part(nested, "type", str, at)
    if word == "struct":
        return struct_of(*_fields(nested, at))

    def inner(key: str, step: str) -> LogicalType:
        return _type(_part(nested, key, object, at), at + key, f"{path}.{step}", collations)

    if word == "array":
        return list_of(inner("elementType", "element"))
    if word == "map":
        return map_of(inner("keyType", "key"), inner("valueType", "value"))
    return other(word)


_TIME = re.compile(r"time\([0-6]\)")


def _atom(name: str, collation: str) -> LogicalType:
    if name == "string":
        return STRING if collation == _BINARY else other(f"string collate {collation}")
    if _TIME.fullmatch(name):
        return TIME
    try:
        return parse_type(name)
    except SchemaError:
        return other(name)


_T = TypeVar("_T")
_KINDS = {dict: "an object", list: "an array", str: "text", bool: "true or false"}


def _part(json: Mapping[str, Any], key: str, kind: type[_T], at: str) -> _T:
    """What stands under that key of an object, where `at` is the place of the object."""
    if key not in json:
        raise SchemaError(f"not a Spark schema: {at}{key} is missing")
    return _of_kind(json[key], kind, at + key)


def _of_kind(json: object, kind: type[_T], at: str) -> _T:
    if not isinstance(json, kind):
        raise SchemaError(f"not a Spark schema: {at} must be {_KINDS[kind]}, found {_shown(json)}")
    return json


def _shown(json: object) -> str:
    text = repr(json)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _struct_json(fields: tuple[Field, ...], prefix: str) -> dict[str, object]:
    return {"type": "struct", "fields": [_field_json(f, f"{prefix}{f.name}") for f in fields]}


def _field_json(field: Field, path: str) -> dict[str, object]:
    # Spark keeps the lengths of texts with the column, and not with the fields inside of it.
    metadata = {TEXT_LENGTHS: spark_type_text(field.type)} if path == field.name and has_lengths(field.type) else {}
    return {"name": field.name, "type": _type_json(field.type, path), "nullable": field.nullable, "metadata": metadata}


def has_lengths(type_: LogicalType) -> bool:
    """Whether a type has CHAR(n) or VARCHAR(n) in it."""
    if isinstance(type_, StructType):
        return any(has_lengths(f.type) for f in type_.fields)
    if isinstance(type_, ListType):
        return has_lengths(type_.element)
    if isinstance(type_, MapType):
        return has_lengths(type_.key) or has_lengths(type_.value)
    return isinstance(type_, CharType | VarcharType)


def spark_type_text(type_: LogicalType) -> str:
    """A type in Spark's words: `struct<a:char(4),b:array<bigint>>`."""
    if isinstance(type_, StructType):
        return f"struct<{','.join(f'{_quoted(f.name)}:{spark_type_text(f.type)}' for f in type_.fields)}>"
    if isinstance(type_, ListType):
        return f"array<{spark_type_text(type_.element)}>"
    if isinstance(type_, MapType):
        return f"map<{spark_type_text(type_.key)},{spark_type_text(type_.value)}>"
    return _SPARK_WORDS.get(type_.kind, str(type_))


_SPARK_WORDS = {Kind.BYTE: "tinyint", Kind.SHORT: "smallint", Kind.LONG: "bigint"}


def _quoted(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def _type_json(type_: LogicalType, path: str) -> object:
    if isinstance(type_, StructType):
        return _struct_json(type_.fields, f"{path}.")
    if isinstance(type_, ListType):
        return {"type": "array", "elementType": _type_json(type_.element, f"{path}.element"), "containsNull": True}
    if isinstance(type_, MapType):
        key, value = _type_json(type_.key, f"{path}.key"), _type_json(type_.value, f"{path}.value")
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if type_.kind in _NOT_IN_DELTA:
        raise SchemaError(f"column {path!r} is of type {type_}, which Delta's schemas don't have")
    if type_.kind is Kind.STRING:
        return "string"
    return "integer" if type_.kind is Kind.INT else str(type_)


_NOT_IN_DELTA = frozenset({Kind.TIME, Kind.FIXED, Kind.UUID, Kind.NULL, Kind.OTHER})
