"""Spark's schemas, in the JSON that `StructType.jsonValue()` gives and Delta's log keeps; without pyspark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from partita.algebra.schema import Schema
from partita.algebra.type_text import parse_type
from partita.algebra.types import (
    STRING,
    TIME,
    Field,
    Kind,
    ListType,
    LogicalType,
    MapType,
    StructType,
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
    return Field(name, _type(type_, f"{at}type", name, collations), nullable)


def _type(json: object, at: str, path: str, collations: Mapping[str, Any]) -> LogicalType:
    """The type at that place of the document, whose strings compare as the collation under `path` says."""
    if isinstance(json, str):
        collation = _part({path: _BINARY, **collations}, path, str, "the collation of ")
        return _atom(json, collation.rpartition(".")[2])
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


_TEXT = re.compile(r"string|varchar\(\d+\)")
_TIME = re.compile(r"time\([0-6]\)")


def _atom(name: str, collation: str) -> LogicalType:
    if _TEXT.fullmatch(name):
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
    return {"name": field.name, "type": _type_json(field.type, path), "nullable": field.nullable, "metadata": {}}


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
    return "integer" if type_.kind is Kind.INT else str(type_)


_NOT_IN_DELTA = frozenset({Kind.TIME, Kind.FIXED, Kind.UUID, Kind.NULL, Kind.OTHER})
