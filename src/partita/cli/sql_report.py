"""Printing of the result of a SQL statement, as a table for people or as JSON lines."""

from __future__ import annotations

import base64
import json
import math
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from partita.cli.output import print_json, print_line, print_stderr
from partita.errors import SchemaError
from partita.formats.table import Table
from partita.status.text import count_text


def print_result(result: Any, limit: int) -> None:
    """Print at most `limit` rows of a SELECT, or a line that says what the statement did."""
    if isinstance(result, Table):
        print_line(f"{result.name} is partitioned by {str(result.spec) or 'nothing'}")
    elif hasattr(result, "toArrow"):
        print_rows(_collect_rows(result, limit + 1), limit)
    else:
        print_line(_change_summary(result.version, result.counts))


def print_result_json(result: Any, limit: int | None) -> None:
    """Print a JSON object per row of a SELECT, or one that says what the statement did."""
    if isinstance(result, Table):
        print_json({"table": result.name, "uri": result.uri, "partitioned_by": str(result.spec)})
    elif hasattr(result, "toArrow"):
        print_rows_json(_collect_rows(result, limit))
    else:
        print_json({"version": result.version, "counts": dict(result.counts)})


def print_rows_json(rows: pa.Table) -> None:
    """Print a JSON object per row. Raises `SchemaError` if two columns have the same name."""
    repeated_names = sorted({name for name in rows.column_names if rows.column_names.count(name) > 1})
    if repeated_names:
        raise SchemaError(
            f"two columns have the name {repeated_names[0]!r}, which a JSON object can't hold; rename one with AS"
        )
    for batch in rows.to_batches():
        for row in batch.to_pylist():
            print_json(json_value(row))


def json_value(value: Any) -> Any:
    """Return a value that JSON can represent; values of types that JSON lacks become text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, UUID | timedelta):
        return str(value)
    return str(value)


def _collect_rows(rows: Any, limit: int | None) -> pa.Table:
    from partita.spark.errors import translate_spark_errors

    with translate_spark_errors():
        table: pa.Table = (rows if limit is None else rows.limit(limit)).toArrow()
    return table


def print_rows(rows: pa.Table, limit: int, row_noun: str = "row") -> None:
    """Print at most `limit` rows as a table, and their number to stderr; `row_noun` says what a row is."""
    # A file or a pipe has no width, so rows are not wrapped there.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    grid = Grid(box=box.SIMPLE_HEAD)
    for field in rows.schema:
        grid.add_column(Text(field.name), justify="right" if _is_number(field.type) else "left")
    for index in range(min(limit, rows.num_rows)):
        grid.add_row(*(_cell_text(column[index].as_py()) for column in rows.columns))
    if rows.num_columns:
        console.print(grid)
    if rows.num_rows > limit:
        print_stderr(f"the first {limit:,} {row_noun}s; --limit shows more")
    else:
        print_stderr(count_text(rows.num_rows, row_noun))


_PIPE_WIDTH = 10_000


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _cell_text(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    plain = json_value(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return Text("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


def _change_summary(version: int | None, counts: Any) -> str:
    changes = [
        f"{count_text(counts[f'rows_{kind}'], 'row')} {kind}" for kind in _CHANGE_KINDS if counts.get(f"rows_{kind}")
    ]
    summary = ", ".join(changes) or "no rows changed"
    return summary if version is None else f"{summary}; version {version}"


_CHANGE_KINDS = ("inserted", "updated", "deleted")
