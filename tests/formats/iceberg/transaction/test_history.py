"""The snapshots of a table, as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.formats.iceberg.transaction import history
from tests.formats.iceberg.transaction.tables import append, data_file, new_table

if TYPE_CHECKING:
    from pathlib import Path


def test_history_is_newest_first(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert history(table).num_rows == 0
    ids = [
        append(table, data_file(table, [{"id": at, "region": "eu"}]), properties={"job": str(at)}) for at in range(3)
    ]
    table.manage_snapshots().rollback_to_snapshot(ids[1]).commit()
    told = history(table)
    assert told["version"].to_pylist() == ids[::-1]
    assert told["parent"].to_pylist() == [ids[1], ids[0], None]
    assert told["is_current_ancestor"].to_pylist() == [False, True, True]
    assert told["operation"].to_pylist() == ["append"] * 3
    assert [dict(each)["job"] for each in told["summary"].to_pylist()] == ["2", "1", "0"]
    assert told["timestamp"].to_pylist() == sorted(told["timestamp"].to_pylist(), reverse=True)
