"""Schemas to and fro, and the ids in data files."""

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
from partita.algebra.types import Field, Kind, LogicalType, other
from partita.errors import SchemaError
from partita.formats.field_ids import FIELD_ID
from partita.formats.iceberg.columns import field_ids, from_schema, stored_arrow, to_logical, to_schema

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
    made = from_schema(SCHEMA)
    assert [f.field_type for f in made.fields[:-1]] == list(ATOMS.values())
    assert to_schema(made) == SCHEMA


def test_ids_are_those_that_pyiceberg_gives() -> None:
    made = from_schema(SCHEMA)
    assert assign_fresh_schema_ids(made).as_struct() == made.as_struct()
    assert field_ids(made)["n.m.value.element"] == max(field_ids(made).values())


def test_small_integers_are_ints() -> None:
    assert to_schema(from_schema(Schema.of({"a": "byte", "b": "short"}))) == Schema.of({"a": "int", "b": "int"})


def test_what_must_be_there_stays_so() -> None:
    schema = Schema((Field("a", LogicalType(Kind.LONG), nullable=False), Field("b", LogicalType(Kind.LONG))))
    assert [f.required for f in from_schema(schema).fields] == [True, False]
    assert to_schema(from_schema(schema)) == schema
    assert [f.nullable for f in stored_arrow(from_schema(schema))] == [False, True]


@pytest.mark.parametrize("type_", [other("interval"), LogicalType(Kind.NULL)])
def test_types_that_iceberg_has_not_are_refused(type_: LogicalType) -> None:
    with pytest.raises(SchemaError, match="column 'deep'"):
        from_schema(Schema((Field("deep", type_),)))


@pytest.mark.parametrize(
    "type_", [iceberg.TimestampNanoType(), iceberg.TimestamptzNanoType(), iceberg.UnknownType(), iceberg.GeometryType()]
)
def test_types_that_partita_does_not_compute_with_are_carried_along(type_: iceberg.IcebergType) -> None:
    assert to_logical(type_) == other(str(type_))
    with pytest.raises(SchemaError):
        stored_arrow(IcebergSchema(iceberg.NestedField(1, "x", type_)))


def test_data_files_have_an_id_at_every_level(tmp_path: Path) -> None:
    made = from_schema(SCHEMA)
    arrow = stored_arrow(made)
    assert _ids(arrow) == _ids(schema_to_pyarrow(made))
    pq.write_table(arrow.empty_table(), tmp_path / "x.parquet")
    stored = pq.ParquetFile(tmp_path / "x.parquet")
    assert _ids(stored.schema_arrow) == _ids(arrow)
    assert str(stored.schema.column(list(ATOMS).index("uuid")).logical_type) == "UUID"
    names = {stored.schema.column(at).path for at in range(len(stored.schema))}
    assert {"n.p.list.element.q", "n.m.key_value.key", "n.m.key_value.value.list.element"} <= names


def test_required_is_kept_inside_of_columns() -> None:
    schema = IcebergSchema(
        iceberg.NestedField(1, "l", iceberg.ListType(2, iceberg.LongType(), element_required=True)),
        iceberg.NestedField(
            3, "m", iceberg.MapType(4, iceberg.StringType(), 5, iceberg.LongType(), value_required=True), required=True
        ),
    )
    lists, maps = stored_arrow(schema)
    assert (lists.nullable, lists.type.value_field.nullable) == (True, False)
    assert (maps.nullable, maps.type.key_field.nullable, maps.type.item_field.nullable) == (False, False, False)


def _ids(type_: pa.Schema | pa.DataType, above: str = "") -> dict[str, bytes]:
    """The id of every field below, by its path."""
    found: dict[str, bytes] = {}
    for field in _fields(type_):
        path = f"{above}.{field.name}"
        found[path] = (field.metadata or {}).get(FIELD_ID, b"none")
        found |= _ids(field.type, path)
    return found


def _fields(type_: pa.Schema | pa.DataType) -> list[pa.Field]:
    if isinstance(type_, pa.Schema) or pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [type_.value_field]
    return []
