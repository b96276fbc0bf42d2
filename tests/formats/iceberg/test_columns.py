"""Schema conversion in both directions, and the field ids in data files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import assign_fresh_schema_ids

from partita.algebra.schema import Schema
from partita.algebra.types import Field, LogicalType, TypeKind, other_type
from partita.errors import SchemaError
from partita.formats.field_ids import ARROW_FIELD_ID
from partita.formats.iceberg.columns import (
    field_ids,
    logical_type_from_iceberg,
    schema_from_iceberg,
    schema_to_iceberg,
    stored_arrow_schema,
)

if TYPE_CHECKING:
    from pathlib import Path

ATOMS: dict[str, iceberg.IcebergType] = {
    "boolean": iceberg.BooleanType(),
    "int": iceberg.IntegerType(),
    "long": iceberg.LongType(),
    "float": iceberg.FloatType(),
    "double": iceberg.DoubleType(),
    "decimal(38,10)": iceberg.DecimalType(38, 10),
    "date": iceberg.DateType(),
    "time": iceberg.TimeType(),
    "timestamp_ntz": iceberg.TimestampType(),
    "timestamp": iceberg.TimestamptzType(),
    "string": iceberg.StringType(),
    "binary": iceberg.BinaryType(),
    "fixed(5)": iceberg.FixedType(5),
    "uuid": iceberg.UUIDType(),
}
NESTED = "struct<p:list<struct<q:long>>,m:map<string,list<date>>>"
SCHEMA = Schema.of({**{f"c{at}": name for at, name in enumerate(ATOMS)}, "n": NESTED})


def test_every_type_goes_to_iceberg_and_back() -> None:
    schema = schema_to_iceberg(SCHEMA)
    assert [f.field_type for f in schema.fields[:-1]] == list(ATOMS.values())
    assert schema_from_iceberg(schema) == SCHEMA


def test_ids_are_those_that_pyiceberg_gives() -> None:
    schema = schema_to_iceberg(SCHEMA)
    assert assign_fresh_schema_ids(schema).as_struct() == schema.as_struct()
    assert field_ids(schema)["n.m.value.element"] == max(field_ids(schema).values())


def test_small_integers_are_ints() -> None:
    assert schema_from_iceberg(schema_to_iceberg(Schema.of({"a": "byte", "b": "short"}))) == Schema.of(
        {"a": "int", "b": "int"}
    )


def test_required_columns_stay_required() -> None:
    schema = Schema((Field("a", LogicalType(TypeKind.LONG), nullable=False), Field("b", LogicalType(TypeKind.LONG))))
    assert [f.required for f in schema_to_iceberg(schema).fields] == [True, False]
    assert schema_from_iceberg(schema_to_iceberg(schema)) == schema
    assert [f.nullable for f in stored_arrow_schema(schema_to_iceberg(schema))] == [False, True]


@pytest.mark.parametrize("type_", [other_type("interval"), LogicalType(TypeKind.NULL)])
def test_types_that_iceberg_has_not_are_refused(type_: LogicalType) -> None:
    with pytest.raises(SchemaError, match="column 'deep'"):
        schema_to_iceberg(Schema((Field("deep", type_),)))


@pytest.mark.parametrize(
    "type_", [iceberg.TimestampNanoType(), iceberg.TimestamptzNanoType(), iceberg.UnknownType(), iceberg.GeometryType()]
)
def test_types_that_partita_does_not_compute_with_are_carried_along(type_: iceberg.IcebergType) -> None:
    assert logical_type_from_iceberg(type_) == other_type(str(type_))
    with pytest.raises(SchemaError):
        stored_arrow_schema(IcebergSchema(iceberg.NestedField(1, "x", type_)))


def test_data_files_have_an_id_at_every_level(tmp_path: Path) -> None:
    schema = schema_to_iceberg(SCHEMA)
    arrow = stored_arrow_schema(schema)
    assert _ids(arrow) == _ids(schema_to_pyarrow(schema))
    pq.write_table(arrow.empty_table(), tmp_path / "x.parquet")
    stored = pq.ParquetFile(tmp_path / "x.parquet")
    assert _ids(stored.schema_arrow) == _ids(arrow)
    assert str(stored.schema.column(list(ATOMS).index("uuid")).logical_type) == "UUID"
    names = {stored.schema.column(index).path for index in range(len(stored.schema))}
    assert {"n.p.list.element.q", "n.m.key_value.key", "n.m.key_value.value.list.element"} <= names


def test_required_is_kept_inside_of_columns() -> None:
    schema = IcebergSchema(
        iceberg.NestedField(1, "l", iceberg.ListType(2, iceberg.LongType(), element_required=True)),
        iceberg.NestedField(
            3, "m", iceberg.MapType(4, iceberg.StringType(), 5, iceberg.LongType(), value_required=True), required=True
        ),
    )
    lists, maps = stored_arrow_schema(schema)
    assert (lists.nullable, lists.type.value_field.nullable) == (True, False)
    assert (maps.nullable, maps.type.key_field.nullable, maps.type.item_field.nullable) == (False, False, False)


def _ids(type_: pa.Schema | pa.DataType, above: str = "") -> dict[str, bytes]:
    """Return the id of every nested field, by its path."""
    ids: dict[str, bytes] = {}
    for field in _fields(type_):
        path = f"{above}.{field.name}"
        ids[path] = (field.metadata or {}).get(ARROW_FIELD_ID, b"none")
        ids |= _ids(field.type, path)
    return ids


def _fields(type_: pa.Schema | pa.DataType) -> list[pa.Field]:
    if isinstance(type_, pa.Schema) or pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [type_.value_field]
    return []
