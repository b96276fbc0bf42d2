"""Conversion of Spark types to Partita's, and columns by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as spark_types

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_to_json
from partita.algebra.type_text import parse_type
from partita.algebra.types import other_type
from partita.errors import UnknownColumn
from partita.spark import to_schema
from partita.spark.schema import find_column, logical_type
from tests.spark.frames import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    "boolean", "byte", "short", "int", "long", "float", "double", "decimal(38,10)", "date", "time", "timestamp",
    "timestamp_ntz", "string", "binary", "void", "list<int>", "map<string,date>", "struct<a:int,b:list<string>>",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_types(name: str) -> None:
    assert logical_type(spark_type(parse_type(name))) == parse_type(name)


def test_strings() -> None:
    assert logical_type(spark_types.VarcharType(5)) == parse_type("varchar(5)")
    assert logical_type(spark_types.CharType(5)) == parse_type("char(5)")
    assert logical_type(spark_types.StringType("UNICODE_CI")) == other_type("string collate UNICODE_CI")
    assert logical_type(spark_types.VariantType()) == other_type("variant")


def test_schema() -> None:
    schema = to_schema(spark_types.StructType([spark_types.StructField("a", spark_types.LongType(), nullable=False)]))
    assert schema.names == ("a",)
    assert not schema.find_field("A").nullable


def test_json_equals_the_json_of_spark() -> None:
    schema = Schema.of({f"c {name}": name for name in NAMES if name not in ("time", "void")})
    spark_schema = spark_types.StructType([spark_types.StructField(f.name, spark_type(f.type)) for f in schema])
    json = schema_to_json(schema)
    assert json == spark_schema.jsonValue()
    assert spark_types.StructType.fromJson(json) == spark_schema


def test_find_column(spark: SparkSession) -> None:
    df = spark.sql(
        "select named_struct('b.c', 1, 'd', 'x') as `a``z`, 2L as `p.q`, named_struct('q', 3) as r, 4 as `r.q`"
    )
    columns = {name: find_column(df.schema, name) for name in ("A`z.B.c", "a`z.d", "p.q")}
    assert df.select(*(column for column, _ in columns.values())).first() == (1, "x", 2)
    assert [data_type.simpleString() for _, data_type in columns.values()] == ["int", "string", "bigint"]
    for name in ("nope", "r.q"):
        with pytest.raises(UnknownColumn):
            find_column(df.schema, name)
