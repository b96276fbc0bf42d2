"""Delta tables in tests: as Partita, delta-spark, delta-rs and DuckDB see one, and what lies in its folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import partita as pt
from tests.spark.frames import set_to

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]


def rows(given: DataFrame | pa.Table) -> Rows:
    """The rows in an order of their own, as values that are equal where SQL's are, NaN among them."""
    table = given if isinstance(given, pa.Table) else given.toArrow()
    return sorted((tuple(map(plain, row.values())) for row in table.to_pylist()), key=repr)


def plain(value: Any) -> Any:
    """A value that is equal to itself whoever read it: NaN as text, instants in UTC, nested ones as tuples."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return tuple((name, plain(item)) for name, item in value.items())
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def by_delta_spark(spark: SparkSession, table: pt.Table) -> DataFrame:
    """The table as delta-spark reads it."""
    return spark.read.format("delta").load(table.uri)


def by_delta_rs(table: pt.Table) -> pa.Table:
    """The table as delta-rs reads it."""
    query = QueryBuilder().register("t", DeltaTable(table.uri)).execute(f"select {_names(table)} from t")  # noqa: S608
    return pa.table(query.read_all())


def by_duckdb(table: pt.Table) -> pa.Table:
    """The table as DuckDB reads it, over delta-rs."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("t", DeltaTable(table.uri).to_pyarrow_dataset())
        return connection.sql(f"select {_names(table)} from t").to_arrow_table()  # noqa: S608 - the table's names


def _names(table: pt.Table) -> str:
    return ", ".join(f'"{name}"' for name in table.schema.names)


def commits(table: pt.Table) -> list[list[dict[str, Any]]]:
    """The actions of every version, oldest first."""
    files = sorted(Path(table.uri, "_delta_log").glob("*.json"))
    lines = [file.read_text(encoding="utf-8").rstrip("\n").split("\n") for file in files]
    return [[json.loads(line) for line in of_one] for of_one in lines]


def actions(table: pt.Table, kind: str, version: int = -1) -> list[dict[str, Any]]:
    """The actions of that kind in one version."""
    return [action[kind] for action in commits(table)[version] if kind in action]


def listing(table: pt.Table) -> list[str]:
    """Every file in the table's folder."""
    return sorted(str(path.relative_to(table.uri)) for path in Path(table.uri).rglob("*") if path.is_file())


@contextmanager
def unchanged(table: pt.Table) -> Iterator[None]:
    """A block that makes no version and leaves no file behind."""
    version, files = table.version, listing(table)
    yield
    assert table.version == version
    assert listing(table) == files


@contextmanager
def in_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    """Spark with that time zone."""
    with set_to(spark, {"spark.sql.session.timeZone": zone}):
        yield


def table_of(columns: Mapping[str, tuple[str, Sequence[Any]]]) -> pa.Table:
    """An Arrow table of named columns, each of a Partita type."""
    from partita.algebra.type_text import parse_type
    from partita.arrow.schema import to_arrow

    return pa.table({name: pa.array(values, to_arrow(parse_type(text))) for name, (text, values) in columns.items()})


def ids(found: Iterable[Iterable[Any]]) -> list[Any]:
    """The first value of each row, in order."""
    return sorted(next(iter(row)) for row in found)
