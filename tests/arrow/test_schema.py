"""Conversion of Arrow and Spark schemas, and physical values of Arrow arrays."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.physical_values import to_physical_value
from partita.algebra.schema import Schema
from partita.algebra.type_text import parse_type
from partita.algebra.types import Field, LogicalType, list_type, map_type, other_type, struct_type
from partita.arrow.physical_values import PhysicalArray, to_physical_array
from partita.arrow.schema import to_arrow_type, to_logical_type, to_schema
from partita.errors import PartitionsError, SchemaError
from tests.value_strategies import ATOMIC_TYPES, arrow_arrays, nested_types, values_of_type

ARROW_TYPES = [
    (pa.int8(), "byte"),
    (pa.int16(), "short"),
    (pa.int32(), "int"),
    (pa.int64(), "long"),
    (pa.uint8(), "short"),
    (pa.uint16(), "int"),
    (pa.uint32(), "long"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.bool_(), "boolean"),
    (pa.null(), "void"),
    (pa.date32(), "date"),
    (pa.date64(), "date"),
    (pa.time32("s"), "time"),
    (pa.time32("ms"), "time"),
    (pa.time64("us"), "time"),
    *((pa.timestamp(unit), "timestamp_ntz") for unit in ("s", "ms", "us")),
    *((pa.timestamp(unit, "Asia/Tokyo"), "timestamp") for unit in ("s", "ms", "us")),
    (pa.decimal32(5, 2), "decimal(5,2)"),
    (pa.decimal64(18, 0), "decimal(18,0)"),
    (pa.decimal128(38, 38), "decimal(38,38)"),
    (pa.decimal256(38, 2), "decimal(38,2)"),
    *((text, "string") for text in (pa.string(), pa.large_string(), pa.string_view())),
    *((octets, "binary") for octets in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), "fixed(3)"),
    (pa.uuid(), "uuid"),
    (pa.dictionary(pa.int8(), pa.string()), "string"),
    (pa.dictionary(pa.int32(), pa.int64()), "long"),
    (pa.list_(pa.int8()), "list<byte>"),
    (pa.large_list(pa.int8()), "list<byte>"),
    (pa.list_(pa.int8(), 2), "list<byte>"),
    (pa.list_view(pa.int8()), "list<byte>"),
    (pa.large_list_view(pa.string()), "list<string>"),
    (pa.map_(pa.string(), pa.uint64()), "map<string,decimal(20,0)>"),
    (pa.struct({"a": pa.int8(), "b": pa.struct({"c": pa.date32()})}), "struct<a:byte,b:struct<c:date>>"),
]


@pytest.mark.parametrize(("arrow", "logical"), ARROW_TYPES, ids=str)
def test_an_arrow_type_has_a_logical_type(arrow: pa.DataType, logical: str) -> None:
    assert to_logical_type(arrow) == parse_type(logical)


@pytest.mark.parametrize(
    "arrow",
    [
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.time64("ns"),
        pa.float16(),
        pa.duration("s"),
        pa.decimal256(39, 0),
        pa.decimal128(5, -1),
        pa.json_(),
        pa.month_day_nano_interval(),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_other_arrow_types_keep_their_name(arrow: pa.DataType) -> None:
    assert to_logical_type(arrow) == other_type(str(arrow))


@given(st.one_of(st.sampled_from(ATOMIC_TYPES), nested_types))
def test_a_logical_type_comes_back_from_arrow(type_: LogicalType) -> None:
    assert to_logical_type(to_arrow_type(type_)) == type_


def test_arrow_has_no_type_for_others() -> None:
    with pytest.raises(SchemaError, match="geometry"):
        to_arrow_type(list_type(other_type("geometry")))


SCHEMA = Schema((Field("id", parse_type("long"), nullable=False), Field("ts", parse_type("timestamp"))))


@pytest.mark.parametrize(
    "source",
    [
        SCHEMA,
        pa.schema([pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", "UTC"))]),
        pa.table(
            {"id": pa.array([], pa.int64()), "ts": pa.array([], pa.timestamp("us", "UTC"))},
            pa.schema([pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", "UTC"))]),
        ),
    ],
    ids=lambda source: type(source).__name__,
)
def test_objects_that_become_a_schema(source: object) -> None:
    assert to_schema(source) == SCHEMA


def test_a_mapping_becomes_a_schema() -> None:
    assert to_schema({"a": "int", "b": parse_type("date")}) == Schema.of({"a": "int", "b": "date"})


@pytest.mark.parametrize("source", [None, 3, "id long", [("id", "long")], pa.int64()])
def test_invalid_schemas_are_refused(source: object) -> None:
    with pytest.raises(SchemaError):
        to_schema(source)


class SparkLike:
    """The part of a Spark StructType that Partita uses."""

    def __init__(self, json: object) -> None:
        self.json = json

    def jsonValue(self) -> object:  # noqa: N802 - Spark's name
        return self.json


def column(name: str, type_: object, **metadata: object) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


SPARK_TYPES: list[tuple[object, LogicalType]] = [
    *(
        (name, parse_type(name))
        for name in (
            "boolean",
            "byte",
            "short",
            "long",
            "float",
            "double",
            "date",
            "timestamp",
            "timestamp_ntz",
            "binary",
            "void",
        )
    ),
    ("integer", parse_type("int")),
    ("string", parse_type("string")),
    ("varchar(7)", parse_type("varchar(7)")),
    ("char(7)", parse_type("char(7)")),
    ("decimal(10,2)", parse_type("decimal(10,2)")),
    ("time(6)", parse_type("time")),
    ("variant", other_type("variant")),
    ("interval day to second", other_type("interval day to second")),
    ({"type": "udt", "class": "x"}, other_type("udt")),
    ({"type": "array", "elementType": "date", "containsNull": True}, list_type(parse_type("date"))),
    (
        {"type": "map", "keyType": "string", "valueType": {"type": "struct", "fields": [column("a", "integer")]}},
        map_type(parse_type("string"), struct_type(Field("a", parse_type("int")))),
    ),
]


@pytest.mark.parametrize(("json", "logical"), SPARK_TYPES, ids=str)
def test_a_spark_type(json: object, logical: LogicalType) -> None:
    assert to_schema(SparkLike({"type": "struct", "fields": [column("x", json)]})) == Schema((Field("x", logical),))


def test_collated_strings_are_other_types() -> None:
    nested = {
        "type": "map",
        "keyType": "string",
        "valueType": {"type": "array", "elementType": "string", "containsNull": True},
    }
    fields = [
        column("a", "string", __COLLATIONS={"a": "spark.UTF8_LCASE"}),
        column("b", "string", __COLLATIONS={"b": "spark.UTF8_BINARY"}),
        column("m", nested, __COLLATIONS={"m.value.element": "icu.UNICODE_CI"}),
        column("s", {"type": "struct", "fields": [column("x", "string", __COLLATIONS={"x": "icu.UNICODE"})]}),
    ]
    found = [str(f.type) for f in to_schema(SparkLike({"type": "struct", "fields": fields}))]
    assert found == [
        "string collate UTF8_LCASE",
        "string",
        "map<string,list<string collate UNICODE_CI>>",
        "struct<x:string collate UNICODE>",
    ]


def test_a_spark_type_that_is_no_struct_is_no_schema() -> None:
    with pytest.raises(SchemaError, match="must be a struct"):
        to_schema(SparkLike("integer"))


def test_schemas_equal_those_of_pyspark() -> None:
    from pyspark.sql import types

    schema = types.StructType(
        [
            types.StructField("id", types.LongType(), nullable=False),
            types.StructField("name", types.StringType("UTF8_LCASE")),
            types.StructField("days", types.ArrayType(types.DateType())),
        ]
    )
    assert to_schema(schema) == Schema(
        (
            Field("id", parse_type("long"), nullable=False),
            Field("name", other_type("string collate UTF8_LCASE")),
            Field("days", list_type(parse_type("date"))),
        )
    )


def physical_value_list(plains: PhysicalArray) -> list[Any]:
    """Return the physical values as Python values, None for null."""
    values = plains.values.tolist() if not isinstance(plains.values, pa.Array) else plains.values.to_pylist()
    return [None if null else value for value, null in zip(values, plains.nulls, strict=True)]


def plains_of(array: Any, type_: LogicalType) -> list[Any]:
    return [None if value is None else to_physical_value(value, type_) for value in array.to_pylist()]


@pytest.mark.parametrize("type_", ATOMIC_TYPES, ids=str)
@given(data=st.data())
def test_plain_values_of_arrays_are_those_of_their_values(type_: LogicalType, data: st.DataObject) -> None:
    array = data.draw(arrow_arrays(type_))
    assert physical_value_list(to_physical_array(array, type_)) == plains_of(array, type_)


D = Decimal
FORMS: list[tuple[Any, str, list[Any]]] = [
    (pa.array([1, None, -5], pa.int8()), "long", [1, None, -5]),
    (pa.array([1, None, 2**63 - 1], pa.uint64()), "long", [1, None, 2**63 - 1]),
    (pa.array([1, 2**64 - 1], pa.uint64()), "decimal(20,0)", [1, 2**64 - 1]),
    (pa.array([5, None], pa.int32()), "decimal(9,2)", [500, None]),
    (pa.array([D("1.5"), None], pa.decimal128(5, 1)), "decimal(38,10)", [15 * 10**9, None]),
    (pa.array([D("-1.50")], pa.decimal256(60, 2)), "decimal(4,1)", [-15]),
    (pa.array([D(3), None], pa.decimal64(9, 0)), "int", [3, None]),
    (pa.array([date(1969, 12, 31), None], pa.date64()), "date", [-1, None]),
    (pa.array([-1], pa.timestamp("s", "America/New_York")), "timestamp", [-1_000_000]),
    (pa.array([-1_000, None], pa.timestamp("ns")), "timestamp_ntz", [-1, None]),
    (pa.array([3_000], pa.time64("ns")), "time", [3]),
    (pa.array(["a", None, "é"], pa.string_view()), "string", ["a", None, "é"]),
    (pa.array(["a", None, "a"]).dictionary_encode(), "string", ["a", None, "a"]),
    (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None])), "string", ["x", None]),
    (pa.array([b"abc", None], pa.binary()), "fixed(3)", [b"abc", None]),
    (pa.array([b"abc"], pa.binary(3)), "binary", [b"abc"]),
    (pa.array([bytes(16)], pa.binary(16)), "uuid", [bytes(16)]),
    (pa.array([UUID(int=1), None], pa.uuid()), "uuid", [UUID(int=1).bytes, None]),
    (pa.array([None, None], pa.null()), "uuid", [None, None]),
    (pa.array([None, None], pa.null()), "decimal(30,2)", [None, None]),
    (pa.array([None], pa.null()), "void", [None]),
    (pa.array([1, None], pa.int8()), "double", [to_physical_value(1.0, parse_type("double")), None]),
    (pa.chunked_array([], pa.string()), "string", []),
    (pa.chunked_array([], pa.dictionary(pa.int8(), pa.string())), "string", []),
]


@pytest.mark.parametrize(("array", "type_", "expected"), FORMS, ids=lambda part: str(getattr(part, "type", part)))
def test_values_come_under_many_arrow_types(array: Any, type_: str, expected: list[Any]) -> None:
    assert physical_value_list(to_physical_array(array, parse_type(type_))) == expected


BROKEN_TEXT = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([300]), "byte"),
        (pa.array(["1"]), "int"),
        (pa.array([1.0]), "int"),
        (pa.array([2**63], pa.uint64()), "long"),
        (pa.array([1]), "date"),
        (pa.array([1]), "boolean"),
        (pa.array([True]), "int"),
        (pa.array([D("1.55")]), "decimal(5,1)"),
        (pa.array([D(100)]), "decimal(2,0)"),
        (pa.array([1], pa.timestamp("us")), "timestamp"),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp_ntz"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "timestamp"),
        (pa.array([2**60], pa.timestamp("s", "UTC")), "timestamp"),
        (pa.array([b"ab"]), "fixed(3)"),
        (pa.array([b"ab"]), "uuid"),
        (pa.array([b"ab"]), "string"),
        (pa.array(["ab"]), "binary"),
        (pa.array([[1]]), "list<long>"),
        (pa.array([1]), "list<long>"),
        (pa.array([2**60 + 1]), "double"),
        (BROKEN_TEXT, "string"),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused(array: Any, type_: str) -> None:
    with pytest.raises(PartitionsError):
        to_physical_array(array, parse_type(type_))


def test_values_under_a_null_are_ignored() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([5, 2**40]).buffers()[1]])
    assert physical_value_list(to_physical_array(hidden, parse_type("byte"))) == [5, None]


@given(values_of_type(parse_type("timestamp")))
def test_an_instant_is_one_in_every_zone(at: datetime) -> None:
    array = pa.array([at.astimezone(UTC)], pa.timestamp("us", "Pacific/Auckland"))
    assert to_physical_array(array, parse_type("timestamp")).values.tolist() == [
        to_physical_value(at, parse_type("timestamp"))
    ]
