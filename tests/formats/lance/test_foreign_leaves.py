"""Leaves that others made, changed or lost, in ways that Partita has none of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

import partita as pt
from tests.formats.lance.tables import events, rows_of, seeds_tree, write

if TYPE_CHECKING:
    from pathlib import Path

US = "event_date=2025-12-10/country=US.lance"


@pytest.mark.parametrize("index_first", [True, False], ids=["index, compact", "compact, index"])
def test_a_table_that_was_indexed_and_compacted_is_read_and_written(tmp_path: Path, *, index_first: bool) -> None:
    table = seeds_tree(tmp_path)
    write(table, events((5, "2025-12-10", "US")))
    for step in (table.index, table.compact) if index_first else (table.compact, table.index):
        step("id") if step == table.index else step()
        write(table, events((6 if step == table.index else 7, "2025-12-10", "US")))
    table.compact()
    assert rows_of(pt.open_table(table.uri, format="lance")) == list(range(1, 8))
    lance.dataset(f"{table.uri}/{US}").optimize.optimize_indices()
    lance.dataset(f"{table.uri}/{US}").optimize.compact_files()
    assert rows_of(table) == list(range(1, 8))


def test_a_commit_that_can_not_be_read_is_an_error_and_not_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = seeds_tree(tmp_path)
    lance.write_dataset(lance.dataset(f"{table.uri}/{US}").to_table(), f"{table.uri}/{US}", mode="append")

    def broken(*_: Any) -> None:
        raise OSError("the store is tired")

    with monkeypatch.context() as patch:
        patch.setattr(lance.LanceDataset, "read_transaction", broken)
        with pytest.raises(pt.StorageError, match="tired"):
            rows_of(table)
    assert rows_of(table) == [1, 1, 2, 3, 4]
