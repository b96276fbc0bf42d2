"""A change that removes some files and deletes rows of others in the same partition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.tables import agreed_rows, jvm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = pa.table(
    {
        "id": pa.array(range(1, 11), pa.int64()),
        "country": ["US" if number % 2 else "FR" for number in range(1, 11)],
        "price": pa.array([1.0] * 10),
    }
)


def expected(prices: dict[int, float], deleted: set[int]) -> pa.Table:
    rows = [
        {**row, "price": prices.get(row["id"], row["price"])} for row in ORDERS.to_pylist() if row["id"] not in deleted
    ]
    return pa.Table.from_pylist(rows, ORDERS.schema)


@pytest.mark.parametrize("partition_by", [["country"], []])
def test_a_file_that_goes_whole_beside_marks_of_its_partition(
    spark: SparkSession, tmp_path: Path, partition_by: list[str]
) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", ORDERS.schema, format="iceberg", partition_by=partition_by)
    table.append(ORDERS)
    table.update({"price": "2"}, "id = 5")
    table.update({"price": "price + 1"}, "country = 'US'")
    table.delete("id = 5")
    remaining = expected({1: 2.0, 3: 2.0, 7: 2.0, 9: 2.0}, {5})
    assert agreed_rows(table, jvm_session(spark, tmp_path)) == sorted_rows(remaining)
    # No later change is refused either, and what pointed into the file that went is gone.
    table.delete("id >= 7")
    assert agreed_rows(table) == sorted_rows(expected({1: 2.0, 3: 2.0}, {5, 7, 8, 9, 10}))
    table.delete("country = 'US'")
    assert agreed_rows(table) == sorted_rows(expected({}, {1, 3, 5, 7, 8, 9, 10}))
