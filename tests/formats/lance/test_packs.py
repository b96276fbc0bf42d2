"""What tasks read: packs of leaves, their columns, their filters and positions; without Spark."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.parse import parse_predicate
from partita.formats.lance.filters import exact_filters, loose_filters
from partita.formats.lance.leaf import fragments_of
from partita.formats.lance.packs import LanceReader, Piece, constants_of, packed, packs_of, parts_of
from tests.formats.lance.tables import events, make, seeds_tree, store_of, write

if TYPE_CHECKING:
    from pathlib import Path

    from partita.formats.lance.table import LanceTable


def read(
    table: LanceTable, columns: pa.Schema, where: str | None = None, *, positions: bool = False
) -> list[dict[str, object]]:
    store = store_of(table)
    state = store.state()
    places = np.arange(len(state.ids))
    predicate = None if where is None else parse_predicate(where, state.schema)
    packs = packs_of(store, state, places, loose_filters(state, places, predicate), 4)
    stored = tuple(name for name in columns.names if name in state.definition.stored.names)
    schema = pa.schema([*columns, ("file", pa.int32()), ("row", pa.int64())]) if positions else columns
    reader = LanceReader(packs, stored, schema, constants_of(state, places, columns.names), positions)
    rows = [row for pack in range(len(packs)) for batch in reader.read(pack) for row in batch.to_pylist()]
    return sorted(rows, key=str)


def test_columns_that_names_hold_are_put_back_with_their_types(tmp_path: Path) -> None:
    rows = read(
        seeds_tree(tmp_path), pa.schema([("country", pa.string()), ("id", pa.int64()), ("event_date", pa.date32())])
    )
    assert rows == [
        {"country": "CN", "id": 2, "event_date": date(2025, 12, 10)},
        {"country": "FR", "id": 4, "event_date": date(2025, 12, 11)},
        {"country": "US", "id": 1, "event_date": date(2025, 12, 10)},
        {"country": "US", "id": 3, "event_date": date(2025, 12, 11)},
    ]


def test_rows_are_counted_where_no_stored_column_is_asked_for(tmp_path: Path) -> None:
    rows = read(seeds_tree(tmp_path), pa.schema([("country", pa.string())]))
    assert [row["country"] for row in rows] == ["CN", "FR", "US", "US"]


def test_positions_are_the_leaf_and_the_rows_address(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
    write(table, events((5, "2025-12-10", "US"), (6, "2025-12-10", "US")))
    rows = read(table, pa.schema([("id", pa.int64())]), "id IN (1, 6)", positions=True)
    assert rows == [{"id": 1, "file": 0, "row": 0}, {"id": 6, "file": 0, "row": (1 << 32) + 1}]


def test_a_column_that_came_after_a_leaf_was_made_is_null_in_it(tmp_path: Path) -> None:
    table = seeds_tree(tmp_path)
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
def test_what_names_say_is_put_into_the_filter(
    tmp_path: Path, where: str, loose: list[str | None], exact: list[str | None] | str
) -> None:
    state = store_of(seeds_tree(tmp_path)).state()
    predicate = parse_predicate(where, state.schema)
    places = np.array([0, 1])  # the first day's US and CN
    assert loose_filters(state, places, predicate) == loose
    if isinstance(exact, str):
        with pytest.raises(pt.PredicateError, match=exact):
            exact_filters(state, places, predicate)
    else:
        assert exact_filters(state, places, predicate) == exact


def test_small_leaves_share_a_task_and_large_ones_are_split_by_fragments(tmp_path: Path) -> None:
    table = make(tmp_path, pa.schema([("id", pa.int64()), ("p", pa.int32())]), ["p"])
    for start in (0, 100, 200):
        write(
            table,
            pa.table(
                {"id": pa.array(range(start, start + 100)), "p": pa.array([n % 10 for n in range(100)], pa.int32())}
            ),
        )
    store = store_of(table)
    state = store.state()
    places = np.arange(10)
    assert len(packs_of(store, state, places, [None] * 10, 4)) == 1
    piece = Piece(store.leaf(state, 0), store.versions(state, places)[0], 0, 0)
    assert [part.fragments for part in parts_of(piece, 1)] == [(f.id,) for f in fragments_of(piece.leaf.open())]
    assert [part.fragments for part in parts_of(piece, 10**9)] == [(0, 1, 2)]
    megabytes = [Piece(piece.leaf, 1, n, size * 2**20) for n, size in enumerate([50, 60, 10, 100, 20])]
    packs = packed(megabytes, 100 * 2**20)
    assert [[p.size // 2**20 for p in pack] for pack in packs] == [[100], [60, 10], [50, 20]]
    assert [len(pack) for pack in packed([Piece(piece.leaf, 1, n, 1) for n in range(2500)], 10**9)] == [834, 833, 833]
    assert packed([], 100) == []
