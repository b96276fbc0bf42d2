"""Murmur3 hashes: the vectors, a comparison with pyiceberg, and the canonical JSON of nested values."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.hashing import canonical_json, hash_bytes, murmur3_hash, twos_complement_bytes
from partita.algebra.type_text import parse_type
from partita.algebra.types import STRING, LogicalType
from partita.errors import SchemaError
from tests.value_strategies import nested_types, texts, values_of_type
from tests.vectors import load_vectors

ROWS = load_vectors("murmur3")["rows"]


def value_from_row(row: dict[str, Any]) -> object:
    """Return the Python value of a row of the vectors."""
    value = row["value"]
    read = {
        "date": date.fromisoformat,
        "timestamp": datetime.fromisoformat,
        "time": time.fromisoformat,
        "binary": bytes.fromhex,
        "uuid": UUID,
    }.get(row["type"], Decimal if row["type"].startswith("decimal") else None)
    return value if read is None else read(value)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['type']} {row['value']}")
def test_a_row_of_the_vectors(row: dict[str, Any]) -> None:
    hashed = murmur3_hash(value_from_row(row), parse_type(row["type"]))
    assert hashed == row["hash"]
    assert (hashed & 0x7FFF_FFFF) % 16 == row["bucket_16"]
    assert f"{hashed & 0xFFFF_FFFF:08x}" == row["hex"]


@given(st.integers(-(2**127), 2**127 - 1))
def test_shortest_bytes_are_the_shortest(number: int) -> None:
    octets = twos_complement_bytes(number)
    assert int.from_bytes(octets, "big", signed=True) == number
    assert len(octets) == 1 or int.from_bytes(octets[1:], "big", signed=True) != number


@pytest.mark.parametrize(
    ("value", "type_", "octets"),
    [
        (True, "boolean", "0100000000000000"),
        (False, "boolean", "0000000000000000"),
        (-1, "byte", "ffffffffffffffff"),
        (1.0, "float", "000000000000f03f"),
        (-0.0, "double", "0000000000000000"),
        (Decimal("-1.28"), "decimal(9,2)", "80"),
        (Decimal("1.28"), "decimal(9,2)", "0080"),
        (Decimal(0), "decimal(9,2)", "00"),
        (b"", "binary", ""),
        (b"abc", "fixed(3)", "616263"),
        ("é", "string", "c3a9"),
    ],
)
def test_the_bytes_of_a_value(value: object, type_: str, octets: str) -> None:
    assert hash_bytes(value, parse_type(type_)).hex() == octets


def test_every_nan_hashes_alike() -> None:
    odd = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
    assert murmur3_hash(odd, parse_type("double")) == murmur3_hash(float("nan"), parse_type("float"))


@given(texts)
def test_text_hashes_by_its_utf8(text: str) -> None:
    assert murmur3_hash(text, STRING) == mmh3.hash(text.encode(), 0)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        ({"b": 1, "a": None}, "struct<b:int,a:string>", '{"a":null,"b":1}'),
        ({"b": 1}, "struct<b:int,a:string>", '{"a":null,"b":1}'),
        ([1, None, 3], "list<int>", "[1,null,3]"),
        ([], "list<int>", "[]"),
        ({}, "struct<>", "{}"),
        ({"z": True, "a": False}, "map<string,boolean>", '{"a":false,"z":true}'),
        ([(10, "x"), (9, None)], "map<int,string>", '{"10":"x","9":null}'),
        ({"é": 1, "z": 2, "\U0001f389": 3, "\uffff": 4}, "map<string,int>", '{"z":2,"é":1,"\uffff":4,"\U0001f389":3}'),
        (['"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é'], "list<string>", '["\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028é"]'),
        ([b"\xff\xfe"], "list<binary>", '["__4"]'),
        ([UUID(int=10)], "list<uuid>", '["00000000-0000-0000-0000-00000000000a"]'),
        ([Decimal("-0.5"), Decimal(12)], "list<decimal(9,2)>", '["-0.50","12.00"]'),
        ([Decimal(-7)], "list<decimal(9,0)>", '["-7"]'),
        ([Decimal("1E-19")], "list<decimal(19,19)>", '["0.0000000000000000001"]'),
        ([date(1, 1, 1), time(1, 2, 3)], "list<date>", None),
        ([date(1, 1, 1)], "list<date>", '["0001-01-01"]'),
        ([time(1, 2, 3, 4)], "list<time>", '["01:02:03.000004"]'),
        ([datetime(2025, 1, 15, 10, 30, tzinfo=UTC)], "list<timestamp>", '["2025-01-15T10:30:00.000000Z"]'),
        ([datetime(1, 1, 1)], "list<timestamp_ntz>", '["0001-01-01T00:00:00.000000"]'),  # noqa: DTZ001 - naive on purpose
        ([1.0, 3.0, -0.0, -1.5], "list<double>", '["0x1.0p0","0x1.8p1","0x0.0p0","-0x1.8p0"]'),
        ([0.1, 5e-324], "list<double>", '["0x1.999999999999ap-4","0x0.0000000000001p-1022"]'),
        ([float("nan"), float("inf"), float("-inf")], "list<float>", '["NaN","Infinity","-Infinity"]'),
    ],
)
def test_canonical_json(value: object, type_: str, text: str | None) -> None:
    if text is None:
        with pytest.raises(SchemaError):
            canonical_json(value, parse_type(type_))
    else:
        assert canonical_json(value, parse_type(type_)) == text
        assert hash_bytes(value, parse_type(type_)) == text.encode()


@given(nested_types.flatmap(lambda type_: st.tuples(st.just(type_), values_of_type(type_))))
def test_canonical_json_is_json_and_compact(pair: tuple[LogicalType, object]) -> None:
    type_, value = pair
    text = canonical_json(value, type_)
    assert json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) == text


@given(st.floats())
def test_hexadecimal_floats_are_exact(number: float) -> None:
    (text,) = json.loads(canonical_json([number], parse_type("list<double>")))
    back = float(text) if text in ("NaN", "Infinity", "-Infinity") else float.fromhex(text)
    assert back == number or (back != back and number != number)  # noqa: PLR0124


def test_a_map_with_a_key_twice_is_refused() -> None:
    with pytest.raises(SchemaError, match="a duplicate key"):
        canonical_json([(0.0, 1), (-0.0, 2)], parse_type("map<double,int>"))
