"""Manifests as an independent Avro reader sees them: specs, headers, sequence numbers, partitions, sizes."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from pyiceberg.manifest import DATA_FILE_TYPE, DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
    UUIDType,
)

from partita.algebra.functions import bucket, day, hour, truncate
from partita.errors import SchemaError
from partita.formats.iceberg.transaction import Changes, commit, evolve, find_compatible_schema, read_entries
from partita.formats.iceberg.transaction.partition_summaries import may_hold, partition_summaries
from partita.formats.iceberg.transaction.pointers import may_point_into, referenced_path, widened
from partita.formats.iceberg.transaction.schemas import partition_type
from tests.formats.iceberg.transaction.tables import (
    BY_REGION,
    append,
    avro,
    change,
    check_totals,
    data_file,
    delete_file,
    entries_of,
    ids_of,
    live_files,
    manifest_list,
    new_table,
    spec,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

ADDED, DELETED, EXISTING = 1, 2, 0


def statuses(table: Table) -> list[tuple[int, int, int, int | None]]:
    """Content, spec, status and sequence number of each entry, sorted."""
    return sorted(
        (e["manifest"].get("content", 0), e["spec_id"], e["status"], e.get("sequence_number"))
        for e in entries_of(table)
    )


def test_each_spec_has_its_manifest(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    evolve(table, add=[bucket("id", 4)])
    evolve(table, drop=["region"])
    files = [data_file(table, [{"id": at, "region": "eu", "amount": at}], at % 3) for at in range(9)]
    append(table, *files)
    assert [(m["partition_spec_id"], m["added_files_count"], m["added_rows_count"]) for m in manifest_list(table)] == [
        (0, 3, 3), (1, 3, 3), (2, 3, 3),
    ]  # fmt: skip
    assert live_files(table) == sorted((f.file_path, f.spec_id, tuple(f.partition._data)) for f in files)
    assert ids_of(table) == list(range(9))
    check_totals(table)


def test_the_header_says_what_the_manifest_is_of(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    append(table, file)
    evolve(table, add=[bucket("id", 4)])
    with table.update_schema() as update:
        update.add_column("note", StringType())
    append(table, data_file(table, [{"id": 2, "region": "eu"}]))
    change(table, Changes("row_delta", [delete_file(table, {file.file_path: [0]}, file)]))
    for manifest in manifest_list(table):
        header, _ = avro(table, manifest["manifest_path"])
        spec_id = manifest["partition_spec_id"]
        assert header["format-version"] == "2"
        assert header["content"] == ("deletes" if manifest["content"] == 1 else "data")
        assert header["partition-spec-id"] == str(spec_id)
        told = json.loads(header["partition-spec"])
        assert [(f["name"], f["field-id"], f["source-id"], f["transform"]) for f in told] == [
            (f.name, f.field_id, f.source_id, str(f.transform)) for f in table.specs()[spec_id].fields
        ]
        schema = json.loads(header["schema"])
        assert str(schema["schema-id"]) == header["schema-id"]
        assert manifest["manifest_length"] == Path(manifest["manifest_path"].removeprefix("file://")).stat().st_size
    assert {avro(table, m["manifest_path"])[0]["schema-id"] for m in manifest_list(table)} == {"0", "1"}


def test_sequence_numbers_are_inherited_only_by_what_is_added(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    one, other, third = (data_file(table, [{"id": at, "region": "eu"}]) for at in range(3))
    first = append(table, one, other)
    second = append(table, third)
    assert statuses(table) == [(0, 0, ADDED, None), (0, 0, ADDED, None), (0, 0, ADDED, None)]
    last = commit(table, second, Changes("delete", removed=frozenset({one.file_path})))
    found = {e["data_file"]["file_path"]: e for e in entries_of(table)}
    kept, gone, untouched = (found[f.file_path] for f in (other, one, third))
    assert (kept["status"], kept["snapshot_id"], kept["sequence_number"], kept["file_sequence_number"]) == (
        EXISTING, first, 1, 1,
    )  # fmt: skip
    assert (gone["status"], gone["snapshot_id"], gone["sequence_number"], gone["file_sequence_number"]) == (
        DELETED, last, 1, 1,
    )  # fmt: skip
    assert (untouched["status"], untouched["snapshot_id"], untouched["sequence_number"]) == (ADDED, second, None)
    numbers = {
        (m["added_files_count"], m["existing_files_count"], m["deleted_files_count"]): (
            m["sequence_number"], m["min_sequence_number"], m["added_snapshot_id"],
        )
        for m in manifest_list(table)
    }  # fmt: skip
    assert numbers == {(0, 1, 0): (3, 1, last), (0, 0, 1): (3, 3, last), (1, 0, 0): (2, 2, second)}
    assert ids_of(table) == [1, 2]


def test_a_manifest_of_what_went_is_listed_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    append(table, file)
    change(table, Changes("delete", removed=frozenset({file.file_path})))
    assert [m["deleted_files_count"] for m in manifest_list(table)] == [1]
    append(table, data_file(table, [{"id": 2, "region": "eu"}]))
    assert [(m["added_files_count"], m["deleted_files_count"]) for m in manifest_list(table)] == [(1, 0)]
    check_totals(table)


def test_untouched_manifests_are_carried_over(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    evolve(table, add=[bucket("id", 4)])
    files = [data_file(table, [{"id": at, "region": "eu"}], at % 2) for at in range(4)]
    for file in files:
        append(table, file)
    before = {m["manifest_path"]: m for m in manifest_list(table)}
    change(table, Changes("delete", removed=frozenset({files[1].file_path})))
    after = {m["manifest_path"]: m for m in manifest_list(table)}
    assert len(before.keys() & after.keys()) == 3
    assert all(before[path] == after[path] for path in before.keys() & after.keys())
    assert ids_of(table) == [0, 2, 3]


def test_large_commits_are_split_by_size(tmp_path: Path) -> None:
    table = new_table(tmp_path, properties={"commit.manifest.target-size-bytes": "10000"})
    file = data_file(table, [{"id": 1, "region": "eu"}])
    files = [copied(file, f"{file.file_path}-{uuid4()}") for _ in range(1001)]
    append(table, *files)
    sizes = [m["added_files_count"] for m in manifest_list(table)]
    assert sum(sizes) == 1001
    assert len(sizes) > 1
    assert sorted(e["data_file"]["file_path"] for e in entries_of(table)) == sorted(f.file_path for f in files)
    change(table, Changes("delete", removed=frozenset(f.file_path for f in files[::2])))
    assert [path for path, _, _ in live_files(table)] == sorted(f.file_path for f in files[1::2])
    check_totals(table)


def copied(file: DataFile, path: str) -> DataFile:
    made = DataFile(*[file[at] for at in range(len(file))])
    made[1] = path
    made.spec_id = file.spec_id
    return made


def test_small_manifests_merge_within_their_spec_and_content(tmp_path: Path) -> None:
    table = new_table(tmp_path, properties={"commit.manifest.min-count-to-merge": "3"})
    evolve(table, add=[bucket("id", 4)])
    kept = [data_file(table, [{"id": at, "region": "eu"}, {"id": 100 + at, "region": "eu"}], at % 2) for at in range(8)]
    for file in kept:
        append(table, file)
        change(table, Changes("row_delta", [delete_file(table, {file.file_path: [1]}, file)]))
    per_kind: dict[tuple[int, int], int] = {}
    for manifest in manifest_list(table):
        key = (manifest["content"], manifest["partition_spec_id"])
        per_kind[key] = per_kind.get(key, 0) + 1
    assert per_kind.keys() == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert max(per_kind.values()) <= 3
    assert ids_of(table) == list(range(8))
    numbers = {
        e["data_file"]["file_path"]: e["sequence_number"] or e["manifest"]["sequence_number"] for e in entries_of(table)
    }
    assert [numbers[file.file_path] for file in kept] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert all(
        e["status"] == ADDED or (e["sequence_number"] is not None and e["file_sequence_number"] is not None)
        for e in entries_of(table)
    )
    check_totals(table)


def test_nothing_merges_where_the_table_says_so(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, properties={"commit.manifest.min-count-to-merge": "2", "commit.manifest-merge.enabled": "false"}
    )
    for at in range(5):
        append(table, data_file(table, [{"id": at, "region": "eu"}]))
    assert len(manifest_list(table)) == 5


def test_merging_keeps_the_partitions_of_a_dropped_column(tmp_path: Path) -> None:
    """The JVM runtime 1.12 makes these null, and brings deleted rows back with that."""
    table = new_table(tmp_path, properties={"commit.manifest.min-count-to-merge": "2"})
    regions = ["eu", "us", None]
    old = [
        data_file(table, [{"id": 10 * at, "region": region}, {"id": 10 * at + 1, "region": region}])
        for at, region in enumerate(regions)
    ]
    for file in old:
        append(table, file)
        change(table, Changes("row_delta", [delete_file(table, {file.file_path: [1]}, file)]))
    evolve(table, drop=["region"], add=[bucket("id", 4)])
    with table.update_schema() as update:
        update.delete_column("region")
    before = [line for line in live_files(table) if line[1] == 0]
    for at in range(3):
        append(table, data_file(table, [{"id": 100 + at}]))
    assert [line for line in live_files(table) if line[1] == 0] == before
    assert len([m for m in manifest_list(table) if (m["partition_spec_id"], m["content"]) == (0, 0)]) == 1
    merged = next(m for m in manifest_list(table) if (m["partition_spec_id"], m["content"]) == (0, 0))
    assert merged["partitions"] == [
        {"contains_null": True, "contains_nan": False, "lower_bound": b"eu", "upper_bound": b"us"}
    ]
    header, _ = avro(table, next(m["manifest_path"] for m in manifest_list(table) if m["partition_spec_id"] == 0))
    assert header["schema-id"] == "0"
    # Deletes still find their files, and new ones of the old spec can be written.
    last = delete_file(table, {old[0].file_path: [0]}, old[0])
    change(table, Changes("row_delta", [last]))
    change(table, Changes("delete", removed=frozenset({old[1].file_path})))
    assert strict_rows(table) == ids_of(table) == [20, 100, 101, 102]
    check_totals(table)


def strict_rows(table: Table) -> list[int]:
    """The ids that are left, by a reader that heeds a delete's spec, partition and sequence number."""
    import pyarrow.parquet as pq

    live = [e for e in entries_of(table) if e["status"] != DELETED]
    number = {e["data_file"]["file_path"]: e["sequence_number"] or e["manifest"]["sequence_number"] for e in live}
    place = {e["data_file"]["file_path"]: (e["spec_id"], repr(e["data_file"]["partition"])) for e in live}
    gone: set[tuple[str, int]] = set()
    for entry in live:
        if entry["data_file"]["content"] == 1:
            path = entry["data_file"]["file_path"]
            for row in pq.read_table(path.removeprefix("file://")).to_pylist():
                target = row["file_path"]
                if target in place and place[target] == place[path] and number[target] <= number[path]:
                    gone.add((target, row["pos"]))
    ids = []
    for entry in live:
        path = entry["data_file"]["file_path"]
        if entry["data_file"]["content"] == 0:
            rows = pq.read_table(path.removeprefix("file://"))["id"].to_pylist()
            ids += [row for at, row in enumerate(rows) if (path, at) not in gone]
    return sorted(ids)


def test_equal_tuples_under_different_specs_stay_apart(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "other", LongType()))
    table = new_table(tmp_path, schema, spec((1, "bucket[4]", "shard")))
    evolve(table, drop=["shard"], add=[bucket("other", 4).alias("shard")])
    rows = [{"id": 1, "other": 1}, {"id": 2, "other": 2}]
    one, other = data_file(table, rows, 0, [0]), data_file(table, rows, 1, [0])
    append(table, one, other)
    change(table, Changes("row_delta", [delete_file(table, {one.file_path: [0]}, one)]))
    assert [(m["content"], m["partition_spec_id"]) for m in manifest_list(table)] == [(1, 0), (0, 0), (0, 1)]
    assert strict_rows(table) == [1, 2, 2]
    assert [m["partitions"] for m in manifest_list(table)].count(manifest_list(table)[0]["partitions"]) == 3
    check_totals(table)


Case = tuple[PrimitiveType, list[Any], bytes | None, bytes | None, bool, bool]

PARTITIONS: list[Case] = [
    (StringType(), ["b", "a", "é", None], b"a", "é".encode(), True, False),
    (StringType(), ["x" * 40, "y" * 40], b"x" * 40, b"y" * 40, False, False),
    (StringType(), [None], None, None, True, False),
    (IntegerType(), [5, -5], struct.pack("<i", -5), struct.pack("<i", 5), False, False),
    (DoubleType(), [math.nan, 1.5, -2.5], struct.pack("<d", -2.5), struct.pack("<d", 1.5), False, True),
    (DoubleType(), [math.nan, None], None, None, True, True),
    (DoubleType(), [0.0, -0.0], struct.pack("<d", -0.0), struct.pack("<d", 0.0), False, False),
    (DoubleType(), [-0.0, 0.0], struct.pack("<d", -0.0), struct.pack("<d", 0.0), False, False),
    (FloatType(), [-0.0, 0.5], struct.pack("<f", -0.0), struct.pack("<f", 0.5), False, False),
    (DecimalType(9, 2), [Decimal("1.00"), Decimal("-1.28")], b"\x80", b"\x64", False, False),
    (UUIDType(), [UUID(int=2), UUID(int=1)], UUID(int=1).bytes, UUID(int=2).bytes, False, False),
    (BinaryType(), [b"\xff", b"\x00"], b"\x00", b"\xff", False, False),
    (BooleanType(), [True, False], b"\x00", b"\x01", False, False),
    (DateType(), [1, -1], struct.pack("<i", -1), struct.pack("<i", 1), False, False),
    (TimestamptzType(), [1, -1], struct.pack("<q", -1), struct.pack("<q", 1), False, False),
]


@pytest.mark.parametrize("case", PARTITIONS)
def test_partitions_are_summarised(tmp_path: Path, case: Case) -> None:
    type_, values, lower, upper, null, nan = case
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", type_))
    table = new_table(tmp_path, schema, spec((2, "identity", "p")))
    append(table, *(data_file(table, [{"id": at}], partition=[value]) for at, value in enumerate(values)))
    [manifest] = manifest_list(table)
    [summary] = manifest["partitions"]
    assert summary == {"contains_null": null, "contains_nan": nan, "lower_bound": lower, "upper_bound": upper}
    struct_type = partition_type(table.metadata, table.spec())
    told = partition_summaries(struct_type, [Record(value) for value in values])
    assert all(may_hold(told, struct_type, Record(value)) for value in values)
    read = [entry.data_file.partition[0] for entry in read_entries(table.io, manifests(table)[0])]
    assert sorted(map(comparable, read)) == sorted(map(comparable, values))


def comparable(value: Any) -> str:
    return repr(getattr(value, "bytes", value))


def manifests(table: Table) -> list[Any]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.manifests(table.io)


def test_summaries_rule_partitions_out(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    type_ = partition_type(table.metadata, table.spec())
    told = partition_summaries(type_, [Record("b"), Record("d")])
    held = {value: may_hold(told, type_, Record(value)) for value in ("a", "b", "c", "d", "e", None)}
    assert held == {"a": False, "b": True, "c": True, "d": True, "e": False, None: False}
    assert may_hold(None, type_, Record("a"))


def test_summaries_of_a_narrower_type_are_read(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", IntegerType()))
    table = new_table(tmp_path, schema, spec((2, "identity", "p")))
    file = data_file(table, [{"id": 1, "p": 7}, {"id": 2, "p": 7}])
    append(table, file)
    with table.update_schema() as update:
        update.update_column("p", LongType())
    change(table, Changes("row_delta", [delete_file(table, {file.file_path: [0]}, file)]))
    assert ids_of(table) == [2]


def test_void_fields_of_required_columns_are_null(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "region", StringType(), required=True)
    )
    table = new_table(tmp_path, schema, BY_REGION, version=1)
    append(table, data_file(table, [{"id": 1, "region": "eu"}]))
    evolve(table, drop=["region"])
    append(table, data_file(table, [{"id": 2, "region": "eu"}]))
    assert [(spec_id, values) for _, spec_id, values in sorted(live_files(table), key=lambda line: line[1])] == [
        (0, ("eu",)), (1, (None,)),
    ]  # fmt: skip
    assert ids_of(table) == [1, 2]


def test_the_schema_of_a_spec_is_the_newest_that_has_its_columns(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    old = table.spec()
    evolve(table, drop=["region"])
    with table.update_schema() as update:
        update.add_column("note", StringType())
    with table.update_schema() as update:
        update.delete_column("region")
    with table.update_schema() as update:
        update.add_column("place", LongType())
    assert find_compatible_schema(table.metadata, table.spec()).schema_id == table.metadata.current_schema_id
    assert find_compatible_schema(table.metadata, old).schema_id == 1
    assert str(partition_type(table.metadata, old).fields[0].field_type) == "string"
    gone = table.metadata.model_copy(update={"schemas": [table.schema()]})
    with pytest.raises(SchemaError, match="no schema of the table has all columns that partition spec 0"):
        find_compatible_schema(gone, old)


def test_days_and_hours_are_told_by_type(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ts", TimestamptzType()))
    table = new_table(tmp_path, schema, spec((2, "day", "ts_day")))
    evolve(table, drop=[day("ts")], add=[hour("ts"), truncate("id", 10)])
    moment = datetime(2025, 1, 15, 7, tzinfo=UTC)
    append(table, data_file(table, [{"id": 11, "ts": moment}], 0), data_file(table, [{"id": 12, "ts": moment}], 1))
    assert {values for _, _, values in live_files(table)} == {(date(2025, 1, 15),), (482479, 10)}
    assert ids_of(table) == [11, 12]


def test_names_that_avro_has_no_letters_for(tmp_path: Path) -> None:
    table = new_table(tmp_path, partitioned=spec((2, "truncate[1]", "région 1")))
    append(table, data_file(table, [{"id": 1, "region": "eu"}]))
    going = frozenset({live_files(table)[0][0]})
    change(table, Changes("replace", [data_file(table, [{"id": 1, "region": "eu"}])], going))
    assert ids_of(table) == [1]
    assert [values for _, _, values in live_files(table)] == [("e",)]


def test_a_delete_keeps_the_path_that_it_names(tmp_path: Path) -> None:
    """A manifest of version 2 that pyiceberg rewrites would lose `referenced_data_file`."""
    table = new_table(tmp_path)
    files = [data_file(table, [{"id": at, "region": "eu"}]) for at in range(3)]
    append(table, *files)
    deletes = [delete_file(table, {file.file_path: [0]}, file) for file in files[:2]]
    named = DataFile.from_args(
        _table_format_version=3,
        **{f.name: deletes[0][at] for at, f in enumerate(DATA_FILE_TYPE[2].fields)},
        referenced_data_file=files[0].file_path,
    )
    named.spec_id = 0
    named[10] = named[11] = None
    change(table, Changes("row_delta", [named, deletes[1]]))
    change(table, Changes("replace", removed_deletes=frozenset({deletes[1].file_path})))
    kept = [e for e in entries_of(table, content=1) if e["status"] == EXISTING]
    assert [e["data_file"]["referenced_data_file"] for e in kept] == [files[0].file_path]
    assert [
        referenced_path(e.data_file)
        for m in manifests(table)
        if m.content == 1
        for e in read_entries(table.io, m)
        if e.status == EXISTING
    ] == [files[0].file_path]
    change(table, Changes("delete", removed=frozenset({files[0].file_path})))
    assert [e for e in entries_of(table, content=1) if e["status"] != DELETED] == []
    check_totals(table)


def test_which_files_a_delete_may_point_into(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    like = data_file(table, [{"id": 1, "region": "eu"}])
    one = delete_file(table, {"m": [0]}, like)
    several = delete_file(table, {"c": [0], "m": [1]}, like)
    unknown = delete_file(table, {"c": [0], "m": [1]}, like)
    unknown[10] = unknown[11] = None
    equality = delete_file(table, {"c": [0]}, like)
    equality[0] = DataFileContent.EQUALITY_DELETES
    paths = ["a", "c", "k", "m", "z"]
    assert [path for path in paths if may_point_into(one, path)] == ["m"]
    assert [path for path in paths if may_point_into(several, path)] == ["c", "k", "m"]
    assert [path for path in paths if may_point_into(unknown, path)] == paths
    assert [path for path in paths if may_point_into(equality, path)] == paths
    assert [referenced_path(file) for file in (one, several, unknown, equality, like)] == ["m", None, None, None, None]
    assert len(widened(one)) == len(DATA_FILE_TYPE[3].fields)
