"""Keys and ids on Spark are the scalar ones, in every mode of the session, with the type given or not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.algebra.key import PartitionKey
from partita.algebra.type_text import parse_type
from partita.errors import KeyValueError
from partita.spark import id_column, key_column
from partita.spark.base64 import base64url_pieces
from tests.spark.frames import MODES, batched, frame, plan_of, running_in, set_to, typed_value
from tests.values import of_type
from tests.vectors import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTORS = load("identity")
TYPES = {"bool": "boolean", "int": "long", "null": "void"}
DIMENSIONS = {
    "at": "timestamp", "big": "long", "code": "short", "day": "date", "flag": "boolean", "region": "string",
}  # fmt: skip
COLUMNS = {name: parse_type(text) for name, text in DIMENSIONS.items()}
ROWS = st.lists(st.fixed_dictionaries({n: st.none() | of_type(t) for n, t in COLUMNS.items()}), min_size=1, max_size=40)


def typed(df: DataFrame) -> dict[str, Any]:
    return {name: (name, df.schema[name].dataType) for name in df.columns}


def named(df: DataFrame) -> dict[str, Any]:
    return {name: name for name in df.columns}


def untyped(df: DataFrame) -> dict[str, Any]:
    return {name: F.col(name) for name in df.columns}


GIVEN = (typed, named, untyped)
# The expressions of an unknown type are long: two modes tell in a normal run, and all of them in a long one.
VECTOR_CASES = [
    pytest.param(given_as, mode, marks=() if given_as is typed or mode in (MODES[0], MODES[-1]) else pytest.mark.long)
    for given_as in GIVEN
    for mode in MODES
]


@pytest.mark.parametrize(("given_as", "mode"), VECTOR_CASES)
def test_vectors(spark: SparkSession, mode: tuple[str, str], given_as: Any) -> None:
    columns, places = {}, []
    for number, row in enumerate(VECTORS["valid"]):
        places.append({dimension["name"]: f"{dimension['name']}_{number}" for dimension in row["dimensions"]})
        for dimension in row["dimensions"]:
            type_ = parse_type(TYPES.get(dimension["type"], dimension["type"]))
            columns[f"{dimension['name']}_{number}"] = (type_, [typed_value(dimension["value"], type_)])
    with running_in(spark, mode):
        df = frame(spark, columns)
        sources = given_as(df)
        keys = [key_column(**{name: sources[place] for name, place in names.items()}) for names in places]
        texts = df.select(*keys).first()
        ids = spark.createDataFrame([(row["key"],) for row in VECTORS["valid"]], "key string").select(
            id_column(VECTORS["asset_id"], "key")
        )
    assert texts == tuple(row["key"] for row in VECTORS["valid"])
    assert [row.id for row in ids.collect()] == [row["id"] for row in VECTORS["valid"]]


@pytest.mark.parametrize("given_as", GIVEN)
def test_equal_the_scalar_keys(spark: SparkSession, given_as: Any) -> None:
    @batched
    @given(ROWS, st.sampled_from(MODES))
    def equal(rows: list[dict[str, Any]], mode: tuple[str, str]) -> None:
        with running_in(spark, mode):
            df = frame(spark, {name: (type_, [row[name] for row in rows]) for name, type_ in COLUMNS.items()})
            key = key_column(**given_as(df))
            found = df.select(key, id_column("orders", key)).collect()
        keys = [PartitionKey.of(row) for row in rows]
        assert [tuple(row) for row in found] == [(str(key), key.id("orders")) for key in keys]

    equal()


def test_no_dimensions(spark: SparkSession) -> None:
    df = spark.range(1)
    assert df.select(key_column(), id_column("orders", key_column())).first() == ("", PartitionKey.of().id("orders"))


@pytest.mark.parametrize("mode", MODES[::3])
@pytest.mark.parametrize("ends", [(0, 1), (9999, 10_000)])
def test_years_outside(spark: SparkSession, mode: tuple[str, str], ends: tuple[int, int]) -> None:
    inside = "0001-01-01" if ends[0] == 0 else "9999-12-31"
    step = -1 if ends[0] == 0 else 1
    with running_in(spark, mode):
        for values, type_ in (
            (f"date_add(date'{inside}', int(id) * {step})", spark_types.DateType()),
            (_micros_at(inside, step), spark_types.TimestampType()),
        ):
            df = spark.range(2).selectExpr(f"{values} as x", "id")
            for dimension in ("x", F.col("x"), ("x", type_)):
                keyed = df.select("id", key_column(when=dimension))
                assert keyed.where("id = 0").count() == 1
                assert keyed.where("id = 0").first().key[7:17] == inside  # type: ignore[union-attr] # there is a row
                with pytest.raises(PySparkException, match="'when': outside the years 0001 to 9999"):
                    keyed.collect()


def _micros_at(inside: str, step: int) -> str:
    clock = "00:00:00" if step < 0 else "23:59:59.999999"
    micros = (datetime.fromisoformat(f"{inside}T{clock}+00:00") - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    exact = -62_135_596_800_000_000 if step < 0 else 253_402_300_799_999_999
    assert abs(micros * 1e6 - exact) < 100
    return f"timestamp_micros({exact} + id * {step})"


REFUSED = {
    "1.5d": "double", "cast(1 as float)": "float", "1.5bd": "decimal(2,1)", "X'00'": "binary", "array(1)": "array<int>",
    "timestamp_ntz'2025-01-15 00:00:00'": "timestamp_ntz", "map(1, 2)": "map<int,int>",
    "struct(1 as a)": "struct<a:int>",
    "interval '1' day": "interval day", "parse_json('1')": "variant", "make_interval(1)": "interval",
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES[::3])
@pytest.mark.parametrize(("sql", "type_name"), REFUSED.items())
def test_refused_types(spark: SparkSession, mode: tuple[str, str], sql: str, type_name: str) -> None:
    with running_in(spark, mode):
        df = spark.sql(f"select {sql} as x")
        with pytest.raises(KeyValueError, match="'price': a column of type") as caught:
            key_column(price=("x", df.schema["x"].dataType))
        assert type_name in str(caught.value)
        for source in ("x", F.col("x")):
            with pytest.raises(PySparkException, match="'price': a column of type") as failed:
                df.select(key_column(price=source)).collect()
            assert type_name in str(failed.value)


@pytest.mark.parametrize("given_as", GIVEN)
def test_invalid_utf8_is_refused(spark: SparkSession, given_as: Any) -> None:
    df = spark.sql("select cast(X'ff61' as string) as region")
    with pytest.raises(PySparkException, match=r"INVALID_UTF8_STRING.*FF"):
        df.select(key_column(**given_as(df))).collect()


def test_collated_and_long_strings(spark: SparkSession) -> None:
    text = "ÿ?>" * 100
    df = spark.createDataFrame([(text,)], "x string").selectExpr("x", "x collate UNICODE_CI as y")
    expected = str(PartitionKey.of(region=text))
    columns = [key_column(region="x"), key_column(region="y"), key_column(region=("y", df.schema["y"].dataType))]
    with running_in(spark, MODES[0]):
        spark.conf.set("spark.sql.legacy.chunkBase64String.enabled", "true")
        try:
            assert set(df.select(*columns).first() or ()) == {expected}
        finally:
            spark.conf.unset("spark.sql.legacy.chunkBase64String.enabled")


def test_bad_names_and_asset_ids(spark: SparkSession) -> None:
    with pytest.raises(KeyValueError, match="lower-case"):
        key_column(Region="x")
    with pytest.raises(KeyValueError, match="not empty"):
        id_column("", F.lit("a=i:1"))
    df = spark.createDataFrame([("orders",), ("",)], "asset string")
    ids = df.select(id_column(F.col("asset"), F.lit("a=i:1")))
    assert ids.first() == (PartitionKey.of(a=1).id("orders"),)
    with pytest.raises(PySparkException, match="asset_id"):
        ids.collect()
    spaces = spark.sql("SELECT '  ' COLLATE UTF8_BINARY_RTRIM AS asset").select(
        id_column(F.col("asset"), F.lit("a=i:1"))
    )
    assert spaces.first() == (PartitionKey.of(a=1).id("  "),)


def test_no_python_worker(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ", ".join(f"cast(null as {text}) as {name}" for name, text in DIMENSIONS.items())
    df = spark.range(3).selectExpr(*columns.split(", "))
    for given_as in GIVEN:
        key = key_column(**given_as(df))
        plan = plan_of(df.select(key, id_column("orders", key)), capsys)
        assert "Project" in plan
        assert "Python" not in plan
        assert "Pandas" not in plan


def test_the_type_is_told_before_the_query_runs(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    df = spark.range(3)
    for source in ("id", F.col("id")):
        plan = plan_of(df.select(key_column(n=source)), capsys)
        assert "typeof" not in plan
        assert "CASE" not in plan


DAYS_OF_1582 = "explode(sequence(date'1582-09-30', date'1582-10-20')) AS day"


@pytest.mark.parametrize("policy", ["LEGACY", "CORRECTED", "EXCEPTION"])
def test_a_calendar_of_the_session_moves_no_day(spark: SparkSession, policy: str) -> None:
    days = [date(1582, 9, 30) + timedelta(days=n) for n in range(21)]
    instants = [datetime(day.year, day.month, day.day, 10, tzinfo=UTC) for day in days]
    with set_to(spark, {"spark.sql.legacy.timeParserPolicy": policy, "spark.sql.session.timeZone": "UTC"}):
        df = spark.range(1).selectExpr(DAYS_OF_1582).selectExpr("day", "timestamp(day) + INTERVAL 10 HOURS AS at")
        for name, values in (("day", days), ("at", instants)):
            keys = [str(PartitionKey.of({name: value})) for value in values]
            for given_as in GIVEN:
                rows = df.select(key_column(**{name: given_as(df)[name]})).collect()
                assert [row.key for row in rows] == keys


BEFORE = {"day": "date_from_unix_date(-719163)", "at": "timestamp_micros(-62135596800000001)"}
FARTHEST = {"day": "date_from_unix_date(int({}2147483647))", "at": "timestamp_micros(bigint({}9223372036854775807))"}


@pytest.mark.parametrize("policy", ["LEGACY", "CORRECTED"])
@pytest.mark.parametrize("given_as", GIVEN)
def test_the_farthest_years_are_refused_by_name(spark: SparkSession, policy: str, given_as: Any) -> None:
    with set_to(spark, {"spark.sql.legacy.timeParserPolicy": policy}):
        for name, before in BEFORE.items():
            for value in (before, FARTHEST[name].format("-"), FARTHEST[name].format("")):
                df = spark.range(1).selectExpr(f"{value} AS {name}")
                with pytest.raises(PySparkException, match=f"{name!r}: outside the years 0001 to 9999"):
                    df.select(key_column(**given_as(df))).collect()


def test_names_of_columns_are_those_of_spark(spark: SparkSession) -> None:
    df = spark.sql("SELECT date'2025-01-15' AS `my day`, named_struct('at', date'2025-01-15') AS s, 1 AS `select`")
    columns = [key_column(x="my day"), key_column(x="s.at"), key_column(x="S.AT"), key_column(x="`my day`")]
    assert set(df.select(*columns).first() or ()) == {"x=d:2025-01-15"}
    assert df.select(key_column(x="select")).first() == ("x=i:1",)


def test_a_long_text_keeps_its_first_part(spark: SparkSession) -> None:
    octets, size = F.lit(b"abc" * 19), F.lit(2**29)
    assert spark.range(1).select(base64url_pieces(octets, size)[0]).first() == (b"YWJj" * 19,)
