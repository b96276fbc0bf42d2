"""The tasks of a scan without Spark: how leaves are packed, and their columns, filters and positions."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.predicate_text import parse_predicate
from partita.formats.lance.filters import exact_filters, may_match_filters
from partita.formats.lance.leaf_dataset import fragments_of
from partita.formats.lance.scan_tasks import (
    LanceReader,
    LeafSplit,
    leaf_splits,
    pack_into_tasks,
    scan_tasks,
    split_by_fragments,
)
from tests.formats.lance.tables import commit_rows, create_lance_table, create_seed_table, event_rows, table_store

if TYPE_CHECKING:
    from pathlib import Path

    from partita.formats.lance.lance_table import LanceTable


def read(
    table: LanceTable, columns: pa.Schema, where: str | None = None, *, positions: bool = False
) -> list[dict[str, object]]:
    state = table_store(table).current_version()
    file_indices = np.arange(len(state.leaf_ids))
    predicate = None if where is None else parse_predicate(where, state.schema)
    filters = may_match_filters(state, file_indices, predicate)
    tasks = scan_tasks(leaf_splits(state, file_indices, state.read_versions(file_indices), filters), 4)
    stored = tuple(name for name in columns.names if name in state.definition.stored_schema.names)
    schema = pa.schema([*columns, ("file", pa.int32()), ("row", pa.int64())]) if positions else columns
    reader = LanceReader(tasks, stored, schema, state.omitted_column_values(file_indices, columns.names), positions)
    rows = [row for task in range(len(tasks)) for batch in reader.read(task) for row in batch.to_pylist()]
    return sorted(rows, key=str)


def test_columns_that_names_hold_are_put_back_with_their_types(tmp_path: Path) -> None:
    rows = read(
        create_seed_table(tmp_path),
        pa.schema([("country", pa.string()), ("id", pa.int64()), ("event_date", pa.date32())]),
    )
    assert rows == [
        {"country": "CN", "id": 2, "event_date": date(2025, 12, 10)},
        {"country": "FR", "id": 4, "event_date": date(2025, 12, 11)},
        {"country": "US", "id": 1, "event_date": date(2025, 12, 10)},
        {"country": "US", "id": 3, "event_date": date(2025, 12, 11)},
    ]


def test_rows_are_counted_where_no_stored_column_is_asked_for(tmp_path: Path) -> None:
    rows = read(create_seed_table(tmp_path), pa.schema([("country", pa.string())]))
    assert [row["country"] for row in rows] == ["CN", "FR", "US", "US"]


def test_positions_are_the_leaf_and_the_rows_address(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    commit_rows(table, event_rows((5, "2025-12-10", "US"), (6, "2025-12-10", "US")))
    rows = read(table, pa.schema([("id", pa.int64())]), "id IN (1, 6)", positions=True)
    assert rows == [{"id": 1, "file": 0, "row": 0}, {"id": 6, "file": 0, "row": (1 << 32) + 1}]


def test_a_column_that_came_after_a_leaf_was_made_is_null_in_it(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    columns = pa.schema([("id", pa.int64()), ("note", pa.string())])
    assert [row["note"] for row in read(table, columns, "id = 3")] == [None]
    table.add_column(pa.field("note", pa.string()))
    rows = read(table, columns, "id >= 3 AND note IS NULL")
    assert rows == [{"id": 3, "note": None}, {"id": 4, "note": None}]
    with pytest.raises(pt.TableError, match="may not be null"):
        read(table, pa.schema([pa.field("other", pa.string(), nullable=False)]))


@pytest.mark.parametrize(
    ("where", "loose", "exact"),
    [
        ("country = 'US' AND id > 1", ["(`id` > 1)", "FALSE"], ["(`id` > 1)", "FALSE"]),
        ("country = 'US' OR id > 1", [None, "((`id` > 1))"], [None, "(`id` > 1)"]),
        ("NOT (country = 'US')", ["FALSE", None], ["FALSE", None]),
        ("country > 'A' AND length(country) = id", [None, None], "length"),
        ("event_date = '2025-12-10'", [None, None], [None, None]),
    ],
)
def test_values_of_leaf_names_are_put_into_the_filter(
    tmp_path: Path, where: str, loose: list[str | None], exact: list[str | None] | str
) -> None:
    state = table_store(create_seed_table(tmp_path)).current_version()
    predicate = parse_predicate(where, state.schema)
    file_indices = np.array([0, 1])  # the first day's US and CN
    assert may_match_filters(state, file_indices, predicate) == loose
    if isinstance(exact, str):
        with pytest.raises(pt.PredicateError, match=exact):
            exact_filters(state, file_indices, predicate)
    else:
        assert exact_filters(state, file_indices, predicate) == exact


@pytest.mark.slow(reason="many commits to a table")
def test_small_leaves_share_a_task_and_large_ones_are_split_by_fragments(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, pa.schema([("id", pa.int64()), ("p", pa.int32())]), ["p"])
    for start in (0, 100, 200):
        commit_rows(
            table,
            pa.table(
                {"id": pa.array(range(start, start + 100)), "p": pa.array([n % 10 for n in range(100)], pa.int32())}
            ),
        )
    state = table_store(table).current_version()
    file_indices = np.arange(10)
    leaves = leaf_splits(state, file_indices, state.read_versions(file_indices), [None] * 10)
    assert len(scan_tasks(leaves, 4)) == 1
    piece = LeafSplit(state.leaf(0), state.read_versions(file_indices)[0], 0, 0)
    assert [part.fragment_ids for part in split_by_fragments(piece, 1)] == [
        (f.id,) for f in fragments_of(piece.leaf.open())
    ]
    assert [part.fragment_ids for part in split_by_fragments(piece, 10**9)] == [(0, 1, 2)]
    megabytes = [LeafSplit(piece.leaf, 1, n, size * 2**20) for n, size in enumerate([50, 60, 10, 100, 20])]
    packs = pack_into_tasks(megabytes, 100 * 2**20)
    assert [[p.byte_size // 2**20 for p in pack] for pack in packs] == [[100], [60, 10], [50, 20]]
    assert [len(pack) for pack in pack_into_tasks([LeafSplit(piece.leaf, 1, n, 1) for n in range(2500)], 10**9)] == [
        834,
        833,
        833,
    ]
    assert pack_into_tasks([], 100) == []
