"""Helpers of Lance tests: create tables, and write and read them in this process, without Spark."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

import partita as pt
from partita.arrow.distinct_rows import distinct_row_ids, sort_into_groups
from partita.arrow.transforms import apply
from partita.formats.capabilities import Operation
from partita.formats.lance.files import conform_to_schema
from partita.formats.lance.lance_table import LanceTable
from partita.formats.lance.store import LanceTableStore
from partita.formats.lance.values import partition_texts
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EVENT_SCHEMA = pa.schema([("id", pa.int64()), ("event_date", pa.date32()), ("country", pa.string())])


def create_lance_table(
    folder: Path, schema: pa.Schema, by: Sequence[Any], name: str = "my_partitioned_table"
) -> LanceTable:
    """Create a table."""
    table = pt.Lake(str(folder)).create_table(name, schema, format="lance", partition_by=by)
    return cast("LanceTable", table)


def table_store(table: pt.Table) -> LanceTableStore:
    """Return the store of a table."""
    return cast("LanceTableStore", table._store)


def commit_rows(table: pt.Table, rows: pa.Table, operation: str = "append", **change: Any) -> int:
    """Write and commit rows in this process."""
    store = table_store(table)
    state = store.current_version()
    return state.commit(TableChange(Operation(operation), uncommitted_fragments(table, rows), **change))


def uncommitted_fragments(table: pt.Table, rows: pa.Table) -> pa.Table:
    """Write fragments without committing them, and return their written files."""
    state = table_store(table).current_version()
    target, conforming_rows = state.write_target(), conform_to_schema(rows, state.definition.arrow_schema)
    text_columns = [
        partition_texts(apply(f.function, conforming_rows[f.source], family="lance", type=f.source_type), f)
        for f in state.spec.fields
    ]
    stored_rows = conforming_rows.select(target.stored_schema.names)
    indices, bounds = sort_into_groups(distinct_row_ids(text_columns, rows.num_rows))
    fragments = []
    for start, stop in pairwise(bounds) if rows.num_rows else ():
        partition = tuple(column[indices[start]].as_py() for column in text_columns)
        sink = target.open_sink(partition, "0")
        sink.write(stored_rows.take(pa.array(indices[start:stop])))
        fragments.append({**sink.close(), "partition": list(partition)})
    return pa.Table.from_pylist(fragments, WRITTEN_FILE_SCHEMA)


def column_values(table: pt.Table, column: str = "id") -> list[Any]:
    """Return the sorted values of a column, read in this process."""
    store = table_store(table)
    state = store.current_version()
    file_indices = pa.array(range(len(state.leaf_ids))).to_numpy()
    values: list[Any] = []
    for file_index, version in zip(file_indices, state.read_versions(file_indices), strict=True):
        values += state.leaf(int(file_index)).open(version).to_table()[column].to_pylist()
    return sorted(values)


def event_rows(*rows: tuple[int, str, str | None]) -> pa.Table:
    """Build rows of the table of the Lance partition spec: id, date, country."""
    columns = zip(*((number, date.fromisoformat(day), country) for number, day, country in rows), strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, EVENT_SCHEMA, strict=True)], schema=EVENT_SCHEMA)


def create_seed_table(folder: Path) -> LanceTable:
    """Create the table of Lance partition spec, section 3.2."""
    table = create_lance_table(folder, EVENT_SCHEMA, ["event_date", "country"])
    commit_rows(
        table,
        event_rows((1, "2025-12-10", "US"), (2, "2025-12-10", "CN"), (3, "2025-12-11", "US"), (4, "2025-12-11", "FR")),
    )
    return table
