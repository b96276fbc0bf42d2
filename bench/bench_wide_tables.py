"""Tables of many columns: what an append, an update and a merge take at 300 columns beside the same at 10.

A ratio of 0.5 means that 300 columns take twice as long as 10.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa

import partita as pt
from bench.harness import Row, Side, at_least, compare
from partita.spark import spark_session

WIDE_COLUMN_COUNT, NARROW_COLUMN_COUNT = 300, 10
FORMATS = ("delta", "iceberg", "lance")
REPEAT = 3


def rows() -> Iterator[Row]:
    """Three rows are enough: what grows with the columns is planning and compiling."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        spark_session(**{"spark.sql.shuffle.partitions": "2"})
        lake = pt.Lake(folder)
        for format_ in FORMATS:
            for name, change in CHANGES.items():
                yield compare(
                    f"{name} of a {format_} table, {WIDE_COLUMN_COUNT} columns beside {NARROW_COLUMN_COUNT}",
                    ours=Side(
                        f"{WIDE_COLUMN_COUNT} columns", _change_on_new_table(lake, format_, WIDE_COLUMN_COUNT, change)
                    ),
                    theirs=Side(
                        f"{NARROW_COLUMN_COUNT} columns",
                        _change_on_new_table(lake, format_, NARROW_COLUMN_COUNT, change),
                    ),
                    goal=at_least(0.5),
                    repeat=REPEAT,
                )


def _append_rows(table: pt.Table, width: int) -> None:
    table.append(_sample_rows(width, [4, 5, 6]))


def _update_columns(table: pt.Table, width: int) -> None:
    table.update({f"c{at}": f"c{at}" for at in range(width)}, "id = 2")


def _merge_rows(table: pt.Table, width: int) -> None:
    table.merge(
        _sample_rows(width, [2, 3, 4]), "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert()
    )  # fmt: skip


CHANGES: dict[str, Callable[[pt.Table, int], None]] = {
    "append": _append_rows, "UPDATE of every column": _update_columns, "MERGE with UPDATE SET *": _merge_rows,
}  # fmt: skip
_table_numbers = count()


def _change_on_new_table(
    lake: pt.Lake, format_: str, width: int, change: Callable[[pt.Table, int], None]
) -> Callable[[], None]:
    data = _sample_rows(width, [1, 2, 3])
    schema = pa.schema([f.with_nullable(at % 3 == 0 and at > 0) for at, f in enumerate(data.schema)])
    table = lake.create_table(f"wide.t{next(_table_numbers)}", schema, format=format_)
    table.append(data)
    return lambda: change(table, width)


def _sample_rows(width: int, ids: list[int]) -> pa.Table:
    columns = {f"c{at}": [f"{at}-{x}" for x in ids] if at % 2 else [at * x for x in ids] for at in range(width)}
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})
