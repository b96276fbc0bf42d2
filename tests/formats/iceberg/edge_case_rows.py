"""Random rows with few distinct values, nulls and edge cases among them, for tables with any partitioning."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import partita as pt

SCHEMA = pt.Schema.of(
    {"id": "long", "p": "string", "ts": "timestamp", "d": "date", "k": "int", "x": "double", "m": "decimal(9,2)"}
)
ARROW_SCHEMA = pa.schema(
    [("id", pa.int64()), ("p", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("k", pa.int32()),
     ("x", pa.float64()), ("m", pa.decimal128(9, 2))]
)  # fmt: skip
FIRST_TIMESTAMP = datetime(2025, 1, 31, 22, tzinfo=UTC)
TEXT_VALUES = [None, "", "a", "b c", "é/%", "ab"]
FLOAT_VALUES = [None, float("nan"), 0.0, -0.0, 1.0, 2.5, float("-inf")]


def random_rows(draw: random.Random, first: int, count: int) -> pa.Table:
    """Return rows with few distinct values, nulls and edge cases among them."""
    rows = []
    for number in range(first, first + count):
        index = FIRST_TIMESTAMP + timedelta(hours=draw.choice([0, 1, 2, 3, 26, 27]))
        rows.append(
            {
                "id": number,
                "p": draw.choice(TEXT_VALUES),
                "ts": draw.choice([index, index, index, None]),
                "d": draw.choice([index.date(), index.date(), None]),
                "k": draw.choice([None, -11, 0, 1, 2, 3, 12]),
                "x": draw.choice(FLOAT_VALUES),
                "m": draw.choice([None, "-0.01", "0.00", "12.34"]),
            }
        )
    table = pa.Table.from_pylist([{**row, "m": None} for row in rows], ARROW_SCHEMA)
    amounts = pa.array([row["m"] for row in rows], pa.string()).cast(ARROW_SCHEMA.field("m").type)
    return table.set_column(ARROW_SCHEMA.get_field_index("m"), ARROW_SCHEMA.field("m"), amounts)
