"""Partition values of files as typed columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from partita.algebra.schema import Schema
from partita.errors import PartitionValueError, UnknownColumn
from partita.formats.delta.log import typed_partitions


def partition_table(*values: dict[str, str | None]) -> pa.Table:
    names = {name: pa.string() for value in values for name in value}
    return pa.table({"partition_values": pa.array(values, pa.struct(list(names.items())))})


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("boolean", "true", True),
        ("byte", "-128", -128),
        ("short", "7", 7),
        ("int", "-1", -1),
        ("long", "9223372036854775807", 2**63 - 1),
        ("float", "0.5", 0.5),
        ("double", "-Infinity", float("-inf")),
        (
            "decimal(38,18)",
            "-12345678901234567890.123456789012345678",
            Decimal("-12345678901234567890.123456789012345678"),
        ),
        ("decimal(38,18)", "0E-18", Decimal(0)),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("decimal(10,2)", "1.500", Decimal("1.50")),
        ("date", "2025-01-15", date(2025, 1, 15)),
        ("timestamp", "2025-01-15T10:30:00.000001Z", datetime(2025, 1, 15, 10, 30, 0, 1, UTC)),
        ("timestamp", "2025-01-15 10:30:00", datetime(2025, 1, 15, 9, 30, tzinfo=UTC)),
        ("timestamp_ntz", "2025-01-15 10:30:00", datetime(2025, 1, 15, 10, 30)),  # noqa: DTZ001 - a local time
        ("string", "a/b=%é", "a/b=%é"),
        ("binary", "é", "é".encode()),
    ],
)
def test_a_value_of_each_type(type_: str, text: str, expected: Any) -> None:
    table = typed_partitions(
        partition_table({"p": text}, {"p": None}, {"p": ""}, {"p": text}),
        Schema.of({"x": "int", "P": type_}),
        ("P",),
        {"x": "x", "P": "p"},
        time_zone="Europe/Berlin",
    )
    assert table.to_pylist() == [{"P": expected}, {"P": None}, {"P": None}, {"P": expected}]


def test_dates_and_times_beyond_python() -> None:
    files = partition_table(
        {"d": "+10000-01-01", "t": "+10000-01-01T00:00:00.000000Z"},
        {"d": "-0001-12-31", "t": "-0001-12-31T23:59:59.999999Z"},
    )
    table = typed_partitions(files, Schema.of({"d": "date", "t": "timestamp"}), ("d", "t"), {})
    assert table["d"].cast(pa.int32()).to_pylist() == [2932897, -719529]
    assert table["t"].cast(pa.int64()).to_pylist() == [2932897 * 86_400_000_000, -719528 * 86_400_000_000 - 1]
    assert table.schema == pa.schema([("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))])


def test_no_partition_columns_keep_the_number_of_files() -> None:
    assert typed_partitions(partition_table({"p": "1"}, {"p": "2"}), Schema.of({"x": "int"}), (), {}).num_rows == 2
    nothing = typed_partitions(partition_table({"p": "1"}).slice(1), Schema.of({"p": "int"}), ("p",), {})
    assert (nothing.num_rows, nothing.schema) == (0, pa.schema([("p", pa.int32())]))


@pytest.mark.parametrize(
    ("type_", "text"), [("int", "x"), ("date", "2025-02-30"), ("timestamp", "+300000-01-01T00:00:00.000000Z")]
)
def test_an_invalid_partition_text(type_: str, text: str) -> None:
    with pytest.raises(PartitionValueError, match="'p'"):
        typed_partitions(partition_table({"p": text}), Schema.of({"p": type_}), ("p",), {})


def test_a_missing_partition_column() -> None:
    with pytest.raises(UnknownColumn, match="'q'"):
        typed_partitions(partition_table({"q": "1"}), Schema.of({"p": "int"}), ("q",), {})
