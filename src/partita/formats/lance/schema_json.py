"""Arrow schemas as JSON: the property `lance.partitioning.schema` (Lance partition spec, section 3.1).

The shorter JSON of lance-namespace, `{"type": "int64"}`, is parsed as well. A type without a JSON form raises
`SchemaError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as arrow_types

from partita.errors import SchemaError
from partita.untrusted_input import parse_json_object, translate_read_errors

_UNIT_NAMES = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND", "ns": "NANOSECOND"}
_UNITS_BY_NAME = {long: short for short, long in _UNIT_NAMES.items()}
_EXTENSION_NAME_KEY = "ARROW:extension:name"


def schema_to_json(schema: pa.Schema) -> str:
    """Format a schema as JSON."""
    return json.dumps({"fields": [_field_to_json(f) for f in schema]}, ensure_ascii=False)


def schema_from_json(text: str) -> pa.Schema:
    """Parse a schema of either form; raise `SchemaError` if it can't be parsed."""
    with translate_read_errors("lance.partitioning.schema, an Arrow schema in JSON,", SchemaError):
        fields = (document := parse_json_object(text))["fields"]
        if any(isinstance(f["type"], Mapping) and "type" in f["type"] for f in fields):
            from lance.schema import json_to_schema

            return json_to_schema(document)
        return pa.schema([_field_from_json(f) for f in fields])


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    type_ = field.type
    if isinstance(type_, pa.BaseExtensionType):
        metadata |= {_EXTENSION_NAME_KEY: type_.extension_name, "ARROW:extension:metadata": ""}
        type_ = type_.storage_type
    document: dict[str, Any] = {
        "name": field.name,
        "nullable": field.nullable,
        "type": _type_to_json(type_, field.name),
        "children": [_field_to_json(child) for child in _child_fields(type_)],
    }
    if metadata:
        document["metadata"] = [{"key": key, "value": value} for key, value in metadata.items()]
    return document


def _child_fields(type_: pa.DataType) -> Sequence[pa.Field]:
    if arrow_types.is_struct(type_):
        return [type_.field(i) for i in range(type_.num_fields)]
    if arrow_types.is_map(type_):
        return [pa.field("entries", pa.struct([type_.key_field, type_.item_field]), nullable=False)]
    return [type_.value_field] if _is_list(type_) else []


def _is_list(type_: pa.DataType) -> bool:
    return bool(arrow_types.is_list(type_) or arrow_types.is_large_list(type_) or arrow_types.is_fixed_size_list(type_))


def _type_to_json(type_: pa.DataType, name: str) -> dict[str, Any]:
    for matches, write in _TYPE_WRITERS:
        if matches(type_):
            return write(type_)
    raise SchemaError(f"column {name!r}: the schema of a Lance table can't hold the type {type_}")


_TYPE_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], dict[str, Any]]], ...] = (
    (arrow_types.is_boolean, lambda _: {"name": "bool"}),
    (arrow_types.is_integer, lambda t: {"name": "int", "bitWidth": t.bit_width, "isSigned": str(t).startswith("int")}),
    (arrow_types.is_float16, lambda _: {"name": "floatingpoint", "precision": "HALF"}),
    (arrow_types.is_float32, lambda _: {"name": "floatingpoint", "precision": "SINGLE"}),
    (arrow_types.is_float64, lambda _: {"name": "floatingpoint", "precision": "DOUBLE"}),
    (
        arrow_types.is_decimal,
        lambda t: {"name": "decimal", "precision": t.precision, "scale": t.scale, "bitWidth": t.bit_width},
    ),
    (arrow_types.is_date32, lambda _: {"name": "date", "unit": "DAY"}),
    (arrow_types.is_date64, lambda _: {"name": "date", "unit": "MILLISECOND"}),
    (arrow_types.is_time, lambda t: {"name": "time", "unit": _UNIT_NAMES[t.unit], "bitWidth": t.bit_width}),
    (
        arrow_types.is_timestamp,
        lambda t: {"name": "timestamp", "unit": _UNIT_NAMES[t.unit]} | ({"timezone": t.tz} if t.tz else {}),
    ),
    (arrow_types.is_string, lambda _: {"name": "utf8"}),
    (arrow_types.is_large_string, lambda _: {"name": "largeutf8"}),
    (arrow_types.is_fixed_size_binary, lambda t: {"name": "fixedsizebinary", "byteWidth": t.byte_width}),
    (arrow_types.is_binary, lambda _: {"name": "binary"}),
    (arrow_types.is_large_binary, lambda _: {"name": "largebinary"}),
    (arrow_types.is_fixed_size_list, lambda t: {"name": "fixedsizelist", "listSize": t.list_size}),
    (arrow_types.is_large_list, lambda _: {"name": "largelist"}),
    (arrow_types.is_list, lambda _: {"name": "list"}),
    (arrow_types.is_struct, lambda _: {"name": "struct"}),
    (arrow_types.is_map, lambda t: {"name": "map", "keysSorted": t.keys_sorted}),
)


def _field_from_json(document: Mapping[str, Any]) -> pa.Field:
    children = [_field_from_json(child) for child in document.get("children") or ()]
    type_ = _TYPE_READERS[document["type"]["name"]](document["type"], children)
    metadata = {pair["key"]: pair["value"] for pair in document.get("metadata") or ()}
    if metadata.pop(_EXTENSION_NAME_KEY, None) == "arrow.uuid":
        type_ = pa.uuid()
    metadata.pop("ARROW:extension:metadata", None)
    return pa.field(document["name"], type_, document.get("nullable", True), metadata or None)


def _integer_type(document: Mapping[str, Any], _: Any) -> pa.DataType:
    return getattr(pa, f"{'' if document['isSigned'] else 'u'}int{document['bitWidth']}")()


def _decimal_type(document: Mapping[str, Any], _: Any) -> pa.DataType:
    decimal_type = pa.decimal256 if document.get("bitWidth") == 256 else pa.decimal128
    return decimal_type(document["precision"], document["scale"])


def _time_type(document: Mapping[str, Any], _: Any) -> pa.DataType:
    return (pa.time32 if document["bitWidth"] == 32 else pa.time64)(_UNITS_BY_NAME[document["unit"]])


_TYPE_READERS: dict[str, Callable[[Mapping[str, Any], list[pa.Field]], pa.DataType]] = {
    "bool": lambda _, __: pa.bool_(),
    "int": _integer_type,
    "floatingpoint": lambda t, _: {"HALF": pa.float16, "SINGLE": pa.float32, "DOUBLE": pa.float64}[t["precision"]](),
    "decimal": _decimal_type,
    "date": lambda t, _: pa.date32() if t["unit"] == "DAY" else pa.date64(),
    "time": _time_type,
    "timestamp": lambda t, _: pa.timestamp(_UNITS_BY_NAME[t["unit"]], t.get("timezone")),
    "utf8": lambda _, __: pa.string(),
    "largeutf8": lambda _, __: pa.large_string(),
    "binary": lambda _, __: pa.binary(),
    "largebinary": lambda _, __: pa.large_binary(),
    "fixedsizebinary": lambda t, _: pa.binary(t["byteWidth"]),
    "list": lambda _, children: pa.list_(children[0]),
    "largelist": lambda _, children: pa.large_list(children[0]),
    "fixedsizelist": lambda t, children: pa.list_(children[0], t["listSize"]),
    "struct": lambda _, children: pa.struct(children),
    "map": lambda t, children: pa.map_(
        children[0].type.field(0), children[0].type.field(1), t.get("keysSorted", False)
    ),
}
