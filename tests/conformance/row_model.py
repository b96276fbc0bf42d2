"""The rows of a table as a list of Python dicts: what every format is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import partita as pt

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]
SCHEMA = pt.Schema.of({"id": "long", "p": "string", "n": "int"})
ARROW_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("n", pa.int32())])
ROWS: list[Row] = [
    {"id": 1, "p": "a", "n": 10},
    {"id": 2, "p": "a", "n": None},
    {"id": 3, "p": "b", "n": 30},
    {"id": 4, "p": None, "n": 40},
]


def arrow_rows(rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table of the suite's schema."""
    return pa.Table.from_pylist(list(rows), ARROW_SCHEMA)


def read_rows(table: pt.Table, where: str | None = None) -> list[Row]:
    """Return the rows of a table, by id."""
    return sorted(table.read(where).toArrow().to_pylist(), key=lambda row: row["id"])
