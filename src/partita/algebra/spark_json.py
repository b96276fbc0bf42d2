"""Spark's schemas, in the JSON that `StructType.jsonValue()` gives and Delta's log keeps; without pyspark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from partita.algebra.schema import Schema
from partita.algebra.type_text import parse_type
from partita.algebra.types import STRING, TIME, Field, LogicalType, list_of, map_of, other, struct_of
from partita.errors import SchemaError


def schema_from_json(json: object) -> Schema:
    """The schema of a struct's JSON; what Partita doesn't know in it becomes an `other` type under Spark's name."""
    if not isinstance(json, Mapping) or json.get("type") != "struct":
        raise SchemaError("a Spark schema is a struct, as StructType.jsonValue() gives it")
    return Schema(tuple(_field(f) for f in json["fields"]))


_COLLATIONS = "__COLLATIONS"
"""Where a field's metadata says how the strings in it compare, by the path to each."""
_BINARY = "UTF8_BINARY"


def _field(json: Mapping[str, Any]) -> Field:
    collations = (json.get("metadata") or {}).get(_COLLATIONS, {})
    return Field(json["name"], _type(json["type"], json["name"], collations), json.get("nullable", True))


def _type(json: object, path: str, collations: Mapping[str, str]) -> LogicalType:
    if isinstance(json, str):
        return _atom(json, collations.get(path, _BINARY).rpartition(".")[2])
    nested = cast("Mapping[str, Any]", json)
    if nested["type"] == "struct":
        return struct_of(*(_field(f) for f in nested["fields"]))
    if nested["type"] == "array":
        return list_of(_type(nested["elementType"], f"{path}.element", collations))
    if nested["type"] == "map":
        key = _type(nested["keyType"], f"{path}.key", collations)
        return map_of(key, _type(nested["valueType"], f"{path}.value", collations))
    return other(str(nested["type"]))


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
