"""A check of JSON against the part of JSON Schema that the OpenAPI document speaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def schema_violations(
    value: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any], where: str = "$"
) -> Iterator[str]:
    """What a value breaks of a schema; nothing where it is as described."""
    if "$ref" in schema:
        yield from schema_violations(value, schemas[schema["$ref"].rpartition("/")[2]], schemas, where)
        return
    if "anyOf" in schema:
        if all(list(schema_violations(value, one, schemas, where)) for one in schema["anyOf"]):
            yield f"{where}: {value!r} is none of {schema['anyOf']}"
        return
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(_is_of_type(value, kind) for kind in kinds):
        yield f"{where}: {value!r} is no {kinds}"
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from schema_violations(one, schema["items"], schemas, f"{where}[{at}]")
    elif isinstance(value, dict):
        yield from _object_violations(value, schema, schemas, where)


def _object_violations(
    value: dict[str, Any], schema: Mapping[str, Any], schemas: Mapping[str, Any], where: str
) -> Iterator[str]:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, one in value.items():
        if name in properties:
            yield from schema_violations(one, properties[name], schemas, f"{where}.{name}")
        elif rest is False:
            yield f"{where}: {name} is not described"
        elif isinstance(rest, dict):
            yield from schema_violations(one, rest, schemas, f"{where}.{name}")


def _is_of_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _TYPES[kind])
