"""A script for Spark Connect (see `run_in_connect`): keys, ids and partition functions are the scalar ones."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from pyspark.sql import functions as F

from partita.algebra import partition_functions
from partita.algebra.key import PartitionKey
from partita.algebra.transforms import TRANSFORMS, TransformFamily
from partita.errors import TransformError
from partita.spark import apply, id_column, key_column, spark_session, to_schema, with_key, with_partitions

SCHEMA = (
    "day date, at timestamp, n timestamp_ntz, id long, name string, octets binary, price decimal(38,10), flag boolean, "
    "items array<struct<b:string,a:double>>, tags map<string,int>"
)
SAMPLE_ROW = (
    date(1969, 12, 31), datetime(2025, 3, 9, 2, 30, tzinfo=UTC), datetime(2025, 3, 9, 2, 30),  # noqa: DTZ001
    -5, "日本語🎉\x1f", b"\x00\x01\x02", Decimal("-14.2000000001"), True,
    [{"b": 'x"', "a": -0.5}, None], {"z": 1, "a": None},
)  # fmt: skip


def check_renderings() -> None:
    spark = spark_session()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    df = spark.createDataFrame([SAMPLE_ROW, (None,) * len(SAMPLE_ROW)], SCHEMA)
    columns, expected = [], []
    for field, value in zip(to_schema(df.schema), SAMPLE_ROW, strict=True):
        for transform in TRANSFORMS:
            if transform.is_identity or transform.is_void:
                continue
            parameter = None if transform.parameter_name is None else 3
            f = partition_functions.partition_function(transform, field.name, parameter)
            for family in TransformFamily:
                try:
                    f.transform.check_type(field.type, family)
                except TransformError:
                    continue
                columns.append(apply(f, field.name, df.schema[field.name].dataType, family=family))
                expected.append((str(f), family, f.apply(value, family=family, type=field.type)))
    results, nulls = df.select(*(column.alias(f"f{number}") for number, column in enumerate(columns))).collect()
    for (function, family, value), result in zip(expected, results, strict=True):
        assert result == value, (function, family, result, value)
    assert set(nulls) == {None}, nulls
    dimensions = dict(zip(df.columns, SAMPLE_ROW, strict=True))
    keyed = {name: dimensions[name] for name in ("day", "at", "id", "name", "flag")}
    typed = key_column(**{name: (F.col(name), df.schema[name].dataType) for name in keyed})
    framed = with_key(df, dimensions={name: F.col(name) for name in keyed})
    first = framed.select(typed, "partition_key", id_column("orders", typed)).first()
    key = PartitionKey.of(keyed)
    assert first == (str(key), str(key), key.id("orders")), first
    shards = with_partitions(df, {"shard": partition_functions.bucket("name", 16)}, family="lance")
    assert shards.columns == [*df.columns, "shard"]
    print(f"{len(columns)} functions")  # noqa: T201 - read by the test
    spark.conf.set("spark.sql.session.timeZone", "UTC")


if __name__ == "__main__":
    check_renderings()
