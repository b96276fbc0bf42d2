"""Spark schemas in the JSON of `StructType.jsonValue()`, which the Delta log stores too; without pyspark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from partita.algebra.schema import Schema
from partita.algebra.type_text import MAX_TYPE_DEPTH, parse_type
from partita.algebra.types import (
    STRING,
    TIME,
    CharType,
    Field,
    ListType,
    LogicalType,
    MapType,
    StructType,
    TypeKind,
    VarcharType,
    list_type,
    map_type,
    other_type,
    struct_type,
)
from partita.errors import SchemaError


def schema_from_json(json: object) -> Schema:
    """Parse the JSON of a struct; an unknown type becomes an `OtherType` with Spark's name.

    Raises a `SchemaError` with the path, such as `fields[1].type.elementType`, if the JSON is not a schema.
    """
    if not isinstance(json, Mapping) or json.get("type") != "struct":
        raise SchemaError("a Spark schema must be a struct, as StructType.jsonValue() returns it")
    return Schema(_parse_fields(json, ""))


def schema_to_json(schema: Schema) -> dict[str, object]:
    """Return the JSON of a schema; raise a `SchemaError` with the column's name for a type that Delta does not have."""
    return _struct_json(schema.fields, "")


_COLLATIONS_KEY = "__COLLATIONS"
"""The key of a field's metadata for the collations of its strings, by their path."""
_BINARY_COLLATION = "UTF8_BINARY"

CHAR_VARCHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""The key of a column's metadata for its type with CHAR(n) and VARCHAR(n), which are strings in the type itself."""


def _parse_fields(struct: Mapping[str, Any], json_path: str) -> tuple[Field, ...]:
    fields = _json_member(struct, "fields", list, json_path)
    return tuple(_parse_field(f, f"{json_path}fields[{number}]") for number, f in enumerate(fields))


def _parse_field(json: object, json_path: str) -> Field:
    field = _check_json_kind(json, dict, json_path)
    json_path += "."
    name = _json_member(field, "name", str, json_path)
    type_ = _json_member(field, "type", object, json_path)
    metadata = _json_member(field, "metadata", dict, json_path) if field.get("metadata") is not None else {}
    collations = _json_member({_COLLATIONS_KEY: {}, **metadata}, _COLLATIONS_KEY, dict, f"{json_path}metadata.")
    nullable = _json_member({"nullable": True, **field}, "nullable", bool, json_path)
    data_type = _parse_data_type(type_, f"{json_path}type", name, collations)
    return Field(name, _restore_text_lengths(data_type, metadata.get(CHAR_VARCHAR_KEY)), nullable)


def _restore_text_lengths(type_: LogicalType, text: object) -> LogicalType:
    """Return the type with the lengths of its CHAR and VARCHAR types; without them if the metadata can't be parsed."""
    try:
        return type_ if text is None else _copy_text_lengths(type_, parse_type(str(text)))
    except SchemaError:
        return type_


def _copy_text_lengths(type_: LogicalType, declaration: LogicalType) -> LogicalType:
    if isinstance(declaration, CharType | VarcharType):
        return declaration if type_ == STRING else type_
    if (
        isinstance(type_, StructType)
        and isinstance(declaration, StructType)
        and len(type_.fields) == len(declaration.fields)
    ):
        pairs = zip(type_.fields, declaration.fields, strict=True)
        return struct_type(
            *(replace(f, type=_copy_text_lengths(f.type, declared_field.type)) for f, declared_field in pairs)
        )
    if isinstance(type_, ListType) and isinstance(declaration, ListType):
        return list_type(_copy_text_lengths(type_.element, declaration.element))
    if isinstance(type_, MapType) and isinstance(declaration, MapType):
        return map_type(
            _copy_text_lengths(type_.key, declaration.key), _copy_text_lengths(type_.value, declaration.value)
        )
    return type_


def _parse_data_type(json: object, json_path: str, column_path: str, collations: Mapping[str, Any]) -> LogicalType:
    """Parse the type at `json_path`; the collation of a string is that of its `column_path`."""
    if json_path.count(".") > 2 * MAX_TYPE_DEPTH:
        raise SchemaError(f"not a Spark schema: a type is nested more than {MAX_TYPE_DEPTH} levels deep")
    if isinstance(json, str):
        collation = _json_member({column_path: _BINARY_COLLATION, **collations}, column_path, str, "the collation of ")
        # `provider.NAME`, optionally with a version of the provider.
        return _primitive_type(json, (collation.split(".")[1:] or [collation])[0])
    if not isinstance(json, dict):
        raise SchemaError(f"not a Spark schema: {json_path} must be text or an object, found {_short_repr(json)}")
    type_json, json_path = json, f"{json_path}."
    type_name = _json_member(type_json, "type", str, json_path)
    if type_name == "struct":
        return struct_type(*_parse_fields(type_json, json_path))

    def child_type(key: str, step: str) -> LogicalType:
        return _parse_data_type(
            _json_member(type_json, key, object, json_path), json_path + key, f"{column_path}.{step}", collations
        )

    if type_name == "array":
        return list_type(child_type("elementType", "element"))
    if type_name == "map":
        return map_type(child_type("keyType", "key"), child_type("valueType", "value"))
    return other_type(type_name)


_TIME_PATTERN = re.compile(r"time\([0-6]\)")


def _primitive_type(name: str, collation: str) -> LogicalType:
    if name == "string":
        return STRING if collation == _BINARY_COLLATION else other_type(f"string collate {collation}")
    if _TIME_PATTERN.fullmatch(name):
        return TIME
    try:
        return parse_type(name)
    except SchemaError:
        return other_type(name)


_T = TypeVar("_T")
_JSON_KIND_NAMES = {dict: "an object", list: "an array", str: "text", bool: "true or false"}


def _json_member(json: Mapping[str, Any], key: str, kind: type[_T], json_path: str) -> _T:
    """Return a member of the JSON object at `json_path`; raise `SchemaError` if it is missing or of another kind."""
    if key not in json:
        raise SchemaError(f"not a Spark schema: {json_path}{key} is missing")
    return _check_json_kind(json[key], kind, json_path + key)


def _check_json_kind(json: object, kind: type[_T], json_path: str) -> _T:
    if not isinstance(json, kind):
        raise SchemaError(
            f"not a Spark schema: {json_path} must be {_JSON_KIND_NAMES[kind]}, found {_short_repr(json)}"
        )
    return json


def _short_repr(json: object) -> str:
    text = repr(json)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _struct_json(fields: tuple[Field, ...], prefix: str) -> dict[str, object]:
    return {"type": "struct", "fields": [_field_json(f, f"{prefix}{f.name}") for f in fields]}


def _field_json(field: Field, path: str) -> dict[str, object]:
    # Spark stores the lengths in the metadata of the column, not in that of nested fields.
    metadata = (
        {CHAR_VARCHAR_KEY: spark_type_text(field.type)} if path == field.name and has_text_lengths(field.type) else {}
    )
    return {"name": field.name, "type": _type_json(field.type, path), "nullable": field.nullable, "metadata": metadata}


def has_text_lengths(type_: LogicalType) -> bool:
    """Return whether a type contains CHAR(n) or VARCHAR(n)."""
    if isinstance(type_, StructType):
        return any(has_text_lengths(f.type) for f in type_.fields)
    if isinstance(type_, ListType):
        return has_text_lengths(type_.element)
    if isinstance(type_, MapType):
        return has_text_lengths(type_.key) or has_text_lengths(type_.value)
    return isinstance(type_, CharType | VarcharType)


def spark_type_text(type_: LogicalType) -> str:
    """Return Spark's name of a type, such as `struct<a:char(4),b:array<bigint>>`."""
    if isinstance(type_, StructType):
        return f"struct<{','.join(f'{_quote_field_name(f.name)}:{spark_type_text(f.type)}' for f in type_.fields)}>"
    if isinstance(type_, ListType):
        return f"array<{spark_type_text(type_.element)}>"
    if isinstance(type_, MapType):
        return f"map<{spark_type_text(type_.key)},{spark_type_text(type_.value)}>"
    return _SPARK_TYPE_NAMES.get(type_.kind, str(type_))


_SPARK_TYPE_NAMES = {TypeKind.BYTE: "tinyint", TypeKind.SHORT: "smallint", TypeKind.LONG: "bigint"}


def _quote_field_name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def _type_json(type_: LogicalType, path: str) -> object:
    if isinstance(type_, StructType):
        return _struct_json(type_.fields, f"{path}.")
    if isinstance(type_, ListType):
        return {"type": "array", "elementType": _type_json(type_.element, f"{path}.element"), "containsNull": True}
    if isinstance(type_, MapType):
        key, value = _type_json(type_.key, f"{path}.key"), _type_json(type_.value, f"{path}.value")
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if type_.kind in _KINDS_NOT_IN_DELTA:
        raise SchemaError(f"column {path!r} has type {type_}, which Delta does not have")
    if type_.kind is TypeKind.STRING:
        return "string"
    return "integer" if type_.kind is TypeKind.INT else str(type_)


_KINDS_NOT_IN_DELTA = frozenset({TypeKind.TIME, TypeKind.FIXED, TypeKind.UUID, TypeKind.NULL, TypeKind.OTHER})
