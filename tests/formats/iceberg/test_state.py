"""Plans of real tables, held to pyiceberg's plans and to the rows themselves, through every kind of evolution."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    TruncateTransform,
    parse_transform,
)
from pyiceberg.types import (
    GeographyType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    UnknownType,
)

import partita as pt
from partita.algebra.partition_functions import bucket, day, identity
from partita.algebra.schema import Schema
from partita.errors import StorageError, TableError, UnsupportedFeature
from partita.formats.file_plan import partition_table, plan_files
from partita.formats.iceberg import store
from partita.formats.iceberg.files import FILE_PATH_FIELD_ID
from partita.formats.iceberg.history import NO_SNAPSHOT
from partita.formats.iceberg.manifests import cache, read
from partita.formats.iceberg.manifests.avro import read_avro
from partita.formats.iceberg.state import check_readable, current_table_version
from partita.formats.iceberg.store import IcebergTableStore
from partita.formats.table import Table as AnyTable
from tests.formats.iceberg.handwritten_snapshots import (
    TABLE_NAME,
    added_entry,
    as_version_3,
    commit_snapshot,
    data_file,
    new_table,
    planned_paths,
    reopen_table,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from partita.formats.iceberg.state import IcebergTableVersion

SCHEMA = Schema.of(
    {"id": "int", "ts": "timestamp_ntz", "country": "string", "price": "decimal(9,2)", "s": "struct<x:long>"}
)
START = datetime(2024, 1, 1)  # noqa: DTZ001 - of no zone
COUNTRIES = ["US", "FR", None, "DE", "Norway"]

PREDICATES = [
    "id = 7",
    "id IN (3, 12, 99)",
    "id < 5 OR id > 17",
    "country = 'FR'",
    "country IS NULL",
    "country IS NOT NULL",
    "country >= 'N'",
    "NOT (country = 'US' OR country = 'DE')",
    "country LIKE 'No%'",
    "ts < '2024-01-02T00:00:00'",
    "ts >= '2024-01-03T06:00:00'",
    "ts = '2024-01-02T02:00:00'",
    "price > 4.50",
    "price <= 0.25 AND country = 'US'",
    "s.x = 14",
    "id = 7 AND ts >= '2024-01-03T00:00:00'",
]


def rows(table: Table, numbers: range) -> pa.Table:
    """Rows of those ids, in the table's columns."""
    values: dict[str, list[Any]] = {
        "id": list(numbers),
        "ts": [START + timedelta(hours=5 * n) for n in numbers],
        "country": [COUNTRIES[n % 5] for n in numbers],
        "price": [Decimal(n) / 4 for n in numbers],
        "s": [{"x": 2 * n} for n in numbers],
    }
    schema = table.schema().as_arrow()
    return pa.table({f.name: pa.array(values[f.name], f.type) for f in schema if f.name in values}).cast(
        pa.schema([f for f in schema if f.name in values])
    )


def evolved_table(folder: Path, version: str) -> Table:
    """Specs with files of each: day; country and a bucket too; hour; others of the same columns; none."""
    table = new_table(folder, SCHEMA, [day("ts")], format_version=version)
    table.append(rows(table, range(12)))
    with table.update_spec() as update:
        update.add_field("country", IdentityTransform(), "nation")
        update.add_field("id", BucketTransform(4), "shard")
    table.append(rows(table, range(5, 15)))
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.remove_field("shard")
        # pyiceberg lets no column be in a spec twice, void or not.
        update.add_field(*(("ts", HourTransform()) if version == "2" else ("price", TruncateTransform(100))), "third")
    table.append(rows(table, range(10, 20)))
    with table.update_spec() as update:
        update.remove_field("third")
        update.remove_field("nation")
        if version == "2":
            update.add_field("country", TruncateTransform(1), "first")
            update.add_field("id", BucketTransform(8), "shard8")
    table.append(rows(table, range(15, 22)))
    if version == "2":
        with table.update_spec() as update:
            update.remove_field("first")
            update.remove_field("shard8")
        table.append(rows(table, range(20, 25)))
    return table


@pytest.fixture(scope="module", params=["1", "2"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return evolved_table(tmp_path_factory.mktemp("evolved"), request.param)


READ: dict[str, pa.Table] = {}
"""Rows by the metadata that they were read with."""


def rows_by_file(table: Table) -> pa.Table:
    """All rows, as pyiceberg reads them, each with the file that it is in."""
    if table.metadata_location not in READ:
        READ[table.metadata_location] = _rows_by_file(table)
    return READ[table.metadata_location]


def _rows_by_file(table: Table) -> pa.Table:
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    tables = []
    for task in table.scan().plan_files():
        rows = scan.to_table([task])
        tables.append(rows.append_column("in_file", pa.array([task.file.file_path] * rows.num_rows)))
    return pa.concat_tables(tables)


def matching(table: Table, where: str) -> dict[str, tuple[int, int]]:
    """By file: how many rows match, and how many there are; DuckDB says."""
    every = rows_by_file(table)  # noqa: F841 - DuckDB finds it by its name
    query = f"SELECT in_file, count(*) FILTER (WHERE {where}), count(*) FROM every GROUP BY in_file"  # noqa: S608
    with duckdb.connect() as connection:
        return {path: (count, size) for path, count, size in connection.execute(query).fetchall()}


def planned_and_matching_paths(state: IcebergTableVersion, where: str) -> tuple[set[str], set[str]]:
    """The files that are planned, and those that match whole."""
    plan = plan_files(state, where)
    paths = np.array(plan.files["path"].to_pylist(), object)
    return set(paths), set(paths[plan.must_match])


def check_plan(table: Table, where: str) -> set[str]:
    """The plan is no wider than pyiceberg's, and loses no row."""
    truth = matching(table, where)
    may, must = planned_and_matching_paths(current_table_version(table), where)
    assert {path for path, (count, _) in truth.items() if count} <= may, "a row would be lost"
    assert all(truth[path][0] == truth[path][1] for path in must), "a row would be taken that doesn't match"
    assert planned_and_matching_paths(current_table_version(table, where), where) == (may, must), (
        "manifests that are skipped change the plan"
    )
    return may


@pytest.mark.slow(reason="pyiceberg plans the same tables")
@pytest.mark.parametrize("where", PREDICATES)
def test_plans_are_no_wider_than_pyicebergs_and_lose_no_row(where: str, table: Table) -> None:
    may = check_plan(table, where)
    if "s.x" not in where and "LIKE" not in where:
        assert may <= planned_paths(table, where)


def test_all_files_are_there_with_their_specs(table: Table) -> None:
    state = current_table_version(table)
    tasks = {t.file.file_path: t.file for t in table.scan().plan_files()}
    assert set(state.files["path"].to_pylist()) == set(tasks)
    for row in state.files.to_pylist():
        assert (row["spec_id"], row["bytes"]) == (tasks[row["path"]].spec_id, tasks[row["path"]].file_size_in_bytes)
    assert len(set(state.files["spec_id"].to_pylist())) == {1: 4, 2: 5}[table.metadata.format_version]
    counts = state.row_counts(np.arange(state.files.num_rows)).to_pylist()
    assert counts == [tasks[path].record_count for path in state.files["path"].to_pylist()]
    assert state.version == table.current_snapshot().snapshot_id  # type: ignore[union-attr] # it is there


def test_partitions_have_keys_of_their_own_specs(table: Table) -> None:
    partitions = partition_table(current_table_version(table), None, TABLE_NAME)
    assert sum(partitions["files"].to_pylist()) == len(planned_paths(table))
    assert partitions["rows"].to_pylist() == [n for n in partitions["rows"].to_pylist() if n]
    if table.metadata.format_version == 2:
        assert "ts_day=d:2024-01-01" in partitions["key"].to_pylist()
        assert "nation=s:VVM,third=i:473402" in partitions["key"].to_pylist()


@pytest.mark.slow(reason="many commits to a table")
def test_columns_that_were_renamed_and_promoted(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, "2")
    with table.update_schema() as update:
        update.rename_column("country", "place")
        update.update_column("id", LongType())
        update.rename_column("s", "deep")
    with table.update_schema() as update:
        update.add_column("country", StringType())
    for where in ("id = 7", "id > 2147483648", "place = 'FR'", "place IS NULL", "deep.x > 40"):
        check_plan(table, where)
    assert planned_and_matching_paths(current_table_version(table), "id > 2147483648")[0] == set()
    assert planned_and_matching_paths(current_table_version(table), "country = 'FR'")[0] == planned_paths(table)
    assert len(planned_and_matching_paths(current_table_version(table), "place = 'FR'")[0]) < len(planned_paths(table))


@pytest.mark.slow(reason="many commits to a table")
def test_a_source_that_was_dropped_and_its_name_taken(tmp_path: Path) -> None:
    table = evolved_table(tmp_path, "2")
    with table.update_schema() as update:
        update.delete_column("country")
    everything = planned_paths(table)
    assert planned_and_matching_paths(current_table_version(table), "id >= 0")[0] == everything
    with table.update_schema() as update:
        update.add_column("country", StringType())
    assert planned_and_matching_paths(current_table_version(table), "country = 'nowhere'")[0] == everything
    check_plan(table, "ts < '2024-01-02T00:00:00'")


def test_equal_tuples_of_different_specs_are_kept_apart(tmp_path: Path) -> None:
    table = new_table(tmp_path, Schema.of({"a": "string", "b": "string"}), [identity("a")])
    with table.update_spec() as update:
        update.remove_field("a")
        update.add_field("b", IdentityTransform(), "b")
    commit_snapshot(
        table, (0, [added_entry(data_file("of a", "x"))]), (1, [added_entry(data_file("of b", "x", spec_id=1))])
    )
    state = current_table_version(table)
    assert planned_and_matching_paths(state, "a = 'x'")[0] == {"of a", "of b"}
    assert planned_and_matching_paths(state, "a = 'y'")[0] == {"of b"} == planned_paths(table, "a = 'y'")
    assert planned_and_matching_paths(state, "b = 'y'")[0] == {"of a"} == planned_paths(table, "b = 'y'")
    assert [len(set(p)) for p in state.partitions.select(["a", "b"]).to_pydict().values()] == [2, 2]


def test_fields_of_one_name_in_two_specs(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [bucket("id", 4).alias("shard")])
    with table.update_spec() as update:
        update.remove_field("shard")
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(8), "shard")
    four = [(0, [added_entry(data_file(f"4-{n}", n)) for n in range(4)])]
    eight = [(2, [added_entry(data_file(f"8-{n}", n, spec_id=2)) for n in range(8)])]
    commit_snapshot(table, *four, *eight)
    # 34 hashes to 2017239379 (specification, appendix B).
    path = planned_and_matching_paths(current_table_version(table), "id = 34")[0]
    assert path == {f"4-{2017239379 % 4}", f"8-{2017239379 % 8}"} == planned_paths(table, "id = 34")


@pytest.mark.parametrize("type_", ["float", "double"])
def test_partitions_of_nan_and_of_minus_zero(type_: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, Schema.of({"x": type_}), [identity("x")])
    values = {"nan": float("nan"), "minus": -0.0, "zero": 0.0, "one": 1.0, "null": None}
    commit_snapshot(table, (0, [added_entry(data_file(name, value)) for name, value in values.items()]))
    state = current_table_version(table)
    assert planned_and_matching_paths(state, "x > 1.0") == ({"nan"}, {"nan"})
    assert planned_and_matching_paths(state, "x = 0.0") == ({"minus", "zero"}, {"minus", "zero"})
    assert planned_and_matching_paths(state, "x < 0.0")[0] == set()


def test_a_table_that_nothing_was_written_to(tmp_path: Path) -> None:
    state = current_table_version(new_table(tmp_path, SCHEMA, [day("ts")]))
    assert (state.version, state.files.num_rows, state.delete_entries.num_rows) == (NO_SNAPSHOT, 0, 0)
    assert plan_files(state, "id = 1").files.num_rows == 0
    assert state.delete_index(np.zeros(0, np.int64)).num_rows == 0
    assert partition_table(state, None, TABLE_NAME).num_rows == 0


def test_a_table_whose_rows_were_all_deleted(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    table.append(rows(table, range(5)))
    table.delete("id >= 0")
    assert current_table_version(reopen_table(tmp_path)).files.num_rows == 0


def test_the_reason_for_what_is_skipped(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, (0, [added_entry(data_file("a", "US")), added_entry(data_file("b", "FR"))]))
    (skipped,) = plan_files(current_table_version(table), "country = 'US'").skipped.to_pylist()
    assert (skipped["path"], skipped["reason"], skipped["key"]) == ("b", "country = 'US'", "country=s:RlI")


def test_an_unknown_transform_is_read_past(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country"), identity("id")])
    commit_snapshot(table, (0, [added_entry(data_file("a", "US", 1)), added_entry(data_file("b", None, 2))]))
    strange, known = table.spec().fields
    spec = PartitionSpec(strange.model_copy(update={"transform": parse_transform("zorder[4]")}), known, spec_id=0)
    table.metadata = table.metadata.model_copy(update={"partition_specs": [spec]})
    state = current_table_version(table)
    assert state.partitions["country"].to_pylist() == ["US", None]
    assert planned_and_matching_paths(state, "country = 'FR'") == ({"a", "b"}, set())
    assert planned_and_matching_paths(current_table_version(table, "country = 'FR'"), "country = 'FR'") == (
        {"a", "b"},
        set(),
    )
    assert planned_and_matching_paths(state, "country = 'FR' AND id = 2")[0] == {"b"}
    assert partition_table(state, None, TABLE_NAME)["files"].to_pylist() == [1, 1]


def test_partitions_of_every_type_can_be_listed(tmp_path: Path) -> None:
    types = [
        "boolean", "int", "long", "float", "double", "decimal(9,2)", "date", "time", "timestamp", "timestamp_ntz",
        "string", "binary", "fixed(3)", "uuid",
    ]  # fmt: skip
    schema = Schema.of({f"c{index}": type_ for index, type_ in enumerate(types)})
    table = new_table(tmp_path, schema, [identity(name) for name in schema.names])
    values = [True, 1, 2, 1.5, 2.5, Decimal("1.25"), 3, 4, 5, 6, "x", b"y", b"abc", UUID(int=7)]
    commit_snapshot(
        table,
        (0, [added_entry(data_file(path, *values)) for path in "ab"] + [added_entry(data_file("c", *[None] * 14))]),
    )
    state = current_table_version(table)
    partitions = partition_table(state, None, TABLE_NAME)
    assert (partitions["files"].to_pylist(), partitions["key"].to_pylist()) == ([2, 1], [None, None])
    assert partitions["c13"].to_pylist() == [UUID(int=7).bytes, None]
    assert planned_and_matching_paths(state, "c13 IS NULL")[0] == {"c"}
    assert planned_and_matching_paths(state, "c1 = 1 AND c5 = 1.25")[0] == {"a", "b"}


# --- what deletes do to counts


def test_counts_are_unknown_where_deletes_may_apply(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, (0, [added_entry(data_file("a", "US")), added_entry(data_file("b", "FR"))]))
    commit_snapshot(table, (0, [added_entry(data_file("d", "US", content=1, rows=3))]))
    state = current_table_version(table)
    assert dict(zip(state.files["path"].to_pylist(), state.row_counts(np.arange(2)).to_pylist(), strict=True)) == {
        "a": None,
        "b": 10,
    }
    assert state.row_counts(np.array([1])).to_pylist() == [10]


def test_a_deletion_vector_has_the_number_of_deleted_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path, Schema.of({"id": "long"}))
    commit_snapshot(table, (0, [added_entry(data_file("a", first_row_id=0)), added_entry(data_file("b"))]), version=3)
    commit_snapshot(
        table, (0, [added_entry(data_file("older", content=1, rows=2, referenced_data_file="a"))]), version=3
    )
    vector: dict[str, Any] = {"content_offset": 4, "content_size_in_bytes": 40, "file_format": FileFormat.PUFFIN}
    commit_snapshot(
        table, (0, [added_entry(data_file("dv", content=1, rows=3, referenced_data_file="a", **vector))]), version=3
    )
    state = current_table_version(as_version_3(table))
    assert state.data_entries["first_row_id"].to_pylist() == [0, None]
    assert state.row_counts(np.arange(2)).to_pylist() == [7, 10]
    index = state.delete_index(np.arange(2)).to_pylist()
    (pair,) = index
    row = state.delete_entries.to_pylist()[pair["delete"]]
    assert (pair["file"], row["path"], row["content_offset"], row["content_size_in_bytes"]) == (0, "dv", 4, 40)


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize("where", ["country = 'US'", "country IS NULL", "country = 'FR' AND id = 3", "country > 'Z'"])
def test_files_of_manifests_that_are_not_opened_dont_count(where: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, *((0, [added_entry(data_file(f"{value}", value))]) for value in ("US", "FR", None)))
    with table.update_spec() as update:
        update.remove_field("country")
    deletes = [(0, [added_entry(data_file(f"of {value}", value, content=1))]) for value in ("US", "FR", None)]
    everywhere = data_file("everywhere", content=2, spec_id=1, equality_ids=[1])
    commit_snapshot(table, *deletes, (1, [added_entry(everywhere)]), (1, [added_entry(data_file("new", spec_id=1))]))

    def pairs(state: IcebergTableVersion) -> set[tuple[str, str]]:
        kept_places = plan_files(state, where).file_indices
        paths, others = state.files["path"].to_pylist(), state.delete_entries["path"].to_pylist()
        return {(paths[p["file"]], others[p["delete"]]) for p in state.delete_index(kept_places).to_pylist()}

    whole, part = current_table_version(table), current_table_version(table, where)
    assert pairs(part) == pairs(whole)
    assert part.files.num_rows < whole.files.num_rows
    assert part.delete_entries["path"].equals(whole.delete_entries["path"])
    assert part.with_all_files().files.equals(whole.files)
    assert whole.with_all_files() is whole
    assert plan_files(part, where).skipped.equals(plan_files(whole, where).skipped)
    assert plan_files(part, where).files.equals(plan_files(whole, where).files)
    assert ("new", "everywhere") not in pairs(whole)


@pytest.mark.slow(reason="many commits to a table")
def test_a_plan_opens_only_the_manifests_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, *((0, [added_entry(data_file(value, value))]) for value in ("US", "FR", "DE")))
    opened: list[str] = []

    def recorded_read(io: FileIO, path: str) -> pa.Table:
        opened.append(path)
        return read_avro(io, path)

    monkeypatch.setattr(read, "read_avro", recorded_read)
    monkeypatch.setenv("PARTITA_CACHE", "off")
    cache.clear_memory()
    where = "country = 'FR'"
    planned = AnyTable("t", IcebergTableStore(table)).plan(where)
    assert (planned.files["path"].to_pylist(), len(opened)) == (["FR"], 1)
    assert planned.skipped["path"].to_pylist() == ["US", "DE"]
    assert planned.skipped["reason"].to_pylist() == [where, where]
    cache.clear_memory()
    opened.clear()
    assert AnyTable("t", IcebergTableStore(table)).partitions(where)["country"].to_pylist() == ["FR"]
    assert len(opened) == 1
    assert AnyTable("t", IcebergTableStore(table)).plan().files.num_rows == 3


def test_a_plan_whose_manifests_were_deleted_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, *((0, [added_entry(data_file(value, value))]) for value in ("US", "FR")))
    monkeypatch.setenv("PARTITA_CACHE", "off")
    cache.clear_memory()
    planned = AnyTable("t", IcebergTableStore(table)).plan("country = 'FR'")
    cache.clear_memory()
    for manifest in tmp_path.rglob("*.avro"):
        manifest.unlink()
    with pytest.raises(StorageError, match=r"snapshot \d+ can't be read any more, so plan again"):
        _ = planned.skipped


def test_a_state_that_lacks_nothing_is_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, (0, [added_entry(data_file("US", "US"))]))
    iceberg_store = IcebergTableStore(table)
    assert iceberg_store.current_version_for("id = 5") is iceberg_store.current_version()


def test_every_file_of_a_large_table_that_is_known_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, *((0, [added_entry(data_file(value, value))]) for value in ("US", "FR")))
    iceberg_store = IcebergTableStore(table)
    whole = iceberg_store.current_version()
    assert iceberg_store.current_version_for("country = 'FR'") is whole
    monkeypatch.setattr(store, "_MAX_REUSED_FILES", 1)
    assert iceberg_store.current_version_for("country = 'FR'").files["path"].to_pylist() == ["FR"]
    assert iceberg_store.current_version_for(None) is whole


def test_a_delete_of_another_partition_is_noticed_though_its_manifest_is_not_needed(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, (0, [added_entry(data_file("US", "US"))]), (0, [added_entry(data_file("FR", "FR"))]))
    path = {FILE_PATH_FIELD_ID: b"US"}
    commit_snapshot(
        table, (0, [added_entry(data_file("of US", "FR", content=1, lower_bounds=path, upper_bounds=path))])
    )
    with pytest.raises(TableError, match="of another spec or partition"):
        _ = plan_files(current_table_version(table, "country = 'US'"), "country = 'US'").files


# --- what can't be read


@pytest.mark.parametrize(
    ("field", "named"),
    [
        (NestedField(1, "x", TimestampNanoType()), "the type timestamp_ns of column 'x'"),
        (NestedField(1, "x", UnknownType()), "the type unknown of column 'x'"),
        (NestedField(1, "x", GeographyType()), "the type geography"),
        (NestedField(1, "x", LongType(), initial_default=5), "the initial default of column 'x'"),
        (
            NestedField(
                1, "x", StructType(NestedField(2, "y", ListType(3, TimestampNanoType(), element_required=False)))
            ),
            "the type timestamp_ns of column 'x.y.element'",
        ),
    ],
)
def test_unsupported_features_are_refused_by_name(field: NestedField, named: str, tmp_path: Path) -> None:
    table = as_version_3(new_table(tmp_path, SCHEMA), field)
    with pytest.raises(UnsupportedFeature, match=named):
        check_readable(table)
    with pytest.raises(UnsupportedFeature, match=named):
        current_table_version(table)


def test_a_delete_of_another_partition_than_its_file_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, (0, [added_entry(data_file("a", "US")), added_entry(data_file("b", "FR"))]))
    path = {2147483546: b"a"}
    commit_snapshot(table, (0, [added_entry(data_file("d", None, content=1, lower_bounds=path, upper_bounds=path))]))
    state = current_table_version(table)
    file_indices = {name: index for index, name in enumerate(state.files["path"].to_pylist())}
    assert state.delete_index(np.array([file_indices["b"]])).num_rows == 0
    with pytest.raises(TableError, match="the delete file d is of another spec or partition"):
        state.delete_index(np.array([file_indices["b"], file_indices["a"]]))


def test_day_is_a_date_in_partitions(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [day("ts")])
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_field("ts", DayTransform(), "d")
    commit_snapshot(table, (0, [added_entry(data_file("a", 1))]), (1, [added_entry(data_file("b", 2, spec_id=1))]))
    partitions = current_table_version(table).partitions
    assert {f.name: f.type for f in partitions.schema} == {
        "ts_day": pa.date32(), "d": pa.date32(), "spec_id": pa.int32()
    }  # fmt: skip


@pytest.mark.parametrize("place", ["column", "list", "struct"])
def test_a_type_that_pyiceberg_does_not_know(tmp_path: Path, place: str) -> None:
    """`variant` of version 3, as the JVM writes it."""
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("t.t", pa.schema([("v", pa.int64()), ("s", pa.string())]), format="iceberg")
    path = Path(table._store._table.metadata_location.removeprefix("file://"))  # type: ignore[attr-defined] # Iceberg's
    document = json.loads(path.read_text(encoding="utf-8"))
    inner = {"id": 9, "name": "f", "required": False, "type": "variant"}
    types = {
        "column": "variant",
        "list": {"type": "list", "element-id": 9, "element": "variant", "element-required": False},
        "struct": {"type": "struct", "fields": [inner]},
    }
    document["schemas"][0]["fields"][0]["type"] = types[place]
    path.write_text(json.dumps(document | {"format-version": 3, "next-row-id": 0}), encoding="utf-8")
    with pytest.raises(UnsupportedFeature, match="the type variant"):
        pt.Lake(str(tmp_path)).table("t.t")


def test_metadata_that_is_not_as_the_specification_has_it(tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", pa.schema([("v", pa.int64())]), format="iceberg")
    path = Path(table._store._table.metadata_location.removeprefix("file://"))  # type: ignore[attr-defined] # Iceberg's
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | {"last-column-id": "many"}), encoding="utf-8")
    with pytest.raises(TableError, match=r"not as the specification has it, at .*last-column-id"):
        pt.Lake(str(tmp_path)).table("t.t")
