"""Partition texts of Spark Columns equal those of Arrow, for every type and function."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import partita as pt
from partita.algebra.spec import PartitionSpec
from partita.arrow.schema import to_schema
from partita.formats.lance.spark.partition_texts import partition_text
from partita.formats.lance.values import partition_texts
from partita.spark.frames import frame_from_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2025, 6, 1, tzinfo=UTC)
EVERY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [True, False, None]),
    "i8": (pa.int8(), [-100, 127, None]),
    "i16": (pa.int16(), [-1, 0, None]),
    "i32": (pa.int32(), [-(2**31), 7, None]),
    "i64": (pa.int64(), [2**63 - 1, -5, None]),
    "dec": (pa.decimal128(12, 3), [Decimal("-0.500"), Decimal("12.345"), None]),
    "d": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None]),
    "ts": (pa.timestamp("us", "UTC"), [datetime(1969, 12, 31, 23, 59, 59, 1, UTC), AT, None]),
    "ntz": (pa.timestamp("us"), [datetime(1600, 2, 29, 1, 2, 3), datetime(2025, 6, 1), None]),  # noqa: DTZ001
    "s": (pa.string(), ["", "a/b$c %", None]),
    "o": (pa.binary(), [b"", b"\x00\xff", None]),
}  # fmt: skip
FUNCTIONS = (
    pt.identity,
    pt.year,
    pt.month,
    pt.day,
    pt.hour,
    lambda c: pt.bucket(c, 3),
    lambda c: pt.truncate(c, 2),
    pt.hash,
)


def test_every_type_by_every_function_that_takes_it(spark: SparkSession) -> None:
    rows = pa.table({name: pa.array(values, type_) for name, (type_, values) in EVERY.items()})
    fields = [
        field for name in EVERY for function in FUNCTIONS for field in partition_fields(function(name), rows.schema)
    ]
    assert len(fields) == 50
    frame = frame_from_arrow(spark, rows)
    texts = frame.select(*(partition_text(f, frame.schema).alias(f.name) for f in fields)).toArrow()
    expected = {
        f.name: partition_texts(pt.arrow.apply(f.function, rows[f.source], family="lance"), f).to_pylist()
        for f in fields
    }
    assert {name: texts[name].to_pylist() for name in texts.column_names} == expected


def partition_fields(function: pt.PartitionFunction, schema: pa.Schema) -> tuple[Any, ...]:
    """Return the partition field of a function; none if it doesn't take its column."""
    try:
        return PartitionSpec.of([function], to_schema(schema), "lance").fields
    except pt.TransformError:
        return ()
