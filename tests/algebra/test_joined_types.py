"""The type that holds the values of two types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.joined_types import joined_type, replace_void_with_string
from partita.algebra.type_text import parse_type
from partita.algebra.types import list_type, map_type

if TYPE_CHECKING:
    from partita.algebra.types import LogicalType


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("int", "long", "long"),
        ("byte", "short", "short"),
        ("byte", "int", "int"),
        ("float", "double", "double"),
        ("int", "float", "double"),
        ("short", "double", "double"),
        ("long", "double", None),
        ("long", "float", None),
        ("int", "string", None),
        ("string", "binary", None),
        ("boolean", "int", None),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("date", "timestamp", None),
        ("timestamp", "timestamp_ntz", None),
        ("decimal(10,2)", "decimal(6,4)", "decimal(12,4)"),
        ("decimal(38,0)", "decimal(10,2)", None),
        ("int", "decimal(10,2)", "decimal(12,2)"),
        ("byte", "decimal(10,2)", "decimal(10,2)"),
        ("long", "decimal(20,0)", "decimal(20,0)"),
        ("long", "decimal(38,19)", "decimal(38,19)"),
        ("long", "decimal(38,20)", None),
        ("double", "decimal(10,2)", None),
        ("boolean", "decimal(10,2)", None),
        ("void", "struct<a:int>", "struct<a:int>"),
        ("void", "void", "void"),
        ("struct<a:int>", "struct<A:long,b:string>", "struct<a:long,b:string>"),
        ("struct<a:int>", "struct<a:string>", None),
        ("struct<a:int>", "int", None),
        ("array<void>", "array<struct<a:int>>", "list<struct<a:int>>"),
        ("array<int>", "array<string>", None),
        ("map<string,int>", "map<string,double>", "map<string,double>"),
        ("map<string,int>", "map<int,int>", None),
    ],
)
def test_types_are_joined_without_loss_or_not_at_all(first: str, second: str, joined: str | None) -> None:
    type_ = joined_type(parse_type(first), parse_type(second))
    assert (None if type_ is None else str(type_)) == joined
    reversed_type = joined_type(parse_type(second), parse_type(first))
    assert (None if reversed_type is None else str(reversed_type).lower()) == joined


SCALARS = st.sampled_from(
    [
        "void", "boolean", "byte", "short", "int", "long", "float", "double", "date", "timestamp", "timestamp_ntz",
        "string", "binary", "decimal(20,0)", "decimal(38,10)", "decimal(12,4)",
    ]
).map(parse_type)  # fmt: skip
TYPES = st.recursive(
    SCALARS, lambda types: types.map(list_type) | st.tuples(types, types).map(lambda pair: map_type(*pair))
)


def join(first: LogicalType | None, second: LogicalType | None) -> LogicalType | None:
    return None if first is None or second is None else joined_type(first, second)


@given(TYPES, TYPES, TYPES)
def test_the_order_of_files_does_not_matter(first: LogicalType, second: LogicalType, third: LogicalType) -> None:
    assert join(first, first) == first
    assert join(first, second) == join(second, first)
    assert join(join(first, second), third) == join(first, join(second, third))


def test_nulls_without_a_type_become_strings_at_each_depth() -> None:
    type_ = replace_void_with_string(parse_type("struct<a:void,b:array<map<string,void>>,c:int>"))
    assert str(type_) == "struct<a:string,b:list<map<string,string>>,c:int>"
