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
from partita.spark import session

WIDE, NARROW = 300, 10
FORMATS = ("delta", "iceberg", "lance")
REPEAT = 3


def rows() -> Iterator[Row]:
    """Three rows are enough: what grows with the columns is planning and compiling."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        session(**{"spark.sql.shuffle.partitions": "2"})
        lake = pt.Lake(folder)
        for format_ in FORMATS:
            for name, change in CHANGES.items():
                yield compare(
                    f"{name} of a {format_} table, {WIDE} columns beside {NARROW}",
                    ours=Side(f"{WIDE} columns", _on(lake, format_, WIDE, change)),
                    theirs=Side(f"{NARROW} columns", _on(lake, format_, NARROW, change)),
                    goal=at_least(0.5),
                    repeat=REPEAT,
                )


def _append(table: pt.Table, width: int) -> None:
    table.append(_rows(width, [4, 5, 6]))


def _update(table: pt.Table, width: int) -> None:
    table.update({f"c{at}": f"c{at}" for at in range(width)}, "id = 2")


def _merge(table: pt.Table, width: int) -> None:
    table.merge(
        _rows(width, [2, 3, 4]), "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert()
    )  # fmt: skip


CHANGES: dict[str, Callable[[pt.Table, int], None]] = {
    "append": _append, "UPDATE of every column": _update, "MERGE with UPDATE SET *": _merge,
}  # fmt: skip
_numbers = count()


def _on(lake: pt.Lake, format_: str, width: int, change: Callable[[pt.Table, int], None]) -> Callable[[], None]:
    data = _rows(width, [1, 2, 3])
    schema = pa.schema([f.with_nullable(at % 3 == 0 and at > 0) for at, f in enumerate(data.schema)])
    table = lake.create_table(f"wide.t{next(_numbers)}", schema, format=format_)
    table.append(data)
    return lambda: change(table, width)


def _rows(width: int, ids: list[int]) -> pa.Table:
    columns = {f"c{at}": [f"{at}-{x}" for x in ids] if at % 2 else [at * x for x in ids] for at in range(width)}
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})
