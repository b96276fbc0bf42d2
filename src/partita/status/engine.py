"""DuckDB, as this room uses it: in memory, in UTC, with nothing fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, cast

from partita.algebra.plain import micros_of
from partita.errors import StatusError
from partita.untrusted import first_line

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def connect() -> duckdb.DuckDBPyConnection:
    """A database of its own, gone when it is closed."""
    import duckdb

    opened = duckdb.connect(
        config={"TimeZone": "UTC", "autoinstall_known_extensions": "false", "preserve_insertion_order": "false"}
    )
    return cast("duckdb.DuckDBPyConnection", _Connection(opened))


class _Connection:
    """A connection that raises a `StatusError` where a statement fails, as on a damaged file of the ledger."""

    def __init__(self, opened: duckdb.DuckDBPyConnection) -> None:
        self._opened = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def execute(self, sql: str, parameters: Any = None) -> Self:
        with translated():
            self._opened.execute(sql, parameters)
        return self


@contextmanager
def translated() -> Iterator[None]:
    """Errors of DuckDB, as `StatusError`s."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise StatusError(f"the events or the status of the lake can't be read: {first_line(error)}") from error


def fetch(connection: duckdb.DuckDBPyConnection, sql: str, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of a query as Arrow; with a schema, in its columns and types."""
    with translated():
        table = connection.sql(sql).to_arrow_table()
    return table if schema is None else table.select(schema.names).cast(schema)


def listed(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query as Python's values.

    Without Arrow, which loads pandas as soon as it meets a list or a moment: that takes longer than most answers.
    """
    with translated():
        return connection.execute(sql).fetchall()


def make_table(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]
) -> None:
    """Make a table of rows; `columns` are their names and types. A moment is given in microseconds from 1970."""
    given = list(rows)
    lists = [[row[at] for row in given] for at in range(len(columns))]
    selected = ", ".join(
        f"make_timestamptz(unnest(${at}::BIGINT[])) AS {column}"
        if type_ == MOMENT
        else f"unnest(${at}::{type_}[]) AS {column}"
        for at, (column, type_) in enumerate(columns.items(), 1)
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {selected}", lists)


TEXT, MOMENT = "VARCHAR", "TIMESTAMPTZ"


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def instant(value: datetime) -> str:
    """A moment as SQL."""
    return f"make_timestamptz({micros_of(value)})"


def moment(micros: int) -> datetime:
    """The moment of so many microseconds from 1970, which `epoch_us` gives."""
    return _EPOCH + timedelta(microseconds=micros)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
