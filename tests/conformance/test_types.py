"""Each type of the algebra as a data column and, where the format takes it, as a partition column."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.type_text import parse_type
from partita.arrow.schema import to_arrow_type
from partita.formats.capabilities import Operation
from tests.conformance.row_model import assert_nothing_written, refusal_of
from tests.formats.delta.tables import comparable_value
from tests.spark.frames import session_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

INF = math.inf
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "byte": [-(2**7), 2**7 - 1],
    "short": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [0.0, math.nan, -INF, 2.0**-149, 1.5],
    "double": [0.0, math.nan, INF, 5e-324, 1.7976931348623157e308],
    "decimal(4,2)": [Decimal("-99.99"), Decimal("99.99"), Decimal("0.00")],
    "decimal(18,0)": [Decimal(-(10**18) + 1), Decimal(10**18 - 1)],
    "decimal(38,10)": [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0.0000000001")],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "time": [time(0), time(23, 59, 59, 999_999)],
    "timestamp": [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(2025, 3, 30, 2, 30, 0, 1)],  # noqa: DTZ001
    "string": ["a", "ü 雪", "\U0001f600", "null", "NaN", "1"],
    "binary": [b"\x00\xff", b"a"],
    "fixed(3)": [b"\x00\x01\xff", b"abc"],
    "uuid": [UUID(int=0).bytes, UUID(int=2**128 - 1).bytes],
    "struct<a: int, b: string>": [{"a": None, "b": None}, {"a": 1, "b": ""}],
    "list<double>": [[], [None], [1.0, math.nan]],
    "map<string, int>": [[], [("k", None)], [("", 1)]],
    "struct<a: list<map<string, struct<x: decimal(4,2)>>>>": [{"a": [[("k", {"x": Decimal("1.50")})], [], None]}],
}
"""The values of each type; a null is added to each. Texts that are empty are partitions in `test_gaps.py`."""
DATA_ONLY: dict[str, list[Any]] = {
    "string": ["", "x" * 300, "a\x00b"],
    "double": [-0.0],
    "float": [-0.0],
    "binary": [b""],
}
"""More values of data columns."""
PARTITION_TYPES = {"boolean", "byte", "short", "int", "long", "decimal(4,2)", "date", "timestamp", "string"}
"""What partitions a table of every format."""

pytestmark = pytest.mark.needs(Operation.APPEND)


def accepted_types(folder: Path, format_name: str, *, as_partition: bool) -> list[str]:
    """Return the types that a format takes; the others are refused by the column's name, and nothing is made."""
    lake, accepted = pt.Lake(str(folder)), []
    lake.create_table("t.kept", pt.Schema.of({"id": "long"}), format=format_name)
    for number, type_text in enumerate(VALUES):
        schema = pt.Schema.of({"id": "long", "column_c": type_text})
        create_table = partial(
            lake.create_table, f"t.t{number}", schema, format=format_name, partition_by=["column_c"] * as_partition
        )
        refusal = refusal_of(create_table)
        if refusal is None:
            accepted.append(type_text)
        else:
            assert "'column_c'" in str(refusal), refusal
            assert f"t.t{number}" not in lake.tables()
    return accepted


def typed_rows(types: list[str], values: dict[str, list[Any]]) -> pa.Table:
    """Return rows that have each value of each type, the shorter columns padded by nulls, and one row of nulls."""
    count = 1 + max(len(values[type_text]) for type_text in types)
    columns = {"id": pa.array(range(count), pa.int64())}
    for number, type_text in enumerate(types):
        padded = values[type_text] + [None] * (count - len(values[type_text]))
        type_ = to_arrow_type(parse_type(type_text))
        storage = pa.array(padded, type_.storage_type if isinstance(type_, pa.ExtensionType) else type_)
        columns[f"c{number}"] = storage.cast(type_) if storage.type != type_ else storage
    return pa.table(columns)


def comparable_rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows by id, with NaN, UUIDs and instants in a form that compares."""
    plain = [tuple(_plain(value) for value in row.values()) for row in rows.to_pylist()]
    return sorted(plain, key=lambda row: row[0])


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return comparable_value(value)


def new_typed_table(folder: Path, format_name: str, types: list[str], *, partitioned: bool) -> pt.Table:
    names = {f"c{number}": type_text for number, type_text in enumerate(types)}
    schema = pt.Schema.of({"id": "long", **names})
    return pt.Lake(str(folder)).create_table(
        "t.typed", schema, format=format_name, partition_by=list(names) if partitioned else []
    )


def test_values_of_every_type_come_back(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    types = accepted_types(tmp_path / "types", format_name, as_partition=False)
    assert set(types) >= PARTITION_TYPES | {name for name in VALUES if "<" in name}
    values = {type_text: VALUES[type_text] + DATA_ONLY.get(type_text, []) for type_text in types}
    rows = typed_rows(types, values)
    table = new_typed_table(tmp_path / "lake", format_name, types, partitioned=False)
    with session_settings(spark, {"spark.sql.timeType.enabled": "true"}):
        table.append(rows)
        assert comparable_rows(table.read().toArrow()) == comparable_rows(rows)
        zero = table.read("id < 100").where(f"c{types.index('double')} = 0").toArrow()
    signs = [math.copysign(1, value) for value in zero[f"c{types.index('double')}"].to_pylist()]
    assert sorted(signs) == [-1.0, 1.0]
    assert [str(field.type) for field in table.schema][1:] == [str(parse_type(type_text)) for type_text in types]


def test_values_of_every_type_partition_a_table(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    types = accepted_types(tmp_path / "types", format_name, as_partition=True)
    assert set(types) >= PARTITION_TYPES
    rows = typed_rows(types, VALUES)
    table = new_typed_table(tmp_path / "lake", format_name, types, partitioned=True)
    with session_settings(spark, {"spark.sql.timeType.enabled": "true"}):
        table.append(rows)
        assert comparable_rows(table.read().toArrow()) == comparable_rows(rows)
    partitions = table.partitions()
    assert partitions["rows"].to_pylist() == [1] * rows.num_rows
    for number, type_text in enumerate(types):
        name = f"c{number}"
        values = {repr(_plain(value)) for value in rows[name].to_pylist()}
        assert {repr(_plain(value)) for value in partitions[name].to_pylist()} == values, type_text
        nulls = rows[name].null_count
        assert table.plan(f"{name} IS NULL").files["rows"].to_pylist() == [1] * nulls, type_text


def test_a_type_that_no_format_stores_is_refused(format_name: str, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    lake.create_table("t.kept", pt.Schema.of({"id": "long"}), format=format_name)
    with assert_nothing_written(lake), pytest.raises(pt.SchemaError, match="column_c"):
        lake.create_table(
            "t.t", pa.schema([("id", pa.int64()), ("column_c", pa.month_day_nano_interval())]), format=format_name
        )
