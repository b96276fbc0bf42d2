"""What a statement gave, for people and as JSON lines."""

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

from partita.errors import SchemaError
from partita.formats.table import Table


def show(answer: Any, limit: int) -> None:
    """A table of at most so many rows, or a line that says what was done."""
    if isinstance(answer, Table):
        sys.stdout.write(f"{answer.name} is partitioned by {str(answer.spec) or 'nothing'}\n")
    elif hasattr(answer, "toArrow"):
        show_rows(_collected(answer, limit + 1), limit)
    else:
        sys.stdout.write(f"{_done(answer.version, answer.counts)}\n")


def show_json(answer: Any, limit: int | None) -> None:
    """One object for each row, or one for what was done."""
    if isinstance(answer, Table):
        _print({"table": answer.name, "uri": answer.uri, "partitioned_by": str(answer.spec)})
    elif hasattr(answer, "toArrow"):
        show_rows_json(_collected(answer, limit))
    else:
        _print({"version": answer.version, "counts": dict(answer.counts)})


def show_rows_json(rows: pa.Table) -> None:
    """One object for each row; two columns of one name are refused."""
    repeated = sorted({name for name in rows.column_names if rows.column_names.count(name) > 1})
    if repeated:
        raise SchemaError(f"two columns are called {repeated[0]!r}, which JSON can't tell apart; name them with AS")
    for batch in rows.to_batches():
        for row in batch.to_pylist():
            _print(json_value(row))


def json_value(value: Any) -> Any:
    """A value as JSON has it; what it has no type for is a text."""
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
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, UUID | timedelta):
        return str(value)
    return str(value)


def _collected(rows: Any, limit: int | None) -> pa.Table:
    from partita.spark.rows import translated

    with translated():
        found: pa.Table = (rows if limit is None else rows.limit(limit)).toArrow()
    return found


def show_rows(rows: pa.Table, limit: int, what: str = "row") -> None:
    """A table of at most so many rows, and on stderr how many there are; `what` is what a row is."""
    # A file or a pipe has no edge to cut a row at.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    grid = Grid(box=box.SIMPLE_HEAD)
    for field in rows.schema:
        grid.add_column(Text(field.name), justify="right" if _is_number(field.type) else "left")
    for at in range(min(limit, rows.num_rows)):
        grid.add_row(*(_cell(column[at].as_py()) for column in rows.columns))
    if rows.num_columns:
        console.print(grid)
    more = rows.num_rows > limit
    said = f"the first {limit:,} {what}s; --limit shows more" if more else _counted(rows.num_rows, what)
    sys.stderr.write(f"{said}\n")


_WIDE = 10_000


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    plain = json_value(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return Text("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


def _done(version: int | None, counts: Any) -> str:
    rows = [f"{_counted(counts[f'rows_{kind}'], 'row')} {kind}" for kind in _KINDS if counts.get(f"rows_{kind}")]
    said = ", ".join(rows) or "no rows changed"
    return said if version is None else f"{said}; version {version}"


_KINDS = ("inserted", "updated", "deleted")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _print(document: Any) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
