"""Logical types, their names, schemas and physical values."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.physical_values import float_rank, infer_type, to_physical_value
from partita.algebra.schema import NameMatching, Schema, find_field
from partita.algebra.type_text import parse_type
from partita.algebra.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    NULL,
    STRING,
    Field,
    LogicalType,
    char_type,
    decimal_type,
    fixed_type,
    list_type,
    map_type,
    other_type,
    struct_type,
    varchar_type,
)
from partita.errors import PartitaError, SchemaError, UnknownColumn
from tests.value_strategies import ATOMIC_TYPE_NAMES, ATOMIC_TYPES, naive_datetimes, utc_datetimes, values_of_type


@pytest.mark.parametrize(
    "name",
    [
        *ATOMIC_TYPE_NAMES,
        "void",
        "list<int>",
        "map<string,list<date>>",
        "struct<a:int,b:struct<c:decimal(9,2)>>",
        "struct<>",
    ],
)
def test_a_type_is_its_text(name: str) -> None:
    assert str(parse_type(name)) == name


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("BIGINT", LONG),
        (" integer ", INT),
        ("bool", BOOLEAN),
        ("decimal", decimal_type(10, 0)),
        ("decimal(5)", decimal_type(5, 0)),
        ("decimal( 5 , 2 )", decimal_type(5, 2)),
        ("varchar(3)", varchar_type(3)),
        ("char(3)", char_type(3)),
        ("CHARACTER(3)", char_type(3)),
        ("fixed(0)", fixed_type(0)),
        ("array<bigint>", list_type(LONG)),
        ("map<string, double>", map_type(STRING, DOUBLE)),
        ("null", NULL),
        ("struct<`a b`:int, `c``d` : date>", struct_type(Field("a b", INT), Field("c`d", DATE))),
    ],
)
def test_other_names_of_types(text: str, type_: LogicalType) -> None:
    assert parse_type(text) == type_


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "number",
        "decimal(39,0)",
        "decimal(2,3)",
        "decimal(1,2,3)",
        "int(3)",
        "list",
        "list<int",
        "list<int,int>",
        "map<int>",
        "struct<int>",
        "struct<a:>",
        "int int",
        "varchar",
        "char",
        "char(0)",
        "other",
        "list<" * 70 + "int" + ">" * 70,
    ],
)
def test_an_invalid_type_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_type(text)


type_like = st.lists(
    st.one_of(
        st.sampled_from(
            [*ATOMIC_TYPE_NAMES, "list<", "map<", "struct<", ">", ",", "a:", "`", "(", ")", "decimal(", "9" * 5]
        ),
        st.text(max_size=3),
    )
).map("".join)


@given(st.one_of(st.text(), type_like))
def test_any_text_is_a_type_or_a_schema_error(text: str) -> None:
    try:
        parsed = parse_type(text)
    except PartitaError:
        return
    assert isinstance(parsed, LogicalType)


SCHEMA = Schema.of(
    {"id": "long", "Ts": "timestamp", "s": "struct<a:int,b:struct<c:date>>", "s.a": "string", "x": "int", "X": "date"}
)


@pytest.mark.parametrize(
    ("name", "found", "type_"),
    [
        ("ID", "id", "long"),
        ("ts", "Ts", "timestamp"),
        ("s.B.c", "s.b.c", "date"),
        ("x", "x", "int"),
        ("X", "X", "date"),
    ],
)
def test_a_name_finds_its_column(name: str, found: str, type_: str) -> None:
    field = SCHEMA.find_field(name)
    assert (field.name, field.type) == (found, parse_type(type_))


@pytest.mark.parametrize(
    ("name", "reason"), [("nope", "not in the schema"), ("s.a", "ambiguous"), ("s.z", "not in the schema")]
)
def test_an_unknown_name_is_refused_with_the_known_ones(name: str, reason: str) -> None:
    with pytest.raises(UnknownColumn, match=reason) as caught:
        SCHEMA.find_field(name)
    assert caught.value.known == SCHEMA.names


def test_how_names_find_columns_that_differ_by_case() -> None:
    twins = Schema.of({"ab": "int", "AB": "date"})
    assert find_field(twins, "AB", NameMatching.CASE_SENSITIVE).type == parse_type("date")
    for name, matching, reason in (
        ("ab", NameMatching.CASE_INSENSITIVE, "ambiguous: it could be ab or AB"),
        ("aB", NameMatching.EXACT_FIRST, "ambiguous: it could be ab or AB"),
        ("aB", NameMatching.CASE_SENSITIVE, "has 'ab' and 'AB', and the session is case sensitive"),
    ):
        with pytest.raises(UnknownColumn, match=reason):
            find_field(twins, name, matching)


def test_an_invalid_schema_is_refused() -> None:
    with pytest.raises(SchemaError, match="int is not a schema"):
        Schema.of(3)  # type: ignore[arg-type]


@given(st.floats(), st.floats())
def test_floats_rank_as_spark_orders_them(left: float, right: float) -> None:
    if left != left:  # noqa: PLR0124 - NaN is above all, and equal to itself
        expected = 0 if right != right else 1  # noqa: PLR0124
    elif right != right:  # noqa: PLR0124
        expected = -1
    else:
        expected = (left > right) - (left < right)
    a, b = float_rank(left), float_rank(right)
    assert (a > b) - (a < b) == expected
    assert -(2**63) <= a < 2**63


def test_every_nan_is_one_value() -> None:
    odd = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
    assert float_rank(odd) == float_rank(float("nan")) > float_rank(float("inf"))


@pytest.mark.parametrize("type_", ATOMIC_TYPES, ids=str)
@given(data=st.data())
def test_plain_values_sort_as_the_typed_ones(type_: LogicalType, data: st.DataObject) -> None:
    if type_ in (DOUBLE, parse_type("float")):
        return  # the test above
    left, right = data.draw(values_of_type(type_)), data.draw(values_of_type(type_))
    plains = to_physical_value(left, type_), to_physical_value(right, type_)
    assert (plains[0] < plains[1], plains[0] == plains[1]) == (left < right, left == right)  # type: ignore[operator]


@given(st.one_of(utc_datetimes, naive_datetimes))
def test_timestamps_count_microseconds(at: datetime) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=at.tzinfo)
    since = at - epoch
    type_ = parse_type("timestamp" if at.tzinfo else "timestamp_ntz")
    assert to_physical_value(at, type_) == (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (1, "boolean"),
        (True, "int"),
        (128, "byte"),
        (-(2**63) - 1, "long"),
        ("1", "int"),
        (1.0, "int"),
        (True, "double"),
        (Decimal("1.555"), "decimal(5,2)"),
        (Decimal(1000), "decimal(5,2)"),
        (Decimal("NaN"), "decimal(5,2)"),
        (1, "decimal(5,2)"),
        (datetime(2025, 1, 1), "date"),  # noqa: DTZ001 - naive on purpose
        (datetime(2025, 1, 1), "timestamp"),  # noqa: DTZ001 - naive on purpose
        (datetime(2025, 1, 1, tzinfo=UTC), "timestamp_ntz"),
        (date(2025, 1, 1), "timestamp"),
        (b"x", "string"),
        ("x", "binary"),
        (b"ab", "fixed(3)"),
        (b"a" * 16, "uuid"),
        (None, "int"),
        ([1], "list<int>"),
    ],
)
def test_a_value_of_another_type_has_no_plain_value(value: object, type_: str) -> None:
    with pytest.raises(SchemaError, match="is not a value of type"):
        to_physical_value(value, parse_type(type_))


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, "boolean"),
        (1, "long"),
        (1.5, "double"),
        (Decimal("-1.50"), "decimal(3,2)"),
        (Decimal("1E+2"), "decimal(3,0)"),
        (Decimal("0.001"), "decimal(3,3)"),
        (date(2025, 1, 1), "date"),
        (datetime(2025, 1, 1), "timestamp_ntz"),  # noqa: DTZ001 - naive on purpose
        (datetime(2025, 1, 1, tzinfo=UTC), "timestamp"),
        (time(1), "time"),
        ("x", "string"),
        (b"x", "binary"),
        (UUID(int=1), "uuid"),
        ([1, None], "list<long>"),
        ([], "list<void>"),
        ((None, "x"), "list<string>"),
        ({"a": 1, "b": None}, "struct<a:long,b:void>"),
    ],
)
def test_the_type_of_a_python_value(value: object, type_: str) -> None:
    assert str(infer_type(value)) == type_


@pytest.mark.parametrize("value", [object(), None, {1}, Decimal("inf")])
def test_a_python_value_without_a_type(value: object) -> None:
    with pytest.raises(SchemaError):
        infer_type(value)


def test_other_types_keep_their_name() -> None:
    assert str(other_type("geometry")) == "geometry"
