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
from partita.errors import UnsupportedFeature
from partita.formats.capabilities import Operation
from tests.conformance.row_model import assert_nothing_written, files_on_disk, refusal_of
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
    "binary": ["ü".encode(), b"a"],
    "fixed(3)": [b"\x00\x01\xff", b"abc"],
    "uuid": [str(UUID(int=0)), str(UUID(int=2**128 - 1))],
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
        table_name = f"t.t{number}"
        create_table = partial(
            lake.create_table, table_name, schema, format=format_name, partition_by=["column_c"] * as_partition
        )
        refusal = refusal_of(create_table)
        if refusal is None:
            accepted.append(type_text)
        else:
            assert "'column_c'" in str(refusal), refusal
            assert table_name not in lake.tables()
    return accepted


def typed_rows(types: list[str], values: dict[str, list[Any]]) -> pa.Table:
    """Return rows that have each value of each type, the shorter columns padded by nulls, and one row of nulls."""
    count = 1 + max(len(values[type_text]) for type_text in types)
    columns = {"id": pa.array(range(count), pa.int64())}
    for number, type_text in enumerate(types):
        padded = values[type_text] + [None] * (count - len(values[type_text]))
        # A UUID is a text to Spark.
        type_ = pa.string() if type_text == "uuid" else to_arrow_type(parse_type(type_text))
        columns[f"c{number}"] = pa.array(padded, type_)
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


def typed_table(
    folder: Path, format_name: str, types: list[str], values: dict[str, list[Any]], *, partitioned: bool
) -> tuple[pt.Table, pa.Table]:
    """Append the values of types to a new table, and return it and the rows.

    Tables of a type that Spark lacks may be made and not be written; such a type is removed from the list.
    """
    while True:
        names = {f"c{number}": type_text for number, type_text in enumerate(types)}
        lake = pt.Lake(str(folder / str(len(types))))
        table = lake.create_table(
            "t.typed",
            pt.Schema.of({"id": "long", **names}),
            format=format_name,
            partition_by=list(names) if partitioned else [],
        )
        rows, files = typed_rows(types, values), files_on_disk(lake)
        refusal = refusal_of(partial(table.append, rows))
        if refusal is None:
            return table, rows
        assert isinstance(refusal, UnsupportedFeature), refusal
        assert files_on_disk(lake) == files
        [refused] = [name for name in names if f"'{name}'" in str(refusal)]
        types.remove(names[refused])


def test_values_of_every_type_come_back(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    types = accepted_types(tmp_path / "types", format_name, as_partition=False)
    assert set(types) >= PARTITION_TYPES | {name for name in VALUES if "<" in name}
    values = {type_text: VALUES[type_text] + DATA_ONLY.get(type_text, []) for type_text in types}
    with session_settings(spark, {"spark.sql.timeType.enabled": "true"}):
        table, rows = typed_table(tmp_path / "lake", format_name, types, values, partitioned=False)
        assert comparable_rows(table.read().toArrow()) == comparable_rows(rows)
        zero = table.read("id < 100").where(f"c{types.index('double')} = 0").toArrow()
    signs = [math.copysign(1, value) for value in zero[f"c{types.index('double')}"].to_pylist()]
    assert sorted(signs) == [-1.0, 1.0]
    # A format may store a small integer as a larger one.
    kept_types = {str(field.type) for field in table.schema}
    assert kept_types >= PARTITION_TYPES - {"byte", "short"}


def test_values_of_every_type_partition_a_table(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    types = accepted_types(tmp_path / "types", format_name, as_partition=True)
    with session_settings(spark, {"spark.sql.timeType.enabled": "true"}):
        table, rows = typed_table(tmp_path / "lake", format_name, types, VALUES, partitioned=True)
        assert set(types) >= PARTITION_TYPES
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


POINT = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("name", pa.string())])
POINT_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("s", POINT), ("items", pa.list_(POINT))])


@pytest.mark.needs(Operation.UPDATE, Operation.MERGE)
def test_required_fields_inside_of_structs(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("t.t", POINT_SCHEMA, format=format_name, partition_by=["p"])
    rows: list[dict[str, Any]] = [
        {"id": 1, "p": "a", "s": {"x": 1, "name": None}, "items": [{"x": 1, "name": "i"}]},
        {"id": 2, "p": "b", "s": {"x": 2, "name": "n"}, "items": None},
    ]
    table.append(pa.Table.from_pylist(rows, POINT_SCHEMA))
    table.update({"s": "named_struct('x', id + 1, 'name', p)"}, "id = 2")
    source = pa.Table.from_pylist([rows[0] | {"p": "c"}, rows[0] | {"id": 3}], POINT_SCHEMA)
    table.merge(source, "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert())
    with assert_nothing_written(lake), pytest.raises(pt.ConstraintError, match=r"column 's\.x' may not be null"):
        table.update({"s": "named_struct('x', nullif(id, 2), 'name', p)"})
    expected = [rows[0] | {"p": "c"}, rows[1] | {"s": {"x": 3, "name": "b"}}, rows[0] | {"id": 3}]
    assert comparable_rows(table.read().toArrow()) == comparable_rows(pa.Table.from_pylist(expected, POINT_SCHEMA))
