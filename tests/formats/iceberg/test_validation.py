"""What is refused before anything is written."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import UnknownTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from partita.algebra.partition_functions import bucket, truncate
from partita.errors import PartitionsError, PartitionValueError, TableError, UnknownSpec, UnsupportedFeature
from partita.formats.iceberg.maintenance import expire_snapshots, remove_orphan_files
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.spec_evolution import evolve_spec
from partita.formats.iceberg.validation import check_writable, validate_change
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    commit_change,
    data_file,
    delete_file,
    metadata_files,
    new_table,
    partition_spec,
    snapshot_summary,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


@pytest.fixture
def three_specs(tmp_path: Path) -> Table:
    """A table with specs 0: region; 1: region, bucket(id); 2: bucket(id), truncate(amount)."""
    table = new_table(tmp_path)
    evolve_spec(table, add=[bucket("id", 4)])
    evolve_spec(table, drop=["region"], add=[truncate("amount", 10)])
    return table


def validate_data_file(metadata: TableMetadata, file: DataFile) -> None:
    """Validate an append of one file."""
    validate_change(metadata, SnapshotChange("append", added_files=(file,)))


def test_validate_accepts_any_valid_spec(three_specs: Table) -> None:
    for spec_id in (0, 1, 2):
        validate_data_file(
            three_specs.metadata, data_file(three_specs, [{"id": 1, "region": "eu", "amount": 5}], spec_id)
        )


def test_validate_rejects_unknown_spec(three_specs: Table) -> None:
    file = data_file(three_specs, [{"id": 1}], 0)
    file.spec_id = 99
    with pytest.raises(UnknownSpec) as caught:
        validate_data_file(three_specs.metadata, file)
    assert (caught.value.spec_id, caught.value.known) == (99, (0, 1, 2))


def test_validate_rejects_unknown_spec_with_clear_message(three_specs: Table) -> None:
    file = data_file(three_specs, [{"id": 1}], 0)
    file.spec_id = 99
    with pytest.raises(UnknownSpec, match="unknown partition spec 99; the table knows 0, 1, 2"):
        validate_data_file(three_specs.metadata, file)


def test_a_file_without_a_spec_is_of_spec_0(three_specs: Table) -> None:
    file = data_file(three_specs, [{"id": 1, "region": "eu", "amount": 5}], 0)
    del file._spec_id
    append_files(three_specs, file)
    assert [entry.data_file.spec_id for entry in entries(three_specs)] == [0]


def entries(table: Table) -> list[Any]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]


def test_nothing_is_written_for_what_is_refused(three_specs: Table) -> None:
    good, bad = (data_file(three_specs, [{"id": 1, "region": "eu", "amount": 5}]) for _ in range(2))
    bad.spec_id = 7
    before = three_specs.metadata_location
    with pytest.raises(UnknownSpec):
        append_files(three_specs, good, bad)
    assert metadata_files(three_specs) == set()
    assert three_specs.refresh().metadata_location == before


def test_a_partition_has_a_value_for_each_field(three_specs: Table) -> None:
    file = data_file(three_specs, [{"id": 1}], 1, partition=["eu"])
    with pytest.raises(PartitionsError, match="a partition of 1 values, but spec 1 has 2 fields"):
        append_files(three_specs, file)


VALUES: list[tuple[PrimitiveType, list[Any], list[Any]]] = [
    (BooleanType(), [True, None], [1, "true"]),
    (IntegerType(), [-(2**31), 0], [2**31, True, 1.0, "1"]),
    (LongType(), [2**63 - 1], [2**63, Decimal(1)]),
    (DateType(), [19000], ["2022-01-08"]),
    (TimeType(), [5], [0.5]),
    (TimestamptzType(), [1_700_000_000_000_000], ["now"]),
    (FloatType(), [0.5, math.nan, -0.0, math.inf], [0.1, 1, 1e300]),
    (DoubleType(), [0.1, math.nan], [1, "0.1"]),
    (StringType(), ["", "a/b=c"], [b"a", 1]),
    (BinaryType(), [b""], ["a"]),
    (FixedType(2), [b"ab"], [b"abc", "ab"]),
    (UUIDType(), [UUID(int=5), bytes(16)], ["5", b"5"]),
    (DecimalType(4, 2), [Decimal("12.34"), Decimal("-0.10")], [Decimal("1.2"), Decimal("123.45"), Decimal("NaN"), 1]),
]


@pytest.mark.parametrize(("type_", "good", "bad"), VALUES, ids=[str(type_) for type_, _, _ in VALUES])
def test_partition_values_fit_their_types(
    tmp_path: Path, type_: PrimitiveType, good: list[Any], bad: list[Any]
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", type_))
    table = new_table(tmp_path, schema, partition_spec((2, "identity", "p")))
    for value in good:
        validate_data_file(table.metadata, data_file(table, [{"id": 1}], partition=[value]))
    for value in bad:
        with pytest.raises(PartitionValueError) as caught:
            validate_data_file(table.metadata, data_file(table, [{"id": 1}], partition=[value]))
        assert caught.value.column == "p"


def test_a_bucket_is_one_of_those_there_are(three_specs: Table) -> None:
    with pytest.raises(PartitionValueError, match="a bucket from 0 to 3, found 4"):
        append_files(three_specs, data_file(three_specs, [{"id": 1}], partition=[4, 0]))


def test_a_void_field_is_null(tmp_path: Path) -> None:
    table = new_table(tmp_path, version=1)
    evolve_spec(table, drop=["region"])
    append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    with pytest.raises(PartitionValueError, match="null, because its transform is void"):
        append_files(table, data_file(table, [{"id": 1}], partition=["eu"]))


def refusal_case(file: Callable[[Table, DataFile], SnapshotChange], match: str, kind: type[Exception]) -> Any:
    return pytest.param(file, match, kind, id=match)


@pytest.mark.parametrize(
    ("changes", "match", "kind"),
    [
        refusal_case(lambda _, f: SnapshotChange("upsert", [f]), "unknown operation 'upsert'", TableError),
        refusal_case(
            lambda _, f: SnapshotChange("append", [f], frozenset({"x"})), "an append can't remove files", TableError
        ),
        refusal_case(lambda _, f: SnapshotChange("overwrite", [f, f]), "is added twice", PartitionsError),
        refusal_case(
            lambda _, f: SnapshotChange("overwrite", [f], frozenset({f.file_path})),
            "added and removed", PartitionsError,
        ),
        refusal_case(
            lambda *_: SnapshotChange("delete", removed_data_files=frozenset({"x"})),
            "data file x is not in the", TableError,
        ),
        refusal_case(
            lambda *_: SnapshotChange("row_delta", removed_delete_files=frozenset({"x"})),
            "delete file x is not in", TableError,
        ),
        refusal_case(
            lambda t, f: SnapshotChange("row_delta", [delete_file(t, {"x": [0]}, f)]),
            "data file x is not in", TableError,
        ),
        refusal_case(
            lambda t, f: SnapshotChange("row_delta", [delete_file(t, {"x": [0], "y": [1]}, f)]),
            "does not say which data files", PartitionsError,
        ),
    ],
)  # fmt: skip
def test_changes_that_no_commit_could_make_right(
    tmp_path: Path, changes: Callable[[Table, DataFile], SnapshotChange], match: str, kind: type[Exception]
) -> None:
    table = new_table(tmp_path)
    append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    before = metadata_files(table)
    with pytest.raises(kind, match=match):
        commit_change(table, changes(table, data_file(table, [{"id": 2, "region": "eu"}])))
    assert metadata_files(table) == before


def test_equality_deletes_are_not_written(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    append_files(table, file)
    wrong = delete_file(table, {file.file_path: [0]}, file)
    wrong[0] = DataFileContent.EQUALITY_DELETES
    with pytest.raises(UnsupportedFeature, match="equality deletes"):
        commit_change(table, SnapshotChange("row_delta", [wrong]))


def test_version_1_has_no_deletes(tmp_path: Path) -> None:
    table = new_table(tmp_path, version=1)
    file = data_file(table, [{"id": 1, "region": "eu"}])
    append_files(table, file)
    with pytest.raises(TableError, match="version 1 has no delete files"):
        commit_change(
            table,
            SnapshotChange("row_delta", [delete_file(table, {file.file_path: [0]}, file)]),
        )


def test_version_3_is_not_written(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = Path(table.metadata_location.removeprefix("file://"))
    # pyiceberg reads version 3, and does not write it.
    file.write_text(json.dumps({**json.loads(file.read_text()), "format-version": 3, "next-row-id": 0}))
    table.refresh()
    for act in (
        lambda: append_files(table, data_file(table, [{"id": 1, "region": "eu"}])),
        lambda: evolve_spec(table, drop=["region"]),
        lambda: expire_snapshots(table),
        lambda: remove_orphan_files(table),
    ):
        with pytest.raises(UnsupportedFeature, match=r"format version 3 \(versions 1 and 2 are written\)"):
            act()


def test_a_table_with_an_unknown_transform_is_not_written(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    unknown = PartitionSpec(PartitionField(2, 1001, UnknownTransform("zorder[3]"), "z"), spec_id=1)
    specs = [*table.metadata.partition_specs, unknown]
    metadata = table.metadata.model_copy(update={"partition_specs": specs})
    with pytest.raises(UnsupportedFeature, match="the transform of partition field 'z'"):
        check_writable(metadata)


@pytest.mark.parametrize("told", ["spec", "partition", "several"])
def test_a_delete_is_of_the_partition_of_its_file(tmp_path: Path, told: str) -> None:
    """Readers disagree on any other, so it is never written."""
    table = new_table(tmp_path)
    evolve_spec(table, add=[truncate("region", 5)])
    file = data_file(table, [{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}], 0)
    other = data_file(table, [{"id": 3, "region": "us"}], 0)
    append_files(table, file, other)
    wrong = {
        "spec": lambda: delete_file(table, {file.file_path: [0]}, file, spec_id=1, partition=["eu", "eu"]),
        "partition": lambda: delete_file(table, {file.file_path: [0]}, file, partition=["us"]),
        "several": lambda: delete_file(table, {file.file_path: [0], other.file_path: [0]}, file, partition=["fr"]),
    }[told]()
    before = metadata_files(table)
    paths = frozenset({file.file_path, other.file_path}) if told == "several" else frozenset()
    with pytest.raises(PartitionsError, match=r"delete file \S+ is of spec"):
        commit_change(table, SnapshotChange("row_delta", [wrong], referenced_data_files=paths))
    assert metadata_files(table) == before


def two_of_a_kind(folder: Path) -> tuple[Table, DataFile, DataFile]:
    """Create a table with a file in each of two specs, whose partitions have the same values."""
    table = new_table(folder)
    evolve_spec(table, drop=["region"], add=[truncate("region", 2).alias("start")])
    first, second = (data_file(table, [{"id": index, "region": "eu"}], index) for index in (0, 1))
    append_files(table, first, second)
    return table, first, second


def test_a_delete_of_another_spec_with_the_same_values(tmp_path: Path) -> None:
    table, first, second = two_of_a_kind(tmp_path)
    assert first.partition == second.partition
    wrong = delete_file(table, {first.file_path: [0]}, first, spec_id=1)
    with pytest.raises(PartitionsError, match=r"delete file \S+ is of spec 1"):
        commit_change(table, SnapshotChange("row_delta", [wrong]))
    commit_change(table, SnapshotChange("row_delta", [delete_file(table, {second.file_path: [0]}, first, spec_id=1)]))


def test_partitions_of_different_specs_count_apart(tmp_path: Path) -> None:
    table, _, _ = two_of_a_kind(tmp_path)
    assert snapshot_summary(table)["changed-partition-count"] == "2"


def test_each_data_file_that_is_pointed_into_has_a_delete_of_its_partition(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    first, second = (data_file(table, [{"id": index, "region": region}]) for index, region in enumerate(["eu", "us"]))
    append_files(table, first, second)
    deletes = delete_file(table, {first.file_path: [0]}, first)
    with pytest.raises(
        PartitionsError, match=f"no added delete file is of the spec and the partition of {second.file_path}"
    ):
        commit_change(
            table,
            SnapshotChange(
                "row_delta", [deletes], referenced_data_files=frozenset({first.file_path, second.file_path})
            ),
        )
