"""DuckDB, as this room uses it: in memory, in UTC, with nothing fetched from elsewhere."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from partita.algebra.plain import micros_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def connect() -> duckdb.DuckDBPyConnection:
    """A database of its own, gone when it is closed."""
    import duckdb

    return duckdb.connect(
        config={"TimeZone": "UTC", "autoinstall_known_extensions": "false", "preserve_insertion_order": "false"}
    )


def fetch(connection: duckdb.DuckDBPyConnection, sql: str, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of a query; with a schema, in its columns and types."""
    table = connection.sql(sql).to_arrow_table()
    return table if schema is None else table.select(schema.names).cast(schema)


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def instant(value: datetime) -> str:
    """A moment as SQL."""
    return f"make_timestamptz({micros_of(value)})"
