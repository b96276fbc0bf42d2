"""The namespaces of a table, as the Lance partition spec defines them and as lance-namespace reads them."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any, cast

import duckdb
import lance
import lancedb
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    ListNamespacesRequest,
    ListTablesRequest,
    RegisterTableRequest,
    connect,
)

import partita as pt
from partita.formats.lance.namespace import read_namespace_tree, register_leaves
from partita.formats.lance.schema_json import schema_to_json
from partita.storage import Storage
from tests.formats.lance.tables import (
    EVENT_SCHEMA,
    column_values,
    commit_rows,
    create_lance_table,
    create_seed_table,
    event_rows,
    table_store,
)

if TYPE_CHECKING:
    from pathlib import Path

    from partita.formats.lance.lance_table import LanceTable

LEAVES = [
    "event_date=2025-12-10/country=CN.lance",
    "event_date=2025-12-10/country=US.lance",
    "event_date=2025-12-11/country=FR.lance",
    "event_date=2025-12-11/country=US.lance",
]


BY_COUNTRY = {
    "lance.partitioning.is_partitioned": "true",
    "lance.partitioning.partition_columns": '[{"name": "country"}]',
    "lance.partitioning.schema": schema_to_json(EVENT_SCHEMA),
}
"""The root properties of a table of another writer, partitioned by country."""


def namespace_client(table: pt.Table) -> Any:
    return connect("dir", {"root": table.uri})


def test_the_tree_of_section_3_2(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    found = sorted(str(path.relative_to(table.uri)) for path in tmp_path.rglob("*.lance") if path.is_dir())
    assert found == LEAVES
    assert sorted(table.plan().files["path"].to_pylist()) == LEAVES


def test_the_properties_of_section_3_1(tmp_path: Path) -> None:
    table = create_lance_table(
        tmp_path, EVENT_SCHEMA.append(pa.field("tenant_id", pa.int64())), ["event_date", pt.bucket("tenant_id", 100)]
    )
    properties = (
        namespace_client(table).describe_namespace(DescribeNamespaceRequest(id=["my_partitioned_table"])).properties
    )
    assert properties["lance.partitioning.is_partitioned"] == "true"
    assert json.loads(properties["lance.partitioning.partition_columns"]) == [
        {"name": "event_date", "function": "identity"},
        {
            "name": "tenant_id",
            "function": "bucket",
            "properties": {"num_buckets": "100", "hash": "murmur3_32"},
        },
    ]
    columns = json.loads(properties["lance.partitioning.schema"])["fields"]
    assert [column["name"] for column in columns] == ["id", "event_date", "country", "tenant_id"]


def test_the_pruning_example_of_section_3_4(tmp_path: Path) -> None:
    plan = create_seed_table(tmp_path).plan("event_date = '2025-12-11' AND country != 'FR'")
    assert plan.files["path"].to_pylist() == ["event_date=2025-12-11/country=US.lance"]
    assert dict(zip(plan.skipped["path"].to_pylist(), plan.skipped["reason"].to_pylist(), strict=True)) == {
        LEAVES[0]: "event_date = '2025-12-11'",
        LEAVES[1]: "event_date = '2025-12-11'",
        LEAVES[2]: "country != 'FR'",
    }


def test_the_pruning_example_of_section_4_2(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    table = create_lance_table(tmp_path, schema, [pt.year("ts"), pt.month("ts"), pt.day("ts")])
    days = (
        pa.array([f"2025-12-{day:02}T10:30:00" for day in range(8, 13)])
        .cast(pa.timestamp("us"))
        .cast(schema.field(1).type)
    )
    commit_rows(table, pa.table({"id": range(5), "ts": days}))
    plan = table.plan("ts >= '2025-12-10T10:00:00Z' AND ts < '2025-12-11T00:00:00Z'")
    assert plan.files["path"].to_pylist() == ["ts_year=2025/ts_month=12/ts_day=10.lance"]


def test_other_clients_list_the_tree_and_open_every_leaf(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    namespace = namespace_client(table)
    root = "my_partitioned_table"
    assert namespace.list_namespaces(ListNamespacesRequest(id=[])).namespaces == [root]
    days = sorted(namespace.list_namespaces(ListNamespacesRequest(id=[root])).namespaces)
    assert days == ["event_date=2025-12-10", "event_date=2025-12-11"]
    found = {}
    for day in days:
        for leaf in namespace.list_tables(ListTablesRequest(id=[root, day])).tables:
            where = namespace.describe_table(DescribeTableRequest(id=[root, day, leaf])).location
            found[day, leaf] = lance.dataset(where).to_table().to_pylist()
    assert found == {
        ("event_date=2025-12-10", "country=CN"): [{"id": 2}],
        ("event_date=2025-12-10", "country=US"): [{"id": 1}],
        ("event_date=2025-12-11", "country=FR"): [{"id": 4}],
        ("event_date=2025-12-11", "country=US"): [{"id": 3}],
    }


def test_lancedb_and_duckdb_read_the_leaves(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    db = lancedb.connect_namespace("dir", {"root": table.uri})
    path = ["my_partitioned_table", "event_date=2025-12-11"]
    assert sorted(db.list_tables(namespace_path=path).tables) == ["country=FR", "country=US"]
    assert db.open_table("country=FR", namespace_path=path).to_arrow().to_pylist() == [{"id": 4}]
    fr = lance.dataset(f"{table.uri}/{LEAVES[2]}")
    us = lance.dataset(f"{table.uri}/{LEAVES[3]}")
    with duckdb.connect() as connection:
        connection.register("fr", fr.to_table())
        connection.register("us", us.to_table())
        assert connection.execute("SELECT sum(id) FROM (FROM fr UNION ALL FROM us)").fetchall() == [(7,)]


ODD = ["$", "a$b", "/", "a/b", "%", "50%25", " ", "a b", "\U0001f600", "", "..", "x" * 200, "a.lance", "é",
       "__HIVE_DEFAULT_PARTITION__", "'", '"', "a=b", "a:b", "#", "?", "\\", "\n", None]  # fmt: skip


@pytest.mark.slow(reason="many commits to a table")
def test_unusual_values_are_read_from_the_tree_and_other_clients_open_them(tmp_path: Path) -> None:
    table = create_lance_table(
        tmp_path, pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.date32())]), ["s", "d"]
    )
    day = date(2025, 1, 1)
    commit_rows(table, pa.table({"id": pa.array(range(len(ODD))), "s": pa.array(ODD), "d": [day] * len(ODD)}))
    assert sorted(map(str, table.partitions()["s"].to_pylist())) == sorted(map(str, ODD))
    assert column_values(table) == list(range(len(ODD)))
    namespace = namespace_client(table)
    seen = []
    for outer in namespace.list_namespaces(ListNamespacesRequest(id=["my_partitioned_table"])).namespaces:
        for leaf in namespace.list_tables(ListTablesRequest(id=["my_partitioned_table", outer])).tables:
            where = namespace.describe_table(DescribeTableRequest(id=["my_partitioned_table", outer, leaf])).location
            seen += lance.dataset(where).to_table()["id"].to_pylist()
    assert sorted(seen) == list(range(len(ODD)))


def test_leaves_leave_out_identity_columns_only(tmp_path: Path) -> None:
    schema = pa.schema([("c", pa.string()), ("s", pa.string()), ("i", pa.int64())])
    table = create_lance_table(tmp_path, schema, ["c", pt.truncate("s", 3), pt.bucket("i", 4)])
    commit_rows(table, pa.table({"c": ["a"], "s": ["abcdef"], "i": [34]}))
    [path] = table.plan().files["path"].to_pylist()
    assert path == "c=a/s_trunc=abc/i_bucket=3.lance"
    assert lance.dataset(f"{table.uri}/{path}").to_table().to_pylist() == [{"s": "abcdef", "i": 34}]


def test_a_leaf_whose_every_column_would_be_left_out_keeps_them(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, pa.schema([("c", pa.string())]), ["c"])
    commit_rows(table, pa.table({"c": ["a", "a", None]}))
    assert lance.dataset(f"{table.uri}/c=a.lance").to_table().to_pylist() == [{"c": "a"}] * 2


def test_a_thousand_leaves_are_one_change_of_the_manifest(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, EVENT_SCHEMA, ["id", "country"])
    root = read_namespace_tree(Storage.from_uri(table.uri)).root
    before = root.open_manifest().version
    leaves = [((f"id={at}", "country=US"), f"id={at}/country=US.lance") for at in range(1000)]
    assert register_leaves(root, leaves) == 2000
    assert root.open_manifest().version == before + 1
    assert register_leaves(root, leaves) == 0
    assert table.partitions().num_rows == 1000


def test_a_table_that_others_made_is_read(tmp_path: Path) -> None:
    """With the API alone, the manifest is in the folder above, and the namespace chooses the locations of leaves."""
    namespace = connect("dir", {"root": str(tmp_path)})
    namespace.create_namespace(CreateNamespaceRequest(id=["theirs"], properties=BY_COUNTRY))
    stored = EVENT_SCHEMA.remove(2)
    lance.write_dataset(event_rows((1, "2025-12-10", "US")).select(stored.names), str(tmp_path / "somewhere"))
    namespace.register_table(RegisterTableRequest(id=["theirs", "country=US"], location="somewhere"))
    table = pt.open_table(str(tmp_path / "theirs"), format="lance")
    assert table.partitions()["country"].to_pylist() == ["US"]
    assert column_values(table) == [1]
    commit_rows(table, event_rows((2, "2025-12-10", "US"), (3, "2025-12-10", "FR")))
    assert column_values(table) == [1, 2, 3]
    assert sorted(table.plan().files["path"].to_pylist()) == ["country=FR.lance", "somewhere"]
    assert lance.dataset(str(tmp_path / "somewhere")).count_rows() == 2


@pytest.mark.parametrize("location", ["country=US.lance", "somewhere", "theirs/country=US.lance"])
def test_a_leaf_that_others_registered_by_the_name_of_its_folder(tmp_path: Path, location: str) -> None:
    namespace = connect("dir", {"root": str(tmp_path)})
    namespace.create_namespace(CreateNamespaceRequest(id=["theirs"], properties=BY_COUNTRY))
    lance.write_dataset(event_rows((1, "2025-12-10", "US")).drop(["country"]), str(tmp_path / location))
    namespace.register_table(RegisterTableRequest(id=["theirs", "country=US.lance"], location=location))
    table = pt.open_table(str(tmp_path / "theirs"), format="lance")
    assert table.partitions()["country"].to_pylist() == ["US"]
    commit_rows(table, event_rows((2, "2025-12-10", "US")))
    assert column_values(table) == [1, 2]
    assert table.partitions()["rows"].to_pylist() == [2]


@pytest.mark.slow(reason="many commits to a table")
def test_a_root_below_other_namespaces(tmp_path: Path) -> None:
    namespace = connect("dir", {"root": str(tmp_path)})
    namespace.create_namespace(CreateNamespaceRequest(id=["a"]))
    namespace.create_namespace(CreateNamespaceRequest(id=["a", "b"]))
    namespace.create_namespace(CreateNamespaceRequest(id=["a", "b", "c"], properties=BY_COUNTRY))
    table = cast("LanceTable", pt.open_table(str(tmp_path / "a" / "b" / "c"), format="lance"))
    commit_rows(table, event_rows((1, "2025-12-10", "US"), (2, "2025-12-10", "FR")))
    commit_rows(table, event_rows((3, "2025-12-10", "US")))
    assert column_values(table) == [1, 2, 3]
    assert (tmp_path / "a/b/c/country=US.lance").is_dir()
    assert sorted(namespace.list_tables(ListTablesRequest(id=["a", "b", "c"])).tables) == ["country=FR", "country=US"]
    table.drop_partition("country = 'US' OR country = 'FR'")
    assert namespace.list_namespaces(ListNamespacesRequest(id=["a", "b"])).namespaces == ["c"]
    assert table.partitions().num_rows == 0
    own = create_lance_table(tmp_path / "lake", EVENT_SCHEMA, ["country"], "x.y.z")
    commit_rows(own, event_rows((1, "2025-12-10", "US")))
    assert column_values(pt.Lake(str(tmp_path / "lake")).table("x.y.z")) == [1]


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr", "_distance", "a.b", "", "a`b", "__partita_row"])
def test_names_that_lance_takes_for_something_else_are_refused(tmp_path: Path, name: str) -> None:
    for field in (pa.field(name, pa.int64()), pa.field("s", pa.struct([pa.field(name, pa.int64())]))):
        with pytest.raises(pt.SchemaError, match="column"):
            create_lance_table(tmp_path, EVENT_SCHEMA.append(field), ["country"])
    table = create_lance_table(tmp_path, EVENT_SCHEMA, ["country"])
    with pytest.raises(pt.SchemaError, match="column"):
        table.add_column(pa.field(name, pa.int64()))


def test_properties_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    for properties in ({"lance.partitioning.shcema": "x"}, {"partita.x": "y"}, {"owner": 7}):
        with pytest.raises(pt.SpecError, match="property"):
            lake.create_table("t", EVENT_SCHEMA, format="lance", properties=properties)  # type: ignore[arg-type]
    table = lake.create_table("t", EVENT_SCHEMA, format="lance", properties={"owner": "me"})
    assert table_store(table).current_version().properties["owner"] == "me"


def test_a_folder_without_a_table_and_one_that_has_one(tmp_path: Path) -> None:
    with pytest.raises(pt.TableMissing):
        pt.open_table(str(tmp_path / "none"), format="lance")
    create_lance_table(tmp_path, EVENT_SCHEMA, ["country"])
    with pytest.raises(pt.TableExists):
        create_lance_table(tmp_path, EVENT_SCHEMA, ["country"])


def test_a_stray_table_in_the_tree_is_refused_by_name(tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    register_leaves(table_store(table).current_version().root, [(("event_date=2025-12-12",), "elsewhere.lance")])
    with pytest.raises(pt.TableError, match="event_date=2025-12-12"):
        table.partitions()


def test_a_table_without_partition_fields_is_one_leaf(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, EVENT_SCHEMA, [])
    commit_rows(table, event_rows((1, "2025-12-10", "US"), (2, "2025-12-11", None)))
    assert table.plan().files["path"].to_pylist() == ["data.lance"]
    assert column_values(table) == [1, 2]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ([pt.year("ts"), pt.month("ts"), pt.day("ts"), pt.hour("ts")], "ts_year=2025/ts_month=12/ts_day=10/ts_hour=07"),
        ([pt.hash("x"), pt.bucket("s", 7), pt.truncate("x", 10), "s"], "x_hash=783ca153/s_bucket=4/x_trunc=30/s=a"),
    ],
)
def test_several_levels_of_functions(tmp_path: Path, by: list[Any], names: str) -> None:
    schema = pa.schema([("x", pa.int64()), ("s", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
    table = create_lance_table(tmp_path, schema, by)
    ts = pa.array(["2025-12-10T07:30:00"]).cast(pa.timestamp("us")).cast(schema.field(2).type)
    commit_rows(table, pa.table({"x": [34], "s": ["a"], "ts": ts}))
    assert table.plan().files["path"].to_pylist() == [f"{names}.lance"]
    assert table.plan("x = 35 AND s = 'zz' AND ts < '2020-01-01'").files.num_rows == 0
    assert table.plan("x = 34 AND s = 'a' AND ts > '2020-01-01'").files.num_rows == 1
