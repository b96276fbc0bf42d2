"""Expressions in the metadata of Delta tables never run code, however they are spelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.errors import TableError
from partita.formats.delta.allowed_functions import ALLOWED_SPARK_FUNCTIONS
from partita.formats.delta.expressions import check_expression, expression_names
from tests.vectors import load_vectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VECTORS = load_vectors("delta_expressions")
CALL_METHODS = ("reflect", "try_reflect", "java_method")
NAME_CLASSES = ("from_protobuf", "to_protobuf")
READ_FILES = ("from_avro", "from_xml", "schema_of_avro", "schema_of_xml")
TABLE_FUNCTIONS = (
    "collations", "python_worker_logs", "range", "sql_keywords", "variant_explode", "variant_explode_outer",
)  # fmt: skip


@pytest.mark.parametrize("text", VECTORS["taken"])
def test_expressions_that_are_taken(text: str) -> None:
    assert check_expression(text, "the constraint c") == text


@pytest.mark.parametrize("text", VECTORS["refused"])
def test_expressions_that_are_refused(text: str) -> None:
    with pytest.raises(TableError, match=r"the constraint c of the table .*metadata never runs code"):
        check_expression(text, "the constraint c")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("idle * width", {"idle", "width"}),
        ("CAST(`order ``id``` AS DATE)", {"cast", "order `id`", "as", "date"}),
        ("concat(a.b, 'id', \"c\")", {"concat", "a", "b", "c"}),
        ("Current_Date", {"current_date"}),
    ],
)
def test_names_in_an_expression(text: str, names: set[str]) -> None:
    assert expression_names(text, "the generated column g") == names


COMMENT = st.text("x'\"`(-/*\\\n\r", max_size=6)
BETWEEN = st.lists(
    st.one_of(
        st.sampled_from([" ", "\t", "\r", "\n", "\v", "\f", "\0", "\x85", "\xa0", "\u2028", "\u3000", "${x}", "\\\n"]),
        COMMENT.map("--{}\n".format),
        COMMENT.map("--{}\r".format),
        COMMENT.map("--{}\\\nx\n".format),
        COMMENT.map("/*{}*/".format),
        COMMENT.map("/*/*{}*/*/".format),
        COMMENT.map("/*+{}*/".format),
    ),
    max_size=3,
).map("".join)
NAME = st.one_of(
    st.sampled_from([*CALL_METHODS, "identifier", "\u0131dent\u0131f\u0131er"]),
    st.sampled_from([name.upper() for name in CALL_METHODS]),
    st.sampled_from([f"`{name}`" for name in CALL_METHODS]),
    st.sampled_from([f'"{name}"' for name in CALL_METHODS]),
    st.sampled_from([f"system.builtin.{name}" for name in CALL_METHODS]),
    st.sampled_from(["ref${x}lect", "java_${x}method"]),
)
STRING = st.sampled_from(["''", "'x'", '"\'"', "'\"'", "'\\''", "'it''s'", "r'\\'", 'R"\\"', "`'`", "```'`"])


@given(NAME, BETWEEN, STRING, STRING, BETWEEN)
def test_whatever_stands_before_the_parenthesis(name: str, between: str, before: str, after: str, more: str) -> None:
    text = f"{before} = {more}{name}{between}('java.lang.System', 'lineSeparator') AND {after} <> ''"
    with pytest.raises(TableError, match="metadata never runs code"):
        check_expression(text, "the constraint c")


def test_the_functions_are_sparks(spark: SparkSession) -> None:
    names = {str(row[0]) for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    left_out = {*CALL_METHODS, *NAME_CLASSES, *READ_FILES, *TABLE_FUNCTIONS}
    assert {name for name in names if name.isidentifier()} - ALLOWED_SPARK_FUNCTIONS == left_out
    assert not ALLOWED_SPARK_FUNCTIONS - names


def test_accepted_expressions_mean_the_same_to_spark(spark: SparkSession) -> None:
    """A string ends where Spark ends it, so a call after it is found."""
    texts = ["'a''b'", "'a\\'b'", "r'a\\'", 'R"\'"', '"a\'b"', "'a' 'b'", "'-- x'", "'/* x'", "'a\nb'"]
    values = spark.range(1).selectExpr(*(check_expression(f"length({text}) > 0", "c") for text in texts)).first()
    assert values is not None
    assert all(values)
