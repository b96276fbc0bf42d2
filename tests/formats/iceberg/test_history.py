"""The snapshots of a table, as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.formats.iceberg.history import snapshot_history
from tests.formats.iceberg.snapshot_tables import append_files, data_file, new_table

if TYPE_CHECKING:
    from pathlib import Path


def test_history_is_newest_first(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert snapshot_history(table).num_rows == 0
    ids = [
        append_files(table, data_file(table, [{"id": number, "region": "eu"}]), summary_properties={"job": str(number)})
        for number in range(3)
    ]
    table.manage_snapshots().rollback_to_snapshot(ids[1]).commit()
    history = snapshot_history(table)
    assert history["version"].to_pylist() == ids[::-1]
    assert history["parent"].to_pylist() == [ids[1], ids[0], None]
    assert history["is_current_ancestor"].to_pylist() == [False, True, True]
    assert history["operation"].to_pylist() == ["append"] * 3
    assert [dict(each)["job"] for each in history["summary"].to_pylist()] == ["2", "1", "0"]
    assert history["timestamp"].to_pylist() == sorted(history["timestamp"].to_pylist(), reverse=True)
