"""Murmur3 on Spark is the scalar one: pinned by the vectors, and for nested values by random types."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
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
    draw_by_mode,
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


@pytest.mark.parametrize(
    "mode",
    [mode if mode in SESSION_MODES[::4] else pytest.param(mode, marks=pytest.mark.long) for mode in SESSION_MODES],
)
def test_vectors(spark: SparkSession, mode: tuple[str, str]) -> None:
    values: dict[str, list[object]] = {}
    for row in VECTORS:
        values.setdefault(row["type"], []).append(typed_value(row["value"], parse_type(row["type"])))
    types = {text: parse_type(text) for text in values}
    length = max(map(len, values.values()))
    with session_mode(spark, mode):
        # Each column ends with a null at least.
        df = typed_frame(spark, {text: (types[text], [*values[text], None]) for text in values})
        columns = []
        for text, type_ in types.items():
            column = F.col(f"`{text}`")
            columns += [
                murmur3(column, type_),
                apply(bucket("c", 16), column, spark_type(type_), family="iceberg"),
                apply(hash_of("c"), column, spark_type(type_), family="lance"),
            ]
        rows = df.select(*columns).collect()
    assert len(rows) == length + 1
    for number, text in enumerate(types):
        expected = [(row["hash"], row["bucket_16"], row["hex"]) for row in VECTORS if row["type"] == text]
        results = [tuple(row[3 * number : 3 * number + 3]) for row in rows]
        assert results[: len(expected)] == expected, text
        assert {hash_ for hash_, _, _ in results[len(expected) :]} == {None}, text


def test_every_length_of_the_tail(spark: SparkSession) -> None:
    values = ["x" * n for n in range(70)] + [chr(0) * n for n in range(9)] + ["\U0010ffff" * n for n in range(9)]
    assert_hashes(
        spark,
        [(parse_type("string"), list(values)), (parse_type("binary"), [value.encode() for value in values])],
        SESSION_MODES[0],
    )


@pytest.mark.parametrize("mode", [SESSION_MODES[0], pytest.param(SESSION_MODES[3], marks=pytest.mark.long)])
def test_decimals_at_the_edges_of_bytes(spark: SparkSession, mode: tuple[str, str]) -> None:
    edges = sorted({s * (2**n + d) for n in range(128) for d in (-1, 0, 1) for s in (1, -1)})
    columns: list[tuple[LogicalType, list[object]]] = []
    for precision in (1, 2, 3, 9, 18, 19, 20, 37, 38):
        limit, scale = 10**precision - 1, precision // 2
        numbers = [n for n in edges if abs(n) < limit] + [limit, -limit]
        columns.append((parse_type(f"decimal({precision},{scale})"), [Decimal(f"{n}E-{scale}") for n in numbers]))
    assert_hashes(spark, columns, mode)


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


def test_nested_types(spark: SparkSession) -> None:
    columns: dict[tuple[str, str], list[tuple[LogicalType, list[object]]]] = {}
    for number, type_ in enumerate(map(parse_type, NESTED)):
        values = st.lists(st.none() | values_of_type(type_), min_size=1, max_size=30)
        for mode, examples in draw_by_mode(values, number).items():
            columns.setdefault(mode, []).append((type_, [value for example in examples for value in example]))
    for mode, typed_values in columns.items():
        assert_hashes(spark, typed_values, mode)


def test_random_nested_types(spark: SparkSession) -> None:
    typed_values = nested_types.filter(spark_has).flatmap(
        lambda type_: st.tuples(st.just(type_), st.lists(st.none() | values_of_type(type_), min_size=1, max_size=6))
    )
    for mode, examples in draw_by_mode(typed_values).items():
        assert_hashes(spark, examples, mode)


def assert_hashes(
    spark: SparkSession, columns: Sequence[tuple[LogicalType, list[object]]], mode: tuple[str, str]
) -> None:
    """Compare the hashes of typed values with the scalar ones, in one job."""
    f = hash_of("c")
    with session_mode(spark, mode):
        df = typed_frame(spark, {f"c{number}": column for number, column in enumerate(columns)})
        hashes = [
            apply(f, f"c{number}", spark_type(type_), family="lance").alias(f"h{number}")
            for number, (type_, _) in enumerate(columns)
        ]
        rows = df.select(*hashes).collect()
    for number, (type_, values) in enumerate(columns):
        for value, row in zip(values, rows, strict=False):
            assert row[number] == f.apply(value, family="lance", type=type_), (mode, str(type_), value)


def test_values_without_a_canonical_text(spark: SparkSession) -> None:
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
