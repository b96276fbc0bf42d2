"""Spark schemas in JSON: parsed, formatted, parsed again, and refused with the path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json, schema_to_json
from partita.algebra.type_text import parse_type
from partita.algebra.types import Field, LogicalType, list_type, map_type, other_type, struct_type
from partita.errors import SchemaError

NAMES = {
    "boolean": "boolean", "byte": "byte", "short": "short", "int": "integer", "long": "long", "float": "float",
    "double": "double", "decimal(38,10)": "decimal(38,10)", "date": "date", "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "string": "string", "binary": "binary",
}  # fmt: skip
"""Every atom that Delta has, and its name there."""

atoms = st.sampled_from([parse_type(name) for name in NAMES])


def structs(types: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[tuple[Field, ...]]:
    return st.lists(st.builds(Field, st.text(), types, st.booleans()), max_size=4).map(tuple)


types = st.recursive(
    atoms,
    lambda inner: st.one_of(
        structs(inner).map(lambda fields: struct_type(*fields)),
        inner.map(list_type),
        st.builds(map_type, inner, inner),
    ),
    max_leaves=8,
)


@given(structs(types).map(Schema))
def test_schemas_are_read_back(schema: Schema) -> None:
    assert schema_from_json(schema_to_json(schema)) == schema


@pytest.mark.parametrize(("name", "written"), NAMES.items())
def test_names_of_types(name: str, written: str) -> None:
    json = schema_to_json(Schema((Field("a", parse_type(name), nullable=False),)))
    assert json == {
        "type": "struct",
        "fields": [{"name": "a", "type": written, "nullable": False, "metadata": {}}],
    }


def test_nested_types_may_hold_nulls() -> None:
    json: Any = schema_to_json(Schema.of({"a": "list<map<string,int>>", "s": "struct<x:date>"}))
    array, struct = (field["type"] for field in json["fields"])
    assert array == {
        "type": "array",
        "containsNull": True,
        "elementType": {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True},
    }
    assert struct == {
        "type": "struct",
        "fields": [{"name": "x", "type": "date", "nullable": True, "metadata": {}}],
    }


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (parse_type("uuid"), "a"),
        (parse_type("fixed(3)"), "a"),
        (parse_type("time"), "a"),
        (parse_type("void"), "a"),
        (other_type("variant"), "a"),
        (parse_type("list<uuid>"), "a.element"),
        (parse_type("map<uuid,int>"), "a.key"),
        (parse_type("struct<b:map<int,list<uuid>>>"), "a.b.value.element"),
    ],
)
def test_a_type_that_delta_lacks_is_refused_by_column(type_: LogicalType, column: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_to_json(Schema((Field("a", type_),)))
    assert f"column {column!r} has type" in str(caught.value)


def field(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "type": "integer", "nullable": True, "metadata": {}, **changes}


def struct_json(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def test_optional_fields() -> None:
    assert schema_from_json(struct_json({"name": "a", "type": "integer"})) == Schema.of({"a": "int"})
    assert schema_from_json(struct_json(field(metadata=None))) == Schema.of({"a": "int"})


def test_unknown_types_are_other_types() -> None:
    udt = {"type": "udt", "class": "x.Point", "sqlType": "string"}
    schema = schema_from_json(struct_json(field(type="variant"), field(type=udt), field(type="decimal(50,2)")))
    assert [f.type for f in schema] == [other_type("variant"), other_type("udt"), other_type("decimal(50,2)")]


def test_collations() -> None:
    inside = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    metadata = {"__COLLATIONS": {"a.value": "icu.UNICODE_CI", "a.key": "spark.UTF8_BINARY"}}
    schema = schema_from_json(struct_json(field(type=inside, metadata=metadata)))
    assert schema.fields[0].type == map_type(parse_type("string"), other_type("string collate UNICODE_CI"))


@pytest.mark.parametrize("json", [None, [], "struct", {}, {"type": "array"}, {"fields": []}])
def test_no_struct(json: object) -> None:
    with pytest.raises(SchemaError, match=r"a struct, as StructType\.jsonValue"):
        schema_from_json(json)


NESTED_ARRAY = {"type": "array", "elementType": {"type": "map", "keyType": "string"}}


@pytest.mark.parametrize(
    ("json", "says"),
    [
        ({"type": "struct"}, "fields is missing"),
        ({"type": "struct", "fields": {}}, "fields must be an array, found {}"),
        (struct_json(field(), "b"), "fields[1] must be an object, found 'b'"),
        (struct_json({"type": "integer"}), "fields[0].name is missing"),
        (struct_json(field(name=3)), "fields[0].name must be text, found 3"),
        (struct_json({"name": "a"}), "fields[0].type is missing"),
        (struct_json(field(type=None)), "fields[0].type must be text or an object, found None"),
        (struct_json(field(type=["integer"])), "fields[0].type must be text or an object, found ['integer']"),
        (struct_json(field(type={})), "fields[0].type.type is missing"),
        (struct_json(field(type={"type": 1})), "fields[0].type.type must be text, found 1"),
        (struct_json(field(type={"type": "struct"})), "fields[0].type.fields is missing"),
        (
            struct_json(field(type=struct_json(field(), field(name=None)))),
            "fields[0].type.fields[1].name must be text, found None",
        ),
        (struct_json(field(type={"type": "array"})), "fields[0].type.elementType is missing"),
        (struct_json(field(type=NESTED_ARRAY)), "fields[0].type.elementType.valueType is missing"),
        (struct_json(field(nullable="yes")), "fields[0].nullable must be true or false, found 'yes'"),
        (struct_json(field(metadata="x" * 99)), "fields[0].metadata must be an object, found 'xxx"),
        (
            struct_json(field(metadata={"__COLLATIONS": 1})),
            "fields[0].metadata.__COLLATIONS must be an object, found 1",
        ),
        (
            struct_json(field(type="string", metadata={"__COLLATIONS": {"a": 1}})),
            "the collation of a must be text, found 1",
        ),
    ],
)
def test_the_place_of_what_is_wrong(json: object, says: str) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_from_json(json)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 200
