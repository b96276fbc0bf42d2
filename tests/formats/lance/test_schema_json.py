"""The schema in the root's properties survives the round trip through Arrow's JSON."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from lance.schema import schema_to_json as lances_json

from partita.errors import SchemaError
from partita.formats.lance.schema_json import schema_from_json, schema_to_json

EVERY = pa.schema([
    pa.field("b", pa.bool_(), nullable=False), ("i8", pa.int8()), ("i64", pa.int64()), ("u16", pa.uint16()),
    ("f16", pa.float16()), ("f32", pa.float32()), ("f64", pa.float64()), ("dec", pa.decimal128(38, 10)),
    ("big", pa.decimal256(50, 2)), ("d", pa.date32()), ("d64", pa.date64()), ("t32", pa.time32("ms")),
    ("t64", pa.time64("us")), ("ts", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("ns")), ("s", pa.string()),
    ("ls", pa.large_string()), ("o", pa.binary()), ("lo", pa.large_binary()), ("fo", pa.binary(4)),
    ("u", pa.uuid()), ("l", pa.list_(pa.int32())), ("ll", pa.large_list(pa.string())),
    ("v", pa.list_(pa.float32(), 8)),
    ("st", pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.string())])),
    ("m", pa.map_(pa.string(), pa.int32())),
])  # fmt: skip


@pytest.mark.parametrize("field", list(EVERY), ids=lambda f: f.name)
def test_every_type_comes_back(field: pa.Field) -> None:
    assert schema_from_json(schema_to_json(pa.schema([field]))).equals(pa.schema([field]))


def test_it_is_arrows_own_json() -> None:
    document = json.loads(schema_to_json(pa.schema([pa.field("id", pa.int64(), nullable=False)])))
    assert document == {
        "fields": [
            {"name": "id", "nullable": False, "type": {"name": "int", "bitWidth": 64, "isSigned": True}, "children": []}
        ]
    }


def test_lance_namespaces_json_is_read_too() -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.list_(pa.float32(), 4))])
    assert schema_from_json(json.dumps(lances_json(schema))).equals(schema)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"fields": [{"name": "x", "type": {"name": "no"}}]}'])
def test_an_invalid_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match=r"lance\.partitioning\.schema"):
        schema_from_json(text)


def test_a_type_without_a_place_is_refused() -> None:
    with pytest.raises(SchemaError, match="'x'"):
        schema_to_json(pa.schema([("x", pa.month_day_nano_interval())]))
