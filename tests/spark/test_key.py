"""Keys and ids on Spark equal the scalar ones in every mode of the session, by `key_column` and by `with_key`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from partita.algebra.key import PartitionKey
from partita.algebra.type_text import parse_type
from partita.errors import KeyValueError, SchemaError
from partita.spark import id_column, key_column, with_key
from partita.spark.base64url import base64url_pieces
from tests.spark.frames import (
    SESSION_MODES,
    draw_by_mode,
    physical_plan_text,
    session_mode,
    session_settings,
    typed_frame,
    typed_value,
)
from tests.value_strategies import values_of_type
from tests.vectors import load_vectors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTORS = load_vectors("identity")
TYPES = {"bool": "boolean", "int": "long", "null": "void"}
DIMENSIONS = {
    "at": "timestamp", "big": "long", "code": "short", "day": "date", "flag": "boolean", "region": "string",
}  # fmt: skip
COLUMNS = {name: parse_type(text) for name, text in DIMENSIONS.items()}
ROWS = st.lists(
    st.fixed_dictionaries({n: st.none() | values_of_type(t) for n, t in COLUMNS.items()}), min_size=1, max_size=40
)


def typed_columns(df: DataFrame, name: str, sources: Mapping[str, str]) -> DataFrame:
    """The rows with a key by `key_column`, which gets the types from here."""
    return df.withColumn(name, key_column(**{n: (source, df.schema[source].dataType) for n, source in sources.items()}))


def column_names(df: DataFrame, name: str, sources: Mapping[str, str]) -> DataFrame:
    """The rows with a key by `with_key`, which gets the names of columns."""
    return with_key(df, name, dimensions=sources)


def untyped_columns(df: DataFrame, name: str, sources: Mapping[str, str]) -> DataFrame:
    """The rows with a key by `with_key`, which gets Columns."""
    return with_key(df, name, dimensions={n: F.col(source) for n, source in sources.items()})


ADD_KEY = (typed_columns, column_names, untyped_columns)
AddKey: TypeAlias = Callable[["DataFrame", str, Mapping[str, str]], "DataFrame"]


def add_own_columns(df: DataFrame, add_key: AddKey) -> DataFrame:
    """The rows with a key of all their columns, each a dimension of its own name."""
    return add_key(df, "key", {name: name for name in df.columns})


# Each vector is a plan of its own: every setting is in a normal run, and every combination of them in a long one.
NORMAL_CASES = {
    (typed_columns, SESSION_MODES[0]),
    (typed_columns, SESSION_MODES[4]),
    (column_names, SESSION_MODES[1]),
    (untyped_columns, SESSION_MODES[5]),
}
VECTOR_CASES = [
    pytest.param(add_key, mode, marks=() if (add_key, mode) in NORMAL_CASES else pytest.mark.long)
    for add_key in ADD_KEY
    for mode in SESSION_MODES
]


@pytest.mark.parametrize(("add_key", "mode"), VECTOR_CASES)
def test_vectors(spark: SparkSession, mode: tuple[str, str], add_key: AddKey) -> None:
    columns, places = {}, []
    for number, row in enumerate(VECTORS["valid"]):
        places.append({dimension["name"]: f"{dimension['name']}_{number}" for dimension in row["dimensions"]})
        for dimension in row["dimensions"]:
            type_ = parse_type(TYPES.get(dimension["type"], dimension["type"]))
            columns[f"{dimension['name']}_{number}"] = (type_, [typed_value(dimension["value"], type_)])
    with session_mode(spark, mode):
        df = typed_frame(spark, columns)
        keyed = df
        for number, names in enumerate(places):
            keyed = add_key(keyed, f"key_{number}", names)
        texts = keyed.select(*(f"key_{number}" for number in range(len(places)))).first()
        ids = spark.createDataFrame([(row["key"],) for row in VECTORS["valid"]], "key string").select(
            id_column(VECTORS["asset_id"], "key")
        )
    assert texts == tuple(row["key"] for row in VECTORS["valid"])
    assert [row.id for row in ids.collect()] == [row["id"] for row in VECTORS["valid"]]


def test_equal_the_scalar_keys(spark: SparkSession) -> None:
    for mode, examples in draw_by_mode(ROWS).items():
        rows = [row for example in examples for row in example]
        with session_mode(spark, mode):
            df = typed_frame(spark, {name: (type_, [row[name] for row in rows]) for name, type_ in COLUMNS.items()})
            for add_key in ADD_KEY:
                df = add_key(df, add_key.__name__, {name: name for name in COLUMNS})
            names = [add_key.__name__ for add_key in ADD_KEY]
            results = df.select(*names, *(id_column("orders", name) for name in names)).collect()
        for row, result in zip(rows, results, strict=True):
            key = PartitionKey.of(row)
            assert tuple(result) == (str(key),) * len(names) + (key.id("orders"),) * len(names), (mode, row)


def test_no_dimensions(spark: SparkSession) -> None:
    df = spark.range(1)
    assert df.select(key_column(), id_column("orders", key_column())).first() == ("", PartitionKey.of().id("orders"))
    assert with_key(df, dimensions=[]).first() == (0, "")


@pytest.mark.parametrize("mode", SESSION_MODES[::3])
@pytest.mark.parametrize("ends", [(0, 1), (9999, 10_000)])
def test_years_outside(spark: SparkSession, mode: tuple[str, str], ends: tuple[int, int]) -> None:
    inside = "0001-01-01" if ends[0] == 0 else "9999-12-31"
    step = -1 if ends[0] == 0 else 1
    with session_mode(spark, mode):
        for values, type_ in (
            (f"date_add(date'{inside}', int(id) * {step})", spark_types.DateType()),
            (_micros_at(inside, step), spark_types.TimestampType()),
        ):
            df = spark.range(2).selectExpr(f"{values} as x", "id")
            keyed = df.withColumn("key_0", key_column(when=("x", type_)))
            for number, source in enumerate(("x", F.col("x")), 1):
                keyed = with_key(keyed, f"key_{number}", dimensions={"when": source})
            rows = keyed.where("id = 0").drop("x", "id").collect()
            assert [[key[7:17] for key in row] for row in rows] == [[inside] * 3]
            for name in ("key_0", "key_1", "key_2"):
                with pytest.raises(PySparkException, match="'when': outside the years 0001 to 9999"):
                    keyed.select("id", name).collect()


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


@pytest.mark.parametrize("mode", SESSION_MODES[::3])
@pytest.mark.parametrize(("sql", "type_name"), REFUSED.items())
def test_refused_types(spark: SparkSession, mode: tuple[str, str], sql: str, type_name: str) -> None:
    with session_mode(spark, mode):
        df = spark.sql(f"select {sql} as x")
        with pytest.raises(KeyValueError, match="'price': a column of type") as caught:
            key_column(price=("x", df.schema["x"].dataType))
        assert type_name in str(caught.value)
        for source in ("x", F.col("x")):
            with pytest.raises(KeyValueError, match="'price': a column of type") as failed:
                with_key(df, dimensions={"price": source})
            assert type_name in str(failed.value)


@pytest.mark.parametrize("add_key", ADD_KEY)
def test_invalid_utf8_is_refused(spark: SparkSession, add_key: AddKey) -> None:
    df = spark.sql("select cast(X'ff61' as string) as region")
    with pytest.raises(PySparkException, match=r"INVALID_UTF8_STRING.*FF"):
        add_own_columns(df, add_key).select("key").collect()


def test_collated_and_long_strings(spark: SparkSession) -> None:
    text = "ÿ?>" * 100
    df = spark.createDataFrame([(text,)], "x string").selectExpr("x", "x collate UNICODE_CI as y")
    expected = str(PartitionKey.of(region=text))
    keyed = with_key(with_key(df, "key_x", dimensions={"region": "x"}), "key_y", dimensions={"region": "y"})
    columns = [F.col("key_x"), F.col("key_y"), key_column(region=("y", df.schema["y"].dataType))]
    with session_mode(spark, SESSION_MODES[0]):
        spark.conf.set("spark.sql.legacy.chunkBase64String.enabled", "true")
        try:
            assert set(keyed.select(*columns).first() or ()) == {expected}
        finally:
            spark.conf.unset("spark.sql.legacy.chunkBase64String.enabled")


def test_bad_names_and_asset_ids(spark: SparkSession) -> None:
    with pytest.raises(KeyValueError, match="lower-case"):
        key_column(Region=("x", spark_types.StringType()))
    with pytest.raises(KeyValueError, match="lower-case"):
        with_key(spark.range(1), dimensions={"Region": "id"})
    with pytest.raises(KeyValueError, match="non-empty"):
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
    for add_key in ADD_KEY:
        keyed = add_own_columns(df, add_key).select("key", id_column("orders", "key"))
        plan = physical_plan_text(keyed, capsys)
        assert "Project" in plan
        assert "Python" not in plan
        assert "Pandas" not in plan


def test_the_plan_has_no_branch_for_the_type(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    df = spark.range(3)
    for source in ("id", F.col("id")):
        plan = physical_plan_text(with_key(df, dimensions={"n": source}), capsys)
        assert "typeof" not in plan
        assert "CASE" not in plan


@pytest.mark.parametrize("dimension", ["id", F.col, ("id", None)])
def test_a_column_without_its_type_is_refused_with_the_way_out(spark: SparkSession, dimension: Any) -> None:
    column = dimension("id") if callable(dimension) else dimension
    with pytest.raises(KeyValueError, match=r"'n': .* use partita\.spark\.with_key\(df, .* key_column\(n=\(column, "):
        key_column(n=column)


def test_with_key_adds_one_column(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'us' AS region, date'2025-01-15' AS date, 7 AS name")
    expected = str(PartitionKey.of(date=date(2025, 1, 15), region="us"))
    keyed = with_key(df, dimensions=["region", "date"])
    assert keyed.columns == ["region", "date", "name", "partition_key"]
    assert keyed.first() == ("us", date(2025, 1, 15), 7, expected)
    renamed = with_key(df, "key", dimensions={"name": "name", "region": F.upper("region")})
    assert renamed.select("key").first() == (str(PartitionKey.of(name=7, region="US")),)
    assert with_key(df, dimensions="region").select("partition_key").first() == (str(PartitionKey.of(region="us")),)


def test_with_key_replaces_no_column(spark: SparkSession) -> None:
    with pytest.raises(SchemaError, match="a column 'ID' already; give the key's column another name"):
        with_key(spark.range(1), "ID", dimensions={"n": "id"})


DAYS_OF_1582 = "explode(sequence(date'1582-09-30', date'1582-10-20')) AS day"


@pytest.mark.parametrize("policy", ["LEGACY", "CORRECTED", "EXCEPTION"])
def test_a_calendar_of_the_session_moves_no_day(spark: SparkSession, policy: str) -> None:
    days = [date(1582, 9, 30) + timedelta(days=n) for n in range(21)]
    instants = [datetime(day.year, day.month, day.day, 10, tzinfo=UTC) for day in days]
    with session_settings(spark, {"spark.sql.legacy.timeParserPolicy": policy, "spark.sql.session.timeZone": "UTC"}):
        df = spark.range(1).selectExpr(DAYS_OF_1582).selectExpr("day", "timestamp(day) + INTERVAL 10 HOURS AS at")
        cases = {f"{name}_{add_key.__name__}": (name, add_key) for name in ("day", "at") for add_key in ADD_KEY}
        keyed = df
        for key, (name, add_key) in cases.items():
            keyed = add_key(keyed, key, {name: name})
        rows = keyed.select(*cases).collect()
        expected = {
            name: [str(PartitionKey.of({name: value})) for value in values]
            for name, values in (("day", days), ("at", instants))
        }
        for key, (name, _) in cases.items():
            assert [row[key] for row in rows] == expected[name], key


BEFORE = {"day": "date_from_unix_date(-719163)", "at": "timestamp_micros(-62135596800000001)"}
FARTHEST = {"day": "date_from_unix_date(int({}2147483647))", "at": "timestamp_micros(bigint({}9223372036854775807))"}


@pytest.mark.parametrize("policy", ["LEGACY", "CORRECTED"])
@pytest.mark.parametrize("add_key", ADD_KEY)
def test_the_farthest_years_are_refused_by_name(spark: SparkSession, policy: str, add_key: AddKey) -> None:
    with session_settings(spark, {"spark.sql.legacy.timeParserPolicy": policy}):
        for name, before in BEFORE.items():
            for value in (before, FARTHEST[name].format("-"), FARTHEST[name].format("")):
                df = spark.range(1).selectExpr(f"{value} AS {name}")
                with pytest.raises(PySparkException, match=f"{name!r}: outside the years 0001 to 9999"):
                    add_own_columns(df, add_key).select("key").collect()


def test_names_of_columns_are_those_of_spark(spark: SparkSession) -> None:
    df = spark.sql("SELECT date'2025-01-15' AS `my day`, named_struct('at', date'2025-01-15') AS s, 1 AS `select`")
    for source in ("my day", "s.at", "S.AT", "`my day`"):
        assert with_key(df, "key", dimensions={"x": source}).select("key").first() == ("x=d:2025-01-15",)
    assert with_key(df, "key", dimensions={"x": "select"}).select("key").first() == ("x=i:1",)


def test_a_long_text_keeps_its_first_part(spark: SparkSession) -> None:
    octets, size = F.lit(b"abc" * 19), F.lit(2**29)
    assert spark.range(1).select(base64url_pieces(octets, size)[0]).first() == (b"YWJj" * 19,)
