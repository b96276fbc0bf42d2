"""Manifests as Arrow: every type, inherited values, refused manifests, the cache, and manifests that are not opened."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus
from pyiceberg.table.update import UpgradeFormatVersionUpdate
from pyiceberg.transforms import BucketTransform, IdentityTransform
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
    StructType,
    TimestampType,
    TimestamptzType,
)

from partita.algebra.partition_functions import bucket, day, hour, identity, month, truncate, year
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.algebra.transforms import TransformFamily
from partita.arrow import apply, prune
from partita.arrow.schema import to_schema
from partita.errors import StorageError, TableError, UnknownSpec, UnsupportedFeature
from partita.formats.iceberg.manifests import (
    MANIFEST_ENTRY_SCHEMA,
    MANIFEST_FILE_SCHEMA,
    PARTITION_PREFIX,
    cache,
    manifest_list,
    read_live_entries,
    read_manifest_list,
)
from partita.formats.iceberg.manifests.evaluator import may_match_predicate
from partita.formats.iceberg.manifests.partition_summaries import partition_summaries
from partita.formats.iceberg.specs import spec_history
from tests.formats.iceberg.handwritten_snapshots import (
    added_entry,
    commit_snapshot,
    data_file,
    existing_entry,
    new_table,
    planned_paths,
    write_manifest_file,
)
from tests.pruning_cases import PruningCase, pruning_cases

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from partita.algebra.transforms import PartitionFunction

SCHEMA = Schema.of({"id": "int", "ts": "timestamp", "country": "string"})

# By type: what a partition tuple has, as pyiceberg takes it, and what Arrow gives.
VALUES: dict[str, tuple[Any, Any]] = {
    "boolean": (True, True),
    "int": (-5, -5),
    "long": (2**40, 2**40),
    "float": (1.5, 1.5),
    "double": (-0.0, -0.0),
    "decimal(9,2)": (Decimal("-1.25"), Decimal("-1.25")),
    "decimal(38,10)": (Decimal("12345678901234567890.1234567890"), Decimal("12345678901234567890.1234567890")),
    "decimal(10,3)": (Decimal("7.125"), Decimal("7.125")),
    "date": (-1, date(1969, 12, 31)),
    "time": (5, time(0, 0, 0, 5)),
    "timestamp_ntz": (7, datetime(1970, 1, 1, 0, 0, 0, 7)),  # noqa: DTZ001 - of no zone
    "timestamp": (8, datetime(1970, 1, 1, 0, 0, 0, 8, tzinfo=UTC)),
    "string": ("é", "é"),
    "binary": (b"\x00\xff", b"\x00\xff"),
    "fixed(5)": (b"abcde", b"abcde"),
    "uuid": (UUID(int=5), UUID(int=5).bytes),
}


def entries_of(table: Table) -> pa.Table:
    """Return all live entries."""
    now = table.metadata.current_snapshot()
    assert now is not None
    return read_live_entries(table.io, read_manifest_list(table.io, now), spec_history(table.metadata))


@pytest.mark.parametrize("version", ["1", "2"])
def test_partition_values_of_every_type(version: str, tmp_path: Path) -> None:
    """Twice each, for the second one's type is a name in Avro."""
    names = [f"{type_} {copy} é" for type_ in VALUES for copy in "ab"]
    schema = Schema.of({name: name.split(" ")[0] for name in names})
    table = new_table(tmp_path, schema, [identity(name) for name in names], format_version=version)
    values = [VALUES[name.split(" ")[0]][0] for name in names]
    commit_snapshot(
        table, (0, [added_entry(data_file("a", *values)), added_entry(data_file("b", *[None] * len(values)))])
    )
    entries = entries_of(table)
    for name in names:
        assert entries[PARTITION_PREFIX + name].to_pylist() == [VALUES[name.split(" ")[0]][1], None], name
    assert np.signbit(entries[f"{PARTITION_PREFIX}double a é"].to_numpy()[0])


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (year("ts"), 55, 55),
        (month("ts"), 660, 660),
        (day("ts"), 20_000, date(2024, 10, 4)),
        (hour("ts"), -1, -1),
        (bucket("id", 16), 3, 3),
        (truncate("country", 2), "DE", "DE"),
    ],
)
def test_partition_values_of_every_transform(
    function: PartitionFunction, value: object, expected: object, tmp_path: Path
) -> None:
    table = commit_snapshot(new_table(tmp_path, SCHEMA, [function]), (0, [added_entry(data_file("a", value))]))
    assert entries_of(table)[PARTITION_PREFIX + function.name].to_pylist() == [expected]


def test_columns_of_a_file(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "value_counts": {1: 10, 3: 10},
        "null_value_counts": {1: 0},
        "nan_value_counts": {},
        "lower_bounds": {1: b"\x01\x00\x00\x00"},
        "upper_bounds": {1: b"\x09\x00\x00\x00", 3: b"zz"},
        "sort_order_id": 7,
    }
    table = commit_snapshot(
        new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a", rows=10, **fields)), added_entry(data_file("b"))])
    )
    entries = entries_of(table)
    assert entries.schema == MANIFEST_ENTRY_SCHEMA
    first, second = entries.to_pylist()
    for name, value in fields.items():
        assert first[name] == (list(value.items()) if isinstance(value, dict) else value)
        assert second[name] is None
    assert (first["content"], first["path"], first["format"], first["record_count"], first["file_size"]) == (
        0, "a", "PARQUET", 10, 1000
    )  # fmt: skip
    assert first["manifest"].endswith("-m0.avro")


def test_a_table_without_partitions(tmp_path: Path) -> None:
    table = commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a"))]))
    assert entries_of(table)["spec_id"].to_pylist() == [0]


@pytest.mark.parametrize("version", ["1", "2"])
def test_sequence_numbers_are_inherited_as_in_pyiceberg(version: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, format_version=version)
    commit_snapshot(table, (0, [added_entry(data_file("a")), added_entry(data_file("b"), sequence_number=1)]))
    commit_snapshot(
        table, (0, [added_entry(data_file("c")), existing_entry(data_file("d"), sequence_number=1, snapshot_id=5)])
    )
    commit_snapshot(table, (0, [added_entry(data_file("e"))]))
    ours = {
        row["path"]: (row["snapshot_id"], row["sequence_number"], row["file_sequence_number"])
        for row in entries_of(table).to_pylist()
    }
    now = table.current_snapshot()
    assert now is not None
    theirs = {
        e.data_file.file_path: (e.snapshot_id, e.sequence_number, e.file_sequence_number)
        for m in now.manifests(table.io)
        for e in m.fetch_manifest_entry(table.io)
    }
    assert set(ours) == {"a", "b", "c", "d", "e"}
    assert ours == theirs


def test_deleted_entries_are_left_out(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    deleted_entry = added_entry(data_file("b"), status=ManifestEntryStatus.DELETED, snapshot_id=1, sequence_number=1)
    commit_snapshot(table, (0, [added_entry(data_file("a")), deleted_entry]))
    assert set(entries_of(table)["path"].to_pylist()) == planned_paths(table) == {"a"}
    deleted_entry = added_entry(data_file("c"), status=ManifestEntryStatus.DELETED, snapshot_id=1, sequence_number=1)
    commit_snapshot(table, (0, [deleted_entry]))
    assert entries_of(table)["path"].to_pylist() == ["a"]


def test_a_file_that_existed_needs_its_number(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    commit_snapshot(table, (0, [added_entry(data_file("a"))]))
    entry = added_entry(data_file("b"), status=ManifestEntryStatus.EXISTING, snapshot_id=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyiceberg.manifest.ManifestWriterV2.prepare_entry", lambda _, entry: entry)
        commit_snapshot(table, (0, [entry]))
    with pytest.raises(TableError, match="an existing file without its sequence number"):
        entries_of(table)


def test_manifests_of_version_1_stay_readable_after_an_upgrade(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")], format_version="1")
    commit_snapshot(table, (0, [added_entry(data_file("a", "US"))]))
    with table.transaction() as transaction:
        transaction._apply((UpgradeFormatVersionUpdate.model_validate({"format-version": 2}),), ())
    commit_snapshot(table, (0, [added_entry(data_file("b", "FR"))]))
    rows = entries_of(table).to_pylist()
    assert {r["path"]: (r["sequence_number"], r["content"], r["partition.country"]) for r in rows} == {
        "a": (0, 0, "US"),
        "b": (1, 0, "FR"),
    }


def test_each_file_has_the_values_of_its_own_spec(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, (0, [added_entry(data_file("a", "US"))]))
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "shard")
    with table.update_spec() as update:
        update.remove_field("shard")
        update.remove_field("country")
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(8), "shard")
    commit_snapshot(
        table,
        (1, [added_entry(data_file("b", "US", 3))]),
        (2, [added_entry(data_file("c"))]),
        (3, [added_entry(data_file("d", 3))]),
    )
    rows = {r["path"]: r for r in entries_of(table).to_pylist()}
    names = [f"{PARTITION_PREFIX}{name}" for name in ("country", "shard@1", "shard@3")]
    assert {path: (row["spec_id"], *(row[n] for n in names)) for path, row in rows.items()} == {
        "a": (0, "US", None, None),
        "b": (1, "US", 3, None),
        "c": (2, None, None, None),
        "d": (3, None, None, 3),
    }


def test_values_of_a_promoted_column_are_widened(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("id")])
    commit_snapshot(table, (0, [added_entry(data_file("a", 7))]))
    with table.update_schema() as update:
        update.update_column("id", LongType())
    commit_snapshot(table, (0, [added_entry(data_file("b", 2**40))]))
    ids = entries_of(table)["partition.id"]
    assert (ids.type, sorted(ids.to_pylist())) == (pa.int64(), [7, 2**40])


def test_values_of_a_dropped_column_are_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    commit_snapshot(table, (0, [added_entry(data_file("a", "US"))]))
    with table.update_spec() as update:
        update.remove_field("country")
    with table.update_schema() as update:
        update.delete_column("country")
    commit_snapshot(table, (1, [added_entry(data_file("b"))]))
    assert sorted(entries_of(table)["partition.country"].to_pylist(), key=str) == [None, "US"]


def test_a_spec_that_the_table_does_not_know_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    manifest = write_manifest_file(table, [added_entry(data_file("a"))], snapshot_id=1)
    manifest[2], manifest[4], manifest[5] = 9, 1, 1
    assert (manifest.partition_spec_id, manifest.sequence_number, manifest.min_sequence_number) == (9, 1, 1)
    commit_snapshot(table, more=[manifest])
    with pytest.raises(UnknownSpec, match="9"):
        entries_of(table)


def test_encrypted_files_are_refused(tmp_path: Path) -> None:
    table = commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a", key_metadata=b"key"))]))
    with pytest.raises(UnsupportedFeature, match="encrypted data files"):
        entries_of(table)


def test_a_missing_or_broken_manifest_is_a_partita_error(tmp_path: Path) -> None:
    table = commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a"))]))
    (file,) = (tmp_path / "sales/orders/metadata").glob("*-m0.avro")
    whole = file.read_bytes()
    for broken in (b"", b"not Avro", whole[:-20], whole[:600]):
        file.write_bytes(broken)
        with pytest.raises(TableError, match=r"m0\.avro is not an Avro file"):
            entries_of(table)
    file.unlink()
    with pytest.raises(StorageError, match=r"can't read .*m0.avro"):
        entries_of(table)


def test_fields_that_version_1_leaves_out_of_a_manifest_list() -> None:
    """Old lists have no spec, no content and no numbers; names of counts have changed, and ids have not."""
    records = pa.table({"f500": ["m"], "f501": [100], "f503": [7], "f504": pa.array([3], pa.int32())})
    (row,) = manifest_list._manifest_table(records).to_pylist()
    assert row == {
        "path": "m", "length": 100, "snapshot_id": 7, "added_files": 3, "spec_id": 0, "content": 0, "encrypted": False,
        "sequence_number": 0, "min_sequence_number": 0, "existing_files": None, "deleted_files": None,
        "partitions": None,
    }  # fmt: skip


# --- the cache


def test_a_decoded_manifest_is_not_read_again(tmp_path: Path) -> None:
    table = commit_snapshot(
        new_table(tmp_path, SCHEMA, [identity("country")]), (0, [added_entry(data_file("a", "US"))])
    )
    first = entries_of(table)
    for file in (tmp_path / "sales/orders/metadata").glob("*.avro"):
        file.unlink()
    assert entries_of(table).equals(first)
    cache.clear_memory()
    assert entries_of(table).equals(first)


@pytest.mark.parametrize("broken", [b"", b"ARROW1\x00\x00 and no more", None])
def test_a_broken_cache_file_is_written_again(broken: bytes | None, tmp_path: Path) -> None:
    table = commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a"))]))
    first = entries_of(table)
    folder = _folder()
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-9] if broken is None else broken)
    cache.clear_memory()
    assert entries_of(table).equals(first)
    cache.clear_memory()
    for file in (tmp_path / "sales/orders/metadata").glob("*.avro"):
        file.unlink()
    assert entries_of(table).equals(first)


@pytest.mark.slow(reason="a manifest cut off at each byte")
def test_a_file_that_was_cut_off_anywhere_gives_no_other_rows() -> None:
    cached = pa.table({"x": np.arange(100), "y": [None, "text"] * 50})
    cache.get_or_create("key", lambda: cached)
    (file,) = _folder().iterdir()
    content, whole = file.read_bytes(), 0
    for size in range(len(content)):
        file.write_bytes(content[:size])
        cache.clear_memory()
        read_back = cache.get_table("key")
        assert read_back is None or read_back.equals(cached)
        whole += read_back is not None
    # Only the mark at the end may be missing.
    assert whole <= 8


def test_a_file_of_another_key_is_not_taken(tmp_path: Path) -> None:
    table = commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a"))]))
    first = entries_of(table)
    files = sorted(_folder().iterdir())
    assert len(files) == 2
    swapped = [file.read_bytes() for file in reversed(files)]
    for file, content in zip(files, swapped, strict=True):
        file.write_bytes(content)
    cache.clear_memory()
    assert entries_of(table).equals(first)


def test_the_cache_can_be_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _folder()
    monkeypatch.setenv("PARTITA_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    table = commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a"))]))
    assert entries_of(table).num_rows == 1
    assert not folder.exists()
    assert not (tmp_path / "xdg").exists()


def test_the_cache_is_with_the_users_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTITA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    entries_of(commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a"))])))
    assert len(list((tmp_path / "xdg/partita/manifests").iterdir())) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cache.clear_memory()
    entries_of(commit_snapshot(new_table(tmp_path / "2", SCHEMA), (0, [added_entry(data_file("a"))])))
    assert len(list((tmp_path / "home/.cache/partita/manifests").iterdir())) == 2


def test_a_folder_that_can_not_be_written_costs_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PARTITA_CACHE", str(tmp_path / "file"))
    assert entries_of(commit_snapshot(new_table(tmp_path, SCHEMA), (0, [added_entry(data_file("a"))]))).num_rows == 1


def test_the_least_recently_used_file_is_evicted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        cache.get_or_create(f"key {number}", lambda: pa.table({"x": np.arange(1000)}))
    folder = _folder()
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    files = [folder / str(cache._cache_file(f"key {number}")) for number in range(3)]
    for age, file in zip((30, 20, 10), files, strict=True):
        os.utime(file, (1e9 - age, 1e9 - age))
    (folder / "notes.txt").write_text("mine")
    os.utime(folder / "notes.txt", (1, 1))
    cache.clear_memory()
    cache.get_or_create("key 0", lambda: pa.table({}))
    monkeypatch.setattr(cache, "MAX_DISK_BYTES", 2 * max(sizes.values()))
    cache.evict_files()
    assert [file.exists() for file in files] == [True, False, True]
    monkeypatch.setattr(cache, "MAX_DISK_BYTES", 0)
    cache.evict_files()
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()


def test_the_folder_is_not_listed_for_each_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    evictions: list[None] = []
    monkeypatch.setattr(cache, "evict_files", lambda: evictions.append(None))
    monkeypatch.setattr(cache._next_eviction, "bytes_left", 0)
    monkeypatch.setattr(cache, "MAX_DISK_BYTES", 16 * 20_000)
    for number in range(10):
        cache.put_table(f"listed {number}", pa.table({"x": np.arange(1000)}))
        cache.evict_periodically()
    assert len(evictions) == 4


def _folder() -> Path:
    folder = cache._cache_folder()
    assert folder is not None
    return folder


# --- manifests that a predicate does not need


DAYS = (20_000, 20_001, 20_002)


@pytest.mark.parametrize(
    ("function", "values", "where", "expected"),
    [
        (day("ts"), DAYS, "ts >= TIMESTAMP '2024-10-05T00:00:00Z'", [1, 2]),
        (day("ts"), DAYS, "ts = TIMESTAMP '2024-10-05T23:59:59.999999Z'", [1]),
        (day("ts"), DAYS, "ts < TIMESTAMP '2024-10-04T00:00:00Z'", []),
        (hour("ts"), (0, 1, 2), "ts < TIMESTAMP '1970-01-01T01:00:00Z'", [0]),
        (month("ts"), (0, 1, 2), "ts >= TIMESTAMP '1970-02-28T00:00:00Z'", [1, 2]),
        (year("ts"), (0, 1, 2), "ts < TIMESTAMP '1971-01-01T00:00:00Z'", [0]),
        (identity("country"), ("DE", "FR", "US"), "country = 'FR'", [1]),
        (identity("country"), ("DE", "FR", "US"), "country IN ('DE', 'US', 'XX')", [0, 2]),
        (identity("country"), ("DE", None, "US"), "country IS NULL", [1]),
        (identity("country"), ("DE", None, "US"), "country IS NOT NULL", [0, 2]),
        (identity("country"), ("DE", None, "US"), "country <> 'DE'", [2]),
        (truncate("country", 1), ("D", "F", "U"), "country = 'FR'", [1]),
        (truncate("country", 1), ("D", "F", "U"), "country > 'DE'", [0, 1, 2]),
        (identity("id"), (1, 5, 9), "id BETWEEN 2 AND 8", [1]),
        (truncate("id", 10), (-10, 0, 10), "id = -1", [0]),
        (bucket("id", 4), (0, 1, 2), "id > 100", [0, 1, 2]),
        (identity("country"), ("DE", "FR", "US"), "id = 1", [0, 1, 2]),
    ],
)
def test_manifests_are_pruned_by_their_summaries(
    function: PartitionFunction, values: tuple[Any, ...], where: str, expected: list[int], tmp_path: Path
) -> None:
    table = new_table(tmp_path, SCHEMA, [function])
    assert _needed_groups(table, [[value] for value in values], where) == expected


def test_a_bucket_prunes_where_all_files_have_the_same(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [bucket("id", 16)])
    # The specification's own example: 34 hashes to 2017239379, which is bucket 3 of 16.
    assert _needed_groups(table, [[3], [4], [3, 4], [None], [3, None]], "id = 34") == [0, 2, 4]


def test_ranges_of_values_and_nulls(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("id")])
    groups: list[list[Any]] = [[1, 9], [None, 5], [None, None], [20, 30]]
    assert _needed_groups(table, groups, "id = 5") == [0, 1]
    assert _needed_groups(table, groups, "id IS NULL") == [1, 2]
    assert _needed_groups(table, groups, "id >= 9") == [0, 3]


@pytest.mark.slow(reason="many random or large manifests")
@pytest.mark.parametrize("type_", ["float", "double"])
def test_nan_is_above_all_and_minus_zero_is_zero(type_: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, Schema.of({"x": type_}), [identity("x")])
    nan = float("nan")
    groups: list[list[Any]] = [[1.0, nan], [nan], [1.0, 2.0], [-0.0], [nan, None], [None]]
    assert {0, 1, 4} <= set(_needed_groups(table, groups, "x > 100"))
    assert 3 in _needed_groups(table, groups, "x = 0.0")
    assert 3 in _needed_groups(table, groups, "x >= 0.0")
    assert set(_needed_groups(table, groups, "x < 0.0")) <= {1, 4}
    assert {0, 1, 4} <= set(_needed_groups(table, groups, f"x = CAST('NaN' AS {type_})"))


def test_values_of_one_spec_prune_no_files_of_another(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("country")])
    with table.update_spec() as update:
        update.add_field("id", IdentityTransform(), "id")
    with table.update_spec() as update:
        update.remove_field("country")
        update.remove_field("id")
    commit_snapshot(
        table,
        (0, [added_entry(data_file("a", "US"))]),
        (1, [added_entry(data_file("b", "US", 5))]),
        (1, [added_entry(data_file("c", "FR", 5))]),
        (2, [added_entry(data_file("d"))]),
    )
    now = table.current_snapshot()
    assert now is not None
    listed, history = read_manifest_list(table.io, now), spec_history(table.metadata)
    assert may_match_predicate(listed, history, "country = 'US' AND id = 5").tolist() == [True, True, False, True]
    assert may_match_predicate(listed, history, "country = 'FR' AND id = 6").tolist() == [False, False, False, True]


def test_an_end_that_cannot_be_read_is_not_taken_for_none() -> None:
    schema = Schema.of({"id": "int"})
    history = SpecHistory.from_spec(PartitionSpec.of([identity("id")], schema, TransformFamily.ICEBERG), schema)
    summary = {"contains_null": True, "contains_nan": False, "lower": b"\0" * 3, "upper": b"\0" * 3}
    summaries = pa.array(
        [[summary], [{**summary, "lower": None, "upper": None}]], MANIFEST_FILE_SCHEMA.field("partitions").type
    )
    manifests = pa.table({"spec_id": pa.array([0, 0], pa.int32()), "partitions": summaries})
    assert may_match_predicate(manifests, history, "id = 5").tolist() == [True, False]
    assert may_match_predicate(manifests, history, "id IS NULL").tolist() == [True, True]


@pytest.mark.slow(reason="thousands of predicates on random manifests")
@given(pruning_cases(predicates=4, families=[TransformFamily.ICEBERG]), st.integers(1, 4))
@settings(suppress_health_check=list(HealthCheck))
def test_no_manifest_of_a_file_that_may_match_is_left_out(case: PruningCase, size: int) -> None:
    """A file a row, and so many files a manifest; one file's own summary says all that its partition does."""
    assume(case.functions)
    schema = to_schema(case.table.schema)
    spec = PartitionSpec.of(case.functions, schema, TransformFamily.ICEBERG)
    partitions = pa.table({f.name: apply(f.function, case.table[f.source], family="iceberg") for f in spec.fields})
    groups = [partitions.slice(start, size) for start in range(0, len(partitions), size)]
    manifests = pa.table(
        {
            "spec_id": pa.array([spec.spec_id] * len(groups), pa.int32()),
            "partitions": pa.array(
                [_summaries(group) for group in groups], MANIFEST_FILE_SCHEMA.field("partitions").type
            ),
        }
    )
    for predicate in case.predicates:
        matches = may_match_predicate(manifests, SpecHistory.from_spec(spec, schema), predicate)
        files = prune(predicate, schema=schema, spec=spec, partitions=partitions).may_match.to_numpy(False)
        expected = [files[start : start + size].any() for start in range(0, len(files), size)]
        assert not (expected & ~matches).any()
        # NaN may be above the greatest float, and no Iceberg column has eight bits.
        if size == 1 and not any(pa.types.is_floating(c.type) or c.type == pa.int8() for c in partitions.columns):
            assert matches.tolist() == expected


_TYPES: dict[pa.DataType, PrimitiveType] = {
    pa.bool_(): BooleanType(), pa.int8(): IntegerType(), pa.int32(): IntegerType(), pa.int64(): LongType(),
    pa.float32(): FloatType(), pa.float64(): DoubleType(), pa.date32(): DateType(), pa.string(): StringType(),
    pa.timestamp("us", "UTC"): TimestamptzType(), pa.timestamp("us"): TimestampType(), pa.binary(): BinaryType(),
    pa.decimal128(6, 2): DecimalType(6, 2), pa.decimal128(25, 3): DecimalType(25, 3),
}  # fmt: skip


def _summaries(partitions: pa.Table) -> list[dict[str, Any]]:
    """Return the partition summaries of files of those partitions."""
    fields = [NestedField(index, f.name, _TYPES[f.type]) for index, f in enumerate(partitions.schema, 1)]
    columns = [
        c.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(c.type)
        else c.cast(pa.int32()).to_pylist() if pa.types.is_date(c.type)
        else c.to_pylist()
        for c in partitions.columns
    ]  # fmt: skip
    summaries = partition_summaries(StructType(*fields), [Record(*row) for row in zip(*columns, strict=True)])
    return [
        {"contains_null": s.contains_null, "contains_nan": s.contains_nan, "lower": s.lower_bound,
         "upper": s.upper_bound}
        for s in summaries
    ]  # fmt: skip


def _needed_groups(table: Table, groups: list[list[Any]], where: str) -> list[int]:
    """Return the groups, one manifest each, that a predicate needs; those that pyiceberg reads are among them."""
    entry_groups: list[tuple[int, list[ManifestEntry]]] = [
        (0, [added_entry(data_file(f"{index}-{n}", value)) for n, value in enumerate(values)])
        for index, values in enumerate(groups)
    ]
    commit_snapshot(table, *entry_groups)
    now = table.current_snapshot()
    assert now is not None
    matches = may_match_predicate(read_manifest_list(table.io, now), spec_history(table.metadata), where)
    return np.flatnonzero(matches[: len(groups)]).tolist()
