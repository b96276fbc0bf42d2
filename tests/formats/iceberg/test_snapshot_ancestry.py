"""Snapshots whose parents form a circle, which no engine writes, end in an error and not in a loop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import TableError
from partita.formats.iceberg.history import snapshot_ancestors, snapshots_since
from tests.formats.iceberg.tables import pyiceberg_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table({"id": [1]})


@pytest.fixture
def table(tmp_path: Path) -> pt.Table:
    """Three snapshots, of which the oldest names the newest as its parent."""
    table = pt.Lake(str(tmp_path)).create_table("db.t", ROWS.schema, format="iceberg")
    for _ in range(3):
        pyiceberg_table(table).append(ROWS)
    from pathlib import Path

    file = Path(urlsplit(pyiceberg_table(table).metadata_location).path)
    metadata = json.loads(file.read_text(encoding="utf-8"))
    metadata["snapshots"][0]["parent-snapshot-id"] = metadata["current-snapshot-id"]
    file.write_text(json.dumps(metadata), encoding="utf-8")
    return pt.Lake(str(tmp_path)).table("db.t")


@pytest.mark.parametrize(
    "call", [pt.Table.change_feed, pt.Table.history, lambda table: table.expire_snapshots(retain_last=10)]
)
def test_parents_in_a_circle(table: pt.Table, call: Callable[[pt.Table], object]) -> None:
    with pytest.raises(TableError, match="is its own ancestor"):
        call(table)


def test_conflicts_of_parents_in_a_circle(table: pt.Table) -> None:
    metadata = pyiceberg_table(table).metadata
    with pytest.raises(TableError, match="is its own ancestor"):
        snapshots_since(metadata, metadata.current_snapshot(), 1)
    assert len(list(zip(range(3), snapshot_ancestors(metadata, metadata.current_snapshot()), strict=False))) == 3
