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

from partita.algebra.functions import day, hour, truncate
from partita.errors import SchemaError
from partita.formats.iceberg.transaction import evolve, find_compatible_schema
from partita.formats.iceberg.transaction.schemas import partition_type
from tests.formats.iceberg.transaction.tables import (
    BY_REGION,
    append,
    data_file,
    ids_of,
    live_files,
    new_table,
    spec,
)


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
