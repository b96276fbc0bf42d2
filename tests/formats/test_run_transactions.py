"""The transactions of runs that are long over are forgotten, and no other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.algebra import ulid
from partita.formats.lance.log import LEAF_VERSION_SCHEMA, LanceLog, LogSnapshot
from partita.formats.run_transactions import expired_applications
from partita.storage import Storage
from tests.formats.iceberg.tables import pyiceberg_table

if TYPE_CHECKING:
    from pathlib import Path

DAY = 24 * 3600 * 1000


def run(days: float, rest: str = "orders/0") -> str:
    """The transaction of a run so many days ago."""
    return f"partita/{ulid._encode_number(int(time.time() * 1000 - days * DAY) << 80)}/{rest}"


OLD, OLDER, NEW = run(30.1), run(4000, ""), run(29.9)
OTHERS = ("job", "partita/", "partita", "partita/not a ulid/1", f"x{OLD}", OLD.lower(), "partita//")


def test_only_runs_of_more_than_thirty_days_ago_are_outlived() -> None:
    assert expired_applications([OLD, NEW, *OTHERS, OLDER]) == [OLD, OLDER]
    assert expired_applications([NEW], now_millis=time.time_ns() // 1_000_000 + DAY) == [NEW]
    assert expired_applications([]) == []


def test_a_ulid_has_its_creation_time() -> None:
    before = time.time_ns() // 1_000_000
    assert before <= ulid.ulid_millis(ulid.new_ulid()) <= time.time_ns() // 1_000_000 + 1
    assert ulid.ulid_millis("01ARZ3NDEKTSV4RRFFQ69G5FAV") == 1_469_922_850_259


def test_a_checkpoint_of_lances_log_leaves_them_out(tmp_path: Path) -> None:
    log = LanceLog(Storage.from_uri(str(tmp_path)))
    log.write_checkpoint(LogSnapshot(3, LEAF_VERSION_SCHEMA.empty_table(), {OLD: 1, NEW: 2, "job": 3}))
    assert log.snapshot_at(3).transactions == {NEW: 2, "job": 3}


@pytest.mark.usefixtures("spark")
def test_a_commit_to_an_iceberg_table_drops_them(tmp_path: Path) -> None:
    prefix = "partita.transaction."
    kept = {f"{prefix}{name}": "1" for name in (NEW, "job")}
    table = pt.Lake(str(tmp_path)).create_table(
        "t.t", pt.Schema.of({"id": "long"}), format="iceberg", partition_by=[],
        properties={**kept, f"{prefix}{OLD}": "1", f"{prefix}{OLDER}": "7", "other": "x"},
    )  # fmt: skip
    given = pa.table({"id": pa.array([1], pa.int64())})
    table.append(given)
    assert f"{prefix}{OLD}" in pyiceberg_table(table).properties
    now = run(0)
    table.append(given, transaction=(now, 5))
    found = {name: value for name, value in pyiceberg_table(table).properties.items() if name.startswith(prefix)}
    assert found == {**kept, f"{prefix}{now}": "5"}
    assert pyiceberg_table(table).properties["other"] == "x"
    assert table.append(given, transaction=(now, 5)).version is None
