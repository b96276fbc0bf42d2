"""Connections to DuckDB: in memory, in UTC, without downloads; and how rows go in and come out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, cast

from partita.errors import StatusError
from partita.status.duckdb_sql import Sql, comma_separated, sql
from partita.status.duckdb_sql import name as column_name
from partita.untrusted_input import error_summary

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

VARCHAR, TIMESTAMPTZ = "VARCHAR", "TIMESTAMPTZ"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_connection() -> duckdb.DuckDBPyConnection:
    """Open an in-memory database, which is gone when it is closed."""
    import duckdb

    connection = duckdb.connect(
        config={"TimeZone": "UTC", "autoinstall_known_extensions": "false", "preserve_insertion_order": "false"}
    )
    return cast("duckdb.DuckDBPyConnection", _TranslatingConnection(connection))


class _TranslatingConnection:
    """A connection whose statements raise `StatusError` where DuckDB fails, as on a damaged file of the ledger."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, parameters: Any = None) -> Self:
        with translate_duckdb_errors():
            self._connection.execute(statement, parameters)
        return self


@contextmanager
def translate_duckdb_errors() -> Iterator[None]:
    """Raise errors of DuckDB as `StatusError`."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise StatusError(f"the events or the status of the lake can't be read: {error_summary(error)}") from error


def fetch_arrow(connection: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema | None = None) -> pa.Table:
    """Return the rows of a query as Arrow; with a schema, in its columns and types."""
    with translate_duckdb_errors():
        table = connection.sql(query).to_arrow_table()
    return table if schema is None else table.select(schema.names).cast(schema)


def fetch_rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query as Python values.

    Without Arrow, which loads pandas as soon as it meets a list or a timestamp: that takes longer than most queries.
    """
    with translate_duckdb_errors():
        return connection.execute(query).fetchall()


def create_view(connection: duckdb.DuckDBPyConnection, view: Sql, select: Sql) -> None:
    """Create or replace a temporary view."""
    connection.execute(sql("CREATE OR REPLACE TEMP VIEW {view} AS {select}", view=view, select=select))


def create_table(connection: duckdb.DuckDBPyConnection, table: Sql, select: Sql) -> None:
    """Create or replace a temporary table of the rows of a select."""
    connection.execute(sql("CREATE OR REPLACE TEMP TABLE {table} AS {select}", table=table, select=select))


def create_temp_table(
    connection: duckdb.DuckDBPyConnection, table: Sql, columns: Mapping[str, str], rows: Iterable[Sequence[Any]] = ()
) -> None:
    """Create or replace a temporary table of Python rows, by default without any.

    `columns` are names and types. A TIMESTAMPTZ is given in microseconds from 1970.
    """
    row_list = list(rows)
    column_values = [[row[i] for row in row_list] for i in range(len(columns))]
    select_list = comma_separated(
        Sql(f"make_timestamptz(unnest(${i}::BIGINT[])) AS {column_name(column)}")
        if type_ == TIMESTAMPTZ
        else Sql(f"unnest(${i}::{type_}[]) AS {column_name(column)}")
        for i, (column, type_) in enumerate(columns.items(), 1)
    )
    statement = sql("CREATE OR REPLACE TEMP TABLE {table} AS SELECT {columns}", table=table, columns=select_list)
    connection.execute(statement, column_values)


def timestamp_from_micros(micros: int) -> datetime:
    """Return the timestamp of a number of microseconds from 1970, as `epoch_us` returns it."""
    return _EPOCH + timedelta(microseconds=micros)
