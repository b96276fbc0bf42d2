"""Lance tables for tests, written in this process: what executors do to a partition, without Spark."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

import partita as pt
from partita.formats.lance.fragments import write_rows
from partita.formats.lance.store import LanceStore, lance
from partita.formats.lance.table import LanceTable
from partita.formats.store import TOLD, Change

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EVENTS = pa.schema([("id", pa.int64()), ("event_date", pa.date32()), ("country", pa.string())])


def make(folder: Path, schema: pa.Schema, by: Sequence[Any], name: str = "my_partitioned_table") -> LanceTable:
    """A new table."""
    made = pt.Lake(str(folder)).create_table(name, schema, format="lance", partition_by=by)
    return cast("LanceTable", made)


def store_of(table: pt.Table) -> LanceStore:
    """The store behind a table."""
    return cast("LanceStore", table._store)


def write(table: pt.Table, rows: pa.Table, operation: str = "append", **change: Any) -> int:
    """Write rows in this process."""
    store = store_of(table)
    state = store.state()
    return store.commit(state, Change(operation, written(table, rows), **change))


def written(table: pt.Table, rows: pa.Table) -> pa.Table:
    """Fragments that no commit names yet."""
    store = store_of(table)
    state = lance(store.state())
    return pa.Table.from_pylist(list(write_rows(store.target(state), state.definition, rows)), TOLD)


def rows_of(table: pt.Table, column: str = "id") -> list[Any]:
    """A column of all rows that count, sorted; read in this process."""
    store = store_of(table)
    state = store.state()
    places = pa.array(range(len(state.ids))).to_numpy()
    found: list[Any] = []
    for place, version in zip(places, store.versions(state, places), strict=True):
        found += store.leaf(state, int(place)).open(version).to_table()[column].to_pylist()
    return sorted(found)


def events(*rows: tuple[int, str, str | None]) -> pa.Table:
    """Rows of the seed's table: id, date, country."""
    columns = zip(*((number, date.fromisoformat(day), country) for number, day, country in rows), strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, EVENTS, strict=True)], schema=EVENTS)


def seeds_tree(folder: Path) -> LanceTable:
    """The tree of seed 001, section 3.2."""
    table = make(folder, EVENTS, ["event_date", "country"])
    write(
        table,
        events((1, "2025-12-10", "US"), (2, "2025-12-10", "CN"), (3, "2025-12-11", "US"), (4, "2025-12-11", "FR")),
    )
    return table
