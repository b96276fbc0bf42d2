"""Specs of others as ours: by ids, through renames and drops."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.partitioning import PartitionSpec as IcebergSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    TruncateTransform,
    parse_transform,
)
from pyiceberg.types import (
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
)

from partita.algebra.partition_functions import bucket, day, hour, identity, truncate
from partita.algebra.schema import Schema
from partita.algebra.transforms import IdentityTransform as OurIdentity
from partita.algebra.transforms import VoidTransform
from partita.algebra.types import INT, LONG, STRING, TIMESTAMP_NTZ, TypeKind
from partita.arrow.prune import prune
from partita.errors import SchemaError
from partita.formats.iceberg.spec_evolution import evolve_spec
from partita.formats.iceberg.specs import (
    find_compatible_schema,
    is_source_dropped,
    partition_arrow_type,
    partition_type,
    spec_history,
)
from tests.formats.iceberg.handwritten_snapshots import new_table, reopen_table
from tests.formats.iceberg.snapshot_tables import (
    REGION_SPEC,
    append_files,
    data_file,
    live_files,
    partition_spec,
    table_ids,
)
from tests.formats.iceberg.snapshot_tables import new_table as new_files_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table.metadata import TableMetadata

SCHEMA = Schema.of({"id": "int", "ts": "timestamp_ntz", "country": "string", "s": "struct<x:long,t:timestamp>"})


def test_a_spec_is_what_it_was_made_of(tmp_path: Path) -> None:
    functions = [day("ts"), bucket("id", 16), identity("country"), day("s.t")]
    history = spec_history(new_table(tmp_path, SCHEMA, functions).metadata)
    assert [str(f.function) for f in history.current.fields] == [str(f) for f in functions]
    assert [f.field_id for f in history.current.fields] == [1000, 1001, 1002, 1003]
    assert [f.source_type for f in history.current.fields[:3]] == [TIMESTAMP_NTZ, INT, STRING]
    assert history.schema == SCHEMA


def test_all_specs_are_known_and_the_default_is_current(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [day("ts")])
    with table.update_spec() as update:
        update.add_field("country", IdentityTransform(), "country")
    with table.update_spec() as update:
        update.remove_field("ts_day")
        update.add_field("ts", HourTransform(), "ts_hour")
    history = spec_history(reopen_table(tmp_path).metadata)
    assert {s.spec_id: str(s) for s in history.specs} == {
        0: "day(ts)", 1: "day(ts), country", 2: "country, hour(ts)"
    }  # fmt: skip
    assert history.current_spec_id == 2
    assert [f.field_id for f in history.current.fields] == [1001, 1002]


def test_a_renamed_column_is_found_by_its_id(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [day("ts"), day("s.t")])
    with table.update_schema() as update:
        update.rename_column("ts", "when")
        update.rename_column("s", "deep")
    with table.update_schema() as update:
        update.add_column("ts", StringType())
    fields = spec_history(table.metadata).current.fields
    assert [(f.name, f.source, f.source_type.kind) for f in fields] == [
        ("ts_day", "when", TypeKind.TIMESTAMP_NTZ),
        ("s.t_day", "deep.t", TypeKind.TIMESTAMP),
    ]


def test_a_promoted_column_has_the_type_of_today(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [identity("id")])
    with table.update_schema() as update:
        update.update_column("id", LongType())
    (field,) = spec_history(table.metadata).current.fields
    assert field.source_type == LONG
    assert partition_arrow_type(field) == pa.int64()


def test_a_void_field_of_version_1_keeps_its_place(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [day("ts"), identity("country")], format_version="1")
    with table.update_spec() as update:
        update.remove_field("ts_day")
    history = spec_history(table.metadata)
    assert [f.transform for f in history.current.fields] == [VoidTransform(), OurIdentity()]
    assert [f.field_id for f in history.current.fields] == [1000, 1001]


def test_a_dropped_source_keeps_its_last_name(tmp_path: Path) -> None:
    history = spec_history(_with_dropped_source(tmp_path, taken_by=None))
    field = history.spec(0).fields[0]
    assert (field.source, field.source_type, is_source_dropped(field, history)) == ("place", STRING, True)
    assert not is_source_dropped(history.spec(0).fields[1], history)


def test_a_column_that_takes_a_dropped_name_is_another(tmp_path: Path) -> None:
    for name in ("place", "PLACE"):
        metadata = _with_dropped_source(tmp_path / name, taken_by=name)
        history = spec_history(metadata)
        field = history.spec(0).fields[0]
        assert (field.source, is_source_dropped(field, history)) == ("place#3", True)
        partitions = pa.table({"country": ["US"], "ts_day": pa.array([0], pa.int32()), "spec_id": [0]})
        # The files of that partition may have any value in the new column.
        assert prune(f"{name} = 'FR'", schema=history.schema, spec=history, partitions=partitions).may_match[0].as_py()


def _with_dropped_source(folder: Path, taken_by: str | None) -> TableMetadata:
    table = new_table(folder, SCHEMA, [identity("country"), day("ts")])
    with table.update_schema() as update:
        update.rename_column("country", "place")
    with table.update_spec() as update:
        update.remove_field("country")
    with table.update_schema() as update:
        update.delete_column("place")
    if taken_by is not None:
        with table.update_schema() as update:
            update.add_column(taken_by, StringType())
    return table.metadata


def test_a_source_that_no_schema_knows_is_read_past() -> None:
    metadata = _metadata([IcebergField(99, 1000, IdentityTransform(), "gone")])
    history = spec_history(metadata)
    (field,) = history.current.fields
    assert is_source_dropped(field, history)
    assert not field.transform.is_known
    assert partition_arrow_type(field) is None


def test_an_unknown_transform_is_kept_and_never_prunes() -> None:
    metadata = _metadata([IcebergField(1, 1000, parse_transform("zorder[4]"), "z")])
    history = spec_history(metadata)
    (field,) = history.current.fields
    assert (str(field.transform), field.transform.is_known, partition_arrow_type(field)) == ("zorder[4]", False, None)
    partitions = pa.table({"z": ["?", None], "spec_id": [0, 0]})
    pruning = prune("id = 1", schema=history.schema, spec=history, partitions=partitions)
    assert (pruning.may_match.to_pylist(), pruning.must_match.to_pylist()) == ([True, True], [False, False])


def test_a_type_without_an_order_is_kept_and_never_prunes() -> None:
    """The column is gone, for a table that has one is refused."""
    metadata = _metadata([IcebergField(3, 1000, IdentityTransform(), "n"), IcebergField(3, 1001, DayTransform(), "d")])
    metadata = metadata.model_copy(
        update={"schemas": [*metadata.schemas, IcebergSchema(*metadata.schema().fields[:2], schema_id=1)],
                "current_schema_id": 1}
    )  # fmt: skip
    history = spec_history(metadata)
    assert [f.transform.is_known for f in history.current.fields] == [False, True]
    partitions = pa.table({"n": [1], "d": pa.array([1], pa.int32()), "spec_id": [0]})
    assert prune("id = 1", schema=history.schema, spec=history, partitions=partitions).may_match.to_pylist() == [True]


def test_equal_names_of_different_fields_get_columns_of_their_own() -> None:
    metadata = _metadata([IcebergField(1, 1000, BucketTransform(4), "shard")])
    metadata = metadata.model_copy(
        update={
            "partition_specs": [
                *metadata.partition_specs,
                IcebergSpec(IcebergField(1, 1001, BucketTransform(8), "shard"), spec_id=1),
                IcebergSpec(IcebergField(1, 1002, TruncateTransform(8), "t"), spec_id=2),
            ]
        }
    )
    history = spec_history(metadata)
    names = [history.column_name(spec, field) for spec in history.specs for field in spec.fields]
    assert names == ["shard@0", "shard@1", "t"]


def test_arrow_types_of_fields() -> None:
    metadata = _metadata(
        [
            IcebergField(2, 1000, DayTransform(), "d"),
            IcebergField(2, 1001, HourTransform(), "h"),
            IcebergField(2, 1002, IdentityTransform(), "i"),
            IcebergField(1, 1003, BucketTransform(4), "b"),
        ]
    )
    types = [partition_arrow_type(f) for f in spec_history(metadata).current.fields]
    assert types == [pa.date32(), pa.int32(), pa.timestamp("us"), pa.int32()]


def _metadata(fields: list[IcebergField]) -> TableMetadata:
    schema = IcebergSchema(
        NestedField(1, "id", IntegerType()),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "nanos", TimestampNanoType()),
        NestedField(4, "s", StructType(NestedField(5, "x", LongType()))),
    )
    metadata: Any = new_table_metadata(schema, IcebergSpec(), UNSORTED_SORT_ORDER, "/nowhere", {"format-version": "3"})
    spec = IcebergSpec(*fields, spec_id=0)
    return cast("TableMetadata", metadata.model_copy(update={"partition_specs": [spec]}))


# --- the schema and the type of a spec, also when its columns are gone


def test_void_fields_of_required_columns_are_null(tmp_path: Path) -> None:
    schema = IcebergSchema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "region", StringType(), required=True)
    )
    table = new_files_table(tmp_path, schema, REGION_SPEC, version=1)
    append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    evolve_spec(table, drop=["region"])
    append_files(table, data_file(table, [{"id": 2, "region": "eu"}]))
    assert [(spec_id, values) for _, spec_id, values in sorted(live_files(table), key=lambda line: line[1])] == [
        (0, ("eu",)), (1, (None,)),
    ]  # fmt: skip
    assert table_ids(table) == [1, 2]


def test_the_schema_of_a_spec_is_the_newest_that_has_its_columns(tmp_path: Path) -> None:
    table = new_files_table(tmp_path)
    old = table.spec()
    evolve_spec(table, drop=["region"])
    with table.update_schema() as update:
        update.add_column("note", StringType())
    with table.update_schema() as update:
        update.delete_column("region")
    with table.update_schema() as update:
        update.add_column("place", LongType())
    assert find_compatible_schema(table.metadata, table.spec()).schema_id == table.metadata.current_schema_id
    assert find_compatible_schema(table.metadata, old).schema_id == 1
    assert str(partition_type(table.metadata, old).fields[0].field_type) == "string"
    without_old_schemas = table.metadata.model_copy(update={"schemas": [table.schema()]})
    with pytest.raises(SchemaError, match="no schema of the table has all columns that partition spec 0"):
        find_compatible_schema(without_old_schemas, old)


def test_days_and_hours_are_distinguished_by_type(tmp_path: Path) -> None:
    schema = IcebergSchema(NestedField(1, "id", LongType()), NestedField(2, "ts", TimestamptzType()))
    table = new_files_table(tmp_path, schema, partition_spec((2, "day", "ts_day")))
    evolve_spec(table, drop=[day("ts")], add=[hour("ts"), truncate("id", 10)])
    moment = datetime(2025, 1, 15, 7, tzinfo=UTC)
    append_files(
        table, data_file(table, [{"id": 11, "ts": moment}], 0), data_file(table, [{"id": 12, "ts": moment}], 1)
    )
    assert {values for _, _, values in live_files(table)} == {(date(2025, 1, 15),), (482479, 10)}
    assert table_ids(table) == [11, 12]
