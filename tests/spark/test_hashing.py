"""Murmur3 on Spark is the scalar one: pinned by the vectors, and for nested values by random types."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from partita.algebra.partition_functions import bucket
from partita.algebra.partition_functions import hash as hash_of
from partita.algebra.type_text import parse_type
from partita.algebra.types import ListType, LogicalType, MapType, StructType, TypeKind
from partita.errors import TransformError
from partita.spark import apply
from partita.spark.hashing import murmur3
from tests.spark.frames import (
    SESSION_MODES,
    few_examples,
    physical_plan_text,
    session_mode,
    spark_type,
    typed_frame,
    typed_value,
)
from tests.value_strategies import nested_types, values_of_type
from tests.vectors import load_vectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark has no UUIDs.
VECTORS = [row for row in load_vectors("murmur3")["rows"] if row["type"] != "uuid"]


@pytest.mark.parametrize("mode", SESSION_MODES)
def test_vectors(spark: SparkSession, mode: tuple[str, str]) -> None:
    types = [parse_type(row["type"]) for row in VECTORS]
    typed = [typed_value(row["value"], type_) for row, type_ in zip(VECTORS, types, strict=True)]
    with session_mode(spark, mode):
        df = typed_frame(spark, {f"c{i}": (type_, [typed[i], None]) for i, type_ in enumerate(types)})
        hashes = df.select(*(murmur3(F.col(f"c{i}"), type_) for i, type_ in enumerate(types)))
        found, nulls = hashes.collect()
        for f, family, name in ((bucket("c", 16), "iceberg", "bucket_16"), (hash_of("c"), "lance", "hex")):
            columns = (apply(f, f"c{i}", spark_type(type_), family=family) for i, type_ in enumerate(types))
            assert df.select(*columns).first() == tuple(row[name] for row in VECTORS)
    assert found == tuple(row["hash"] for row in VECTORS)
    assert set(nulls) == {None}


def test_every_length_of_the_tail(spark: SparkSession) -> None:
    values = ["x" * n for n in range(70)] + [chr(0) * n for n in range(9)] + ["\U0010ffff" * n for n in range(9)]
    for text, cast in (("string", str), ("binary", str.encode)):
        type_ = parse_type(text)
        typed = [cast(value) for value in values]
        df = typed_frame(spark, {"c": (type_, typed)})
        found = [row[0] for row in df.select(apply(hash_of("c"), "c", spark_type(type_), family="lance")).collect()]
        assert found == [hash_of("c").apply(value, family="lance", type=type_) for value in typed]


@pytest.mark.parametrize("precision", [1, 2, 3, 9, 18, 19, 20, 37, 38])
def test_decimals_at_the_edges_of_bytes(spark: SparkSession, precision: int) -> None:
    limit = 10**precision - 1
    edges = {s * (2**n + d) for n in range(128) for d in (-1, 0, 1) for s in (1, -1)} | {limit, -limit}
    type_ = parse_type(f"decimal({precision},{precision // 2})")
    scale = -(precision // 2)
    values = [Decimal(f"{n}E{scale}") for n in sorted(edges) if abs(n) <= limit]
    for ansi in SESSION_MODES[0], SESSION_MODES[3]:
        with session_mode(spark, ansi):
            df = typed_frame(spark, {"c": (type_, values)})
            found = [row[0] for row in df.select(apply(hash_of("c"), "c", spark_type(type_), family="lance")).collect()]
        assert found == [hash_of("c").apply(value, family="lance", type=type_) for value in values]


def spark_has(type_: LogicalType) -> bool:
    """Whether Spark has the type, and can tell the fields of its structs apart."""
    if isinstance(type_, StructType):
        names = {f.name.casefold() for f in type_.fields} | {f.name.lower() for f in type_.fields}
        plain = all(f.name.isascii() for f in type_.fields) or len(type_.fields) == 1
        return plain and len(names) == len(type_.fields) and all(spark_has(f.type) for f in type_.fields)
    if isinstance(type_, ListType):
        return spark_has(type_.element)
    if isinstance(type_, MapType):
        return spark_has(type_.key) and spark_has(type_.value)
    return type_.kind not in (TypeKind.FIXED, TypeKind.UUID)


NESTED = [
    "struct<b:string,a:int,`A b`:double>",
    "list<string>",
    "list<list<timestamp>>",
    "map<string,long>",
    "map<decimal(38,10),list<double>>",
    "struct<d:date,t:time,n:timestamp_ntz,x:binary,f:float,e:decimal(19,19),o:boolean,s:struct<z:string>>",
]


@pytest.mark.parametrize("text", NESTED)
def test_nested_types(spark: SparkSession, text: str) -> None:
    type_ = parse_type(text)

    @few_examples
    @given(st.lists(st.none() | values_of_type(type_), min_size=1, max_size=30), st.sampled_from(SESSION_MODES))
    def equal(values: list[object], mode: tuple[str, str]) -> None:
        assert_hashes(spark, type_, values, mode)

    equal()


def test_random_nested_types(spark: SparkSession) -> None:
    typed_values = nested_types.filter(spark_has).flatmap(
        lambda type_: st.tuples(st.just(type_), st.lists(st.none() | values_of_type(type_), min_size=1, max_size=6))
    )

    @few_examples
    @given(typed_values, st.sampled_from(SESSION_MODES))
    def equal(drawn: tuple[LogicalType, list[object]], mode: tuple[str, str]) -> None:
        assert_hashes(spark, *drawn, mode)

    equal()


def assert_hashes(spark: SparkSession, type_: LogicalType, values: list[object], mode: tuple[str, str]) -> None:
    f = hash_of("c")
    with session_mode(spark, mode):
        df = typed_frame(spark, {"c": (type_, values)})
        found = [row[0] for row in df.select(apply(f, "c", spark_type(type_), family="lance")).collect()]
    assert found == [f.apply(value, family="lance", type=type_) for value in values]


def test_what_has_no_canonical_text(spark: SparkSession) -> None:
    df = spark.sql("select map(struct(1 as a), 2) as c")
    with pytest.raises(TransformError, match="no canonical JSON"):
        apply(hash_of("c"), "c", df.schema["c"].dataType, family="lance")
    intervals = spark.sql("select array(interval '1' day) as c")
    with pytest.raises(TransformError, match="interval day"):
        apply(hash_of("c"), "c", intervals.schema["c"].dataType, family="lance")


def test_no_python_worker_and_a_small_plan(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    plan = physical_plan_text(spark.sql("select cast(id as string) as c from range(9)").select(
        apply(bucket("c", 16), "c", spark_type(parse_type("string")), family="iceberg")), capsys)  # fmt: skip
    assert "Python" not in plan
    assert "Pandas" not in plan
    assert len(plan) < 20_000
