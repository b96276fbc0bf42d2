"""DELETE, UPDATE and MERGE on tables whose partitioning evolved: rows, and the spec of every manifest and file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partita as pt
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
    WRITE_MODES,
    added_spec_ids,
    agreed_rows,
    assert_unchanged,
    deleted_positions,
    jvm_session,
    live_files,
    live_spec_ids,
    pyiceberg_table,
    roll_back,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2025, 1, 1, tzinfo=UTC)
SCHEMA = pt.Schema.of({"id": "long", "region": "string", "ts": "timestamp", "amount": "int", "note": "string"})
REGIONS = ["eu", "us", None]


def orders(first: int, count: int) -> pa.Table:
    """Orders over three days and three regions, one of them null; every ninth has no amount."""
    every = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "region": pa.array([REGIONS[i % 3] for i in every], pa.string()),
            "ts": pa.array([START + timedelta(days=i // 3 % 3, hours=i % 5) for i in every], pa.timestamp("us", "UTC")),
            "amount": pa.array([None if i % 9 == 0 else 10 * i for i in every], pa.int32()),
            "note": pa.array([f"n{i}" for i in every], pa.string()),
        }
    )


class Evolved:
    """A table with files of spec 0 by day and of spec 1 by day and region, and a plain copy of its rows."""

    def __init__(self, spark: SparkSession, folder: Path, **properties: str) -> None:
        self.table = pt.Lake(str(folder)).create_table(
            "sales.orders", SCHEMA, format="iceberg", partition_by=[pt.day("ts")], properties=properties
        )
        self.table.append(orders(0, 18))
        self.table.evolve(add=["region"])
        self.table.append(orders(18, 18))
        self.base = self.table.version
        self.jvm = jvm_session(spark, folder)
        self.old = {file.path for file in live_files(self.table)}

    def begin(self, spark: SparkSession) -> Evolved:
        """Reset the table to its first state."""
        roll_back(self.table, self.base)
        self.copy = ReferenceTable(spark, orders(0, 36))
        return self

    def check_all_readers(self) -> None:
        """Check that all readers find the rows of the copy."""
        assert agreed_rows(self.table, self.jvm) == self.copy.rows

    @property
    def specs(self) -> tuple[list[int], list[int]]:
        """Return the distinct specs of data files, and of delete files."""
        return sorted(set(live_spec_ids(self.table, DATA_CONTENT))), sorted(
            set(live_spec_ids(self.table, POSITION_DELETES_CONTENT))
        )

    @property
    def survivors(self) -> set[int]:
        """Return the specs of the earlier files that still have rows."""
        loaded = pyiceberg_table(self.table)
        deleted_counts: dict[str, int] = {}
        for delete in live_files(self.table, POSITION_DELETES_CONTENT):
            for path, positions in deleted_positions(loaded, delete).items():
                deleted_counts[path] = deleted_counts.get(path, 0) + len(positions)
        return {
            file.spec_id
            for file in live_files(self.table, DATA_CONTENT)
            if file.path in self.old and file.file.record_count > deleted_counts.get(file.path, 0)
        }


@pytest.fixture(scope="module")
def prepared_table(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Evolved:
    return Evolved(spark, tmp_path_factory.mktemp("lake"), **WRITE_MODES[request.param])


@pytest.fixture
def evolved_table(spark: SparkSession, prepared_table: Evolved) -> Evolved:
    return prepared_table.begin(spark)


def in_modes(*names: str) -> pytest.MarkDecorator:
    """Run a test in these modes, and in the others if long tests run."""
    return pytest.mark.parametrize(
        "prepared_table",
        [pytest.param(mode, marks=() if mode in names else pytest.mark.long) for mode in WRITE_MODES],
        indirect=True,
        scope="module",
    )


# A table of version 1 copies as well; `test_evolution_scenarios.py` and others change such ones.
MARKING_AND_COPYING = in_modes("merge on read", "copy on write")
MARKING = in_modes("merge on read")


def is_marked(evolved_table: Evolved) -> bool:
    """Return whether the table writes delete files, rather than copying data files."""
    loaded = pyiceberg_table(evolved_table.table)
    return loaded.metadata.format_version == 2 and "write.delete.mode" not in loaded.properties


@MARKING_AND_COPYING
def test_delete_with_partition_evolution(evolved_table: Evolved) -> None:
    where = "amount % 4 = 2 or id in (9, 27)"
    outcome = evolved_table.table.delete(where)
    before = len(evolved_table.copy.rows)
    evolved_table.copy.delete(where)
    assert outcome.counts["rows_deleted"] == before - len(evolved_table.copy.rows)
    evolved_table.check_all_readers()
    if is_marked(evolved_table):
        assert evolved_table.specs == ([0, 1], [0, 1])
        assert evolved_table.survivors == {0, 1}
        assert {file.path for file in live_files(evolved_table.table, DATA_CONTENT)} <= evolved_table.old
    else:
        # What is left of copied files is new, and so of the default spec.
        assert set(added_spec_ids(evolved_table.table, DATA_CONTENT)) == {1}
        assert not live_files(evolved_table.table, POSITION_DELETES_CONTENT)


@MARKING_AND_COPYING
def test_update_with_partition_evolution(evolved_table: Evolved) -> None:
    values = {"amount": "id", "note": "concat(note, '+', cast(amount as string))"}
    where = "id % 6 in (1, 2) and (region is null or region <> 'eu')"
    counts = evolved_table.table.update(values, where).counts
    evolved_table.copy.update(values, where)
    evolved_table.check_all_readers()
    assert (counts["rows_updated"], counts["rows_deleted"], counts["rows_inserted"]) == (12, 0, 0)
    if is_marked(evolved_table):
        assert evolved_table.specs == ([0, 1], [0, 1])
        assert evolved_table.survivors == {0, 1}


@MARKING_AND_COPYING
def test_merge_with_partition_evolution(evolved_table: Evolved) -> None:
    source = orders(14, 26).append_column("gone", pa.array([i % 4 == 0 for i in range(26)]))
    clauses = [
        pt.when_matched("s.gone").delete(),
        pt.when_matched("t.amount is not null").update({"amount": "t.amount + s.amount", "region": "'apac'"}),
        pt.when_not_matched("not s.gone").insert(
            {"id": "s.id", "ts": "s.ts", "note": "'new'", "region": "s.region"}
        ),
        pt.when_not_matched_by_source("t.id < 3").update({"note": "'left'"}),
        pt.when_not_matched_by_source("t.id < 6").delete(),
    ]  # fmt: skip
    on = "t.id = s.id and t.region <=> s.region"
    evolved_table.table.merge(source, on, *clauses)
    evolved_table.copy.merge(source, on, *clauses)
    evolved_table.check_all_readers()
    assert set(added_spec_ids(evolved_table.table, DATA_CONTENT)) == {1}
    if is_marked(evolved_table):
        assert evolved_table.specs == ([0, 1], [0, 1])
        assert evolved_table.survivors == {0, 1}


def one_day(table: str = "") -> str:
    """Half of the rows of the first day, which files of both specs have."""
    return f"{table}ts < timestamp '2025-01-02 00:00:00Z' and {table}id % 2 = 0"


CHANGES: dict[str, Callable[[Any], Any]] = {
    "delete": lambda on: on.delete(one_day()),
    "update": lambda on: on.update({"note": "'changed'"}, one_day()),
    "merge": lambda on: on.merge(
        orders(0, 36), f"t.id = s.id and {one_day('t.')}",
        pt.when_matched("t.id % 4 = 0").delete(), pt.when_matched().update({"note": "'changed'"}),
    ),
}  # fmt: skip
WITHOUT_ROWS = {("merge on read", "update"), ("merge on read", "merge"), ("copy on write", "delete")}
"""Of `CHANGES` in each mode, those that run in `make test`."""


@pytest.mark.parametrize(
    ("prepared_table", "change"),
    [
        pytest.param(mode, change, marks=() if (mode, change) in WITHOUT_ROWS else pytest.mark.long)
        for mode in WRITE_MODES
        for change in CHANGES
    ],
    indirect=["prepared_table"],
    scope="module",
)
def test_files_without_rows_that_change_keep_their_spec(evolved_table: Evolved, change: str) -> None:
    touched = {path for path in evolved_table.old if _has_rows_of_that_day(path)}
    specs = {file.path: file.spec_id for file in live_files(evolved_table.table, DATA_CONTENT)}
    assert {specs[path] for path in touched} == {specs[path] for path in evolved_table.old - touched} == {0, 1}
    CHANGES[change](evolved_table.table)
    CHANGES[change](evolved_table.copy)
    evolved_table.check_all_readers()
    after = {file.path: file.spec_id for file in live_files(evolved_table.table, DATA_CONTENT)}
    stayed = evolved_table.old if is_marked(evolved_table) else evolved_table.old - touched
    assert {path: spec_id for path, spec_id in after.items() if path in evolved_table.old} == {
        p: specs[p] for p in stayed
    }
    assert {spec_id for path, spec_id in after.items() if path not in evolved_table.old} <= {1}
    assert evolved_table.specs == ([0, 1], [0, 1] if is_marked(evolved_table) else [])
    assert evolved_table.survivors == {0, 1}


def _has_rows_of_that_day(path: str) -> bool:
    rows = pq.read_table(path.removeprefix("file://"), columns=["id", "ts"]).to_pylist()
    return any(row["ts"] < START + timedelta(days=1) and row["id"] % 2 == 0 for row in rows)


@MARKING
def test_delete_files_inherit_the_spec_of_their_data(evolved_table: Evolved) -> None:
    # Again and again, for the files of deletes of before are replaced by ones that hold their rows too.
    for digit in (1, 2, 3):
        where = f"id % 10 = {digit}"
        evolved_table.table.delete(where)
        evolved_table.copy.delete(where)
    evolved_table.check_all_readers()
    if is_marked(evolved_table):
        tuples = {(file.spec_id, file.partition) for file in live_files(evolved_table.table, POSITION_DELETES_CONTENT)}
        assert {len(partition) for spec_id, partition in tuples if spec_id == 0} == {1}
        assert {len(partition) for spec_id, partition in tuples if spec_id == 1} == {2}
        assert len(tuples) == len(live_files(evolved_table.table, POSITION_DELETES_CONTENT)), "one for each partition"


@MARKING
def test_update_writes_new_files_with_default_spec(evolved_table: Evolved) -> None:
    # Both sides of a swap are of before it; the rows move to other partitions, and one to a new region.
    values = {"region": "case when id = 4 then 'apac' else note end", "note": "region", "ts": "ts + interval 1 day"}
    where = "id in (0, 4, 5, 20, 22)"
    evolved_table.table.update(values, where)
    evolved_table.copy.update(values, where)
    evolved_table.check_all_readers()
    assert set(added_spec_ids(evolved_table.table, DATA_CONTENT)) == {1}
    if is_marked(evolved_table):
        assert set(added_spec_ids(evolved_table.table, POSITION_DELETES_CONTENT)) == {0, 1}
        new = [file for file in live_files(evolved_table.table, DATA_CONTENT) if file.path not in evolved_table.old]
        assert {file.partition[1] for file in new} == {"n0", "apac", "n5", "n20", "n22"}


@MARKING_AND_COPYING
def test_overwrite_of_partitions_reaches_every_spec(evolved_table: Evolved) -> None:
    rows = orders(100, 2)
    evolved_table.table.overwrite_partitions(rows)
    evolved_table.copy.overwrite(rows, ["date(ts)", "region"])
    evolved_table.check_all_readers()
    assert set(added_spec_ids(evolved_table.table, DATA_CONTENT)) == {1}


REFUSED: dict[str, Any] = {
    "delete of nothing": lambda t: t.delete("id = 1000"),
    "delete by what no file can hold": lambda t: t.delete("ts > '2030-01-01'"),
    "delete of what was deleted": lambda t: t.delete("id in (3, 21)"),
    "update of nothing": lambda t: t.update({"amount": "1"}, "note = 'nobody'"),
    "merge of nothing": lambda t: t.merge(orders(500, 3), "t.id = s.id", pt.when_matched().delete()),
    "merge of no rows": lambda t: t.merge(orders(0, 0), "t.id = s.id", pt.when_not_matched().insert()),
    "append of no rows": lambda t: t.append(orders(0, 0)),
}


@MARKING
def test_an_evolution_without_a_change_commits_nothing(evolved_table: Evolved) -> None:
    evolved_table.table.delete("id in (3, 21)")
    for name, change in REFUSED.items():
        with assert_unchanged(evolved_table.table):
            assert change(evolved_table.table).version is None, name
