"""SQL text for names, literals and types, and the checks for characters in SQL text."""

from __future__ import annotations

import pytest
from pyspark.sql import types as spark_types

from partita.spark.sql_text import (
    alias_names,
    cast_sql,
    column_sql,
    has_double_quote,
    has_escape,
    has_function_call,
    has_variable,
    quote_identifier,
    string_literal_sql,
    type_sql,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("id", "t.`id`"), ("a.b", "t.`a.b`"), ("a`b", "t.`a``b`"), ("$x", "t.`$x`")],
)
def test_a_column_is_quoted(name: str, expected: str) -> None:
    assert column_sql(name, "t.") == expected
    assert f"t.{quote_identifier(name)}" == expected


def test_a_column_with_a_variable_in_its_name_is_written_in_hexadecimal() -> None:
    assert column_sql("${x}") == f"IDENTIFIER(CAST(X'{b'`${x}`'.hex()}' AS STRING))"


@pytest.mark.parametrize("text", ["", "a-b_c=1+2 %20", "/x:y.z"])
def test_a_plain_string_is_a_literal_in_quotes(text: str) -> None:
    assert string_literal_sql(text) == f"'{text}'"


@pytest.mark.parametrize("text", ["it's", "a\\n", '"', "${x}", "é", "\n"])
def test_any_other_string_is_written_in_hexadecimal(text: str) -> None:
    assert string_literal_sql(text) == f"CAST(X'{text.encode().hex()}' AS STRING)"


def test_types() -> None:
    struct = spark_types.StructType().add("a b", "timestamp", nullable=False).add("n", "decimal(3,1)")
    nested = spark_types.MapType(spark_types.StringType(), spark_types.ArrayType(struct))
    expected = "MAP<string, ARRAY<STRUCT<`a b`: TIMESTAMP_LTZ, `n`: decimal(3,1)>>>"
    assert type_sql(nested) == expected
    assert cast_sql("x", nested) == f"CAST(x AS {expected})"


def test_names_that_are_not_plain_get_an_alias_by_position() -> None:
    assert alias_names(["a", "b c", "d"], str.isidentifier) == ["a", "__partita_column_1", "d"]
    aliases = ["__partita_column_0", "__partita_column_1"]
    assert alias_names(["__PARTITA_column_1", "b c"], str.isidentifier) == aliases


def test_characters_in_text() -> None:
    assert (has_variable("a", "b$c"), has_variable("a")) == (True, False)
    assert (has_function_call("f(x)"), has_function_call("x + 1")) == (True, False)
    assert (has_escape("a\\n"), has_escape("a\n")) == (True, False)
    assert (has_double_quote("'\"'"), has_double_quote("''")) == (True, False)
