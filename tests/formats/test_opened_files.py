"""What a change or a question opens of a table's metadata grows with what it touches, not with the table."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

import partita as pt
from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.manifests import cache
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.storage import LocalStorage
from tests.formats.iceberg.manifests.test_copy import files_in
from tests.formats.iceberg.snapshot_tables import snapshot_summary
from tests.formats.iceberg.tables import pyiceberg_table

if TYPE_CHECKING:
    from pyiceberg.io import InputFile

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.int64())])
NO_MERGE = {"commit.manifest-merge.enabled": "false"}


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the Avro files that were opened, manifest lists as `list`; nothing is kept between processes."""
    found: list[str] = []
    new_input = PyArrowFileIO.new_input

    def counting_open(self: PyArrowFileIO, location: str) -> InputFile:
        if location.endswith(".avro"):
            found.append("list" if "/snap-" in location else location.rpartition("/")[2])
        return new_input(self, location)

    monkeypatch.setattr(PyArrowFileIO, "new_input", counting_open)
    monkeypatch.setenv("PARTITA_CACHE", "off")
    return found


def create(folder: Path, form: str, **properties: str) -> Any:
    return pt.Lake(str(folder)).create_table(
        "t.t", SCHEMA, format=form, partition_by=["region"], properties=properties
    )  # fmt: skip


def rows(*regions: int) -> pa.Table:
    return pa.table({"id": pa.array(range(len(regions)), pa.int64()), "region": pa.array(regions, pa.int64())})


def table_of_manifests(folder: Path, manifests: int, partitions: int) -> Any:
    """A table in which each manifest has so many partitions of its own, of files that need not exist."""
    table = create(folder, "iceberg", **NO_MERGE)
    loaded = pyiceberg_table(table)
    for at in range(manifests):
        regions = [at * partitions + number for number in range(partitions)]
        commit_snapshot(
            loaded, loaded.metadata.current_snapshot_id, SnapshotChange("append", files_in(loaded, partitions, regions))
        )
    return table


@pytest.mark.usefixtures("spark")
def test_deleting_a_partition_opens_the_manifest_that_has_it(tmp_path: Path, opened_files: list[str]) -> None:
    table = table_of_manifests(tmp_path, 20, 30)
    cache.clear_memory()
    opened_files.clear()
    outcome = table.delete("region = 334")
    assert outcome.counts["files_removed"] == 1
    assert len(set(opened_files) - {"list"}) == 1
    summary = snapshot_summary(pyiceberg_table(table))
    assert (summary["total-data-files"], summary["deleted-data-files"]) == ("599", "1")


@pytest.mark.usefixtures("spark")
def test_appending_opens_no_manifest(tmp_path: Path, opened_files: list[str]) -> None:
    table = table_of_manifests(tmp_path, 5, 3)
    cache.clear_memory()
    opened_files.clear()
    table.append(rows(1, 2))
    assert set(opened_files) <= {"list"}


@pytest.mark.usefixtures("spark")
def test_replacing_partitions_opens_the_manifests_that_have_them(tmp_path: Path, opened_files: list[str]) -> None:
    table = table_of_manifests(tmp_path, 10, 3)
    cache.clear_memory()
    opened_files.clear()
    table.overwrite_partitions(rows(4, 29))
    assert len(set(opened_files) - {"list"}) == 2
    cache.clear_memory()
    opened_files.clear()
    table.replace_partitions(rows(4), pa.table({"region": pa.array([4, 5], pa.int64())}))
    # Of 11: what the first replacement added, left and took away, in a manifest each.
    assert len(set(opened_files) - {"list"}) == 3
    assert sorted(table.partitions()["region"].to_pylist()) == [number for number in range(30) if number != 5]


@pytest.mark.slow(reason="many random inputs")
def test_schema_and_specs_need_no_manifest(tmp_path: Path, opened_files: list[str]) -> None:
    table = table_of_manifests(tmp_path, 2, 3)
    cache.clear_memory()
    opened_files.clear()
    assert table.version == pyiceberg_table(table).metadata.current_snapshot_id
    assert (table.schema.names, table.spec.names, len(table.history())) == (("id", "region"), ("region",), 2)
    assert not table.has_transaction(("app", 1))
    assert opened_files == []


def test_missing_totals_are_counted_without_data_manifests(
    tmp_path: Path, opened_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partita.formats.iceberg.manifests.lookup._MAX_COUNTED_FILES", 5)
    table = table_of_manifests(tmp_path, 3, 4)
    loaded = pyiceberg_table(table)
    bare = [one.model_copy(update={"summary": None}) for one in loaded.metadata.snapshots]
    loaded.metadata = loaded.metadata.model_copy(update={"snapshots": bare})
    opened_files.clear()
    commit_snapshot(loaded, loaded.metadata.current_snapshot_id, SnapshotChange("append", files_in(loaded, 1, [3])))
    summary = snapshot_summary(loaded)
    assert (summary["total-data-files"], summary["total-records"]) == ("13", str(3 * (10 + 11 + 12 + 13) + 10))
    assert "total-files-size" not in summary
    assert set(opened_files) <= {"list"}


@pytest.mark.slow(reason="many random inputs")
def test_commits_open_what_snapshots_changed(tmp_path: Path, opened_files: list[str]) -> None:
    table = table_of_manifests(tmp_path, 6, 3)
    cache.clear_memory()
    opened_files.clear()
    found = table.change_feed()
    assert [one.partitions["region"].to_pylist() for one in found.commits] == [
        [3 * at, 3 * at + 1, 3 * at + 2] for at in range(6)
    ]
    # The first, which is told whole, is opened a second time.
    counts = Counter(opened_files)
    assert counts.pop("list") == 7
    assert sorted(counts.values()) == [1, 1, 1, 1, 1, 2]
    loaded = pyiceberg_table(table)
    gone = next(iter(table.plan("region = 7").files["path"].to_pylist()))
    commit_snapshot(
        loaded, loaded.metadata.current_snapshot_id, SnapshotChange("delete", removed_data_files=frozenset([gone]))
    )
    cache.clear_memory()
    opened_files.clear()
    [told] = table.change_feed(found.cursor).commits
    assert (told.operation, told.partitions["region"].to_pylist()) == ("delete", [7])
    # What is left of the manifest is not opened: nothing in it came or went.
    assert len(opened_files) == 2


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file of a log was read."""
    found: Counter[str] = Counter()
    for name in ("get", "open_input"):
        known = getattr(LocalStorage, name)

        def counting_open(self: LocalStorage, path: str, _known: Any = known) -> Any:
            found[re.sub(r"^0+(?=\d)", "", path.rpartition("/")[2])] += 1
            return _known(self, path)

        monkeypatch.setattr(LocalStorage, name, counting_open)
    return found


def delta_log(folder: Path, commits: int) -> Any:
    """A Delta table of so many commits of one file each, which need not exist, and a checkpoint in the middle."""
    table = create(folder, "delta")
    log = Path(table.uri) / "_delta_log"
    for version in range(1, commits + 1):
        add = {"path": f"region={version}/{version}.parquet", "partitionValues": {"region": str(version)}, "size": 1,
               "modificationTime": version, "dataChange": True}  # fmt: skip
        info = {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}
        lines = [json.dumps(action) for action in ({"commitInfo": info}, {"add": add})]
        (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")
        if version == commits // 2:
            assert table._store.log.write_checkpoint(version)
    return table


def test_commits_of_a_delta_table_read_each_commit_once(tmp_path: Path, read: Counter[str]) -> None:
    table = delta_log(tmp_path, 20)
    read.clear()
    found = table.change_feed()
    assert [one.partitions["region"].to_pylist() for one in found.commits] == [[at] for at in range(1, 21)]
    # The newest once more, for the cursor's digest.
    assert {name: count for name, count in read.items() if name.endswith("json")} == {
        f"{version}.json": 1 + (version == 20) for version in range(21)
    }
    assert sum(count for name, count in read.items() if name.endswith("parquet")) == 1


def test_commits_of_a_delta_table_after_a_cursor_read_what_came_after(tmp_path: Path, read: Counter[str]) -> None:
    table = delta_log(tmp_path, 20)
    cursor = table.change_feed().cursor
    version = json.loads(cursor)["version"]
    log = Path(table.uri) / "_delta_log"
    (log / f"{version + 1:020}.json").write_text((log / f"{version:020}.json").read_text())
    (log / f"{version + 2:020}.json").write_text((log / f"{version:020}.json").read_text())
    assert table._store.log.write_checkpoint(version + 1)
    read.clear()
    again = pt.Lake(str(tmp_path)).table("t.t")
    read.clear()
    assert [one.version for one in again.change_feed(cursor).commits] == [21, 22]
    assert {name for name in read if name.endswith(".json")} == {"21.json", "22.json"}
