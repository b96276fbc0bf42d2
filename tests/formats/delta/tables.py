"""Helpers of Delta tests: read a table with Partita, delta-spark, delta-rs and DuckDB, and list its folder and log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import partita as pt
from tests.spark.frames import session_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RowTuples = list[tuple[Any, ...]]


def sorted_rows(rows: DataFrame | pa.Table) -> RowTuples:
    """Return the rows sorted, with values that compare as in SQL, NaN included."""
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    return sorted((tuple(map(comparable_value, row.values())) for row in table.to_pylist()), key=repr)


def comparable_value(value: Any) -> Any:
    """Return a value in the same form for every reader: NaN as text, instants in UTC, nested values as tuples."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return tuple((name, comparable_value(item)) for name, item in value.items())
    return tuple(map(comparable_value, value)) if isinstance(value, list | tuple) else value


def rows_by_name(frames: Mapping[str, DataFrame]) -> dict[str, RowTuples]:
    """Collect DataFrames of the same columns in one query; return the sorted rows of each."""
    names = list(frames)
    indexed = [frame.selectExpr("*", f"{index} AS `frame index`") for index, frame in enumerate(frames.values())]
    collected = reduce(lambda a, b: a.unionAll(b), indexed).toArrow()
    indices = collected["frame index"].to_pylist()
    rows: dict[str, RowTuples] = {name: [] for name in names}
    for index, row in zip(indices, collected.drop(["frame index"]).to_pylist(), strict=True):
        rows[names[index]].append(tuple(map(comparable_value, row.values())))
    return {name: sorted(of_one, key=repr) for name, of_one in rows.items()}


def read_with_delta_spark(spark: SparkSession, table: pt.Table) -> DataFrame:
    """Read a table with delta-spark."""
    return spark.read.format("delta").load(table.uri)


def read_with_delta_rs(table: pt.Table) -> pa.Table:
    """Read a table with delta-rs."""
    query = QueryBuilder().register("t", DeltaTable(table.uri)).execute(f"select {_column_list(table)} from t")  # noqa: S608
    return pa.table(query.read_all())


def read_with_duckdb(table: pt.Table) -> pa.Table:
    """Read a table with DuckDB, through delta-rs."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("t", DeltaTable(table.uri).to_pyarrow_dataset())
        return connection.sql(f"select {_column_list(table)} from t").to_arrow_table()  # noqa: S608 - the table's names


def _column_list(table: pt.Table) -> str:
    return ", ".join(f'"{name}"' for name in table.schema.names)


def commit_actions(table: pt.Table) -> list[list[dict[str, Any]]]:
    """Return the actions of every version, oldest first."""
    files = sorted(Path(table.uri, "_delta_log").glob("*.json"))
    lines = [file.read_text(encoding="utf-8").rstrip("\n").split("\n") for file in files]
    return [[json.loads(line) for line in of_one] for of_one in lines]


def actions_of_kind(table: pt.Table, kind: str, version: int = -1) -> list[dict[str, Any]]:
    """Return the actions of one kind of a version."""
    return [action[kind] for action in commit_actions(table)[version] if kind in action]


def files_on_disk(table: pt.Table) -> list[str]:
    """Return the paths of all files in the table's folder."""
    return sorted(str(path.relative_to(table.uri)) for path in Path(table.uri).rglob("*") if path.is_file())


@contextmanager
def assert_unchanged(table: pt.Table) -> Iterator[None]:
    """Check that a block neither commits a version nor leaves a file."""
    version, files = table.version, files_on_disk(table)
    yield
    assert table.version == version
    assert files_on_disk(table) == files


@contextmanager
def with_time_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    """Set the time zone of the Spark session for a block."""
    with session_settings(spark, {"spark.sql.session.timeZone": zone}):
        yield


def arrow_table(columns: Mapping[str, tuple[str, Sequence[Any]]]) -> pa.Table:
    """Build an Arrow table from columns, each with a type of Partita and values."""
    from partita.algebra.type_text import parse_type
    from partita.arrow.schema import to_arrow_type

    return pa.table(
        {name: pa.array(values, to_arrow_type(parse_type(text))) for name, (text, values) in columns.items()}
    )


def row_ids(rows: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the sorted first values of rows."""
    return sorted(next(iter(row)) for row in rows)
