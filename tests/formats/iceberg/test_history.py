"""The snapshots of a table, as Arrow, and since when a table has each of its specs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import partita as pt
from partita.formats.iceberg.history import snapshot_history
from partita.lake import Lake
from tests.formats.iceberg.snapshot_tables import append_files, data_file, new_table

SCHEMA = pt.Schema.of({"id": "long", "day": "date", "region": "string", "shop": "string"})


def evolved_table(lake: Lake, **properties: str) -> pt.Table:
    """A table with three specs, each a metadata file later than the one before."""
    table = lake.create_table("sales", SCHEMA, format="iceberg", partition_by=["day"], properties=properties)
    table.evolve(add=["region"])
    table.evolve(add=["shop"])
    return table


def test_each_spec_has_the_moment_that_it_came(lake: Lake) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    times = evolved_table(lake).spec_times
    assert list(times) == [0, 1, 2]
    assert before <= times[0] <= times[1] <= times[2] <= datetime.now(UTC)


def test_a_spec_that_was_there_before_all_that_is_known_has_none(lake: Lake) -> None:
    table = evolved_table(lake, **{"write.metadata.previous-versions-max": "1"})
    assert list(table.spec_times) == [2]


def test_metadata_that_is_gone_tells_nothing(lake: Lake) -> None:
    table = evolved_table(lake)
    newest = max(Path(table.uri.removeprefix("file://"), "metadata").glob("*.metadata.json"))
    for file in newest.parent.glob("*.metadata.json"):
        if file != newest:
            file.unlink()
    assert table.spec_times == {}


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
