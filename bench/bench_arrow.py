"""Keys and partition functions over Arrow, against a Python loop over the scalar definitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from random import Random

import pyarrow as pa

from bench.harness import Row, Side, at_least, compare
from partita.algebra.key import PartitionKey, partition_id
from partita.algebra.partition_functions import bucket, month
from partita.algebra.transforms import PartitionFunction
from partita.arrow.key import key_columns, key_ids, key_texts
from partita.arrow.transforms import apply

ROWS = 200_000
LOOP_SHARE = 0.1


def rows() -> Iterator[Row]:
    """Each row compares results before it compares times."""
    table = _sample_table()
    for names in (["date"], ["region"], ["user_id"], ["ts"], ["date", "region", "user_id"]):
        yield _compare_key_texts(table.select(names))
    texts = key_texts(table)
    yield _compare_key_columns(texts)
    yield _compare_key_ids(texts)
    yield _compare_function(bucket("user_id", 16), table["user_id"])
    yield _compare_function(bucket("region", 16), table["region"])
    yield _compare_function(month("ts"), table["ts"])


def _sample_table() -> pa.Table:
    random = Random(7)
    first, instant = date(2015, 1, 1), datetime(2015, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "date": pa.array([first + timedelta(random.randrange(4_000)) for _ in range(ROWS)]),
            "region": pa.array([f"region-{random.randrange(5_000)}" for _ in range(ROWS)]),
            "user_id": pa.array([random.randrange(-(2**40), 2**40) for _ in range(ROWS)]),
            "ts": pa.array(
                [instant + timedelta(microseconds=random.randrange(10**14)) for _ in range(ROWS)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


def _compare_key_texts(table: pa.Table) -> Row:
    few = table.slice(0, int(ROWS * LOOP_SHARE)).to_pylist()

    def loop() -> list[str]:
        return [str(PartitionKey.of(row)) for row in few]

    assert key_texts(table)[: len(few)].to_pylist() == loop()
    return compare(
        f"key texts of {ROWS:,} rows: {', '.join(table.column_names)}",
        ours=Side("arrow.key_texts", lambda: key_texts(table)),
        theirs=Side("PartitionKey.of in a loop", loop, LOOP_SHARE),
        goal=at_least(20),
    )


def _compare_key_columns(texts: pa.Array) -> Row:
    few = texts[: int(ROWS * LOOP_SHARE)].to_pylist()

    def loop() -> list[dict[str, object]]:
        return [dict(PartitionKey.parse(text)) for text in few]

    assert key_columns(texts)[: len(few)].to_pylist() == loop()
    return compare(
        f"columns of {ROWS:,} key texts",
        ours=Side("arrow.key_columns", lambda: key_columns(texts)),
        theirs=Side("PartitionKey.parse in a loop", loop, LOOP_SHARE),
        goal=at_least(5),
    )


def _compare_key_ids(texts: pa.Array) -> Row:
    few = texts[: int(ROWS * LOOP_SHARE)].to_pylist()

    def loop() -> list[str]:
        return [partition_id("orders", text) for text in few]

    assert key_ids("orders", texts)[: len(few)].to_pylist() == loop()
    return compare(
        f"ids of {ROWS:,} key texts",
        ours=Side("arrow.key_ids", lambda: key_ids("orders", texts)),
        theirs=Side("partition_id in a loop", loop, LOOP_SHARE),
    )


def _compare_function(function: PartitionFunction, column: pa.ChunkedArray) -> Row:
    few = column[: int(ROWS * LOOP_SHARE)].to_pylist()

    def loop() -> list[object]:
        return [function.apply(value, family="iceberg") for value in few]

    assert apply(function, column, family="iceberg")[: len(few)].to_pylist() == loop()
    return compare(
        f"{function} of {ROWS:,} rows",
        ours=Side("arrow.apply", lambda: apply(function, column, family="iceberg")),
        theirs=Side("PartitionFunction.apply in a loop", loop, LOOP_SHARE),
        goal=at_least(20),
    )
