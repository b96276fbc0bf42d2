"""Structs, lists and maps with required fields inside: changes keep the values, and refuse nulls there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg import types
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import NestedField

import partita as pt
from partita.errors import ConstraintError, SchemaError
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.tables import WRITE_MODES, assert_unchanged, jvm_session, read_with_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINT = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("name", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.string()),
        pa.field("s", pa.struct([pa.field("at", POINT, nullable=False), pa.field("n", pa.int32())])),
        pa.field("items", pa.list_(pa.field("element", POINT))),
        pa.field("tags", pa.map_(pa.string(), pa.field("value", POINT))),
    ]
)
TAGS = pa.map_(pa.string(), pa.int64())
ROWS: list[dict[str, Any]] = [
    {"id": 1, "p": "a", "s": {"at": {"x": 1, "name": "one"}, "n": 1}, "items": [{"x": 1}, {"x": 2}],
     "tags": [("k", {"x": 1})]},
    {"id": 2, "p": "a", "s": None, "items": None, "tags": None},
    {"id": 3, "p": "b", "s": {"at": {"x": 3}, "n": None}, "items": [], "tags": []},
]  # fmt: skip


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("mode", ["merge on read", pytest.param("copy on write", marks=pytest.mark.long), "version 1"])
def test_changes_of_rows_with_required_fields_inside(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"], properties=WRITE_MODES[mode])
    table.append(table_of(ROWS))
    table.update({"s": "named_struct('at', named_struct('x', id, 'name', p), 'n', 7)", "items": "null"}, "id <> 3")
    table.update({"p": "'c'"}, "id = 1")
    new = table_of([{**ROWS[0], "id": 2}, {**ROWS[0], "id": 3, "s": None}, {**ROWS[1], "id": 4, "p": "b"}])
    table.merge(
        new, "t.id = s.id",
        pt.when_matched("s.id = 2").update(),
        pt.when_matched().update({"tags": "s.tags", "s": "s.s"}),
        pt.when_not_matched().insert(),
    )  # fmt: skip
    expected = [
        {**ROWS[0], "p": "c", "s": {"at": {"x": 1, "name": "a"}, "n": 7}, "items": None},
        {**ROWS[0], "id": 2},
        {**ROWS[2], "tags": ROWS[0]["tags"], "s": None},
        {**ROWS[1], "id": 4, "p": "b"},
    ]
    assert sorted_rows(table.read()) == sorted_rows(table_of(expected))
    # Spark's own `toArrow` fails on a null struct with a required field.
    by_runtime = read_with_jvm(jvm_session(spark, tmp_path), table).orderBy("id").collect()
    assert by_runtime == table.read().orderBy("id").collect()


def point(x: str) -> str:
    """A point in SQL."""
    return f"named_struct('x', {x}, 'name', 'n')"


def shape(at: str) -> dict[str, str]:
    return {"s": f"named_struct('at', {at}, 'n', 1)"}


VIOLATIONS: dict[str, tuple[str, Callable[[pt.Table], object]]] = {
    "a struct": ("s.at.x", lambda t: t.update(shape(point("nullif(id, 1)")))),
    "a struct in a struct": ("s.at", lambda t: t.update(shape(f"if(id = 1, null, {point('id')})"))),
    "a field of an item": ("items.element.x", lambda t: t.update({"items": f"array({point('nullif(id, 3)')})"})),
    "a value of a map": ("tags.value.x", lambda t: t.update({"tags": f"map('a', {point('nullif(id, 3)')})"})),
    "what is appended": ("s.at.x", lambda t: t.append(relaxed_rows([{"id": 9, "s": {"at": {"name": "no x"}}}]))),
    "what is merged": (
        "items.element.x",
        lambda t: t.merge(relaxed_rows([{"id": 3, "items": [{"x": 1}, {"name": "no x"}]}]), "t.id = s.id",
                          pt.when_matched().update({"items": "s.items"})),
    ),
    "what a merge inserts": (
        "s.at",
        lambda t: t.merge(relaxed_rows([{"id": 9, "s": {"n": 1}}]), "t.id = s.id", pt.when_not_matched().insert()),
    ),
}  # fmt: skip


def relaxed_rows(rows: list[dict[str, Any]]) -> pa.Table:
    point = pa.struct([("x", pa.int64()), ("name", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("at", point), ("n", pa.int32())])),
                        ("items", pa.list_(point))])  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


@pytest.fixture(scope="module")
def strict(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pt.Table:
    table = pt.Lake(str(tmp_path_factory.mktemp("strict"))).create_table("t.t", SCHEMA, format="iceberg")
    table.append(table_of(ROWS))
    return table


@pytest.mark.parametrize("where", VIOLATIONS)
def test_a_null_in_a_required_field_is_refused(strict: pt.Table, where: str) -> None:
    path, change = VIOLATIONS[where]
    version = strict.version
    with pytest.raises(ConstraintError, match=f"column '{path}' may not be null"):
        change(strict)
    assert strict.version == version


def test_other_fields_are_refused(strict: pt.Table) -> None:
    with assert_unchanged(strict), pytest.raises(SchemaError, match="column 's' is"):
        strict.update({"s": "named_struct('n', 1)"})


def test_rows_that_may_be_null_and_are_not_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format="iceberg")
    rows = relaxed_rows([{"id": 9, "s": {"at": {"x": 1}}, "items": [{"x": 1}]}, {"id": 8}])
    table.append(rows)
    expected: list[dict[str, Any]] = [{"id": 9, "s": {"at": {"x": 1}}, "items": [{"x": 1}]}, {"id": 8}]
    assert sorted_rows(table.read()) == sorted_rows(table_of(expected))


def test_required_items_of_a_table_that_others_made(spark: SparkSession, tmp_path: Path) -> None:
    """Lists and maps of a table that Partita makes may hold nulls; those of others may not have to."""
    config = {"name": "ice", "type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    catalog = load_catalog("ice", type="sql", uri=config["uri"], warehouse=config["warehouse"])
    catalog.create_namespace("db")
    columns = [
        NestedField(1, "id", types.LongType(), required=True),
        NestedField(2, "items", types.ListType(4, types.LongType(), element_required=True)),
        NestedField(3, "tags", types.MapType(5, types.StringType(), 6, types.LongType(), value_required=True)),
    ]
    catalog.create_table("db.t", IcebergSchema(*columns))
    table = pt.open_table("db.t", catalog=config, format="iceberg")
    rows = pa.table({"id": [1, 2], "items": [[1], None], "tags": pa.array([[("a", 1)], None], TAGS)})
    table.append(rows)
    table.update({"items": "array(id, 7)"}, "id = 2")
    version = table.version
    for path, values in {
        "items.element": {"items": "array(id, null)"},
        "tags.value": {"tags": "map('a', nullif(id, 2))"},
    }.items():
        with pytest.raises(ConstraintError, match=f"column '{path}' may not be null"):
            table.update(values)
    assert table.version == version
    expected = rows.set_column(1, "items", pa.array([[1], [2, 7]]))
    assert sorted_rows(table.read()) == sorted_rows(expected)
    assert sorted_rows(catalog.load_table("db.t").scan().to_arrow()) == sorted_rows(expected)
