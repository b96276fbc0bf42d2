"""The public functions of `partita.spark` raise nothing but a `PartitaError` where a session runs (ADR 26)."""

# mypy: disable-error-code="arg-type,list-item,dict-item"
# Wrong arguments are what it is about.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

import partita as pt
from partita.errors import PartitaError
from partita.spark import id_column, key_column, spark_session, with_key, with_partitions
from tests.house.public_calls import VALID_ARGUMENTS, public_functions, try_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

FUNCTIONS = {
    call.name: call
    for call in public_functions()
    if call.name.startswith("partita.spark.") and call.name != "partita.spark.spark_session"
}
"""All but what returns the session itself, which the walk would enter and thereby stop."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    df = spark.range(3)
    # Where no session runs, tests/house has the same calls without rows.
    valid = {"df": df, "schema": df.schema, "functions": {"b": pt.bucket("id", 4)}, "key": "k"}
    for parameter, value in valid.items():
        monkeypatch.setitem(VALID_ARGUMENTS, parameter, value)
    FUNCTIONS[name].make()
    try_wrong_arguments(FUNCTIONS[name])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda df: with_key(df, dimensions={"k": 5}), "the dimension 'k' is a Column or the name of one, not 5"),
        (lambda df: with_key(df, dimensions=None), "a list of names, .* not NoneType"),
        (lambda df: with_key(df, dimensions=F.col("id")), "a list of names, .* not Column"),
        (lambda df: with_key(df, dimensions=[F.col("id")]), "lower-case"),
        (lambda df: with_key(df, dimensions=["nothing"]), "nothing"),
        (lambda df: with_key(df, dimensions={"k": F.col("nothing")}), "nothing"),
        (lambda df: with_key(df, 5, dimensions=["id"]), "the name of a column is a text, not 5"),
        (lambda _: with_key(None, dimensions=["id"]), "rows are a Spark DataFrame here, not None"),
        (lambda _: with_partitions(None, {}, family="iceberg"), "rows are a Spark DataFrame here, not None"),
        (lambda _: id_column("a", 5), "the key is a Column or the name of one, not 5"),
        (lambda _: key_column(d=(F.col("id"),)), r"key_column\(d=\(column, "),
        (lambda _: key_column(d=()), "a tuple of 0"),
        (lambda _: key_column(d=("id", spark_types.LongType(), 1)), "a pair of a column and its type, .* tuple of 3"),
        (lambda _: key_column(d=("id", "date")), "the dimension 'd' has a Spark type, .* not 'date'"),
        (lambda _: key_column(d=("id", spark_types.DateType)), "has a Spark type, .* not <class"),
        (
            lambda _: key_column(d=(5, spark_types.DateType())),
            "the dimension 'd' is a Column or the name of one, not 5",
        ),
        (lambda _: spark_session(5), "app_name is a text, not 5"),
        (lambda _: spark_session(**{"spark.app.x": None}), "'spark.app.x' is None"),
        (lambda _: key_column(d=("a b", spark_types.DateType())), None),
        (lambda _: key_column(d=("a..b", spark_types.DateType())), "a..b"),
    ],
)
def test_a_wrong_argument_is_named(spark: SparkSession, call: Callable[[Any], object], message: str | None) -> None:
    df = spark.range(1)
    if message is None:
        call(df)
        return
    with pytest.raises(PartitaError, match=message):
        call(df)
