"""The schema and the type of a spec, also when its columns are gone."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from partita.algebra.partition_functions import day, hour, truncate
from partita.errors import SchemaError
from partita.formats.iceberg.spec_evolution import evolve_spec
from partita.formats.iceberg.specs import find_compatible_schema, partition_type
from tests.formats.iceberg.snapshot_tables import (
    REGION_SPEC,
    append_files,
    data_file,
    live_files,
    new_table,
    partition_spec,
    table_ids,
)


def test_void_fields_of_required_columns_are_null(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "region", StringType(), required=True)
    )
    table = new_table(tmp_path, schema, REGION_SPEC, version=1)
    append_files(table, data_file(table, [{"id": 1, "region": "eu"}]))
    evolve_spec(table, drop=["region"])
    append_files(table, data_file(table, [{"id": 2, "region": "eu"}]))
    assert [(spec_id, values) for _, spec_id, values in sorted(live_files(table), key=lambda line: line[1])] == [
        (0, ("eu",)), (1, (None,)),
    ]  # fmt: skip
    assert table_ids(table) == [1, 2]


def test_the_schema_of_a_spec_is_the_newest_that_has_its_columns(tmp_path: Path) -> None:
    table = new_table(tmp_path)
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


def test_days_and_hours_are_told_by_type(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ts", TimestamptzType()))
    table = new_table(tmp_path, schema, partition_spec((2, "day", "ts_day")))
    evolve_spec(table, drop=[day("ts")], add=[hour("ts"), truncate("id", 10)])
    moment = datetime(2025, 1, 15, 7, tzinfo=UTC)
    append_files(
        table, data_file(table, [{"id": 11, "ts": moment}], 0), data_file(table, [{"id": 12, "ts": moment}], 1)
    )
    assert {values for _, _, values in live_files(table)} == {(date(2025, 1, 15),), (482479, 10)}
    assert table_ids(table) == [11, 12]
