"""Every rendering of a partition function over Spark Connect, on a few values, against the scalar meaning."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from pyspark.sql import functions as F

from partita.algebra import functions
from partita.algebra.key import PartitionKey
from partita.algebra.transforms import Family
from partita.errors import TransformError
from partita.spark import apply, id_column, key_column, session, to_schema, with_partitions

SCHEMA = (
    "day date, at timestamp, n timestamp_ntz, id long, name string, octets binary, price decimal(38,10), flag boolean, "
    "items array<struct<b:string,a:double>>, tags map<string,int>"
)
ROW = (
    date(1969, 12, 31), datetime(2025, 3, 9, 2, 30, tzinfo=UTC), datetime(2025, 3, 9, 2, 30),  # noqa: DTZ001
    -5, "日本語🎉\x1f", b"\x00\x01\x02", Decimal("-14.2000000001"), True,
    [{"b": 'x"', "a": -0.5}, None], {"z": 1, "a": None},
)  # fmt: skip


def check_renderings() -> None:
    spark = session()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    df = spark.createDataFrame([ROW, (None,) * len(ROW)], SCHEMA)
    columns, expected = [], []
    for field, value in zip(to_schema(df.schema), ROW, strict=True):
        for name, width in (("year", None), ("month", None), ("day", None), ("hour", None), ("hash", None),
                            ("bucket", 16), ("truncate", 3)):  # fmt: skip
            f = functions.function(name, field.name, width)
            for family in Family:
                try:
                    f.transform.check(field.type, family)
                except TransformError:
                    continue
                columns.append(apply(f, field.name, df.schema[field.name].dataType, family=family))
                expected.append((str(f), family, f.apply(value, family=family, type=field.type)))
    results, nulls = df.select(*(column.alias(f"f{number}") for number, column in enumerate(columns))).collect()
    for (function, family, value), result in zip(expected, results, strict=True):
        assert result == value, (function, family, result, value)
    assert set(nulls) == {None}, nulls
    dimensions = dict(zip(df.columns, ROW, strict=True))
    keyed = {name: dimensions[name] for name in ("day", "at", "id", "name", "flag")}
    typed = key_column(**{name: (F.col(name), df.schema[name].dataType) for name in keyed})
    untyped = key_column(**{name: F.col(name) for name in keyed})
    first = df.select(typed, untyped, id_column("orders", typed)).first()
    key = PartitionKey.of(keyed)
    assert first == (str(key), str(key), key.id("orders")), first
    shards = with_partitions(df, {"shard": functions.bucket("name", 16)}, family="lance")
    assert shards.columns == [*df.columns, "shard"]
    print(f"{len(columns)} functions")  # noqa: T201 - read by the test
    spark.conf.set("spark.sql.session.timeZone", "UTC")
