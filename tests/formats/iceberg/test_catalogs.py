"""Catalogs: the lake's own, others by configuration, and their errors as Partita's."""

from __future__ import annotations

import copy
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog import load_catalog

from partita.algebra.partition_functions import bucket, day, hour, identity, month, truncate, void, year
from partita.algebra.schema import Schema
from partita.algebra.types import Field, LogicalType, TypeKind, other_type
from partita.errors import (
    SchemaError,
    SpecError,
    StorageError,
    TableError,
    TableExists,
    TableMissing,
    TransformError,
    UnsupportedFeature,
)
from partita.formats import lake_tables
from partita.formats.iceberg.catalogs import (
    CATALOG_FILE,
    CATALOG_NAME,
    lake_catalog,
    load_table,
    open_catalog,
    reload_table,
    translate_catalog_errors,
)
from partita.formats.iceberg.create import create_table
from partita.formats.iceberg.history import NO_SNAPSHOT
from partita.formats.iceberg.store import IcebergTableStore
from partita.storage import Storage
from partita.storage.hadoop import hadoop_location
from tests.formats.iceberg.handwritten_snapshots import TABLE_NAME, new_table, reopen_table
from tests.formats.iceberg.hive_server import free_port

if TYPE_CHECKING:
    from partita.algebra.transforms import PartitionFunction

SCHEMA = Schema.of({"id": "long", "ts": "timestamp", "country": "string", "price": "decimal(9,2)"})


def test_a_lake_has_a_catalog_that_spark_can_share(tmp_path: Path) -> None:
    new_table(tmp_path / "lake", SCHEMA, [day("ts")])
    with sqlite3.connect(tmp_path / "lake" / "catalog.db") as file:
        rows = file.execute(
            "SELECT catalog_name, table_namespace, table_name, metadata_location, iceberg_type FROM iceberg_tables"
        ).fetchall()
    file.close()
    (name, namespace, table, location, kind) = rows[0]
    assert (name, namespace, table, kind) == (CATALOG_NAME, "sales", "orders", "TABLE")
    assert location == reopen_table(tmp_path / "lake").metadata_location


def test_any_catalog_of_pyiceberg_is_opened_by_its_configuration(tmp_path: Path) -> None:
    config = {"name": "ice", "type": "sql", "uri": f"sqlite:///{tmp_path}/other.db"}
    catalog = open_catalog(config)
    create_table(catalog, "a.b.t", f"{tmp_path}/t", SCHEMA, [], {})
    assert catalog.name == "ice"
    theirs = load_catalog("ice", type="sql", uri=config["uri"]).load_table(("a", "b", "t"))
    assert load_table(open_catalog(config), "a.b.t").metadata.table_uuid == theirs.metadata.table_uuid
    with pytest.raises(TableMissing):
        load_table(open_catalog({**config, "name": "another"}), "a.b.t")


def test_an_object_store_without_a_catalog_is_refused_with_the_setting() -> None:
    with pytest.raises(TableError, match=r'catalog=\{"name": "ice", "type": "rest"'):
        lake_catalog(Storage.from_uri("s3://bucket/lake"))


@pytest.mark.parametrize("name", ["lake", "a lake", "l%20ke", "a?b", "a#b", "é"])
def test_a_lake_may_be_in_any_folder(name: str, tmp_path: Path) -> None:
    catalog = lake_catalog(Storage.from_uri(tmp_path / name))
    catalog.create_namespace("n")
    assert (tmp_path / name / "catalog.db").is_file()
    assert lake_catalog(Storage.from_uri(tmp_path / name)).list_namespaces() == [("n",)]


def test_a_name_without_dots_is_in_the_default_namespace(tmp_path: Path) -> None:
    catalog = lake_catalog(Storage.from_uri(tmp_path))
    create_table(catalog, "orders", f"{tmp_path}/orders", SCHEMA, [], {})
    assert load_table(catalog, "orders").metadata.table_uuid == catalog.load_table("default.orders").metadata.table_uuid


def test_tables_that_are_there_or_not(tmp_path: Path) -> None:
    new_table(tmp_path, SCHEMA)
    catalog = lake_catalog(Storage.from_uri(tmp_path))
    with pytest.raises(TableExists, match=TABLE_NAME):
        create_table(catalog, TABLE_NAME, f"{tmp_path}/elsewhere", SCHEMA, [], {})
    for missing in ("sales.none", "none.none", "none"):
        with pytest.raises(TableMissing, match=missing):
            load_table(catalog, missing)
    with pytest.raises(TableError, match="is not a table name"):
        load_table(catalog, "sales..orders")


def test_a_table_is_read_anew_where_its_catalog_has_it_elsewhere(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    assert reload_table(table) is table
    with reopen_table(tmp_path).transaction() as by_another:
        by_another.set_properties(owner="another")
    assert table.properties.get("owner") is None
    moved = reload_table(table)
    assert (moved.properties["owner"], reload_table(moved)) == ("another", moved)
    catalog = lake_catalog(Storage.from_uri(tmp_path))
    catalog.drop_table(TABLE_NAME)
    with pytest.raises(TableMissing), translate_catalog_errors(TABLE_NAME):
        reload_table(moved)
    create_table(catalog, TABLE_NAME, f"{tmp_path}/elsewhere", SCHEMA, [], {})
    assert (
        reload_table(moved).metadata.table_uuid
        == reopen_table(tmp_path).metadata.table_uuid
        != table.metadata.table_uuid
    )


@pytest.mark.parametrize(("catalog", "name"), [(CATALOG_NAME, "other.orders"), ("another", TABLE_NAME)])
def test_a_twin_elsewhere_is_another_table(catalog: str, name: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    twins = load_catalog(catalog, type="sql", uri=f"sqlite:///{tmp_path}/{CATALOG_FILE}")
    twins.create_namespace_if_not_exists(name.partition(".")[0])
    twins.register_table(name, table.metadata_location)
    lake_catalog(Storage.from_uri(tmp_path)).drop_table(TABLE_NAME)
    assert reload_table(load_table(twins, name)).metadata == table.metadata
    with pytest.raises(TableMissing), translate_catalog_errors(TABLE_NAME):
        reload_table(table)


def test_a_change_is_not_begun_without_metadata(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    store = IcebergTableStore(table)
    assert store.current_version_for(None).version == store.current_version().version == NO_SNAPSHOT
    Path(hadoop_location(table.metadata_location)).unlink()
    with pytest.raises(StorageError, match=r"metadata\.json"):
        store.current_version()


@pytest.mark.slow(reason="a process of its own")
def test_a_catalog_that_is_not_in_sql_loads_no_sql() -> None:
    """It takes a third of a second to import, and tables of other formats look for a catalog too."""
    code = "import sys, partita.formats.iceberg.catalogs; print([m for m in sys.modules if m.startswith('sqlalchemy')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_errors_of_the_catalog_become_partita_errors(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_text("no database at all, but a text that is long enough to be one")
    with pytest.raises(StorageError, match=r"catalog of .*file is not a database"):
        lake_catalog(Storage.from_uri(tmp_path))
    with pytest.raises(TableError, match="catalog 'ice'"):
        open_catalog({"name": "ice", "type": "nothing of the kind"})
    with pytest.raises(TableError, match="catalog 'ice'"):
        open_catalog({"name": "ice", "type": "sql"})


def test_a_metastore_without_an_answer_is_a_partita_error() -> None:
    with pytest.raises(StorageError, match=r"sales\.orders: Could not connect"):
        load_table(
            open_catalog({"name": "ice", "type": "hive", "uri": f"thrift://127.0.0.1:{free_port()}"}), "sales.orders"
        )


def test_missing_or_broken_metadata_is_a_partita_error(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA)
    file = Path(hadoop_location(table.metadata_location))
    file.write_text("{}")
    with pytest.raises(TableError, match=TABLE_NAME):
        reopen_table(tmp_path)
    file.unlink()
    with pytest.raises(StorageError, match=TABLE_NAME):
        reopen_table(tmp_path)


@pytest.mark.parametrize("version", ["1", "2"])
def test_versions_that_are_made(version: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, [], format_version=version, some_property="kept")
    assert table.metadata.format_version == int(version)
    assert table.properties == {"some-property": "kept"}


@pytest.mark.parametrize("version", ["3", "4", "two"])
def test_versions_that_are_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match=f"format version {version}"):
        new_table(tmp_path, SCHEMA, [], format_version=version)


def test_a_table_has_format_version_2_by_default(tmp_path: Path) -> None:
    assert new_table(tmp_path, SCHEMA).metadata.format_version == 2


@pytest.mark.parametrize(
    ("function", "name", "transform"),
    [
        (identity("country"), "country", "identity"),
        (year("ts"), "ts_year", "year"),
        (month("ts"), "ts_month", "month"),
        (day("ts"), "ts_day", "day"),
        (hour("ts"), "ts_hour", "hour"),
        (bucket("id", 16), "id_bucket", "bucket[16]"),
        (truncate("price", 10), "price_trunc", "truncate[10]"),
        (void("country"), "country_null", "void"),
        (day("ts").alias("d"), "d", "day"),
    ],
)
def test_specs_as_the_format_has_them(function: PartitionFunction, name: str, transform: str, tmp_path: Path) -> None:
    (field,) = new_table(tmp_path, SCHEMA, [function]).spec().fields
    assert (field.name, str(field.transform), field.field_id) == (name, transform, 1000)
    assert reopen_table(tmp_path).schema().find_column_name(field.source_id) == function.source


@pytest.mark.parametrize(
    ("functions", "error"),
    [
        ([day("country")], TransformError),
        ([hour("price")], TransformError),
        ([identity("nothing")], SchemaError),
        ([day("ts"), day("ts")], SpecError),
        ([bucket("id", 4), bucket("id", 8)], SpecError),
    ],
)
def test_bad_specs_are_refused_before_anything_is_made(
    functions: list[PartitionFunction], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        new_table(tmp_path, SCHEMA, functions)
    assert list(lake_catalog(Storage.from_uri(tmp_path)).list_namespaces()) == []


def test_types_that_iceberg_lacks_are_refused_by_name(tmp_path: Path) -> None:
    for type_ in (other_type("interval"), LogicalType(TypeKind.NULL)):
        with pytest.raises(SchemaError, match="column 'x'"):
            new_table(tmp_path, Schema((Field("x", type_),)))


@pytest.mark.parametrize(
    ("uri", "catalog", "is_hinted"),
    [("s3://bucket/lake", None, True), ("s3://bucket/lake", {"name": "ice"}, False), ("/tmp/lake", None, False)],  # noqa: S108
)
def test_a_table_that_only_a_catalog_could_find(
    uri: str, catalog: dict[str, str] | None, is_hinted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_tables.LakeTables, "_find_or_none", lambda *_: None)
    with pytest.raises(TableMissing, match=r"no table at .*; create_table makes one") as missing:
        lake_tables.LakeTables(Storage.from_uri(uri), catalog).find_table("a.b")
    hint = 'unless it is an Iceberg table, which only its catalog finds: Lake(..., catalog={"name"'
    assert (hint in str(missing.value)) == is_hinted
    assert str(copy.copy(missing.value)) == str(missing.value)
