"""Rows of few values, null and odd ones among them, for tables that are partitioned in every way."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import partita as pt

SCHEMA = pt.Schema.of(
    {"id": "long", "p": "string", "ts": "timestamp", "d": "date", "k": "int", "x": "double", "m": "decimal(9,2)"}
)
ARROW = pa.schema(
    [("id", pa.int64()), ("p", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("k", pa.int32()),
     ("x", pa.float64()), ("m", pa.decimal128(9, 2))]
)  # fmt: skip
START = datetime(2025, 1, 31, 22, tzinfo=UTC)
TEXTS = [None, "", "a", "b c", "é/%", "ab"]
FLOATS = [None, float("nan"), 0.0, -0.0, 1.0, 2.5, float("-inf")]


def drawn(draw: random.Random, first: int, count: int) -> pa.Table:
    """Rows of few values, null and odd ones among them."""
    made = []
    for number in range(first, first + count):
        at = START + timedelta(hours=draw.choice([0, 1, 2, 3, 26, 27]))
        made.append(
            {
                "id": number,
                "p": draw.choice(TEXTS),
                "ts": draw.choice([at, at, at, None]),
                "d": draw.choice([at.date(), at.date(), None]),
                "k": draw.choice([None, -11, 0, 1, 2, 3, 12]),
                "x": draw.choice(FLOATS),
                "m": draw.choice([None, "-0.01", "0.00", "12.34"]),
            }
        )
    table = pa.Table.from_pylist([{**row, "m": None} for row in made], ARROW)
    amounts = pa.array([row["m"] for row in made], pa.string()).cast(ARROW.field("m").type)
    return table.set_column(ARROW.get_field_index("m"), ARROW.field("m"), amounts)
