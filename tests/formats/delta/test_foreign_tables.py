"""Delta tables of other writers: collations, unknown actions, missing files, files outside of the folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partita as pt
from partita.errors import PartitaError, TableError
from tests.formats.delta.log.handwritten_logs import (
    PROTOCOL_ACTION,
    add_action,
    metadata_action,
    schema_field,
    write_log,
)
from tests.formats.delta.tables import rows_by_name, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partita.lake import Lake


def _write_data_file(path: Path, **columns: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


COLLATED = schema_field("s", __COLLATIONS={"s": "spark.UTF8_LCASE"})
_TAGS = schema_field("tags", {"type": "array", "elementType": "string", "containsNull": True},
               __COLLATIONS={"tags.element": "icu.UNICODE_CI.75.1"})  # fmt: skip


def test_collated_strings(spark: SparkSession, tmp_path: Path) -> None:
    _write_data_file(tmp_path / "a", id=[1, 2], s=["Ab", "x"], tags=[["Q"], None])
    stats = json.dumps({"numRecords": 2, "minValues": {"s": "Ab"}, "maxValues": {"s": "x"}, "nullCount": {"s": 0}})
    write_log(
        tmp_path,
        [PROTOCOL_ACTION, metadata_action(schema_field("id", "long"), COLLATED, _TAGS), add_action("a", stats=stats)],
    )
    table = pt.open_table(str(tmp_path), format="delta")
    assert str(table.schema.find_field("s").type) == "string collate UTF8_LCASE"
    assert str(table.schema.find_field("tags").type) == "list<string collate UNICODE_CI>"
    for _ in range(2):  # reading a schema changed it
        assert sorted_rows(table.read("s = 'aB'")) == [(1, "Ab", ("Q",))]
    assert table.plan("s = 'aB'").files.num_rows == table.plan("s = '~'").files.num_rows == 1
    table.append(pa.table({"id": [3], "s": ["AB"], "tags": [["r"]]}))
    assert sorted_rows(table.read("s = 'ab'", ["id"])) == [(1,), (3,)]
    assert table.update({"id": "-id"}, "s = 'AB'").counts["rows_updated"] == 2
    assert table.delete("array_contains(tags, 'R')").counts["rows_deleted"] == 1


@pytest.mark.parametrize("collation", ["other.NAME", "spark", "icu.NAME.x"])
def test_a_collation_that_nobody_has(spark: SparkSession, tmp_path: Path, collation: str) -> None:
    write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(schema_field("s", __COLLATIONS={"s": collation}))])
    with pytest.raises(PartitaError, match=f"column 's' has the collation '{collation}'"):
        pt.open_table(str(tmp_path), format="delta").read()


@pytest.mark.parametrize("files", [[], [add_action("a", partitionValues={"s": "US"})]])
def test_partitions_by_a_collation_are_refused(tmp_path: Path, files: list[dict[str, Any]]) -> None:
    write_log(
        tmp_path, [PROTOCOL_ACTION, metadata_action(schema_field("id", "long"), COLLATED, partitions=["s"]), *files]
    )
    with pytest.raises(TableError, match="partitioned by 's' of type string collate UTF8_LCASE"):
        pt.open_table(str(tmp_path), format="delta").plan()


def test_a_binary_collation_is_a_plain_string(tmp_path: Path) -> None:
    plain = schema_field("s", __COLLATIONS={"s": "spark.UTF8_BINARY"})
    metadata = metadata_action(schema_field("id", "long"), plain, partitions=["s"])
    adds = [add_action(path, partitionValues={"s": value}) for path, value in (("a", "US"), ("b", "us"))]
    write_log(tmp_path, [PROTOCOL_ACTION, metadata, *adds])
    assert pt.open_table(str(tmp_path), format="delta").plan("s = 'us'").files["path"].to_pylist() == ["b"]


@pytest.mark.parametrize("value", [[1, 2], "text", 5, [], [{"add": {"path": "b"}}], {"of": ["theirs"]}])
def test_unknown_actions_are_passed_over(tmp_path: Path, value: object) -> None:
    log = write_log(
        tmp_path, [PROTOCOL_ACTION, metadata_action(), {"theirs": value}, add_action("a")], [{"theirs": value}]
    )
    table = pt.open_table(str(tmp_path), format="delta")
    assert table.plan().files["path"].to_pylist() == ["a"]
    assert len(table.change_feed().commits) == 1
    assert table.history().num_rows == 2
    assert log.referenced_paths() == {"a"}


@pytest.mark.parametrize("name", ["add", "remove", "metaData", "protocol", "txn", "commitInfo"])
def test_actions_that_are_no_objects(tmp_path: Path, name: str) -> None:
    write_log(tmp_path, [PROTOCOL_ACTION, metadata_action()], [{name: [1]}])
    with pytest.raises(TableError, match=r"0001.json, line 1"):
        pt.open_table(str(tmp_path), format="delta").plan()


CALLS: dict[str, Callable[[pt.Table], object]] = {
    "read": lambda t: t.read(),
    "read where": lambda t: t.read("x > 0 AND id = id"),
    "read_partitions": lambda t: t.read_partitions(pa.table({"p": ["a"]})),
    "update": lambda t: t.update({"x": "x + 1"}),
    "delete": lambda t: t.delete("x = 2"),
    "merge": lambda t: t.merge(pa.table({"id": [1]}), "t.id = s.id", pt.when_matched().delete()),
    "rewrite": lambda t: t.rewrite(),
}


@pytest.mark.parametrize("mapping", ["none", "id"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_of_0_bytes_is_damaged(spark: SparkSession, lake: Lake, *, is_folder: bool, mapping: str) -> None:
    """Spark silently reads no rows from an empty file or a folder, so Partita raises."""
    table = lake.create_table(
        "t", pa.schema([("id", pa.int64())]), format="delta", properties={"delta.columnMapping.mode": mapping}
    )
    for index in range(2):
        table.append(pa.table({"id": [index]}))
    assert table.read().count() == 2  # with what Spark keeps of the files
    path = Path(table.uri, table.plan().files["path"][0].as_py())
    path.unlink()
    path.mkdir() if is_folder else path.touch()
    calls: list[Callable[[], object]] = [
        lambda: table.read().collect(),
        lambda: table.read("id >= 0").collect(),
        lambda: table.update({"id": "id + 1"}, "id + 0 = 1"),
        lambda: table.delete("id + 0 = 1"),
        lambda: table.merge(pa.table({"id": [1]}), "t.id + 0 = s.id", pt.when_matched().delete()),
        table.rewrite,
    ]
    for call in calls:
        with pytest.raises(TableError, match=f"is damaged: .*{path.name} (is not a file|has 0 bytes)"):
            call()
    assert table.version == 2


def test_an_absolute_path_of_an_empty_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a b").touch()
    escaped = f"file://{tmp_path}/a%20b"
    write_log(
        tmp_path / "t", [PROTOCOL_ACTION, metadata_action(schema_field("id", "long")), add_action(escaped, size=100)]
    )
    with pytest.raises(TableError, match="a b has 0 bytes"):
        pt.open_table(str(tmp_path / "t"), format="delta").read()


def test_a_rewrite_loses_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A file with fewer rows than the log says is not detected; in object stores Spark reads none from an empty one."""
    for name in ("a", "b"):
        _write_data_file(tmp_path / name, id=[1, 2])
    stats = json.dumps({"numRecords": 3})
    files = [add_action(name, stats=stats) for name in ("a", "b")]
    write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(schema_field("id", "long")), *files])
    table = pt.open_table(str(tmp_path), format="delta")
    with pytest.raises(TableError, match="have 6 rows by its metadata, and Spark read 4"):
        table.rewrite()
    assert table.version == 0
    assert {path.name for path in tmp_path.iterdir()} == {"_delta_log", "a", "b"}


def test_a_missing_file_is_named(spark: SparkSession, lake: Lake) -> None:
    table = lake.create_table("t", {"id": "long", "x": "long", "p": "string"}, format="delta", partition_by=["p"])
    table.append(pa.table({"id": [1, 2], "x": [1, 2], "p": ["a", "a"]}))
    table.append(pa.table({"id": [3], "x": [2], "p": ["a"]}))
    path = Path(table.plan().files["path"][0].as_py())
    (Path(table.uri) / path).unlink()
    version = table.version
    for call in CALLS.values():
        with pytest.raises(TableError, match=f"a file of the table is gone: .*{path.name}"):
            call(table)
    assert table.version == version


def _create_linked_table(folder: Path, *paths: str) -> pt.Table:
    """Create a table with files in and beside its folder, and links inside of the folder and out of it."""
    other = folder.parent / "other"
    for place in (folder, other):
        _write_data_file(place / "a.parquet", id=[1], x=[1])
    (folder / "folder").symlink_to(other)
    (folder / "file.parquet").symlink_to(other / "a.parquet")
    (folder / "inside.parquet").symlink_to(folder / "a.parquet")
    schema = metadata_action(schema_field("id", "long"), schema_field("x", "long"))
    write_log(folder, [PROTOCOL_ACTION, schema, add_action("a.parquet"), *map(add_action, paths)])
    return pt.open_table(str(folder), format="delta")


@pytest.mark.parametrize(
    "path",
    ["../other/a.parquet", "%2e%2e/other/a.parquet", "p/../../other/a.parquet", "folder/a.parquet", "file.parquet"],
)
def test_files_that_leave_the_table(spark: SparkSession, tmp_path: Path, path: str) -> None:
    table = _create_linked_table(tmp_path / "t", path)
    assert table.plan().outside_paths.to_pylist() == [path]
    for call in (table.read, lambda: table.delete("x = 1 AND id > 0"), lambda: table.update({"x": "2"})):
        with pytest.raises(TableError, match=f"the file {re.escape(path)} of .* leads out of the table's folder"):
            call()


def test_links_inside_of_the_table_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = _create_linked_table(tmp_path / "t", "inside.parquet", "p/../a.parquet")
    assert table.plan().outside_paths.to_pylist() == []
    assert sorted_rows(table.read()) == [(1, 1), (1, 1)]


def test_a_shallow_clone_is_read_and_changed(spark: SparkSession, tmp_path: Path) -> None:
    source, clone = tmp_path / "source of it", tmp_path / "clone"
    spark.sql(f"CREATE TABLE delta.`{source}` (id INT, p STRING) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO delta.`{source}` VALUES (1, 'a b'), (2, 'a b'), (3, 'c')")  # noqa: S608
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{source}`")
    before = sorted(path for path in source.rglob("*") if path.is_file())
    table = pt.open_table(str(clone), format="delta")
    assert sorted(table.plan().outside_paths.to_pylist()) == sorted(table.plan().files["path"].to_pylist())
    assert sorted_rows(table.read("p = 'a b'", ["id"])) == [(1,), (2,)]
    assert table.update({"id": "id * 10"}, "p = 'a b'").counts["rows_updated"] == 2
    assert table.delete("p = 'c'").counts["rows_deleted"] == 1
    assert table.plan().outside_paths.to_pylist() == []
    rows = rows_by_name({"ours": table.read(), "theirs": spark.read.format("delta").load(str(clone))})
    assert rows["ours"] == rows["theirs"] == [(10, "a b"), (20, "a b")]
    assert before == sorted(path for path in source.rglob("*") if path.is_file())
    assert spark.read.format("delta").load(str(source)).count() == 3


def test_spellings_that_delta_spark_takes_for_one_file(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path)
    pairs = {
        "absolute": ("/x/@", "file:/x/@"),
        "qualified": ("file:/x/@", "/x/@"),
        "slashes": ("file:///x/@", "file:/x/@"),
        "dots": ("@", "./@"),
        "escapes": ("@", "%61@"),
        "relative": ("@", f"file:{root}/@"),
        "same": ("p=a%20b/@", "p=a%20b/@"),
        "live": ("@", "p/@"),
    }
    spelled = {n: tuple(text.replace("@", f"a{n}") for text in pair) for n, pair in pairs.items()}
    spelled["escapes"] = ("aescapes", "%61escapes")
    adds = [add_action(added) for added, _ in spelled.values()]
    removes = [{"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}} for _, path in spelled.values()]
    write_log(tmp_path, [PROTOCOL_ACTION, metadata_action(schema_field("id", "long")), *adds], removes)
    input_files = " ".join(spark.read.format("delta").load(root).inputFiles())
    theirs = {name for name in pairs if f"a{name}" in input_files}
    ours = " ".join(pt.open_table(root, format="delta").plan().files["path"].to_pylist())
    assert {name for name in pairs if f"a{name}" in ours} == {"live"}
    assert {"live"} <= theirs <= {"live", "slashes", "escapes", "relative"}
