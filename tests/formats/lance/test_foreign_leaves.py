"""Leaves that other writers created, changed or removed in ways that Partita doesn't."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import partita as pt
from tests.formats.lance.tables import (
    EVENT_SCHEMA,
    column_values,
    commit_rows,
    create_lance_table,
    create_seed_table,
    event_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

US = "event_date=2025-12-10/country=US.lance"


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize("index_first", [True, False], ids=["index, compact", "compact, index"])
def test_a_table_that_was_indexed_and_compacted_is_read_and_written(tmp_path: Path, *, index_first: bool) -> None:
    table = create_seed_table(tmp_path)
    commit_rows(table, event_rows((5, "2025-12-10", "US")))
    steps: list[Callable[[], Any]] = [partial(table.create_index, "id"), table.compact]
    for number, step in enumerate(steps if index_first else reversed(steps)):
        step()
        commit_rows(table, event_rows((6 + number, "2025-12-10", "US")))
    table.compact()
    assert column_values(pt.open_table(table.uri, format="lance")) == list(range(1, 8))
    lance.dataset(f"{table.uri}/{US}").optimize.optimize_indices()
    lance.dataset(f"{table.uri}/{US}").optimize.compact_files()
    assert column_values(table) == list(range(1, 8))


def test_a_commit_that_can_not_be_read_is_an_error_and_not_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_seed_table(tmp_path)
    lance.write_dataset(lance.dataset(f"{table.uri}/{US}").to_table(), f"{table.uri}/{US}", mode="append")

    def fail(*_: Any) -> None:
        raise OSError("the store is tired")

    with monkeypatch.context() as patch:
        patch.setattr(lance.LanceDataset, "read_transaction", fail)
        with pytest.raises(pt.StorageError, match="tired"):
            column_values(table)
    assert column_values(table) == [1, 1, 2, 3, 4]


NESTED = pa.schema([
    ("id", pa.int64()), ("country", pa.string()), ("other", pa.int64()),
    ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])), ("l", pa.list_(pa.string())),
    ("ls", pa.list_(pa.struct([("q", pa.int64())]))), ("v", pa.list_(pa.float32(), 2)),
])  # fmt: skip


def nested_rows(*numbers: int) -> pa.Table:
    rows = [
        {"id": n, "country": "US", "other": -n, "s": {"a": n, "b": str(n)}, "l": [str(n)] * n, "ls": [{"q": n}] * 2,
         "v": [n, n + 0.5]}
        for n in numbers
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, NESTED)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
@pytest.mark.parametrize("empty", [False, True], ids=["rows", "no rows"])
def test_a_leaf_keeps_the_order_of_its_columns_and_the_version_of_its_files(
    tmp_path: Path, version: Any, order: int, *, empty: bool
) -> None:
    table = create_lance_table(tmp_path, NESTED, ["country"])
    theirs = nested_rows(1).drop(["country"])
    theirs = theirs.select(theirs.column_names[::order])
    path = f"{table.uri}/country=US.lance"
    lance.write_dataset(theirs.slice(0, 0 if empty else 1), path, data_storage_version=version)
    table.repair()
    commit_rows(table, nested_rows(2, 3))
    commit_rows(table, nested_rows(4), operation="append")
    leaf = lance.dataset(path)
    assert leaf.schema.names == theirs.column_names
    assert leaf.data_storage_version == version
    expected = nested_rows(*([] if empty else [1]), 2, 3, 4).drop(["country"])
    assert leaf.to_table(columns=expected.column_names).to_pylist() == expected.to_pylist()
    leaf.optimize.compact_files()
    assert leaf.to_table(columns=expected.column_names).to_pylist() == expected.to_pylist()


def test_a_leaf_of_the_first_file_version_is_read_and_not_appended_to(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, EVENT_SCHEMA, ["country"])
    rows = event_rows((1, "2025-12-10", "US")).drop(["country"])
    lance.write_dataset(rows, f"{table.uri}/country=US.lance", data_storage_version="legacy")
    table.repair()
    assert column_values(table) == [1]
    with pytest.raises(pt.TableError, match=r"country=US\.lance has Lance's file version 0\.1.*rewrite it with Lance"):
        commit_rows(table, event_rows((2, "2025-12-10", "US")))
    assert column_values(table) == [1]


@pytest.mark.slow(reason="many commits to a table")
def test_a_leaf_with_a_missing_folder_is_reported_by_name_and_can_be_dropped(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    shutil.rmtree(f"{table.uri}/{US}")
    for do in (column_values, lambda t: commit_rows(t, event_rows((9, "2025-12-10", "US"))), lambda t: t.compact()):
        with pytest.raises(pt.TableError, match=r"event_date=2025-12-10/country=US\.lance.*drop_partition"):
            do(table)
    commit_rows(table, event_rows((5, "2025-12-11", "US")))
    assert table.drop_partition("event_date = '2025-12-10' AND country = 'US'") == 1
    assert column_values(table) == [2, 3, 4, 5]
    commit_rows(table, event_rows((6, "2025-12-10", "US")))
    assert column_values(pt.open_table(table.uri, format="lance")) == [2, 3, 4, 5, 6]


def test_commits_of_other_writers_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_seed_table(tmp_path)
    for number in range(20, 25):
        lance.write_dataset(pa.table({"id": [number]}), f"{table.uri}/{US}", mode="append")
    looked: list[int] = []
    read = lance.LanceDataset.read_transaction

    def count_calls(dataset: lance.LanceDataset, version: int) -> Any:
        looked.append(version)
        return read(dataset, version)

    monkeypatch.setattr(lance.LanceDataset, "read_transaction", count_calls)
    assert column_values(table) == [1, 2, 3, 4, *range(20, 25)]
    first = len(looked)
    assert column_values(table) == [1, 2, 3, 4, *range(20, 25)]
    assert len(looked) == first
    lance.write_dataset(pa.table({"id": [25]}), f"{table.uri}/{US}", mode="append")
    assert column_values(table) == [1, 2, 3, 4, *range(20, 26)]
    assert len(looked) == first + 1
    shutil.rmtree(f"{table.uri}/{US}")
    for number in range(30, 39):
        lance.write_dataset(pa.table({"id": [number]}), f"{table.uri}/{US}", mode="append" if number > 30 else "create")
    assert column_values(table) == [2, 3, 4, *range(30, 39)]
