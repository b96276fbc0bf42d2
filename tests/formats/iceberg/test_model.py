"""Any history of changes over any specs leaves exactly the rows that a plain model has."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partita.algebra.partition_functions import bucket, truncate
from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    check_totals,
    data_file,
    delete_file,
    manifest_entries,
    new_table,
    strictly_read_ids,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

ROWS = 3
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "rows", "rows", "file", "rewrite", "overwrite", "evolve"]),
        st.integers(0, 1_000_000),
    ),
    min_size=4,
    max_size=9,
)
EVOLUTIONS: list[dict[str, Any]] = [
    {"add": [bucket("id", 4)]}, {"drop": ["region"]}, {"drop": ["id_bucket"], "add": [truncate("region", 1)]},
    {"add": ["amount"]},
]  # fmt: skip


class Model:
    """A table, and for each of its files the remaining ids with the delete file that removed the others."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.left: dict[str, dict[int, int]] = {}
        self.files: dict[str, DataFile] = {}
        self.deletes: dict[str, DataFile] = {}
        self.next = 0
        self.evolved = 0

    def new_file(self, choice: int, count: int = ROWS) -> DataFile:
        spec_id = sorted(self.table.metadata.specs())[choice % len(self.table.metadata.specs())]
        region = ["eu", "us", None][choice % 3]
        rows = [{"id": self.next + index, "region": region, "amount": choice % 2} for index in range(count)]
        self.next += count
        return data_file(self.table, rows, spec_id)

    def keep(self, file: DataFile, ids: list[int]) -> None:
        self.files[file.file_path] = file
        self.left[file.file_path] = dict(enumerate(ids))

    def forget(self, path: str) -> None:
        del self.left[path]
        self.deletes.pop(path, None)

    def commit(self, changes: SnapshotChange) -> None:
        commit_snapshot(self.table, self.table.metadata.current_snapshot_id, changes)

    def step(self, kind: str, choice: int) -> None:
        if kind == "evolve":
            if self.evolved < len(EVOLUTIONS):
                evolve_spec(self.table, **EVOLUTIONS[self.evolved])
                self.evolved += 1
            return
        if kind == "append" or not self.left:
            first = self.next
            file = self.new_file(choice)
            self.commit(SnapshotChange("append", [file]))
            self.keep(file, list(range(first, self.next)))
            return
        path = sorted(self.left)[choice % len(self.left)]
        if kind == "file":
            self.commit(SnapshotChange("delete", removed_data_files=frozenset({path})))
            self.forget(path)
        elif kind == "rows":
            self.delete_rows(path, choice)
        else:
            self.rewrite(path, kind, choice)

    def delete_rows(self, path: str, choice: int) -> None:
        """Delete one more row, in a delete file that replaces the earlier one of the data file."""
        if not self.left[path]:
            return
        del self.left[path][sorted(self.left[path])[choice % len(self.left[path])]]
        deleted = set(range(self.files[path].record_count)) - set(self.left[path])
        new = delete_file(self.table, {path: deleted}, self.files[path])
        older = frozenset({self.deletes[path].file_path} if path in self.deletes else ())
        self.commit(SnapshotChange("row_delta", [new], removed_delete_files=older))
        self.deletes[path] = new

    def rewrite(self, path: str, kind: str, choice: int) -> None:
        ids = sorted(self.left[path].values())
        if kind == "overwrite" or not ids:
            ids = [self.next, self.next + 1]
            self.next += 2
        specs = sorted(self.table.metadata.specs())
        region = ["eu", "us", None][choice % 3]
        file = data_file(
            self.table, [{"id": each, "region": region, "amount": 0} for each in ids], specs[choice % len(specs)]
        )
        self.commit(SnapshotChange("replace" if kind == "rewrite" else "overwrite", [file], frozenset({path})))
        self.forget(path)
        self.keep(file, ids)

    def check(self) -> None:
        if self.table.metadata.current_snapshot_id is None:
            return
        assert strictly_read_ids(self.table) == sorted(each for ids in self.left.values() for each in ids.values())
        check_totals(self.table)
        live = {e["data_file"]["file_path"]: e for e in manifest_entries(self.table) if e["status"] != 2}
        assert set(live) == set(self.left) | {file.file_path for file in self.deletes.values()}
        for path in self.left:
            assert live[path]["spec_id"] == self.files[path].spec_id
            assert list(live[path]["data_file"]["partition"].values()) == list(self.files[path].partition._data)
        for path, deletes in self.deletes.items():
            assert live[deletes.file_path]["spec_id"] == live[path]["spec_id"]
            assert live[deletes.file_path]["data_file"]["partition"] == live[path]["data_file"]["partition"]
        for entry in manifest_entries(self.table):
            assert entry["manifest"]["content"] == (entry["data_file"]["content"] != 0)


@pytest.mark.slow(reason="random histories of a table")
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from(["2", "3", "100"]))
def test_any_history_leaves_the_rows_of_the_model(steps: list[tuple[str, int]], merge: str) -> None:
    with TemporaryDirectory() as folder:
        model = Model(new_table(Path(folder), properties={"commit.manifest.min-count-to-merge": merge}))
        for kind, choice in steps:
            model.step(kind, choice)
        model.check()
